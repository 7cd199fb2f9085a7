#!/usr/bin/env bash
# `make bench` and `make bench-tun`: print a table, write JSON beside it. A slow figure is no failure.
set -euo pipefail
cd "$(dirname "$0")/.."
export CULVERT_PEERS="${XDG_CACHE_HOME:-$HOME/.cache}/culvert/peers/bin"
mkdir -p artefacts
case "${1:?usage: build/bench.sh protocols|tun}" in
    protocols)
        build/requirements.sh test && build/peers.sh peers
        cargo build --release -p culvert-core
        exec target/release/culvert-core bench --output artefacts/bench.json
        ;;
    tun)
        build/requirements.sh test
        cargo build --release -p culvert-core -p culvert-tests --bin culvert-core --bin bench_tun
        exec target/release/bench_tun --core target/release/culvert-core --output artefacts/bench-tun.json
        ;;
esac
