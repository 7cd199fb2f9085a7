//! The client: seals its session id, checks the server's proof.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use aws_lc_rs::aead::Aad;
use aws_lc_rs::{hmac, signature};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::{RANDOM, SESSION_ID, auth_key, certificate, session_cipher, session_nonce};
use crate::tls::{CertificateError, Evidence, ServerAuth, Share, TlsError, X25519, X25519_MLKEM768};

/// The client version that is announced. Servers refuse what is older than their own limit
/// (26.3.27 by default in 2026) and show the real site.
pub const VERSION: [u8; 3] = [26, 7, 28];

const ED25519_SCHEME: u16 = 0x0807;
const MLDSA65_KEY: usize = 1952;

/// A node's REALITY options, checked.
#[derive(Clone)]
pub struct Options {
    public_key: [u8; 32],
    short_id: [u8; 8],
    version: [u8; 3],
    mldsa65_key: Option<Vec<u8>>,
}

/// Why REALITY options can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// The public key has not 32 bytes.
    #[error("the REALITY public key is not 32 bytes of base64url")]
    PublicKey,
    /// The short id is not hex, odd, or too long.
    #[error("the REALITY short id is not an even count of at most 16 hex digits")]
    ShortId,
    /// The ML-DSA-65 key has not 1952 bytes.
    #[error("the REALITY ML-DSA-65 key is not 1952 bytes of base64url")]
    Mldsa65Key,
}

impl Options {
    /// Options of raw keys and the short id's hex digits. `mldsa65_key` is the key that the server
    /// must also sign with, where a node has one.
    pub fn new(public_key: &[u8], short_id: &str, mldsa65_key: Option<Vec<u8>>) -> Result<Self, OptionError> {
        let public_key = public_key.try_into().map_err(|_| OptionError::PublicKey)?;
        let digits = short_id.as_bytes();
        if digits.len() > 16 || !digits.len().is_multiple_of(2) {
            return Err(OptionError::ShortId);
        }
        let mut id = [0; 8];
        for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16).ok_or(OptionError::ShortId);
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        if mldsa65_key.as_ref().is_some_and(|key| key.len() != MLDSA65_KEY) {
            return Err(OptionError::Mldsa65Key);
        }
        Ok(Self { public_key, short_id: id, version: VERSION, mldsa65_key })
    }

    /// Announces another client version.
    #[must_use]
    pub fn with_version(mut self, version: [u8; 3]) -> Self {
        self.version = version;
        self
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("version", &self.version).finish_non_exhaustive()
    }
}

/// What the server turned out to be.
#[derive(Debug, Clone, Default)]
pub struct Verdict(Arc<AtomicU8>);

const RECOGNISED: u8 = 1;
const REAL_SITE: u8 = 2;

impl Verdict {
    /// Whether the server proved that it holds the key. Only then may anything but a browser's
    /// request be sent.
    pub fn recognised(&self) -> bool {
        self.0.load(Ordering::Acquire) == RECOGNISED
    }

    /// Whether the server showed the real site's valid certificate instead.
    pub fn real_site(&self) -> bool {
        self.0.load(Ordering::Acquire) == REAL_SITE
    }
}

/// Authenticates a REALITY server.
pub struct RealityAuth {
    options: Options,
    unix_seconds: u32,
    auth_key: Option<Zeroizing<[u8; 32]>>,
    server_key: Option<[u8; 32]>,
    verdict: Verdict,
    web: Box<dyn ServerAuth>,
}

impl RealityAuth {
    /// `unix_seconds` is now; `web` judges the certificate when the proof is absent, as a browser
    /// that visits the real site would.
    pub fn new(options: Options, unix_seconds: u32, web: Box<dyn ServerAuth>) -> Self {
        Self { options, unix_seconds, auth_key: None, server_key: None, verdict: Verdict::default(), web }
    }

    /// A handle that tells, after the handshake, what the server was.
    pub fn verdict(&self) -> Verdict {
        self.verdict.clone()
    }

    fn proven(&self, evidence: &Evidence<'_>) -> Option<[u8; 32]> {
        let leaf = certificate::parse(evidence.chain.first()?)?;
        let key = hmac::Key::new(hmac::HMAC_SHA512, self.auth_key.as_ref()?.as_slice());
        let expected = hmac::sign(&key, leaf.public_key);
        if !bool::from(expected.as_ref().ct_eq(leaf.signature)) {
            return None;
        }
        if let Some(verify_key) = &self.options.mldsa65_key {
            let mut context = hmac::Context::with_key(&key);
            context.update(leaf.public_key);
            context.update(evidence.client_hello);
            context.update(evidence.server_hello);
            signature::UnparsedPublicKey::new(&signature::ML_DSA_65, verify_key)
                .verify(context.sign().as_ref(), leaf.first_extension?)
                .ok()?;
        }
        Some(*leaf.public_key)
    }
}

impl ServerAuth for RealityAuth {
    fn finish_hello(&mut self, hello: &mut [u8], shares: &[Share]) -> Result<(), TlsError> {
        let find = |group| shares.iter().find(|share| share.group() == group);
        let share = find(X25519)
            .or_else(|| find(X25519_MLKEM768))
            .ok_or(TlsError::Configuration("REALITY needs a fingerprint with an X25519 key share"))?;
        let shared = share
            .x25519_with(&self.options.public_key)
            .unwrap_or(Err(TlsError::Configuration("REALITY needs a fingerprint with an X25519 key share")))
            .map_err(|_| TlsError::Configuration("the REALITY public key is no valid X25519 key"))?;
        let failed = TlsError::Crypto("REALITY session id");
        let random = hello.get(RANDOM).ok_or(failed.clone())?.to_vec();
        let key = auth_key(&shared, &random).ok_or(failed.clone())?;
        let mut plain = [0; 16];
        plain[..3].copy_from_slice(&self.options.version);
        plain[4..8].copy_from_slice(&self.unix_seconds.to_be_bytes());
        plain[8..].copy_from_slice(&self.options.short_id);
        hello.get_mut(SESSION_ID).ok_or(failed.clone())?.fill(0);
        let cipher = session_cipher(&key).ok_or(failed.clone())?;
        let nonce = session_nonce(&random).ok_or(failed.clone())?;
        let tag = cipher.seal_in_place_separate_tag(nonce, Aad::from(&*hello), &mut plain).map_err(|_| failed)?;
        hello[SESSION_ID.start..SESSION_ID.start + 16].copy_from_slice(&plain);
        hello[SESSION_ID.start + 16..SESSION_ID.end].copy_from_slice(tag.as_ref());
        self.auth_key = Some(key);
        Ok(())
    }

    fn ordinary(&self) -> bool {
        false
    }

    fn check_chain(&mut self, evidence: &Evidence<'_>) -> Result<(), CertificateError> {
        self.server_key = self.proven(evidence);
        if self.server_key.is_some() {
            return Ok(());
        }
        self.web.check_chain(evidence)
    }

    fn check_signature(
        &mut self,
        scheme: u16,
        offered: &[u16],
        certificate: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), CertificateError> {
        let Some(key) = self.server_key else {
            self.web.check_signature(scheme, offered, certificate, message, signature)?;
            self.verdict.0.store(REAL_SITE, Ordering::Release);
            return Ok(());
        };
        if scheme != ED25519_SCHEME {
            return Err(CertificateError::Scheme(scheme));
        }
        signature::UnparsedPublicKey::new(&signature::ED25519, key)
            .verify(message, signature)
            .map_err(|_| CertificateError::Signature)?;
        self.verdict.0.store(RECOGNISED, Ordering::Release);
        Ok(())
    }
}
