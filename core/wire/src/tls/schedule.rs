//! Cipher suites and the key schedule of TLS 1.3 (RFC 8446 §7).

use aws_lc_rs::{aead, digest, hmac};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// A cipher suite of TLS 1.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// TLS_AES_128_GCM_SHA256.
    Aes128Gcm,
    /// TLS_AES_256_GCM_SHA384.
    Aes256Gcm,
    /// TLS_CHACHA20_POLY1305_SHA256.
    Chacha20Poly1305,
}

impl Suite {
    /// The suite with this number.
    pub fn from_code(code: u16) -> Option<Self> {
        match code {
            0x1301 => Some(Self::Aes128Gcm),
            0x1302 => Some(Self::Aes256Gcm),
            0x1303 => Some(Self::Chacha20Poly1305),
            _ => None,
        }
    }

    /// The suite's number.
    pub fn code(self) -> u16 {
        match self {
            Self::Aes128Gcm => 0x1301,
            Self::Aes256Gcm => 0x1302,
            Self::Chacha20Poly1305 => 0x1303,
        }
    }

    pub(crate) fn digest(self) -> &'static digest::Algorithm {
        match self {
            Self::Aes128Gcm | Self::Chacha20Poly1305 => &digest::SHA256,
            Self::Aes256Gcm => &digest::SHA384,
        }
    }

    fn hmac(self) -> hmac::Algorithm {
        match self {
            Self::Aes128Gcm | Self::Chacha20Poly1305 => hmac::HMAC_SHA256,
            Self::Aes256Gcm => hmac::HMAC_SHA384,
        }
    }

    pub(crate) fn aead(self) -> &'static aead::Algorithm {
        match self {
            Self::Aes128Gcm => &aead::AES_128_GCM,
            Self::Aes256Gcm => &aead::AES_256_GCM,
            Self::Chacha20Poly1305 => &aead::CHACHA20_POLY1305,
        }
    }

    /// Bytes of the suite's hash.
    pub(crate) fn hash_length(self) -> usize {
        self.digest().output_len()
    }

    /// Records that one key may seal before it is changed (RFC 8446 §5.5, with room to spare).
    pub(crate) fn record_limit(self) -> u64 {
        match self {
            Self::Aes128Gcm | Self::Aes256Gcm => 1 << 23,
            Self::Chacha20Poly1305 => 1 << 48,
        }
    }
}

/// A secret of the schedule, wiped when dropped.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct Secret {
    bytes: [u8; 48],
    length: usize,
}

impl Secret {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let mut secret = Self { bytes: [0; 48], length: bytes.len().min(48) };
        secret.bytes[..secret.length].copy_from_slice(&bytes[..secret.length]);
        secret
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// HMAC with the suite's hash.
pub(crate) fn mac(suite: Suite, key: &[u8], message: &[u8]) -> Secret {
    Secret::new(hmac::sign(&hmac::Key::new(suite.hmac(), key), message).as_ref())
}

/// HKDF-Expand-Label. `out` holds at most one hash.
pub(crate) fn expand_label(suite: Suite, secret: &[u8], label: &[u8], context: &[u8], out: &mut [u8]) {
    let mut info = Vec::with_capacity(10 + label.len() + context.len() + 1);
    info.extend_from_slice(&(out.len() as u16).to_be_bytes());
    info.push((6 + label.len()) as u8);
    info.extend_from_slice(b"tls13 ");
    info.extend_from_slice(label);
    info.push(context.len() as u8);
    info.extend_from_slice(context);
    info.push(1);
    let block = mac(suite, secret, &info);
    let length = out.len();
    out.copy_from_slice(&block.as_slice()[..length]);
}

/// A secret derived under `label`, as long as the suite's hash.
pub(crate) fn derive(suite: Suite, secret: &Secret, label: &[u8], context: &[u8]) -> Secret {
    let mut out = Secret { bytes: [0; 48], length: suite.hash_length() };
    let length = out.length;
    expand_label(suite, secret.as_slice(), label, context, &mut out.bytes[..length]);
    out
}

/// Traffic secrets of one stage, client's first.
pub(crate) struct TrafficSecrets {
    pub(crate) client: Secret,
    pub(crate) server: Secret,
}

/// The schedule after the shared secret has come in.
pub(crate) struct Schedule {
    suite: Suite,
    handshake: Secret,
}

/// The early secret, from a pre-shared key or none.
pub(crate) fn early_secret(suite: Suite, psk: Option<&Secret>) -> Secret {
    let zeros = [0; 48];
    mac(suite, &zeros[..suite.hash_length()], psk.map_or(&zeros[..suite.hash_length()], |psk| psk.as_slice()))
}

impl Schedule {
    pub(crate) fn new(suite: Suite, early: &Secret, shared: &[u8]) -> Self {
        let salt = derive(suite, early, b"derived", digest::digest(suite.digest(), b"").as_ref());
        Self { suite, handshake: mac(suite, salt.as_slice(), shared) }
    }

    /// Secrets of the handshake; `transcript` is the hash up to the ServerHello.
    pub(crate) fn handshake_traffic(&self, transcript: &[u8]) -> TrafficSecrets {
        TrafficSecrets {
            client: derive(self.suite, &self.handshake, b"c hs traffic", transcript),
            server: derive(self.suite, &self.handshake, b"s hs traffic", transcript),
        }
    }

    /// The master secret.
    pub(crate) fn master(&self) -> Secret {
        let salt = derive(self.suite, &self.handshake, b"derived", digest::digest(self.suite.digest(), b"").as_ref());
        let zeros = [0; 48];
        mac(self.suite, salt.as_slice(), &zeros[..self.suite.hash_length()])
    }
}

/// Secrets of the application's data; `transcript` is the hash up to the server's Finished.
pub(crate) fn application_traffic(suite: Suite, master: &Secret, transcript: &[u8]) -> TrafficSecrets {
    TrafficSecrets {
        client: derive(suite, master, b"c ap traffic", transcript),
        server: derive(suite, master, b"s ap traffic", transcript),
    }
}

/// The content of a Finished message.
pub(crate) fn finished(suite: Suite, traffic: &Secret, transcript: &[u8]) -> Secret {
    let key = derive(suite, traffic, b"finished", b"");
    mac(suite, key.as_slice(), transcript)
}

/// The running hash of the handshake.
#[derive(Clone)]
pub(crate) struct Transcript {
    context: digest::Context,
}

impl Transcript {
    pub(crate) fn new(suite: Suite) -> Self {
        Self { context: digest::Context::new(suite.digest()) }
    }

    /// The transcript after a HelloRetryRequest: the first hello is replaced by its hash.
    pub(crate) fn after_retry(suite: Suite, first_hello: &[u8], retry: &[u8]) -> Self {
        let mut transcript = Self::new(suite);
        let hash = digest::digest(suite.digest(), first_hello);
        transcript.add(&[254, 0, 0, hash.as_ref().len() as u8]);
        transcript.add(hash.as_ref());
        transcript.add(retry);
        transcript
    }

    pub(crate) fn add(&mut self, message: &[u8]) {
        self.context.update(message);
    }

    pub(crate) fn hash(&self) -> digest::Digest {
        self.context.clone().finish()
    }
}
