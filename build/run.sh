#!/usr/bin/env bash
# `make run`: installs what is missing, builds the release and opens the app. Without a display it
# shows the core doing the same job: demo server, its nodes, a page fetched through each.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { echo "── $*"; }

if [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] || [ "$(uname)" = Darwin ]; then
    step "checking for missing packages"
    build/requirements.sh app
    step "building the interface"
    (cd ui && npm install --no-save --no-audit --no-fund --silent && npm run --silent build)
    step "building the app and the core (the first time takes some minutes)"
    cargo build --release -p culvert-core -p culvert-helper
    cargo build --release -p culvert-app --features custom-protocol
    step "opening Culvert"
    exec target/release/culvert
fi
step "no display here: the core does the same job without a window"
build/requirements.sh run
step "building the core (the first time takes some minutes)"
cargo build --release -p culvert-core
step "starting the demo server and connecting through each of its nodes"
exec target/release/culvert-core demo --check
