//! The window and the tray of Culvert, without the window and the tray.
//!
//! What the app decides lies here, over the small [`controller::Shell`] trait, so that it is tested
//! without a webview; the binary puts Tauri behind that trait. The app holds no state that matters:
//! it starts or finds the core, hands its events on, and says what the tray shows.

pub mod allowed;
pub mod attach;
pub mod controller;
pub mod incoming;
pub mod placement;
pub mod socket;
pub mod tray;
pub mod words;
