//! Signals, which the standard library has no words for.

/// Makes this process ignore the polite signals (hang-up, interrupt, terminate, broken pipe). SIGKILL works as ever.
pub(crate) fn ignore_requests_to_end() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM, libc::SIGQUIT, libc::SIGPIPE] {
        // SAFETY: `signal` takes a valid signal number and the constant SIG_IGN, installs no handler of ours, and
        // touches no memory of this program.
        unsafe {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}
