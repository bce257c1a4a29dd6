#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Installs the libraries into a folder of its own, builds windows_consumer.c against them with what
# pkg-config says, as C11 and C++17 without a warning, and compares what it prints of real files
# with `etwctl dump` (ETW_SAMPLES; skipped without it). Prints TAP.
#
#   windows-consumer.sh CC CXX SOURCE COMPARE BUILD_ROOT SANITIZERS
# SANITIZERS: what the libraries were built with, "none" or "address,undefined".
set -eu
cc=$1 cxx=$2 source=$3 compare=$4 build=$5 sanitize=$6
# shellcheck source=tests/api/staged.sh
. "$(dirname "$0")/staged.sh"
beside=${ETW_SOURCE_ROOT:-.}/../shared/etl-samples
[ -n "${ETW_SAMPLES:-}" ] || [ ! -d "$beside" ] || ETW_SAMPLES=$beside
stage libetw libtdh

# shellcheck disable=SC2317 # called through result
same() {
    LD_LIBRARY_PATH=$lib "$1" "$2" >"$dir/printed" || return 1
    "${PYTHON:-python3}" "$compare" "${ETWCTL:?}" "$2" "$dir/printed"
}

for standard in c11 c++17; do
    case $standard in
    c++*) compiler=$cxx language=c++ ;;
    *) compiler=$cc language=c ;;
    esac
    program=$dir/windows_consumer-$standard
    # shellcheck disable=SC2086
    result "build ($standard)" $compiler -x $language -std=$standard $warnings $sanitize $cflags \
        "$source" -x none $libs -o "$program"
    for file in pv-primitive-types s4-sih s4-windowsupdate; do
        if [ -n "${ETW_SAMPLES:-}" ]; then
            result "$file ($standard)" same "$program" "$ETW_SAMPLES/$file.etl"
        else
            n=$((n + 1))
            echo "ok $n - $file ($standard) # SKIP ETW_SAMPLES is not set"
        fi
    done
done

echo "1..$n"
exit $failed
