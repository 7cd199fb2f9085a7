//! The C library's calls that have no safe wrapper.

use std::ffi::CStr;
use std::io;
use std::path::PathBuf;

/// The value of a system variable, whole. It may grow between asking for its size and reading it, so some room is
/// added and the call repeated.
pub(crate) fn read(name: &CStr) -> io::Result<Vec<u8>> {
    for _ in 0..4 {
        let mut size = 0;
        // SAFETY: `name` ends with a zero; a null buffer makes the call write only the needed size to `size`.
        if unsafe { libc::sysctlbyname(name.as_ptr(), std::ptr::null_mut(), &raw mut size, std::ptr::null_mut(), 0) }
            != 0
        {
            return Err(io::Error::last_os_error());
        }
        let mut buffer = vec![0u8; size + size / 8 + 4096];
        let mut length = buffer.len();
        // SAFETY: `buffer` has `length` bytes for the call to fill; it writes back how many it used.
        let code = unsafe {
            libc::sysctlbyname(name.as_ptr(), buffer.as_mut_ptr().cast(), &raw mut length, std::ptr::null_mut(), 0)
        };
        if code == 0 {
            buffer.truncate(length);
            return Ok(buffer);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ENOMEM) {
            return Err(error);
        }
    }
    Err(io::Error::from_raw_os_error(libc::ENOMEM))
}

/// The file of a process's program.
pub(crate) fn program_of(pid: u32) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let pid = i32::try_from(pid).ok()?;
    // PROC_PIDPATHINFO_MAXSIZE.
    let mut buffer = vec![0u8; 4096];
    let size = u32::try_from(buffer.len()).ok()?;
    // SAFETY: `buffer` has `size` bytes; the call writes at most so many and returns how many it wrote.
    let length = unsafe { libc::proc_pidpath(pid, buffer.as_mut_ptr().cast(), size) };
    buffer.truncate(usize::try_from(length).ok().filter(|length| *length > 0)?);
    Some(PathBuf::from(std::ffi::OsString::from_vec(buffer)))
}

/// Makes this process ignore the polite signals. SIGKILL works as ever.
pub(crate) fn ignore_requests_to_end() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM, libc::SIGQUIT, libc::SIGPIPE] {
        // SAFETY: `signal` takes a valid signal number and the constant SIG_IGN, installs no handler of ours, and
        // touches no memory of this program.
        unsafe {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}
