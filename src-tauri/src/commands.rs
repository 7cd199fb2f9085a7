//! What the page may ask of the shell. The capability file names each of these, and nothing else.

use culvert_app::controller::{Handle, Input};
use culvert_app::incoming::Incoming;
use culvert_app::words::Language;
use culvert_ipc::RpcError;
use serde::Serialize;
use serde_json::Value;
use tauri::ipc::Channel;
use tauri::{AppHandle, State};
use tauri_plugin_clipboard_manager::ClipboardExt;

use crate::desktop::{self, PageChannel};

/// The most that is read from the clipboard, in bytes; what an import may hold.
const MOST_CLIPBOARD: usize = 4 * 1024 * 1024;

/// Calls the core.
#[tauri::command]
pub(crate) async fn rpc(handle: State<'_, Handle>, method: String, params: Value) -> Result<Value, RpcError> {
    handle.call(&method, params).await
}

/// Starts the stream of events to the page.
#[tauri::command]
pub(crate) fn listen(handle: State<'_, Handle>, page: State<'_, PageChannel>, channel: Channel<Incoming>) {
    page.open(channel);
    handle.tell(Input::PageOpened);
}

/// What the shell is.
#[derive(Serialize)]
pub(crate) struct ShellInfo {
    version: &'static str,
    tray: bool,
    native: bool,
}

/// Says what the shell is.
#[tauri::command]
pub(crate) fn shell_info() -> ShellInfo {
    ShellInfo { version: env!("CARGO_PKG_VERSION"), tray: desktop::has_tray_host(), native: true }
}

/// The text on the clipboard, which the person asked for; empty when there is none.
#[tauri::command]
pub(crate) async fn clipboard_read(app: AppHandle) -> String {
    let text = app.clipboard().read_text().unwrap_or_default();
    if text.len() > MOST_CLIPBOARD { String::new() } else { text }
}

/// Puts a text on the clipboard.
#[tauri::command]
pub(crate) async fn clipboard_write(app: AppHandle, text: String) -> Result<(), String> {
    app.clipboard().write_text(text).map_err(|error| error.to_string())
}

/// The tray speaks the page's language.
#[tauri::command]
pub(crate) fn set_language(handle: State<'_, Handle>, tag: String) {
    handle.tell(Input::Language(Language::of(&tag)));
}

/// Puts the system's settings back and ends app and core.
#[tauri::command]
pub(crate) fn quit(handle: State<'_, Handle>, app: AppHandle) {
    desktop::keep_placement(&app);
    handle.tell(Input::Quit);
}
