//! Key exchange: the groups that browsers offer shares for, or accept after a retry.

use std::fmt;

use aws_lc_rs::agreement::{self, PrivateKey, UnparsedPublicKey};
use ml_kem::{Decapsulate, DecapsulationKey, EncapsulationKey, KeyExport, MlKem768};
use zeroize::Zeroizing;

use super::error::TlsError;
use crate::random::Random;

/// secp256r1.
pub const P256: u16 = 0x0017;
/// secp384r1.
pub const P384: u16 = 0x0018;
/// secp521r1.
pub const P521: u16 = 0x0019;
/// X25519.
pub const X25519: u16 = 0x001d;
/// ML-KEM-768 and X25519 together.
pub const X25519_MLKEM768: u16 = 0x11ec;

const ENCAPSULATION_KEY: usize = 1184;
const CIPHERTEXT: usize = 1088;

/// Our half of one key exchange.
pub struct Share {
    group: u16,
    public: Vec<u8>,
    private: Private,
}

enum Private {
    Curve(PrivateKey),
    Hybrid { lattice: Box<DecapsulationKey<MlKem768>>, curve: PrivateKey },
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share").field("group", &self.group).finish_non_exhaustive()
    }
}

impl Share {
    /// Makes a share for `group`.
    pub(crate) fn generate(group: u16, random: &mut dyn Random) -> Result<Self, TlsError> {
        if group == X25519_MLKEM768 {
            let curve = curve_key(X25519, random)?;
            return Self::hybrid(curve, random);
        }
        let curve = curve_key(group, random)?;
        Ok(Self { group, public: public_of(&curve)?, private: Private::Curve(curve) })
    }

    /// An X25519 share and a hybrid one that uses the same X25519 key, as newer Firefox sends them.
    pub(crate) fn generate_joined(random: &mut dyn Random) -> Result<(Self, Self), TlsError> {
        let mut bytes = Zeroizing::new([0; 32]);
        random.fill(bytes.as_mut());
        let key = |bytes: &[u8; 32]| {
            PrivateKey::from_private_key(&agreement::X25519, bytes).map_err(|_| TlsError::Crypto("X25519 key"))
        };
        let plain = key(&bytes)?;
        let hybrid = Self::hybrid(key(&bytes)?, random)?;
        Ok((hybrid, Self { group: X25519, public: public_of(&plain)?, private: Private::Curve(plain) }))
    }

    fn hybrid(curve: PrivateKey, random: &mut dyn Random) -> Result<Self, TlsError> {
        let mut seed = Zeroizing::new([0; 64]);
        random.fill(seed.as_mut());
        let lattice = Box::new(DecapsulationKey::<MlKem768>::from_seed((*seed).into()));
        let mut public = lattice.encapsulation_key().to_bytes().to_vec();
        public.extend_from_slice(&public_of(&curve)?);
        Ok(Self { group: X25519_MLKEM768, public, private: Private::Hybrid { lattice, curve } })
    }

    /// The group.
    pub fn group(&self) -> u16 {
        self.group
    }

    /// The bytes of the key share.
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// The shared secret with `peer`, the bytes of the server's share.
    pub(crate) fn agree(&self, peer: &[u8]) -> Result<Zeroizing<Vec<u8>>, TlsError> {
        match &self.private {
            Private::Curve(key) => agree_on_curve(self.group, key, peer),
            Private::Hybrid { lattice, curve } => {
                let (ciphertext, point) =
                    peer.split_at_checked(CIPHERTEXT).ok_or(TlsError::Illegal("the key share has a wrong length"))?;
                let ciphertext =
                    ciphertext.try_into().map_err(|_| TlsError::Illegal("the key share has a wrong length"))?;
                let lattice_secret = Zeroizing::new(lattice.decapsulate(&ciphertext).to_vec());
                let curve_secret = agree_on_curve(X25519, curve, point)?;
                let mut secret = Zeroizing::new(Vec::with_capacity(64));
                secret.extend_from_slice(&lattice_secret);
                secret.extend_from_slice(&curve_secret);
                Ok(secret)
            }
        }
    }

    /// X25519 of this share's X25519 key with `peer`; `None` when it has no such key.
    pub(crate) fn x25519_with(&self, peer: &[u8; 32]) -> Option<Result<Zeroizing<Vec<u8>>, TlsError>> {
        match &self.private {
            Private::Curve(key) if self.group == X25519 => Some(agree_on_curve(X25519, key, peer)),
            Private::Curve(_) => None,
            Private::Hybrid { curve, .. } => Some(agree_on_curve(X25519, curve, peer)),
        }
    }
}

/// The server's side: answers the client's share of `group`. Returns our share and the secret.
pub(crate) fn respond(
    group: u16,
    client: &[u8],
    random: &mut dyn Random,
) -> Result<(Vec<u8>, Zeroizing<Vec<u8>>), TlsError> {
    if group != X25519_MLKEM768 {
        let share = Share::generate(group, random)?;
        let secret = share.agree(client)?;
        return Ok((share.public, secret));
    }
    let wrong = TlsError::Illegal("the key share has a wrong length");
    let (key, point) = client.split_at_checked(ENCAPSULATION_KEY).ok_or(wrong.clone())?;
    let key = key.try_into().map_err(|_| wrong)?;
    let key = EncapsulationKey::<MlKem768>::new(&key).map_err(|_| TlsError::Illegal("the ML-KEM key is not valid"))?;
    let mut message = Zeroizing::new([0; 32]);
    random.fill(message.as_mut());
    let (ciphertext, lattice_secret) = key.encapsulate_deterministic(&(*message).into());
    let curve = Share::generate(X25519, random)?;
    let mut secret = Zeroizing::new(lattice_secret.to_vec());
    secret.extend_from_slice(&curve.agree(point)?);
    let mut public = ciphertext.to_vec();
    public.extend_from_slice(&curve.public);
    Ok((public, secret))
}

/// The X25519 shared secret of a private key's bytes with `peer`.
pub(crate) fn x25519(private: &[u8; 32], peer: &[u8]) -> Result<Zeroizing<Vec<u8>>, TlsError> {
    let key = PrivateKey::from_private_key(&agreement::X25519, private).map_err(|_| TlsError::Crypto("X25519 key"))?;
    agree_on_curve(X25519, &key, peer)
}

/// The X25519 public key of a private key's bytes.
pub(crate) fn x25519_public(private: &[u8; 32]) -> Result<[u8; 32], TlsError> {
    let key = PrivateKey::from_private_key(&agreement::X25519, private).map_err(|_| TlsError::Crypto("X25519 key"))?;
    public_of(&key)?.try_into().map_err(|_| TlsError::Crypto("X25519 key"))
}

fn algorithm(group: u16) -> Result<(&'static agreement::Algorithm, usize), TlsError> {
    match group {
        X25519 => Ok((&agreement::X25519, 32)),
        P256 => Ok((&agreement::ECDH_P256, 32)),
        P384 => Ok((&agreement::ECDH_P384, 48)),
        P521 => Ok((&agreement::ECDH_P521, 66)),
        _ => Err(TlsError::Unsupported("a key exchange group that browsers list but this client lacks")),
    }
}

fn curve_key(group: u16, random: &mut dyn Random) -> Result<PrivateKey, TlsError> {
    let (algorithm, length) = algorithm(group)?;
    let mut bytes = Zeroizing::new([0u8; 66]);
    // A scalar of the NIST curves must be below the order; a random one nearly always is.
    for _ in 0..64 {
        random.fill(&mut bytes[..length]);
        if group == P521 {
            bytes[0] &= 1;
        }
        if let Ok(key) = PrivateKey::from_private_key(algorithm, &bytes[..length]) {
            return Ok(key);
        }
    }
    Err(TlsError::Crypto("no usable private key came out of the random source"))
}

fn public_of(key: &PrivateKey) -> Result<Vec<u8>, TlsError> {
    Ok(key.compute_public_key().map_err(|_| TlsError::Crypto("public key"))?.as_ref().to_vec())
}

fn agree_on_curve(group: u16, key: &PrivateKey, peer: &[u8]) -> Result<Zeroizing<Vec<u8>>, TlsError> {
    let (algorithm, _) = algorithm(group)?;
    agreement::agree(
        key,
        UnparsedPublicKey::new(algorithm, peer),
        TlsError::Illegal("the server's key share is not valid"),
        |secret| Ok(Zeroizing::new(secret.to_vec())),
    )
}
