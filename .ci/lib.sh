# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What quickstart, run-tests and .ci/run share: the packages that debian/control lists, the build
# folder, running test suites and counting their results. Sourced from the top of the tree.

say() {
    printf '%s\n' "== $*"
}

fail() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# Build-Depends and Depends of debian/control for these uses, one package a line: run, check (adds
# what is marked <!nocheck>), ci (adds <pkg.etwd.ci>). debhelper is for making
# packages only. Of alternatives the first counts; what comes from this source is no package to
# install.
packages_of() {
    awk -v uses=" $* " '
        /^[^ \t#]/ { field = $1; if (field == "Package:") own[$2] = 1 }
        /^#/ { next }
        field == "Build-Depends:" || field == "Depends:" {
            line = $0
            sub(/^[A-Za-z-]+:/, "", line)
            list = list line ","
        }
        END {
            n = split(list, entries, ",")
            for (i = 1; i <= n; i++) {
                entry = entries[i]
                if (entry ~ /<!nocheck>/ && uses !~ / check /)
                    continue
                if (entry ~ /<pkg\.etwd\.ci>/ && uses !~ / ci /)
                    continue
                sub(/\|.*/, "", entry)
                gsub(/\([^)]*\)|\[[^]]*\]|<[^>]*>|:any/, "", entry)
                gsub(/[ \t]/, "", entry)
                if (entry == "" || entry ~ /^\$/ || entry ~ /^debhelper/ || (entry in own))
                    continue
                if (!(entry in seen)) {
                    seen[entry] = 1
                    print entry
                }
            }
        }' debian/control
}

# Installs what is missing for these uses; without anything missing no network is needed.
install_packages() {
    local package missing=()

    command -v dpkg-query >/dev/null || fail "this needs Debian 12 (or what is made of it): no dpkg here"
    while read -r package; do
        # shellcheck disable=SC2016 # dpkg-query expands it
        if [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
            missing+=("$package")
        fi
    done < <(packages_of "$@")
    if [ ${#missing[@]} -eq 0 ]; then
        return
    fi
    [ "$(id -u)" -eq 0 ] || fail "packages are missing (${missing[*]}): run this with sudo"
    say "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q
    apt-get install -q -y --no-install-recommends "${missing[@]}"
}

# What root makes in the tree belongs to whoever called sudo.
give_back() {
    if [ "$(id -u)" -eq 0 ] && [ -n "${SUDO_UID:-}" ] && [ -n "${SUDO_GID:-}" ]; then
        chown -R "$SUDO_UID:$SUDO_GID" "$@"
    fi
}

# configure FOLDER OPTION...: makes the build folder, or changes its options.
configure() {
    local folder=$1
    shift
    if [ -f "$folder/build.ninja" ]; then
        meson configure "$folder" "$@"
    else
        meson setup "$folder" "$@"
    fi
}

# run_suites FOLDER ARGUMENT...: meson test, then counts in `passed` and `failed`. Returns the
# verdict; prints what failed and what was skipped and why, what failed also into the file $failures
# where that is set.
run_suites() {
    local folder=$1 status=0 counts
    shift
    passed=0
    failed=0
    rm -f "$folder"/meson-logs/testlog.json
    meson test -C "$folder" --print-errorlogs "$@" </dev/null || status=$?
    counts=$(python3 .ci/count-results "$folder/meson-logs/testlog.json") || true
    if [ -z "$counts" ]; then
        # Nothing was built or nothing ran.
        failed=1
    else
        printf '%s\n' "$counts" | sed '$d'
        [ -z "${failures:-}" ] || printf '%s\n' "$counts" | sed -n '$d; / said: /p; /^failed: /p' >>"$failures"
        read -r passed failed < <(printf '%s\n' "$counts" | tail -n 1)
    fi
    if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then
        failed=1
    fi
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}
