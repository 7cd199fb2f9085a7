//! The tray's icon and menu.

use std::sync::{Mutex, PoisonError};

use culvert_app::controller::{Handle, Input};
use culvert_app::tray::{TrayAction, TrayState, TrayView};
use culvert_ipc::types::NodeId;
use tauri::image::Image;
use tauri::menu::{CheckMenuItemBuilder, Menu, MenuBuilder, MenuItemBuilder, SubmenuBuilder};
use tauri::tray::TrayIconBuilder;
use tauri::{AppHandle, Manager, Wry};

const TRAY: &str = "tray";
const NODE: &str = "node-";

/// What the menu shows now, so that a choice knows what it turns around.
#[derive(Default)]
struct Shown(Mutex<Option<bool>>);

/// Makes the tray's icon; its menu follows with the first view.
pub(crate) fn make(app: &AppHandle, handle: &Handle) -> tauri::Result<()> {
    app.manage(Shown::default());
    let handle = handle.clone();
    TrayIconBuilder::with_id(TRAY)
        .icon(icon(TrayState::Off))
        .icon_as_template(true)
        .tooltip("Culvert")
        .show_menu_on_left_click(true)
        .on_menu_event(move |app, event| {
            if let Some(action) = action(app, event.id().as_ref()) {
                handle.tell(Input::Tray(action));
            }
        })
        .build(app)?;
    Ok(())
}

fn action(app: &AppHandle, id: &str) -> Option<TrayAction> {
    match id {
        "toggle" => Some(TrayAction::Toggle),
        "system-proxy" => {
            let shown = *app.state::<Shown>().0.lock().unwrap_or_else(PoisonError::into_inner);
            shown.map(|on| TrayAction::SystemProxy(!on))
        }
        "test-all" => Some(TrayAction::TestAll),
        "open" => Some(TrayAction::Open),
        "quit" => Some(TrayAction::Quit),
        other => other.strip_prefix(NODE)?.parse().ok().map(|id| TrayAction::Use(NodeId(id))),
    }
}

/// Draws icon, tooltip and menu.
pub(crate) fn draw(app: &AppHandle, view: &TrayView) -> tauri::Result<()> {
    let Some(tray) = app.tray_by_id(TRAY) else {
        return Ok(());
    };
    *app.state::<Shown>().0.lock().unwrap_or_else(PoisonError::into_inner) = view.system_proxy;
    tray.set_icon(Some(icon(view.state)))?;
    tray.set_icon_as_template(true)?;
    tray.set_tooltip(Some(&view.title))?;
    tray.set_menu(Some(menu(app, view)?))
}

fn menu(app: &AppHandle, view: &TrayView) -> tauri::Result<Menu<Wry>> {
    let words = view.words;
    let item = |id: &str, text: &str, enabled: bool| MenuItemBuilder::with_id(id, text).enabled(enabled).build(app);
    let mut nodes = SubmenuBuilder::new(app, words.nodes).enabled(!view.nodes.is_empty());
    for node in &view.nodes {
        let id = format!("{NODE}{}", node.id.0);
        nodes = nodes.item(&CheckMenuItemBuilder::with_id(id, &node.text).checked(node.checked).build(app)?);
    }
    let nodes = nodes.separator().item(&item("open", words.more_nodes, true)?).build()?;
    let proxy = CheckMenuItemBuilder::with_id("system-proxy", words.system_proxy)
        .checked(view.system_proxy.unwrap_or(false))
        .enabled(view.system_proxy.is_some())
        .build(app)?;
    MenuBuilder::new(app)
        .item(&item("state", &view.title, false)?)
        .separator()
        .item(&item("toggle", view.toggle.0, view.toggle.1)?)
        .item(&proxy)
        .item(&nodes)
        .item(&item("test-all", words.test_all, !view.nodes.is_empty())?)
        .separator()
        .item(&item("open", words.open, true)?)
        .item(&item("quit", words.quit, true)?)
        .build()
}

/// Light outlines on Linux and Windows, whose panels are mostly dark; macOS tints the template by itself.
fn icon(state: TrayState) -> Image<'static> {
    match state {
        TrayState::Off => tauri::include_image!("../icons/tray-off-light.png"),
        TrayState::Working => tauri::include_image!("../icons/tray-working-light.png"),
        TrayState::Verified => tauri::include_image!("../icons/tray-verified-light.png"),
        TrayState::Degraded => tauri::include_image!("../icons/tray-degraded-light.png"),
        TrayState::Failed => tauri::include_image!("../icons/tray-failed-light.png"),
    }
}
