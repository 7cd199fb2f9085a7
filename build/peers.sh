#!/usr/bin/env bash
# Builds the peers and tools that tests need and that only the Rust registry carries, into the
# user's cache folder, one folder a version. A peer that is there already costs nothing.
# Usage: build/peers.sh [peers] [tools]   (default: both)
set -euo pipefail
cache="${XDG_CACHE_HOME:-$HOME/.cache}/culvert"

# crate version features binaries…
install_crate() {
    local folder="$cache/$1" crate="$2" version="$3" features="$4"
    shift 4
    local missing=""
    for binary in "$@"; do [ -x "$folder/bin/$binary" ] || missing="$binary"; done
    if [ -z "$missing" ] && [ "$(cat "$folder/$crate.version" 2>/dev/null)" = "$version $features" ]; then
        return
    fi
    echo "building $crate $version (takes some minutes the first time)"
    local extra=()
    [ -n "$features" ] && extra=(--no-default-features --features "$features")
    CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=0 \
        cargo install --quiet --locked --force --root "$folder" --target-dir "$cache/peers-target" \
        "$crate" --version "$version" "${extra[@]}"
    echo "$version $features" > "$folder/$crate.version"
    rm -rf "$cache/peers-target"
}

for what in "${@:-peers tools}"; do
    case " $what " in *" peers "*)
        install_crate peers shadowsocks-rust 1.25.0 "local,server,aead-cipher,aead-cipher-2022,hickory-dns" ssserver sslocal
        install_crate peers shoes 0.3.2 "" shoes
    ;; esac
    case " $what " in *" tools "*)
        install_crate tools cargo-deny 0.20.2 "" cargo-deny
    ;; esac
done
