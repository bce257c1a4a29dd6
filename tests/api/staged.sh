# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2034,SC2154
#
# The libraries, installed into a folder of their own, and TAP. Sourced by tests that build programs
# against them as pkg-config says. From `build` (the build folder) and `sanitize` (what was built
# with, "none" or "address,undefined") comes `sanitize` as a compiler's option.

[ "$sanitize" = none ] && sanitize='' || sanitize=-fsanitize=$sanitize
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
n=0
failed=0
warnings='-Wall -Wextra -Wconversion -Werror'

# result NAME COMMAND...
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

# stage MODULE...: sets cflags, libs, and lib, where the libraries lie.
stage() {
    result 'install' meson install -C "$build" --no-rebuild --quiet --destdir "$dir/root" \
        --tags devel,runtime
    pc=$(find "$dir/root" -name "$1.pc")
    export PKG_CONFIG_PATH="${pc%/*}" PKG_CONFIG_SYSROOT_DIR="$dir/root"
    for module; do
        result "pkg-config $module" pkg-config --print-errors --exists "$module >= 0.1"
    done
    cflags=$(pkg-config --cflags "$@") libs=$(pkg-config --libs "$@")
    lib=$(dirname "$(find "$dir/root" -name 'libetw.so.0')")
}
