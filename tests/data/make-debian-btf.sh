#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Makes debian-6.1.btf anew: the types of Debian 12's kernel (linux-image-cloud-amd64) that the
# probes use, from the package's own type information. Needed when a probe reads a member that no
# probe read before. Downloads the package into a temporary folder; installs nothing.
#
#     tests/data/make-debian-btf.sh build/probes/probes.bpf.o
set -eu
object=$(realpath "$1")
out=$(dirname "$(realpath "$0")")/debian-6.1.btf
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: \(linux-image-6\.1.*\)/\1/p')
apt-get download "$package"
dpkg-deb -x ./*.deb root
image=$(echo root/boot/vmlinuz-*)

# The boot protocol says where the compressed kernel lies (LZ4; its last four bytes are a size).
number() { od -An -t u"$2" -j "$1" -N "$2" "$image" | tr -d ' '; }
offset=$((($(number $((0x1f1)) 1) + 1) * 512 + $(number $((0x248)) 4)))
length=$(($(number $((0x24c)) 4) - 4))
tail -c +$((offset + 1)) "$image" | head -c "$length" | lz4 -dc >vmlinux
objcopy --dump-section .BTF=btf vmlinux /dev/null
PATH=$PATH:/usr/sbin bpftool gen min_core_btf btf "$out" "$object"
echo "$out: $package"
