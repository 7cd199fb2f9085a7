//! The pipe's access list. The only unsafe code of this crate.

use std::ffi::{OsStr, c_void};
use std::io;
use std::ptr;

use tokio::net::windows::named_pipe::{NamedPipeServer, ServerOptions};
use windows_sys::Win32::Foundation::LocalFree;
use windows_sys::Win32::Security::Authorization::{
    ConvertStringSecurityDescriptorToSecurityDescriptorW, SDDL_REVISION_1,
};
use windows_sys::Win32::Security::{PSECURITY_DESCRIPTOR, SECURITY_ATTRIBUTES};

/// A security descriptor that grants all to the owner of the pipe and nothing to anyone else;
/// `P` keeps inherited entries out.
const OWNER_ONLY: &str = "D:P(A;;GA;;;OW)";

/// The descriptor, made by the system and freed when dropped.
#[derive(Debug)]
pub(super) struct OwnerOnly {
    descriptor: PSECURITY_DESCRIPTOR,
}

// SAFETY: the descriptor is plain memory that nobody writes after it was made; it belongs to no
// thread.
unsafe impl Send for OwnerOnly {}
// SAFETY: as above; it is only read.
unsafe impl Sync for OwnerOnly {}

impl OwnerOnly {
    pub(super) fn new() -> io::Result<Self> {
        let text: Vec<u16> = OWNER_ONLY.encode_utf16().chain([0]).collect();
        let mut descriptor: PSECURITY_DESCRIPTOR = ptr::null_mut();
        // SAFETY: `text` ends with a zero and lives through the call; `descriptor` is a valid
        // place for the answer; the size is not asked for.
        let made = unsafe {
            ConvertStringSecurityDescriptorToSecurityDescriptorW(
                text.as_ptr(),
                SDDL_REVISION_1,
                &raw mut descriptor,
                ptr::null_mut(),
            )
        };
        if made == 0 { Err(io::Error::last_os_error()) } else { Ok(Self { descriptor }) }
    }

    pub(super) fn create(&self, options: &ServerOptions, name: &OsStr) -> io::Result<NamedPipeServer> {
        let mut attributes = SECURITY_ATTRIBUTES {
            nLength: u32::try_from(size_of::<SECURITY_ATTRIBUTES>()).unwrap_or(0),
            lpSecurityDescriptor: self.descriptor,
            bInheritHandle: 0,
        };
        // SAFETY: `attributes` is a filled SECURITY_ATTRIBUTES whose descriptor lives as long as
        // `self`, which outlives the call.
        unsafe { options.create_with_security_attributes_raw(name, (&raw mut attributes).cast::<c_void>()) }
    }
}

impl Drop for OwnerOnly {
    fn drop(&mut self) {
        // SAFETY: the descriptor came from ConvertStringSecurityDescriptor…, which says to free it
        // by LocalFree, and nothing uses it after this.
        unsafe { LocalFree(self.descriptor) };
    }
}
