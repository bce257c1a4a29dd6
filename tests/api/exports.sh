#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The library exports the names of its version script and no others, each is declared in a public
# header, and its soname and flags are right. Prints TAP.
#
#   exports.sh LIBRARY VERSION_SCRIPT HEADER...
set -eu
library=$1 map=$2
shift 2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
n=0
failed=0

result() {
    n=$((n + 1))
    if [ "$1" = 0 ]; then
        echo "ok $n - $2"
    else
        echo "not ok $n - $2"
        failed=1
    fi
}

nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
    sort >"$dir/exported"
sed -n '/global:/,/local:/ { s/^ *\([A-Za-z0-9_]*\);$/\1/p }' "$map" | sort >"$dir/listed"

r=0
[ -s "$dir/listed" ] && diff "$dir/listed" "$dir/exported" >"$dir/diff" || r=1
sed 's/^/# /' "$dir/diff"
result $r 'exported names are those of the version script'

r=0
while read -r name; do
    grep -Eq "(WMIAPI|WINAPI|EVNTAPI|const GUID) $name(\(|;)|ETW_API extern .*[ *]${name}[[;]" "$@" || {
        echo "# no header declares $name"
        r=1
    }
done <"$dir/exported"
result $r 'each exported name is declared in a header'

# The other way round: no header promises what is not there.
r=0
cat "$@" | tr '\n' ' ' | grep -oE 'ETW_API (extern|[A-Z]+ WINAPI|[A-Z]+ WMIAPI|[A-Z]+ EVNTAPI|void)[^;]*;' | sed -E 's/\(.*//; s/(\[.*)?;$//; s/.*[ *]//' | sort >"$dir/declared"
diff "$dir/declared" "$dir/exported" >"$dir/diff" || r=1
sed 's/^/# /' "$dir/diff"
result $r 'each declared name is exported'

readelf -dW "$library" >"$dir/dynamic"
r=0
soname=$(basename "$library")
grep -Fq "SONAME" "$dir/dynamic" && grep -Fq "[$soname]" "$dir/dynamic" || r=1
case $soname in *.so.0) ;; *) r=1 ;; esac
result $r 'the soname is that of version 0'
r=0
grep -q 'FLAGS_1.*NODELETE' "$dir/dynamic" || r=1
result $r 'the library is never unloaded'
# The one entry is the compiler's own; sanitizers bring more.
r=0
if ! nm -D --undefined-only "$library" | grep -q '__[au]b\?san'; then
    [ "$(readelf -SW "$library" | sed -n 's/.*\.init_array *INIT_ARRAY *[0-9a-f]* [0-9a-f]* \([0-9a-f]*\) .*/\1/p')" = 000008 ] || r=1
fi
result $r 'loading the library runs nothing'

echo "1..$n"
exit $failed
