//! The system's tables of sockets and its calls about processes. All `unsafe` of the process lookup is here.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use windows_sys::Win32::Foundation::{CloseHandle, ERROR_INSUFFICIENT_BUFFER, ERROR_SUCCESS, HANDLE};
use windows_sys::Win32::NetworkManagement::IpHelper::{
    GetExtendedTcpTable, GetExtendedUdpTable, MIB_TCP6ROW_OWNER_PID, MIB_TCPROW_OWNER_PID, MIB_UDP6ROW_OWNER_PID,
    MIB_UDPROW_OWNER_PID, TCP_TABLE_OWNER_PID_ALL, UDP_TABLE_OWNER_PID,
};
use windows_sys::Win32::Networking::WinSock::{AF_INET, AF_INET6};
use windows_sys::Win32::Security::{EqualSid, GetTokenInformation, TOKEN_QUERY, TOKEN_USER, TokenUser};
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, OpenProcess, OpenProcessToken, PROCESS_QUERY_LIMITED_INFORMATION, QueryFullProcessImageNameW,
};

use crate::process::Transport;

/// A socket of the tables; UDP sockets have no far end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Socket {
    pub(crate) local: SocketAddr,
    pub(crate) remote: Option<SocketAddr>,
    pub(crate) pid: u32,
}

/// All sockets of a kind.
pub(crate) fn sockets(transport: Transport) -> io::Result<Vec<Socket>> {
    let mut all = Vec::new();
    for family in [AF_INET, AF_INET6] {
        let family = u32::from(family);
        match transport {
            Transport::Tcp => {
                let table = table(|buffer, size| {
                    // SAFETY: `buffer` is null or has `size` bytes, and `size` may be written.
                    unsafe { GetExtendedTcpTable(buffer, size, 0, family, TCP_TABLE_OWNER_PID_ALL, 0) }
                })?;
                if family == u32::from(AF_INET) {
                    // SAFETY: this table has rows of that type.
                    all.extend(unsafe { rows::<MIB_TCPROW_OWNER_PID>(&table) }.map(|row| Socket {
                        local: v4(row.dwLocalAddr, row.dwLocalPort),
                        remote: Some(v4(row.dwRemoteAddr, row.dwRemotePort)),
                        pid: row.dwOwningPid,
                    }));
                } else {
                    // SAFETY: this table has rows of that type.
                    all.extend(unsafe { rows::<MIB_TCP6ROW_OWNER_PID>(&table) }.map(|row| Socket {
                        local: v6(row.ucLocalAddr, row.dwLocalPort),
                        remote: Some(v6(row.ucRemoteAddr, row.dwRemotePort)),
                        pid: row.dwOwningPid,
                    }));
                }
            }
            Transport::Udp => {
                let table = table(|buffer, size| {
                    // SAFETY: `buffer` is null or has `size` bytes, and `size` may be written.
                    unsafe { GetExtendedUdpTable(buffer, size, 0, family, UDP_TABLE_OWNER_PID, 0) }
                })?;
                if family == u32::from(AF_INET) {
                    // SAFETY: this table has rows of that type.
                    all.extend(unsafe { rows::<MIB_UDPROW_OWNER_PID>(&table) }.map(|row| Socket {
                        local: v4(row.dwLocalAddr, row.dwLocalPort),
                        remote: None,
                        pid: row.dwOwningPid,
                    }));
                } else {
                    // SAFETY: this table has rows of that type.
                    all.extend(unsafe { rows::<MIB_UDP6ROW_OWNER_PID>(&table) }.map(|row| Socket {
                        local: v6(row.ucLocalAddr, row.dwLocalPort),
                        remote: None,
                        pid: row.dwOwningPid,
                    }));
                }
            }
        }
    }
    Ok(all)
}

/// Reads a table that may grow between asking for its size and reading it.
fn table(mut read: impl FnMut(*mut core::ffi::c_void, *mut u32) -> u32) -> io::Result<Vec<u8>> {
    let mut buffer: Vec<u8> = vec![0; 16 * 1024];
    for _ in 0..5 {
        let mut size = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
        match read(buffer.as_mut_ptr().cast(), &raw mut size) {
            ERROR_SUCCESS => return Ok(buffer),
            ERROR_INSUFFICIENT_BUFFER => {
                let needed = usize::try_from(size).unwrap_or_default();
                buffer = vec![0; needed + needed / 8 + 4096];
            }
            code => return Err(io::Error::from_raw_os_error(code.cast_signed())),
        }
    }
    Err(io::ErrorKind::OutOfMemory.into())
}

/// The rows of a table: a count, then that many rows (all of them of four-byte words).
///
/// # Safety
/// `Row` is the plain C structure of the table's rows, for which any bytes are a value.
unsafe fn rows<Row: Copy>(table: &[u8]) -> impl Iterator<Item = Row> {
    let count = table.first_chunk().map_or(0, |count| u32::from_ne_bytes(*count));
    table
        .get(4..)
        .unwrap_or_default()
        .chunks_exact(size_of::<Row>())
        .take(usize::try_from(count).unwrap_or_default())
        // SAFETY: the chunk has the row's size, and the caller says that any bytes are a row.
        .map(|row| unsafe { row.as_ptr().cast::<Row>().read_unaligned() })
}

/// The port stands in the lower two bytes, in network order.
fn port(word: u32) -> u16 {
    let [high, low, ..] = word.to_ne_bytes();
    u16::from_be_bytes([high, low])
}

fn v4(address: u32, word: u32) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::from(address.to_ne_bytes()).into(), port(word))
}

fn v6(address: [u8; 16], word: u32) -> SocketAddr {
    SocketAddr::new(Ipv6Addr::from(address).into(), port(word))
}

/// A handle that is closed when dropped.
struct Handle(HANDLE);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle was given to us by a call that worked, and is closed once.
        unsafe { CloseHandle(self.0) };
    }
}

/// What can be learnt of a process: its program, and whether its user is ours.
pub(crate) fn process(pid: u32) -> (Option<PathBuf>, Option<bool>) {
    // SAFETY: the call takes numbers only.
    let handle = unsafe { OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, pid) };
    if handle.is_null() {
        return (None, None);
    }
    let handle = Handle(handle);
    (program(&handle), same_user(&handle))
}

fn program(process: &Handle) -> Option<PathBuf> {
    use std::os::windows::ffi::OsStringExt;
    let mut buffer = vec![0u16; 32 * 1024];
    let mut length = u32::try_from(buffer.len()).ok()?;
    // SAFETY: the handle is open; `buffer` has `length` units, and the call writes back how many it used.
    if unsafe { QueryFullProcessImageNameW(process.0, 0, buffer.as_mut_ptr(), &raw mut length) } == 0 {
        return None;
    }
    Some(PathBuf::from(std::ffi::OsString::from_wide(buffer.get(..usize::try_from(length).ok()?)?)))
}

fn same_user(process: &Handle) -> Option<bool> {
    // SAFETY: this pseudo handle needs no closing.
    let ours = token_user(unsafe { GetCurrentProcess() })?;
    let theirs = token_user(process.0)?;
    // SAFETY: both buffers begin with a TOKEN_USER, filled by the system, whose identifier points into the same
    // buffer; they are aligned (words of eight bytes) and live here.
    unsafe {
        let ours = &*ours.as_ptr().cast::<TOKEN_USER>();
        let theirs = &*theirs.as_ptr().cast::<TOKEN_USER>();
        Some(EqualSid(ours.User.Sid, theirs.User.Sid) != 0)
    }
}

/// The user part of a process's token, in a buffer aligned for it.
fn token_user(process: HANDLE) -> Option<Vec<u64>> {
    let mut token: HANDLE = std::ptr::null_mut();
    // SAFETY: the handle is open; the call writes a handle to `token`.
    if unsafe { OpenProcessToken(process, TOKEN_QUERY, &raw mut token) } == 0 {
        return None;
    }
    let token = Handle(token);
    // A TOKEN_USER with the longest identifier (68 bytes).
    let mut buffer = vec![0u64; 16];
    let size = u32::try_from(buffer.len() * 8).ok()?;
    let mut used = 0;
    // SAFETY: the handle is open; `buffer` has `size` bytes.
    let done = unsafe { GetTokenInformation(token.0, TokenUser, buffer.as_mut_ptr().cast(), size, &raw mut used) };
    (done != 0).then_some(buffer)
}
