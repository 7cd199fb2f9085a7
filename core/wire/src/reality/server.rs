//! The server: recognises a client by its session id and answers with a proof.

use aws_lc_rs::aead::Aad;
use aws_lc_rs::hmac;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use zeroize::Zeroizing;

use super::{SESSION_ID, auth_key, certificate, session_cipher, session_nonce};
use crate::random::Random;
use crate::tls::{ClientHello, ServerHandshake, TlsError, X25519, X25519_MLKEM768, exchange};

/// What a server accepts.
pub struct ServerOptions {
    private_key: Zeroizing<[u8; 32]>,
    short_ids: Vec<[u8; 8]>,
    server_names: Vec<String>,
    least_version: [u8; 3],
}

impl ServerOptions {
    /// A server with an X25519 private key, for these short ids and server names, and clients of
    /// `least_version` or newer.
    pub fn new(
        private_key: [u8; 32],
        short_ids: Vec<[u8; 8]>,
        server_names: Vec<String>,
        least_version: [u8; 3],
    ) -> Self {
        Self { private_key: Zeroizing::new(private_key), short_ids, server_names, least_version }
    }

    /// The public key that clients need.
    pub fn public_key(&self) -> Result<[u8; 32], TlsError> {
        exchange::x25519_public(&self.private_key)
    }

    /// Whether a hello comes from a client that knows the key. `None` means: show it the real site.
    pub fn recognise(&self, hello: &ClientHello<'_>) -> Option<Recognised> {
        let name = hello.server_name?;
        if !hello.offers_tls13() || !self.server_names.iter().any(|known| known == name) || hello.session_id.len() != 32
        {
            return None;
        }
        let find = |group| hello.shares.iter().find(|(other, _)| *other == group).map(|(_, share)| *share);
        let share = match find(X25519) {
            Some(share) => share,
            None => find(X25519_MLKEM768).filter(|share| share.len() == 1184 + 32)?.get(1184..)?,
        };
        let shared = exchange::x25519(&self.private_key, share).ok()?;
        let key = auth_key(&shared, hello.random)?;
        let mut image = hello.message.to_vec();
        image.get_mut(SESSION_ID)?.fill(0);
        let mut sealed: [u8; 32] = hello.session_id.try_into().ok()?;
        let plain =
            session_cipher(&key)?.open_in_place(session_nonce(hello.random)?, Aad::from(image), &mut sealed).ok()?;
        let version = [plain[0], plain[1], plain[2]];
        let unix_seconds = u32::from_be_bytes([plain[4], plain[5], plain[6], plain[7]]);
        let short_id: [u8; 8] = plain[8..16].try_into().ok()?;
        (version >= self.least_version && self.short_ids.contains(&short_id)).then_some(Recognised {
            auth_key: key,
            unix_seconds,
            version,
        })
    }
}

/// A client that was recognised.
pub struct Recognised {
    pub(super) auth_key: Zeroizing<[u8; 32]>,
    /// The client's clock.
    pub unix_seconds: u32,
    /// The client's version.
    pub version: [u8; 3],
}

/// Answers a recognised client's hello with a temporary certificate that carries the proof.
pub fn answer(
    hello: &ClientHello<'_>,
    client: &Recognised,
    random: &mut dyn Random,
) -> Result<ServerHandshake, TlsError> {
    let mut seed = Zeroizing::new([0; 32]);
    random.fill(seed.as_mut());
    let key = Ed25519KeyPair::from_seed_unchecked(seed.as_ref()).map_err(|_| TlsError::Crypto("Ed25519 key"))?;
    let public = key.public_key().as_ref().to_vec();
    let proof = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA512, client.auth_key.as_slice()), &public);
    ServerHandshake::answer(hello, &key, |_| certificate::build(&public, proof.as_ref()), random)
}
