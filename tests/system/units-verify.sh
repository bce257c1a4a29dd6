#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# That systemd finds nothing to complain of in the units, sysusers.d and tmpfiles.d:
#     units-verify.sh ETWD UNIT... SYSUSERS TMPFILES
# The program stands in for the installed one, which may not be there.
set -eu

command -v systemd-analyze >/dev/null || { echo "no systemd-analyze"; exit 77; }
etwd=$1
shift
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
units=
for file; do
	case $file in
	*.service | *.socket)
		sed "s,^ExecStart=[^ ]*,ExecStart=$etwd," "$file" >"$dir/${file##*/}"
		units="$units $dir/${file##*/}"
		;;
	esac
done
# shellcheck disable=SC2086 # a list
said=$(systemd-analyze verify --man=no $units 2>&1) || { echo "$said"; exit 1; }
# Other units of this machine are not ours.
if echo "$said" | grep -F etwd; then
	exit 1
fi
for file; do
	case $file in
	*.sysusers)
		mkdir -p "$dir/root/etc"
		systemd-sysusers --root="$dir/root" - <"$file"
		grep -q '^etwd:' "$dir/root/etc/passwd"
		grep -q '^etw:' "$dir/root/etc/group"
		;;
	*.tmpfiles)
		[ "$(id -u)" = 0 ] || continue
		systemd-tmpfiles --root="$dir/root" --create - <"$file"
		[ "$(stat -c %a "$dir/root/run/etwd")" = 755 ]
		;;
	esac
done
