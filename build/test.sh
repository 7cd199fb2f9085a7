#!/usr/bin/env bash
# The whole truth: installs what the tests need and runs everything, in stages. One closing line
# counts the stages. Usage: build/test.sh [stage…]   (default: every stage)
set -uo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
cd "$root"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/culvert"
export CARGO_TERM_COLOR=never
export CULVERT_PEERS="$cache/peers/bin"
export CARGO_INCREMENTAL=0
export RUST_BACKTRACE=1
# Compiled dependencies outlive a clone: the folder is keyed by the lock file, and only the newest is kept.
if [ -n "${CI:-}" ] && [ -z "${CARGO_TARGET_DIR:-}" ]; then
    key="$(cat Cargo.lock Cargo.toml | sha256sum | cut -c1-16)"
    mkdir -p "$cache/target"
    for old in "$cache"/target/*; do
        # A lock file that changed a little still shares most of its dependencies.
        [ -d "$old" ] && [ "$(basename "$old")" != "$key" ] && [ ! -e "$cache/target/$key" ] && mv "$old" "$cache/target/$key"
    done
    find "$cache/target" -mindepth 1 -maxdepth 1 ! -name "$key" -exec rm -rf {} +
    export CARGO_TARGET_DIR="$cache/target/$key"
fi
target="${CARGO_TARGET_DIR:-$root/target}"

requirements() { build/requirements.sh test && build/peers.sh "peers tools"; }

format_check() { cargo fmt --all --check; }

clippy() { cargo clippy --quiet --workspace --exclude culvert-app --all-targets -- -D warnings; }

licences() {
    if ! "$cache/tools/bin/cargo-deny" --version >/dev/null 2>&1; then echo "cargo-deny is missing"; return 1; fi
    "$cache/tools/bin/cargo-deny" --all-features check licenses bans sources
}

core() { cargo test --workspace --exclude culvert-app --exclude culvert-tests --no-fail-fast; }

binaries() { cargo build -p culvert-core -p culvert-helper; }

whole() {
    CULVERT_CORE="$target/debug/culvert-core" CULVERT_HELPER="$target/debug/culvert-helper" \
        cargo test -p culvert-tests --no-fail-fast -- --test-threads=2
}

# `npm ci` refuses a lock file when an optional package (here one for Windows only) can't be had.
interface() { (cd ui && npm install --no-save --no-audit --no-fund --silent && npm run --silent check && npm run --silent test && npm run --silent build); }

interface_pages() { (cd ui && npm run --silent test:ui); }

# The web view's tree is large and none of it is on a fast path: built without optimisation, apart.
app_cargo() { cargo "$1" -p culvert-app --config 'profile.dev.package."*".opt-level=0' --target-dir "$target/app" "${@:2}"; }

app() { app_cargo build --features custom-protocol && app_cargo test --features custom-protocol; }

app_window() {
    CULVERT_APP="$target/app/debug/culvert" CULVERT_CORE="$target/debug/culvert-core" \
        node tests/app/run.mjs
}

windows() { build/cross.sh setup && build/cross.sh windows; }

macos() { build/cross.sh setup && build/cross.sh macos; }

lint() { format_check && clippy && licences; }

stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(requirements format_check interface binaries clippy licences core whole interface_pages app app_window windows macos)

passed=0
failed=()
for stage in "${stages[@]}"; do
    echo "── $stage"
    started=$SECONDS
    if "$stage"; then
        passed=$((passed + 1))
        echo "── $stage: passed in $((SECONDS - started)) s"
    else
        failed+=("$stage")
        echo "── $stage: FAILED after $((SECONDS - started)) s"
        # Nothing else can work without these.
        case "$stage" in requirements | binaries) break ;; esac
    fi
done
[ ${#failed[@]} -eq 0 ] || echo "failed stages: ${failed[*]}"
echo "stages: $passed passed, ${#failed[@]} failed"
[ ${#failed[@]} -eq 0 ]
