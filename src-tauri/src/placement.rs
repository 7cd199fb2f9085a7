//! The window's size from one start to the next.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Smallest size of the window, in logical pixels.
pub const LEAST: (f64, f64) = (880.0, 560.0);
/// A size above this is a mistake in the file, not a screen.
const MOST: f64 = 16_384.0;

/// Size and state of the window, in logical pixels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Placement {
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
    /// Fills the screen.
    pub maximised: bool,
}

impl Default for Placement {
    fn default() -> Self {
        Self { width: 1180.0, height: 760.0, maximised: false }
    }
}

impl Placement {
    /// The placement kept in `folder`; the default when there is none that makes sense.
    pub fn load(folder: &Path) -> Self {
        let read = std::fs::read(file(folder)).ok().and_then(|text| serde_json::from_slice::<Self>(&text).ok());
        read.filter(|found| found.is_sensible()).unwrap_or_default()
    }

    /// Keeps the placement in `folder`.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn save(self, folder: &Path) -> std::io::Result<()> {
        if !self.is_sensible() {
            return Ok(());
        }
        std::fs::create_dir_all(folder)?;
        let part = folder.join("window.json.part");
        std::fs::write(&part, serde_json::to_vec(&self)?)?;
        std::fs::rename(part, file(folder))
    }

    fn is_sensible(self) -> bool {
        let fits = |value: f64, least: f64| value.is_finite() && value >= least && value <= MOST;
        fits(self.width, LEAST.0) && fits(self.height, LEAST.1)
    }
}

fn file(folder: &Path) -> PathBuf {
    folder.join("window.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placement_survives_and_nonsense_does_not() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Placement::load(folder.path()), Placement::default());
        let kept = Placement { width: 1_300.0, height: 800.5, maximised: true };
        kept.save(folder.path()).unwrap();
        assert_eq!(Placement::load(folder.path()), kept);
        for text in [
            "",
            "{}",
            r#"{"width":1,"height":900,"maximised":false}"#,
            r#"{"width":1e9,"height":900,"maximised":false}"#,
        ] {
            std::fs::write(file(folder.path()), text).unwrap();
            assert_eq!(Placement::load(folder.path()), Placement::default(), "{text}");
        }
    }
}
