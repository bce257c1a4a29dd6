#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Makes the public winerror.h from winerror.def. Plain integers: usable in #if, and a constant that
# meets a ULONG needs no cast.
set -eu
cat <<'HEAD'
/* SPDX-License-Identifier: Apache-2.0
 *
 * Win32 codes that libetw returns. Made from proto/base/winerror.def.
 */
#ifndef ETW_WINERROR_H
#define ETW_WINERROR_H

#define NO_ERROR 0
HEAD
awk -F'[(,]' '/^WINERROR\(/ { value = $3; gsub(/[ \t]/, "", value); print "#define " $2 " " value }' "$1"
printf '\n#endif\n'
