//! REALITY: a ClientHello that a server recognises by its sealed session id, and a certificate that
//! proves to the client that it was recognised. Everyone else is shown the real site.

mod certificate;
mod client;
mod server;

pub use client::{OptionError, Options, RealityAuth, VERSION, Verdict};
pub use server::{Recognised, ServerOptions, answer};

use aws_lc_rs::{aead, hkdf};
use zeroize::Zeroizing;

/// Where the session id lies in a ClientHello message.
const SESSION_ID: std::ops::Range<usize> = 39..71;
/// Where the random lies.
const RANDOM: std::ops::Range<usize> = 6..38;

/// The key that both sides derive from the X25519 secret and the hello's random.
fn auth_key(shared: &[u8], random: &[u8]) -> Option<Zeroizing<[u8; 32]>> {
    struct Length;
    impl hkdf::KeyType for Length {
        fn len(&self) -> usize {
            32
        }
    }
    let mut key = Zeroizing::new([0; 32]);
    hkdf::Salt::new(hkdf::HKDF_SHA256, random.get(..20)?)
        .extract(shared)
        .expand(&[b"REALITY"], Length)
        .and_then(|expanded| expanded.fill(key.as_mut()))
        .ok()?;
    Some(key)
}

fn session_cipher(key: &[u8; 32]) -> Option<aead::LessSafeKey> {
    Some(aead::LessSafeKey::new(aead::UnboundKey::new(&aead::AES_256_GCM, key).ok()?))
}

fn session_nonce(random: &[u8]) -> Option<aead::Nonce> {
    aead::Nonce::try_assume_unique_for_key(random.get(20..32)?).ok()
}

#[cfg(test)]
mod tests;
