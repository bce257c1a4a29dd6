#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Installs the library into a folder of its own and builds windows_shape.c against it with what
# pkg-config says: as C11, C17, C++17 and C++20, without a warning, with and without UNICODE. Each
# program runs without a daemon, which it must tell, and as root with one (ETWD), which must give a
# trace with the processes that the program started. Prints TAP.
#
#   windows-shape.sh CC CXX SOURCE BUILD_ROOT SANITIZERS
# SANITIZERS: what the library was built with, "none" or "address,undefined".
set -eu
cc=$1 cxx=$2 source=$3 build=$4 sanitize=$5
# shellcheck source=tests/api/staged.sh
. "$(dirname "$0")/staged.sh"
stage libetw

# shellcheck disable=SC2317 # called through result
# Run without a daemon: the program must say so, which shows that it linked and started.
says_unavailable() {
    LD_LIBRARY_PATH=$lib ETWD_SOCKET=$dir/none "$1" "$dir/x.etl" >"$dir/out" 2>&1 && return 1
    grep -q 'StartKernelTrace failed with 4208' "$dir/out" || { cat "$dir/out"; return 1; }
    [ ! -e "$dir/x.etl" ]
}

daemon=
if [ "$(id -u)" = 0 ] && [ -x "${ETWD:-}" ]; then
    mkdir "$dir/run"
    "$ETWD" --runtime-dir "$dir/run" 2>"$dir/etwd.log" &
    daemon=$!
    trap 'kill "$daemon" 2>/dev/null || true; wait "$daemon" || true; rm -rf "$dir"' EXIT
    i=0
    while [ ! -S "$dir/run/control.sock" ] && [ $i -lt 600 ]; do
        sleep 0.1
        i=$((i + 1))
    done
fi

# shellcheck disable=SC2317
traces() {
    LD_LIBRARY_PATH=$lib ETWD_SOCKET=$dir/run/control.sock "$1" "$dir/trace.etl" >"$dir/out" 2>&1 ||
        { cat "$dir/out" "$dir/etwd.log"; return 1; }
    cat "$dir/out"
    # Five children, a Start at fork and one at exec each; others may start some, too.
    awk '$1 == "events" && $3 == "lost" && $4 == 0 && $5 == "starts" && $6 >= 10 { good = 1 }
         END { exit !good }' "$dir/out"
}

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
        if [ -n "$daemon" ]; then
            result "trace the kernel ($standard $unicode)" traces "$program"
        else
            n=$((n + 1))
            echo "ok $n - trace the kernel ($standard $unicode) # SKIP needs root and etwd"
        fi
    done
done

echo "1..$n"
exit $failed
