//! The calls of WinINet and RAS about proxies. All `unsafe` of the proxy settings is here.

use std::io;

use windows_sys::Win32::Foundation::{ERROR_SUCCESS, GlobalFree};
use windows_sys::Win32::NetworkManagement::Rras::{ERROR_BUFFER_TOO_SMALL, RASENTRYNAMEW, RasEnumEntriesW};
use windows_sys::Win32::Networking::WinInet::{
    INTERNET_OPTION_PER_CONNECTION_OPTION, INTERNET_OPTION_PROXY_SETTINGS_CHANGED, INTERNET_OPTION_REFRESH,
    INTERNET_OPTION_SETTINGS_CHANGED, INTERNET_PER_CONN_AUTOCONFIG_URL, INTERNET_PER_CONN_FLAGS,
    INTERNET_PER_CONN_FLAGS_UI, INTERNET_PER_CONN_OPTION_LISTW, INTERNET_PER_CONN_OPTIONW, INTERNET_PER_CONN_OPTIONW_0,
    INTERNET_PER_CONN_PROXY_BYPASS, INTERNET_PER_CONN_PROXY_SERVER, InternetQueryOptionW, InternetSetOptionW,
};

/// No text of the settings is longer; a longer one is cut rather than read on.
const TEXT_LIMIT: usize = 64 * 1024;
/// More dial-up and VPN connections than anyone has.
const CONNECTIONS_LIMIT: usize = 256;

/// The settings of one connection; an absent text was never set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Settings {
    pub(crate) flags: u32,
    pub(crate) server: Option<String>,
    pub(crate) bypass: Option<String>,
    pub(crate) script: Option<String>,
}

/// Reads the settings of a connection; `None` is the local network's.
pub(crate) fn read(connection: Option<&str>) -> io::Result<Settings> {
    // Only the newer question tells what the person sees; older systems know the other.
    query(connection, INTERNET_PER_CONN_FLAGS_UI).or_else(|_| query(connection, INTERNET_PER_CONN_FLAGS))
}

fn query(connection: Option<&str>, flags: u32) -> io::Result<Settings> {
    let mut name = connection.map(wide);
    let empty = INTERNET_PER_CONN_OPTIONW_0 { pszValue: std::ptr::null_mut() };
    let mut options =
        [flags, INTERNET_PER_CONN_PROXY_SERVER, INTERNET_PER_CONN_PROXY_BYPASS, INTERNET_PER_CONN_AUTOCONFIG_URL]
            .map(|option| INTERNET_PER_CONN_OPTIONW { dwOption: option, Value: empty });
    let mut list = list(&mut name, &mut options);
    let mut size = list.dwSize;
    // SAFETY: `list` and the arrays it points to (`name`, ended by a zero, and `options`, of the length it says) live
    // through the call and aren't touched meanwhile; `size` is the size of `list`.
    let done = unsafe {
        InternetQueryOptionW(
            std::ptr::null(),
            INTERNET_OPTION_PER_CONNECTION_OPTION,
            (&raw mut list).cast(),
            &raw mut size,
        )
    };
    if done == 0 {
        return Err(io::Error::last_os_error());
    }
    let [flags, server, bypass, script] = options;
    // SAFETY: after a call that worked, the first option holds a number and the others a text that the system has
    // allocated for us, or null.
    unsafe {
        Ok(Settings { flags: flags.Value.dwValue, server: take(server), bypass: take(bypass), script: take(script) })
    }
}

/// Writes the settings of a connection whole; an absent text is written as an empty one.
pub(crate) fn write(connection: Option<&str>, settings: &Settings) -> io::Result<()> {
    let mut name = connection.map(wide);
    let mut texts =
        [&settings.server, &settings.bypass, &settings.script].map(|text| wide(text.as_deref().unwrap_or_default()));
    let [server, bypass, script] = &mut texts;
    let text = |text: &mut Vec<u16>| INTERNET_PER_CONN_OPTIONW_0 { pszValue: text.as_mut_ptr() };
    let mut options = [
        (INTERNET_PER_CONN_FLAGS, INTERNET_PER_CONN_OPTIONW_0 { dwValue: settings.flags }),
        (INTERNET_PER_CONN_PROXY_SERVER, text(server)),
        (INTERNET_PER_CONN_PROXY_BYPASS, text(bypass)),
        (INTERNET_PER_CONN_AUTOCONFIG_URL, text(script)),
    ]
    .map(|(option, value)| INTERNET_PER_CONN_OPTIONW { dwOption: option, Value: value });
    let list = list(&mut name, &mut options);
    // SAFETY: `list` and all it points to (`name`, `options`, `texts`, each text ended by a zero) live through the
    // call, which only reads them and copies what it keeps.
    let done = unsafe {
        InternetSetOptionW(
            std::ptr::null(),
            INTERNET_OPTION_PER_CONNECTION_OPTION,
            (&raw const list).cast(),
            list.dwSize,
        )
    };
    if done == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Tells the running programs that settings have changed.
pub(crate) fn announce() {
    for option in [INTERNET_OPTION_PROXY_SETTINGS_CHANGED, INTERNET_OPTION_SETTINGS_CHANGED, INTERNET_OPTION_REFRESH] {
        // SAFETY: these options take no buffer: null with length 0 is what they are documented with.
        if unsafe { InternetSetOptionW(std::ptr::null(), option, std::ptr::null(), 0) } == 0 {
            tracing::debug!(option, "an announcement of changed proxy settings was refused");
        }
    }
}

/// The names of the dial-up and VPN connections of this user and machine.
pub(crate) fn connections() -> io::Result<Vec<String>> {
    let entry = || RASENTRYNAMEW { dwSize: size_of_u32::<RASENTRYNAMEW>(), ..Default::default() };
    let mut entries = vec![entry()];
    for _ in 0..3 {
        let mut size = u32::try_from(entries.len() * size_of::<RASENTRYNAMEW>()).unwrap_or(u32::MAX);
        let mut count = 0;
        // SAFETY: null for phone book and reserved mean the default ones; `entries` has `size` bytes and its first
        // element carries the size of one, as the call asks; `size` and `count` are written back.
        let code = unsafe {
            RasEnumEntriesW(std::ptr::null(), std::ptr::null(), entries.as_mut_ptr(), &raw mut size, &raw mut count)
        };
        match code {
            ERROR_SUCCESS => {
                entries.truncate(usize::try_from(count).unwrap_or_default());
                return Ok(entries
                    .iter()
                    .map(|entry| text_of(&entry.szEntryName))
                    .filter(|name| !name.is_empty())
                    .collect());
            }
            ERROR_BUFFER_TOO_SMALL => {
                let needed = usize::try_from(size).unwrap_or_default().div_ceil(size_of::<RASENTRYNAMEW>());
                entries = (0..needed.clamp(1, CONNECTIONS_LIMIT)).map(|_| entry()).collect();
            }
            code => return Err(io::Error::from_raw_os_error(code.cast_signed())),
        }
    }
    Ok(Vec::new())
}

fn list(name: &mut Option<Vec<u16>>, options: &mut [INTERNET_PER_CONN_OPTIONW; 4]) -> INTERNET_PER_CONN_OPTION_LISTW {
    INTERNET_PER_CONN_OPTION_LISTW {
        dwSize: size_of_u32::<INTERNET_PER_CONN_OPTION_LISTW>(),
        pszConnection: name.as_mut().map_or(std::ptr::null_mut(), |name| name.as_mut_ptr()),
        dwOptionCount: 4,
        dwOptionError: 0,
        pOptions: options.as_mut_ptr(),
    }
}

/// Copies an option's text and frees it.
///
/// # Safety
/// The option's value is null or a text ended by a zero that the system has allocated for the caller and that nobody
/// else frees.
unsafe fn take(option: INTERNET_PER_CONN_OPTIONW) -> Option<String> {
    // SAFETY: the caller says that the value is a pointer.
    let pointer = unsafe { option.Value.pszValue };
    if pointer.is_null() {
        return None;
    }
    let mut length = 0;
    // SAFETY: the text ends with a zero, so every place up to it may be read.
    while length < TEXT_LIMIT && unsafe { *pointer.add(length) } != 0 {
        length += 1;
    }
    // SAFETY: `length` places were just read, and nobody changes them.
    let text = String::from_utf16_lossy(unsafe { std::slice::from_raw_parts(pointer, length) });
    // SAFETY: WinINet allocates these texts with GlobalAlloc for the caller to free; it isn't used after this.
    unsafe { GlobalFree(pointer.cast()) };
    Some(text)
}

fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().filter(|unit| *unit != 0).chain([0]).collect()
}

fn text_of(units: &[u16]) -> String {
    let end = units.iter().position(|unit| *unit == 0).unwrap_or(units.len());
    String::from_utf16_lossy(units.get(..end).unwrap_or_default())
}

fn size_of_u32<T>() -> u32 {
    u32::try_from(size_of::<T>()).unwrap_or(u32::MAX)
}
