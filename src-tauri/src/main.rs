//! The app: Tauri behind the controller's `Shell`.

#![cfg_attr(not(debug_assertions), windows_subsystem = "windows")]

mod commands;
mod desktop;
mod tray_icon;

use culvert_app::attach::LocalCore;
use culvert_app::controller::{Controller, Handle, Input};
use culvert_app::words::Language;
use tauri::{Manager, RunEvent, WindowEvent};
use tracing_subscriber::EnvFilter;

use crate::desktop::Desktop;

fn main() {
    let filter = EnvFilter::try_from_env("CULVERT_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    if let Err(error) = run() {
        tracing::error!("Culvert could not start: {error:#}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let core = LocalCore::beside_this_program(culvert_app::socket::path())?;
    let app = tauri::Builder::default()
        // First, so that a second start ends before it makes anything.
        .plugin(tauri_plugin_single_instance::init(|app, arguments, _folder| {
            // The first argument is the program.
            app.state::<Handle>().tell(Input::Opened(arguments.into_iter().skip(1).collect()));
        }))
        .plugin(tauri_plugin_deep_link::init())
        .plugin(tauri_plugin_clipboard_manager::init())
        .invoke_handler(tauri::generate_handler![
            commands::rpc,
            commands::listen,
            commands::shell_info,
            commands::clipboard_read,
            commands::clipboard_write,
            commands::set_language,
            commands::quit,
        ])
        .setup(move |app| {
            let desktop = Desktop::new(app.handle().clone());
            app.manage(desktop.page());
            let language = Language::of(&std::env::var("LANG").unwrap_or_default());
            let (controller, handle) = Controller::new(core, desktop, language);
            app.manage(handle.clone());
            tray_icon::make(app.handle(), &handle)?;
            tauri::async_runtime::spawn(controller.run());
            handle.tell(Input::Opened(std::env::args().skip(1).collect()));
            Ok(())
        })
        .build(tauri::generate_context!())?;
    app.run(|app, event| match event {
        RunEvent::WindowEvent { label, event: WindowEvent::CloseRequested { api, .. }, .. }
            if label == desktop::WINDOW =>
        {
            desktop::keep_placement(app);
            if !desktop::has_tray_host() {
                // Without a tray a closed window could not be found again.
                api.prevent_close();
                desktop::minimise(app);
            }
        }
        RunEvent::WindowEvent { label, event: WindowEvent::Destroyed, .. } if label == desktop::WINDOW => {
            app.state::<Handle>().tell(Input::PageClosed);
        }
        // The last window is gone: core and tray go on. With a code, the end was asked for.
        RunEvent::ExitRequested { code: None, api, .. } => api.prevent_exit(),
        _ => {}
    });
    Ok(())
}
