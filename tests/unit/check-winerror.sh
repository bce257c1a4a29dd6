#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The winerror.h that is made from winerror.def: every code is there, values work in #if, and it
# compiles without warnings. Usage: check-winerror.sh WINERROR_H WINERROR_DEF
set -eu
header=$1
def=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

codes=$(grep -c '^WINERROR(' "$def")
defines=$(grep -c '^#define [A-Z_]* [0-9]' "$header")
# NO_ERROR has no row of its own.
[ "$defines" -eq $((codes + 1)) ] || {
    echo "$codes codes in the table, $defines in the header" >&2
    exit 1
}
cat >"$work/use.c" <<'EOF'
#include "winerror.h"
#include "winerror.h"
#if ERROR_ACCESS_DENIED != 5 || NO_ERROR != 0 || ERROR_SUCCESS != 0 || \
    STATUS_LOG_FILE_FULL != 0xC0000188 || ERROR_INVALID_FLAGS != 1004
#error "a value is wrong"
#endif
unsigned int f(unsigned int s);
unsigned int f(unsigned int s)
{
    switch (s) {
#define WINERROR(name, value, text) case name: return s == value ? name : s;
#include "winerror.def"
    default:
        return s ? ERROR_GEN_FAILURE : s;
    }
}
EOF
mkdir "$work/include"
cp "$header" "$work/include/winerror.h"
cp "$def" "$work/include/winerror.def"
${CC:-cc} -Werror -Wall -Wextra -Wconversion -Wsign-conversion -I "$work/include" -c \
    "$work/use.c" -o "$work/use.o"
