//! A property list in the user's `LaunchAgents` folder.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::autostart::{Autostart, AutostartError};

pub(crate) fn enable(entry: &Autostart) -> Result<(), AutostartError> {
    let path = path(entry)?;
    write(&path, &text(entry)).map_err(|source| failed(&path, source))
}

pub(crate) fn disable(entry: &Autostart) -> Result<(), AutostartError> {
    let path = path(entry)?;
    match fs::remove_file(&path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(&path, error)),
    }
}

pub(crate) fn is_enabled(entry: &Autostart) -> Result<bool, AutostartError> {
    let path = path(entry)?;
    match fs::read_to_string(&path) {
        Ok(found) => Ok(found == text(entry)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failed(&path, error)),
    }
}

fn path(entry: &Autostart) -> Result<PathBuf, AutostartError> {
    match std::env::home_dir().filter(|home| home.is_absolute()) {
        Some(home) => Ok(home.join("Library/LaunchAgents").join(format!("{}.plist", entry.id))),
        None => Err(failed(Path::new("~/Library/LaunchAgents"), ErrorKind::NotFound.into())),
    }
}

fn failed(path: &Path, source: std::io::Error) -> AutostartError {
    AutostartError { what: path.display().to_string(), source }
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let partial = path.with_extension("partial");
    fs::write(&partial, text)?;
    fs::rename(&partial, path)
}

fn text(entry: &Autostart) -> String {
    let words: String = entry.words().map(|word| format!("\t\t<string>{}</string>\n", escaped(word))).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \
         \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n<plist version=\"1.0\">\n<dict>\n\t<key>Label</key>\n\
         \t<string>{}</string>\n\t<key>ProgramArguments</key>\n\t<array>\n{words}\t</array>\n\t<key>RunAtLoad</key>\n\
         \t<true/>\n\t<key>ProcessType</key>\n\t<string>Interactive</string>\n</dict>\n</plist>\n",
        escaped(&entry.id)
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
