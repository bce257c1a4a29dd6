#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Compiles every public header, and all of them beside headers of others that use the same names, as
# C and C++ of several ages without a warning. Prints TAP.
#
#   compile.sh CC CXX INCLUDE_SOURCE INCLUDE_GENERATED
set -eu
cc=$1 cxx=$2 include=$3 generated=$4
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
n=0
failed=0

# result NAME COMMAND...: one test.
result() {
    name=$1
    shift
    n=$((n + 1))
    if "$@" 2>"$dir/errors"; then
        echo "ok $n - $name"
    else
        echo "not ok $n - $name"
        sed 's/^/# /' "$dir/errors" | head -30
        failed=1
    fi
}

warnings='-Wall -Wextra -Wconversion -Wpedantic -Wshadow -Werror'
# compile NAME STANDARD FLAGS: $dir/source as that language.
compile() {
    case $2 in
    c++*) compiler=$cxx language=c++ ;;
    *) compiler=$cc language=c ;;
    esac
    # shellcheck disable=SC2086 # the compiler may be two words, and the flags are many
    result "$1 ($2${3:+ $3})" $compiler -x $language -std="$2" $warnings $3 \
        -I"$include" -I"$generated" -fsyntax-only "$dir/source"
}

headers='etw_types.h wmistr.h winerror.h evntprov.h evntrace.h evntcons.h KernelTraceControl.h tdh.h'
standards='c11 c17 gnu17 c++17 c++20'

for standard in $standards; do
    for h in $headers; do
        printf '#include <%s>\n#include <%s>\nextern int unused;\n' "$h" "$h" >"$dir/source"
        compile "$h alone" "$standard" ''
    done
done

all='#include <KernelTraceControl.h>\n#include <evntcons.h>\n'
# What must hold whoever came first: types, literals, and none of the macros that break others.
use='
#if defined(IN) || defined(OUT) || defined(interface) || defined(min) || defined(max)
#error "a macro of windows.h"
#endif
typedef char ulong_is_32_bits[sizeof(ULONG) == 4 && sizeof(DWORD) == 4 ? 1 : -1];
typedef char wchar_is_16_bits[sizeof(WCHAR) == 2 && sizeof(*(LPWSTR) 0) == 2 ? 1 : -1];
extern ulong_is_32_bits *unused_a;
extern wchar_is_16_bits *unused_b;
ULONG start(TRACEHANDLE *h, PEVENT_TRACE_PROPERTIES p);
ULONG start(TRACEHANDLE *h, PEVENT_TRACE_PROPERTIES p)
{
    static const WCHAR name[] = ETW_W("name");
    LPCWSTR also = name;
    ULONG r = StartTraceW(h, KERNEL_LOGGER_NAMEW, p);
    if (r == ERROR_SUCCESS)
        r = StopTrace(*h, KERNEL_LOGGER_NAME, p);
    return r == 0 ? StopTraceW(0, also, p) : r;
}
'
# beside STANDARD FLAGS FOREIGN...
beside() {
    standard=$1
    flags=$2
    shift 2
    # shellcheck disable=SC2059 # the formats are ours
    { printf "$all"; printf '%s' "$use"; } >"$dir/source"
    compile 'all headers' "$standard" "$flags"
    for foreign in "$@"; do
        # shellcheck disable=SC2059
        { printf "#include <%s>\n" "$foreign"; printf "$all"; printf '%s' "$use"; } >"$dir/source"
        compile "after <$foreign>" "$standard" "$flags"
        # shellcheck disable=SC2059
        { printf "$all"; printf "#include <%s>\n" "$foreign"; printf '%s' "$use"; } >"$dir/source"
        compile "before <$foreign>" "$standard" "$flags"
    done
}
for standard in c11 c17 c++17 c++20; do
    beside "$standard" '' X11/Xlib.h X11/Xutil.h uuid/uuid.h sql.h sqlext.h
done
for standard in c17 c++20; do
    for flags in '-DUNICODE -D_UNICODE' '-fshort-wchar'; do
        beside "$standard" "$flags" X11/Xlib.h sqlext.h
    done
done

# DEFINE_GUID: a declaration, and with INITGUID one definition however many files have it.
for standard in $standards; do
    printf '#define INITGUID\n#include <evntrace.h>\nDEFINE_GUID(Mine, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);\nunsigned first(void);\nunsigned first(void) { return Mine.Data1; }\n' >"$dir/source"
    compile 'DEFINE_GUID with INITGUID' "$standard" ''
done

# shellcheck disable=SC2086
for language in c c++; do
    [ $language = c ] && compiler=$cc || compiler=$cxx
    for file in a b; do
        printf '#define INITGUID\n#include <evntrace.h>\nDEFINE_GUID(Mine, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);\n' >"$dir/$file"
        result "DEFINE_GUID in file $file ($language)" $compiler -x $language $warnings -fPIC \
            -I"$include" -I"$generated" -c "$dir/$file" -o "$dir/$file.o"
    done
    result "DEFINE_GUID in two files of a program ($language)" $compiler -shared "$dir/a.o" "$dir/b.o" -o "$dir/both.so"
done

echo "1..$n"
exit $failed
