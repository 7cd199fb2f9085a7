//! Starting with the person's session: an XDG desktop file, a `Run` value, a `LaunchAgent`.

use std::path::PathBuf;

/// The entry could not be read or changed.
#[derive(Debug, thiserror::Error)]
#[error("starting at login ({what}) can't be changed: {source}")]
pub struct AutostartError {
    /// The file or key.
    pub what: String,
    /// The failure.
    pub source: std::io::Error,
}

/// The program to start at login, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Autostart {
    /// Names the entry: letters, digits, dots and hyphens, such as `org.example.culvert`.
    pub id: String,
    /// What the person sees in the system's list.
    pub title: String,
    /// The program, as an absolute path.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
}

impl Autostart {
    /// Makes or renews the entry.
    ///
    /// # Errors
    /// When the folder or key can't be written, or a name can't be expressed there.
    pub fn enable(&self) -> Result<(), AutostartError> {
        self.check()?;
        crate::os::autostart::enable(self)
    }

    /// Takes the entry away; its absence is fine.
    ///
    /// # Errors
    /// When it can't be removed.
    pub fn disable(&self) -> Result<(), AutostartError> {
        self.check()?;
        crate::os::autostart::disable(self)
    }

    /// Whether the entry is there, starts this program with these arguments, and isn't switched off.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn is_enabled(&self) -> Result<bool, AutostartError> {
        self.check()?;
        crate::os::autostart::is_enabled(self)
    }

    fn check(&self) -> Result<(), AutostartError> {
        let wrong = |why: &str| {
            Err(AutostartError {
                what: self.id.clone(),
                source: std::io::Error::new(std::io::ErrorKind::InvalidInput, why.to_owned()),
            })
        };
        let good = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
        if self.id.is_empty() || !self.id.chars().all(good) || self.id.starts_with('.') {
            return wrong("the name may hold letters, digits, dots and hyphens");
        }
        let control = |text: &str| text.chars().any(char::is_control);
        if !self.program.is_absolute() || self.program.to_str().is_none_or(control) {
            return wrong("the program must be an absolute path in plain text");
        }
        if control(&self.title) || self.arguments.iter().any(|argument| control(argument)) {
            return wrong("title and arguments may not hold control characters");
        }
        Ok(())
    }

    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.program.to_str().unwrap_or_default()).chain(self.arguments.iter().map(String::as_str))
    }
}
