#!/usr/bin/env bash
# Type-checks the workspace for Windows and macOS and runs the Windows tests that wine can run.
# Usage: build/cross.sh setup|windows|macos
#
# No compiler target for these systems can be installed by rustup on a machine without access to
# its servers, so the standard library is built once from Debian's source package, by Debian's
# own compiler package (extracted, not installed), and kept in the user's cache folder.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/culvert/cross"
tree="$cache/rustc"
windows=x86_64-pc-windows-gnu
macos=aarch64-apple-darwin
# What can't be checked from here (needs the other system's web view or SDK) is in docs/unrun.md.
packages=(-p culvert-wire -p culvert-profile -p culvert-route -p culvert-helper-protocol -p culvert-system
    -p culvert-ipc -p culvert-net -p culvert-engine -p culvert-core)

extract_compiler() {
    [ -e "$tree/extracted" ] && return
    rm -rf "$tree" && mkdir -p "$tree/debs"
    chmod 777 "$tree/debs"
    echo "extracting a second Rust compiler with its library sources"
    # libstd's and LLVM's package names carry versions: ask what depends on them.
    local names
    names="$(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances \
        rustc-web rust-web-src rust-web-llvm |
        grep -E '^(rustc-web|rust-web-src|rust-web-llvm|libstd-rust-web-.*|libllvm[0-9.]+|llvm-[0-9]+)$' | sort -u | tr '\n' ' ')"
    # shellcheck disable=SC2086
    (cd "$tree/debs" && apt-get download -q $names >/dev/null)
    for package in "$tree"/debs/*.deb; do dpkg -x "$package" "$tree"; done
    rm -rf "$tree/debs"
    local library
    library="$(dirname "$(find "$tree/usr" -name 'librustc_driver-*.so' | head -1)")"
    cat > "$tree/rustc" <<EOF
#!/bin/sh
LD_LIBRARY_PATH="$library:$tree/usr/lib/x86_64-linux-gnu:\$LD_LIBRARY_PATH" exec "$(find "$tree/usr" -type f -name rustc -path '*bin*' | head -1)" "\$@"
EOF
    chmod +x "$tree/rustc"
    "$tree/rustc" --version
    touch "$tree/extracted"
}

build_library() { # target
    local sysroot destination
    sysroot="$("$tree/rustc" --print sysroot)"
    destination="$sysroot/lib/rustlib/$1/lib"
    [ -e "$destination/complete" ] && return
    echo "building the standard library for $1"
    local work="$cache/empty-$1"
    rm -rf "$work" && mkdir -p "$work/src" "$destination"
    printf '[package]\nname = "empty"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n' > "$work/Cargo.toml"
    : > "$work/src/lib.rs"
    (cd "$work" && RUSTC="$tree/rustc" RUSTC_BOOTSTRAP=1 cargo build --quiet --release \
        -Zbuild-std=std,panic_abort,panic_unwind,test,proc_macro --target "$1" --target-dir "$work/target")
    cp "$work/target/$1/release/deps/"*.rlib "$destination/"
    if [ "$1" = "$windows" ]; then
        local source
        source="$(find -L "$sysroot/lib/rustlib/src" "$tree/usr/src" -type d -path '*library/rtstartup' 2>/dev/null | head -1)"
        for object in rsbegin rsend; do
            RUSTC_BOOTSTRAP=1 "$tree/rustc" --target "$1" --emit=obj -o "$destination/$object.o" "$source/$object.rs"
        done
        cp "$destination"/rs*.o "$destination/self-contained/" 2>/dev/null || true
    fi
    rm -rf "$work"
    touch "$destination/complete"
}

windows_environment() {
    export RUSTC="$tree/rustc" CARGO_TARGET_DIR="$cache/target-windows"
    export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=x86_64-w64-mingw32-gcc
    export CC_x86_64_pc_windows_gnu=x86_64-w64-mingw32-gcc CXX_x86_64_pc_windows_gnu=x86_64-w64-mingw32-g++
    export AR_x86_64_pc_windows_gnu=x86_64-w64-mingw32-ar
    export WINEPREFIX="$cache/wine" WINEDEBUG=-all
    CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER="$(command -v wine64 || echo /usr/lib/wine/wine64)"
    export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER
}

prepare_wine() {
    [ -e "$WINEPREFIX/ready" ] && return
    mkdir -p "$WINEPREFIX"
    "$CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER" wineboot -i >/dev/null 2>&1
    # Debian's wine lacks this library, which the Rust standard library draws its seeds from.
    local source="$cache/prng.c"
    cat > "$source" <<'EOF'
#include <windows.h>
BOOLEAN WINAPI SystemFunction036(PVOID buffer, ULONG length);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length) {
    while (length) {
        ULONG part = length > 0x10000000 ? 0x10000000 : (ULONG)length;
        if (!SystemFunction036(data, part)) return FALSE;
        data += part; length -= part;
    }
    return TRUE;
}
EOF
    x86_64-w64-mingw32-gcc -shared -O1 -o "$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll" "$source" -ladvapi32
    touch "$WINEPREFIX/ready"
}

zig_tools() {
    [ -x "$cache/zig/bin/cargo-zigbuild" ] && return
    echo "installing the cross C compiler for macOS"
    python3 -m venv "$cache/zig"
    "$cache/zig/bin/pip" install -q ziglang==0.17.1 cargo-zigbuild==0.24.1
}

cd "$root"
case "${1:?usage: build/cross.sh setup|windows|macos}" in
    setup)
        mkdir -p "$cache"
        extract_compiler
        build_library "$windows"
        build_library "$macos"
        zig_tools
        ;;
    windows)
        windows_environment
        prepare_wine
        cargo check --quiet --target "$windows" "${packages[@]}"
        # The pure crates' tests run whole under wine.
        cargo test --quiet --target "$windows" -p culvert-wire -p culvert-profile -p culvert-route --lib
        ;;
    macos)
        export RUSTC="$tree/rustc" CARGO_TARGET_DIR="$cache/target-macos" PATH="$cache/zig/bin:$PATH"
        cargo-zigbuild check --quiet --target "$macos" "${packages[@]}"
        ;;
    *) echo "usage: build/cross.sh setup|windows|macos" >&2; exit 2 ;;
esac
