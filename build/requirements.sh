#!/usr/bin/env bash
# Installs the system packages that a purpose needs, and says which.
# Usage: build/requirements.sh run|app|test      (each includes the ones before it)
# Knows apt, dnf, pacman and brew; elsewhere it prints the list and stops with exit code 3.
set -euo pipefail
purpose="${1:?usage: build/requirements.sh run|app|test}"

apt_run="build-essential pkg-config cmake"
apt_app="libwebkit2gtk-4.1-dev libayatana-appindicator3-dev librsvg2-dev libxdo-dev libssl-dev nodejs npm"
apt_test="curl openssl procps iproute2 nftables tcpdump dbus-x11 xvfb xauth webkit2gtk-driver x11-utils chromium
  gnome-keyring libsecret-tools gsettings-desktop-schemas dconf-gsettings-backend dconf-cli libglib2.0-bin libkf5config-bin
  fonts-noto-cjk fonts-dejavu-core imagemagick zbar-tools at-spi2-core desktop-file-utils
  v2ray shadowsocks-libev shadowsocks-v2ray-plugin simple-obfs trojan microsocks nginx-light iperf3
  gcc-mingw-w64-x86-64-posix g++-mingw-w64-x86-64-posix wine64 wine python3-venv"
dnf_run="gcc gcc-c++ make cmake pkgconf-pkg-config"
dnf_app="webkit2gtk4.1-devel libayatana-appindicator-gtk3-devel librsvg2-devel libxdo-devel openssl-devel nodejs npm"
pacman_run="base-devel cmake pkgconf"
pacman_app="webkit2gtk-4.1 libayatana-appindicator librsvg xdotool openssl nodejs npm"
brew_run="cmake"
brew_app="node"

list() { # manager: the packages of every purpose up to the asked one
    local run="$1_run" app="$1_app" test="$1_test"
    case "$purpose" in
        run) echo "${!run:-}" ;;
        app) echo "${!run:-} ${!app:-}" ;;
        test) echo "${!run:-} ${!app:-} ${!test:-}" ;;
        *) echo "unknown purpose: $purpose" >&2; exit 2 ;;
    esac
}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

need_rust() {
    command -v cargo >/dev/null 2>&1 && return
    echo "Rust is missing: install Rust 1.95 or newer (rustup, or your system's package), then run this again." >&2
    exit 3
}

if command -v apt-get >/dev/null 2>&1; then
    missing=()
    for package in $(list apt); do
        # A toolchain installed by other means counts.
        case "$package" in
            nodejs) command -v node >/dev/null 2>&1 && continue ;;
            npm) command -v npm >/dev/null 2>&1 && continue ;;
        esac
        dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || missing+=("$package")
    done
    if [ ${#missing[@]} -gt 0 ]; then
        echo "installing with apt: ${missing[*]}"
        as_root apt-get update -q >/dev/null
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}" >/dev/null
    fi
elif command -v dnf >/dev/null 2>&1; then
    echo "installing with dnf: $(list dnf)"
    # shellcheck disable=SC2046
    as_root dnf install -qy $(list dnf)
elif command -v pacman >/dev/null 2>&1; then
    echo "installing with pacman: $(list pacman)"
    # shellcheck disable=SC2046
    as_root pacman -S --needed --noconfirm $(list pacman)
elif command -v brew >/dev/null 2>&1; then
    echo "installing with brew: $(list brew)"
    # shellcheck disable=SC2046
    brew install -q $(list brew)
else
    echo "No apt, dnf, pacman or brew here. Install the equivalents of: $(list apt | tr -s ' \n' ' ')" >&2
    exit 3
fi
need_rust
if [ "$purpose" = test ] && ! command -v apt-get >/dev/null 2>&1; then
    echo "The tests' peers (v2ray, shadowsocks-libev, …) are installed on Debian only; elsewhere tests without their peer say so."
fi
