//! A desktop file in the user's `autostart` folder (XDG Autostart specification).

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
        Ok(found) => Ok(starts(&found, entry)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failed(&path, error)),
    }
}

fn path(entry: &Autostart) -> Result<PathBuf, AutostartError> {
    let config = std::env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| std::env::home_dir().filter(|home| home.is_absolute()).map(|home| home.join(".config")));
    match config {
        Some(config) => Ok(config.join("autostart").join(format!("{}.desktop", entry.id))),
        None => Err(failed(Path::new("~/.config/autostart"), ErrorKind::NotFound.into())),
    }
}

fn failed(path: &Path, source: std::io::Error) -> AutostartError {
    AutostartError { what: path.display().to_string(), source }
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    // Renamed into place: a session that starts this moment sees the old or the new one.
    let partial = path.with_extension("partial");
    fs::write(&partial, text)?;
    fs::rename(&partial, path)
}

fn text(entry: &Autostart) -> String {
    format!(
        "[Desktop Entry]\nType=Application\nVersion=1.0\nName={}\nExec={}\nTerminal=false\nX-GNOME-Autostart-enabled=true\n",
        value(&entry.title),
        value(&command(entry)),
    )
}

/// Desktops switch an entry off by one of two keys.
fn starts(text: &str, entry: &Autostart) -> bool {
    let line = |wanted: &str| text.lines().any(|line| line.trim_end() == wanted);
    line(&format!("Exec={}", value(&command(entry))))
        && !line("Hidden=true")
        && !line("X-GNOME-Autostart-enabled=false")
}

/// Quoting of the `Exec` key: each word in quotes, with the four characters escaped that mean something in them, and
/// `%`, which starts a field code, doubled.
fn command(entry: &Autostart) -> String {
    let words: Vec<String> = entry
        .words()
        .map(|word| {
            let mut quoted = String::from("\"");
            for c in word.chars() {
                match c {
                    '"' | '`' | '$' | '\\' => quoted.extend(['\\', c]),
                    '%' => quoted.push_str("%%"),
                    c => quoted.push(c),
                }
            }
            quoted.push('"');
            quoted
        })
        .collect();
    words.join(" ")
}

/// The general rule for values comes on top of it: a backslash is written twice.
fn value(text: &str) -> String {
    text.replace('\\', "\\\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Autostart {
        Autostart {
            id: "org.example.culvert".into(),
            title: "Culvert".into(),
            program: "/opt/my apps/100% \"sure\"$x".into(),
            arguments: vec!["--hidden".into(), "back\\slash".into()],
        }
    }

    #[test]
    fn quoting_follows_the_specification() {
        assert_eq!(
            text(&entry()).lines().nth(4),
            Some(r#"Exec="/opt/my apps/100%% \\"sure\\"\\$x" "--hidden" "back\\\\slash""#)
        );
    }

    #[test]
    fn switched_off_or_another_program_is_not_enabled() {
        let text = text(&entry());
        assert!(starts(&text, &entry()));
        assert!(!starts(&format!("{text}Hidden=true\n"), &entry()));
        assert!(!starts(&text.replace("enabled=true", "enabled=false"), &entry()));
        assert!(!starts(&text, &Autostart { arguments: Vec::new(), ..entry() }));
    }

    #[test]
    fn names_that_could_leave_the_folder_are_refused() {
        for id in ["../x", "", ".hidden", "a/b", "a b"] {
            assert!(Autostart { id: id.into(), ..entry() }.is_enabled().is_err(), "{id}");
        }
        assert!(Autostart { arguments: vec!["a\nHidden=true".into()], ..entry() }.enable().is_err());
        assert!(Autostart { program: "culvert".into(), ..entry() }.enable().is_err());
    }
}
