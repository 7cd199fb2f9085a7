//! Declares the commands that the page may call, so that the capability file has to name each.

fn main() {
    #[cfg(feature = "webview")]
    declare();
}

#[cfg(feature = "webview")]
fn declare() {
    let commands = tauri_build::AppManifest::new().commands(&[
        "rpc",
        "listen",
        "shell_info",
        "clipboard_read",
        "clipboard_write",
        "set_language",
        "quit",
    ]);
    let attributes = tauri_build::Attributes::new().app_manifest(commands);
    if let Err(error) = tauri_build::try_build(attributes) {
        println!("cargo::error={error:#}");
    }
}
