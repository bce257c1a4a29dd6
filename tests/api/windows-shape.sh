#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Installs the library into a folder of its own and builds windows_shape.c against it with what
# pkg-config says: as C11, C17 and C++20, without a warning, with and without UNICODE. The programs
# must link and start; what they do with a daemon, other tests show. Prints TAP.
#
#   windows-shape.sh CC CXX SOURCE BUILD_ROOT SANITIZERS
# SANITIZERS: what the library was built with, "none" or "address,undefined".
set -eu
cc=$1 cxx=$2 source=$3 build=$4 sanitize=$5
[ "$sanitize" = none ] && sanitize='' || sanitize=-fsanitize=$sanitize
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
n=0
failed=0

result() {
    name=$1
    shift
    n=$((n + 1))
    if "$@" >"$dir/errors" 2>&1; then
        echo "ok $n - $name"
    else
        echo "not ok $n - $name"
        sed 's/^/# /' "$dir/errors" | head -30
        failed=1
    fi
}

result 'install' meson install -C "$build" --no-rebuild --quiet --destdir "$dir/root" \
    --tags devel,runtime
pc=$(find "$dir/root" -name libetw.pc)
export PKG_CONFIG_PATH="${pc%/*}" PKG_CONFIG_SYSROOT_DIR="$dir/root"
result 'pkg-config' pkg-config --print-errors --exists 'libetw >= 0.1'
cflags=$(pkg-config --cflags libetw)
libs=$(pkg-config --libs libetw)
lib=$(dirname "$(find "$dir/root" -name 'libetw.so.0')")

# shellcheck disable=SC2317 # called through result
# Run without a daemon: the program must say so, which shows that it linked and started.
says_unavailable() {
    LD_LIBRARY_PATH=$lib ETWD_SOCKET=$dir/none "$1" "$dir/x.etl" >"$dir/out" 2>&1 && return 1
    grep -q 'StartKernelTrace failed with 4208' "$dir/out" || { cat "$dir/out"; return 1; }
    [ ! -e "$dir/x.etl" ]
}

warnings='-Wall -Wextra -Wconversion -Werror'
for standard in c11 c17 c++17 c++20; do
    case $standard in
    c++*) compiler=$cxx language=c++ ;;
    *) compiler=$cc language=c ;;
    esac
    for unicode in '' -DUNICODE; do
        program=$dir/windows_shape-$standard$unicode
        # shellcheck disable=SC2086
        result "build ($standard $unicode)" $compiler -x $language -std=$standard \
            $warnings $sanitize $unicode $cflags "$source" -x none $libs -o "$program"
        result "run without a daemon ($standard $unicode)" says_unavailable "$program"
    done
done

echo "1..$n"
exit $failed
