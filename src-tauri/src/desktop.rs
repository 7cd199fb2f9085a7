//! The window, the page's channel, and what the desktop is able to do.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use culvert_app::controller::Shell;
use culvert_app::incoming::Incoming;
use culvert_app::placement::{LEAST, Placement};
use culvert_app::tray::TrayView;
use tauri::ipc::Channel;
use tauri::{AppHandle, Manager, WebviewUrl, WebviewWindow, WebviewWindowBuilder};

use crate::tray_icon;

/// Label of the one window.
pub(crate) const WINDOW: &str = "main";

/// The channel to the page, while there is one.
#[derive(Clone, Default)]
pub(crate) struct PageChannel(Arc<Mutex<Option<Channel<Incoming>>>>);

impl PageChannel {
    /// A page is there.
    pub(crate) fn open(&self, channel: Channel<Incoming>) {
        *self.lock() = Some(channel);
    }

    fn send(&self, message: Incoming) {
        let mut channel = self.lock();
        if channel.as_ref().is_some_and(|open| open.send(message).is_err()) {
            *channel = None;
        }
    }

    fn close(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Channel<Incoming>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tauri as the controller sees it.
pub(crate) struct Desktop {
    app: AppHandle,
    page: PageChannel,
}

impl Desktop {
    /// The desktop of `app`.
    pub(crate) fn new(app: AppHandle) -> Self {
        Self { app, page: PageChannel::default() }
    }

    /// The channel that the page opens.
    pub(crate) fn page(&self) -> PageChannel {
        self.page.clone()
    }

    /// Windows and menus belong to the main thread.
    fn on_main(&self, work: impl FnOnce(&AppHandle) + Send + 'static) {
        let app = self.app.clone();
        if let Err(error) = self.app.run_on_main_thread(move || work(&app)) {
            tracing::warn!("the window's thread is gone: {error}");
        }
    }
}

impl Shell for Desktop {
    fn show_window(&self) {
        self.on_main(|app| {
            if let Err(error) = show(app) {
                tracing::error!("the window can't be shown: {error}");
            }
        });
    }

    fn close_window(&self) {
        self.page.close();
        self.on_main(|app| {
            if let Some(window) = window(app) {
                keep_placement(app);
                let _ = window.destroy();
            }
        });
    }

    fn tell_page(&self, message: Incoming) {
        self.page.send(message);
    }

    fn draw_tray(&self, view: &TrayView) {
        let view = view.clone();
        self.on_main(move |app| {
            if let Err(error) = tray_icon::draw(app, &view) {
                tracing::warn!("the tray can't be drawn: {error}");
            }
        });
    }

    fn exit(&self) {
        self.app.exit(0);
    }
}

fn window(app: &AppHandle) -> Option<WebviewWindow> {
    app.get_webview_window(WINDOW)
}

fn show(app: &AppHandle) -> tauri::Result<()> {
    if let Some(window) = window(app) {
        window.unminimize()?;
        window.show()?;
        return window.set_focus();
    }
    let placement = folder(app).map(|folder| Placement::load(&folder)).unwrap_or_default();
    WebviewWindowBuilder::new(app, WINDOW, WebviewUrl::App("index.html".into()))
        .title("Culvert")
        .inner_size(placement.width, placement.height)
        .min_inner_size(LEAST.0, LEAST.1)
        .maximized(placement.maximised)
        // The page reads what is dropped on it by itself.
        .disable_drag_drop_handler()
        .build()?;
    Ok(())
}

/// Keeps the size of the window for the next start.
pub(crate) fn keep_placement(app: &AppHandle) {
    let (Some(window), Some(folder)) = (window(app), folder(app)) else {
        return;
    };
    let (Ok(size), Ok(scale), Ok(maximised)) = (window.inner_size(), window.scale_factor(), window.is_maximized())
    else {
        return;
    };
    let logical = size.to_logical::<f64>(scale);
    let kept = Placement::load(&folder);
    // A maximised window goes back to the size it had before.
    let placement = if maximised {
        Placement { maximised, ..kept }
    } else {
        Placement { width: logical.width, height: logical.height, maximised }
    };
    if let Err(error) = placement.save(&folder) {
        tracing::warn!("the window's size can't be kept in {}: {error}", folder.display());
    }
}

/// Puts the window out of the way where there is no tray to bring it back.
pub(crate) fn minimise(app: &AppHandle) {
    if let Some(window) = window(app) {
        let _ = window.minimize();
    }
}

fn folder(app: &AppHandle) -> Option<PathBuf> {
    app.path().app_config_dir().ok()
}

/// Whether the desktop shows tray icons. GNOME does not, unless an extension does.
#[cfg(target_os = "linux")]
pub(crate) fn has_tray_host() -> bool {
    let ask = || -> zbus::Result<bool> {
        let connection = zbus::blocking::Connection::session()?;
        let answer = connection.call_method(
            Some("org.freedesktop.DBus"),
            "/org/freedesktop/DBus",
            Some("org.freedesktop.DBus"),
            "NameHasOwner",
            &"org.kde.StatusNotifierWatcher",
        )?;
        answer.body().deserialize()
    };
    ask().unwrap_or(false)
}

/// Whether the desktop shows tray icons.
#[cfg(not(target_os = "linux"))]
pub(crate) fn has_tray_host() -> bool {
    true
}
