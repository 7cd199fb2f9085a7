//! A value under `HKCU\…\Run`.

use windows_registry::CURRENT_USER;

use crate::autostart::{Autostart, AutostartError};

const RUN: &str = r"Software\Microsoft\Windows\CurrentVersion\Run";
/// Where the Task Manager keeps what the person has switched off.
const APPROVED: &str = r"Software\Microsoft\Windows\CurrentVersion\Explorer\StartupApproved\Run";
/// `ERROR_FILE_NOT_FOUND` as a result code.
const NOT_FOUND: i32 = 0x8007_0002u32.cast_signed();

pub(crate) fn enable(entry: &Autostart) -> Result<(), AutostartError> {
    let key = CURRENT_USER.create(RUN).map_err(failed)?;
    key.set_string(&entry.id, command(entry)).map_err(failed)?;
    match CURRENT_USER.create(APPROVED).and_then(|key| key.remove_value(&entry.id)) {
        Err(error) if error.code().0 != NOT_FOUND => Err(failed(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

pub(crate) fn disable(entry: &Autostart) -> Result<(), AutostartError> {
    match CURRENT_USER.create(RUN).and_then(|key| key.remove_value(&entry.id)) {
        Err(error) if error.code().0 != NOT_FOUND => Err(failed(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

pub(crate) fn is_enabled(entry: &Autostart) -> Result<bool, AutostartError> {
    let key = CURRENT_USER.create(RUN).map_err(failed)?;
    match key.get_string(&entry.id) {
        Ok(found) => Ok(found == command(entry) && !is_switched_off(entry)),
        Err(error) if error.code().0 == NOT_FOUND => Ok(false),
        Err(error) => Err(failed(error)),
    }
}

/// Twelve bytes; an odd first one means "off".
fn is_switched_off(entry: &Autostart) -> bool {
    CURRENT_USER
        .open(APPROVED)
        .and_then(|key| key.get_value(&entry.id))
        .is_ok_and(|value| value.first().is_some_and(|byte| byte & 1 == 1))
}

fn failed(error: impl std::fmt::Display) -> AutostartError {
    AutostartError { what: RUN.into(), source: std::io::Error::other(error.to_string()) }
}

/// Quoted as the C runtime and the standard library take words apart.
fn command(entry: &Autostart) -> String {
    entry.words().map(quoted).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let mut out = String::from("\"");
    let mut backslashes = 0;
    for c in word.chars() {
        match c {
            '\\' => backslashes += 1,
            '"' => {
                out.extend(std::iter::repeat_n('\\', backslashes + 1));
                backslashes = 0;
            }
            _ => backslashes = 0,
        }
        out.push(c);
    }
    out.extend(std::iter::repeat_n('\\', backslashes));
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_they_are_taken_apart() {
        assert_eq!(quoted(r"C:\a b\c.exe"), r#""C:\a b\c.exe""#);
        assert_eq!(quoted(r"end\"), r#""end\\""#);
        assert_eq!(quoted(r#"say \"x""#), r#""say \\\"x\"""#);
    }
}
