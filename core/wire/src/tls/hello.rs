//! The ClientHello: built from a fingerprint, rebuilt after a HelloRetryRequest.

use aws_lc_rs::digest;

use super::codec::{list16, prefixed};
use super::error::TlsError;
use super::exchange::{self, Share};
use super::fingerprint::{Browser, Extension, GREASE, below};
use super::schedule::{derive, early_secret, finished};
use super::session::Ticket;
use crate::random::Random;

const PRE_SHARED_KEY: u16 = 41;
const COOKIE: u16 = 44;
const KEY_SHARE: u16 = 51;

/// A ClientHello as sent, and what must be remembered of it.
pub(crate) struct Hello {
    /// The handshake message, header included.
    pub(crate) message: Vec<u8>,
    pub(crate) shares: Vec<Share>,
    pub(crate) ciphers: Vec<u16>,
    pub(crate) groups: Vec<u16>,
    pub(crate) signatures: Vec<u16>,
    pub(crate) compressions: Vec<u16>,
    pub(crate) alpn: Vec<Vec<u8>>,
    pub(crate) session_id: [u8; 32],
    /// The ALPS extension's type, if it was offered.
    pub(crate) application_settings: Option<u16>,
    random: [u8; 32],
    extensions: Vec<(u16, Vec<u8>)>,
    padded: bool,
}

/// A ticket to offer, with the age to announce.
pub(crate) struct Offer {
    pub(crate) ticket: Ticket,
    pub(crate) age_ms: u32,
}

impl Hello {
    /// Draws and builds a hello. `alpn` replaces the browser's own list (an empty one leaves the
    /// extension out).
    pub(crate) fn build(
        browser: Browser,
        server_name: Option<&str>,
        alpn: Option<&[Vec<u8>]>,
        random: &mut dyn Random,
    ) -> Result<Self, TlsError> {
        let mut plan = browser.plan(random);
        plan.shuffle(random);
        let mut hello = Self {
            message: Vec::new(),
            shares: Vec::new(),
            ciphers: plan.ciphers.clone(),
            groups: Vec::new(),
            signatures: Vec::new(),
            compressions: Vec::new(),
            alpn: alpn.map_or_else(|| vec![b"h2".to_vec(), b"http/1.1".to_vec()], <[_]>::to_vec),
            session_id: [0; 32],
            application_settings: None,
            random: [0; 32],
            extensions: Vec::with_capacity(plan.extensions.len()),
            padded: false,
        };
        random.fill(&mut hello.random);
        random.fill(&mut hello.session_id);
        let mut grease = Grease::draw(random);
        if let Some(first) = hello.ciphers.iter_mut().find(|cipher| **cipher == GREASE) {
            *first = grease.cipher;
        }
        for extension in &plan.extensions {
            hello.add(extension, &mut grease, server_name, plan.joined_shares, random)?;
        }
        hello.assemble();
        Ok(hello)
    }

    fn add(
        &mut self,
        extension: &Extension,
        grease: &mut Grease,
        server_name: Option<&str>,
        joined_shares: bool,
        random: &mut dyn Random,
    ) -> Result<(), TlsError> {
        let mut body = Vec::new();
        let fill = |values: &[u16], grease: u16| -> Vec<u16> {
            values.iter().map(|value| if *value == GREASE { grease } else { *value }).collect()
        };
        let kind = match extension {
            Extension::Grease(content) => {
                body.extend_from_slice(content);
                grease.next_extension()
            }
            Extension::Fixed(kind, content) => {
                body.extend_from_slice(content);
                *kind
            }
            Extension::ServerName => {
                let Some(name) = server_name else {
                    return Ok(());
                };
                prefixed(&mut body, 2, |out| {
                    out.push(0);
                    prefixed(out, 2, |out| out.extend_from_slice(name.as_bytes()));
                });
                0
            }
            Extension::Groups(groups) => {
                self.groups = fill(groups, grease.group);
                list16(&mut body, 2, &self.groups);
                10
            }
            Extension::Alpn => {
                if self.alpn.is_empty() {
                    return Ok(());
                }
                prefixed(&mut body, 2, |out| {
                    self.alpn.iter().for_each(|name| prefixed(out, 1, |out| out.extend_from_slice(name)));
                });
                16
            }
            Extension::Signatures(schemes) => {
                self.signatures = fill(schemes, grease.signature);
                list16(&mut body, 2, &self.signatures);
                13
            }
            Extension::DelegatedCredentials(schemes) => {
                list16(&mut body, 2, schemes);
                34
            }
            Extension::KeyShare(groups) => {
                self.make_shares(groups, joined_shares, random)?;
                self.write_shares(&mut body, groups.contains(&GREASE).then_some(grease.group));
                KEY_SHARE
            }
            Extension::Versions(versions) => {
                list16(&mut body, 1, &fill(versions, grease.version));
                43
            }
            Extension::CompressCertificate(algorithms) => {
                self.compressions = algorithms.to_vec();
                list16(&mut body, 1, algorithms);
                27
            }
            Extension::ApplicationSettings(kind) => {
                // Without h2 on offer Chromium has no settings to announce.
                if !self.alpn.iter().any(|name| name == b"h2") {
                    return Ok(());
                }
                prefixed(&mut body, 2, |out| prefixed(out, 1, |out| out.extend_from_slice(b"h2")));
                self.application_settings = Some(*kind);
                *kind
            }
            Extension::EncryptedHello(lengths) => {
                write_encrypted_hello(&mut body, lengths, random)?;
                0xfe0d
            }
            Extension::TrustAnchors(identifiers) => {
                prefixed(&mut body, 2, |out| {
                    identifiers.iter().for_each(|id| prefixed(out, 1, |out| out.extend_from_slice(id)));
                });
                0xca34
            }
            Extension::RecordSizeLimit(limit) => {
                body.extend_from_slice(&limit.to_be_bytes());
                28
            }
            Extension::Padding => {
                self.padded = true;
                return Ok(());
            }
        };
        self.extensions.push((kind, body));
        Ok(())
    }

    fn make_shares(&mut self, groups: &[u16], joined: bool, random: &mut dyn Random) -> Result<(), TlsError> {
        let mut plain = None;
        for group in groups.iter().copied().filter(|group| *group != GREASE) {
            let share = match plain.take_if(|_| group == exchange::X25519) {
                Some(share) => share,
                None if group == exchange::X25519_MLKEM768 && joined => {
                    let (hybrid, x25519) = Share::generate_joined(random)?;
                    plain = Some(x25519);
                    hybrid
                }
                None => Share::generate(group, random)?,
            };
            self.shares.push(share);
        }
        Ok(())
    }

    fn write_shares(&self, body: &mut Vec<u8>, grease: Option<u16>) {
        prefixed(body, 2, |out| {
            if let Some(group) = grease {
                out.extend_from_slice(&group.to_be_bytes());
                out.extend_from_slice(&[0, 1, 0]);
            }
            for share in &self.shares {
                out.extend_from_slice(&share.group().to_be_bytes());
                prefixed(out, 2, |out| out.extend_from_slice(share.public()));
            }
        });
    }

    /// Whether an extension of this type was sent.
    pub(crate) fn offered(&self, kind: u16) -> bool {
        self.extensions.iter().any(|(offered, _)| *offered == kind)
    }

    /// Whether the browser's hello says that it can resume (psk_key_exchange_modes).
    pub(crate) fn can_resume(&self) -> bool {
        self.offered(45)
    }

    /// Changes the hello as a HelloRetryRequest asks: another key share, a cookie.
    pub(crate) fn retry(
        &mut self,
        group: Option<u16>,
        cookie: Option<&[u8]>,
        random: &mut dyn Random,
    ) -> Result<(), TlsError> {
        if let Some(group) = group {
            self.shares = vec![Share::generate(group, random)?];
            let mut body = Vec::new();
            self.write_shares(&mut body, None);
            if let Some(entry) = self.extensions.iter_mut().find(|(kind, _)| *kind == KEY_SHARE) {
                entry.1 = body;
            }
        }
        if let Some(cookie) = cookie {
            let mut body = Vec::new();
            prefixed(&mut body, 2, |out| out.extend_from_slice(cookie));
            let after = self.extensions.iter().position(|(kind, _)| *kind == KEY_SHARE).map_or(0, |at| at + 1);
            self.extensions.insert(after, (COOKIE, body));
        }
        self.extensions.retain(|(kind, _)| *kind != PRE_SHARED_KEY);
        self.assemble();
        Ok(())
    }

    /// Offers a ticket: pre_shared_key as the last extension, with its binder over `before` (the
    /// transcript that precedes this hello, as bytes) and the hello.
    pub(crate) fn offer(&mut self, offer: &Offer, before: &[u8]) {
        let suite = offer.ticket.suite;
        let hash_length = suite.hash_length();
        let mut body = Vec::new();
        prefixed(&mut body, 2, |out| {
            prefixed(out, 2, |out| out.extend_from_slice(&offer.ticket.identity));
            out.extend_from_slice(&offer.age_ms.wrapping_add(offer.ticket.age_add).to_be_bytes());
        });
        prefixed(&mut body, 2, |out| prefixed(out, 1, |out| out.resize(out.len() + hash_length, 0)));
        self.extensions.push((PRE_SHARED_KEY, body));
        self.assemble();
        let binders = 2 + 1 + hash_length;
        let covered = self.message.len() - binders;
        let mut context = digest::Context::new(suite.digest());
        context.update(before);
        context.update(&self.message[..covered]);
        let early = early_secret(suite, Some(&offer.ticket.secret));
        let empty = digest::digest(suite.digest(), b"");
        let key = derive(suite, &early, b"res binder", empty.as_ref());
        let binder = finished(suite, &key, context.finish().as_ref());
        let at = self.message.len() - hash_length;
        self.message[at..].copy_from_slice(binder.as_slice());
    }

    /// Writes the message out of its parts.
    fn assemble(&mut self) {
        let mut message = Vec::with_capacity(2048);
        message.push(1);
        prefixed(&mut message, 3, |out| {
            out.extend_from_slice(&[3, 3]);
            out.extend_from_slice(&self.random);
            prefixed(out, 1, |out| out.extend_from_slice(&self.session_id));
            list16(out, 2, &self.ciphers);
            out.extend_from_slice(&[1, 0]);
            prefixed(out, 2, |out| {
                for (kind, body) in &self.extensions {
                    out.extend_from_slice(&kind.to_be_bytes());
                    prefixed(out, 2, |out| out.extend_from_slice(body));
                }
                let so_far = out.len();
                if self.padded && (256..512).contains(&so_far) {
                    let padding = (512 - so_far).max(5) - 4;
                    out.extend_from_slice(&[0, 21]);
                    prefixed(out, 2, |out| out.resize(out.len() + padding, 0));
                }
            });
        });
        self.message = message;
    }
}

/// The GREASE values of one hello.
struct Grease {
    cipher: u16,
    group: u16,
    version: u16,
    signature: u16,
    extensions: [u16; 2],
    used: usize,
}

impl Grease {
    fn draw(random: &mut dyn Random) -> Self {
        let mut value = || 0x1010 * below(&mut *random, 16) as u16 + GREASE;
        let mut grease = Self {
            cipher: value(),
            group: value(),
            version: value(),
            signature: value(),
            extensions: [value(), value()],
            used: 0,
        };
        if grease.extensions[0] == grease.extensions[1] {
            grease.extensions[1] ^= 0x1010;
        }
        grease
    }

    fn next_extension(&mut self) -> u16 {
        let value = self.extensions[self.used % 2];
        self.used += 1;
        value
    }
}

/// An outer ECH extension with nothing in it, as browsers send it where no ECH is configured.
fn write_encrypted_hello(body: &mut Vec<u8>, lengths: &[usize], random: &mut dyn Random) -> Result<(), TlsError> {
    body.extend_from_slice(&[0, 0, 1, 0, 1]);
    let mut config_id = [0];
    random.fill(&mut config_id);
    body.push(config_id[0]);
    // A real public key: half of all random strings are no point of the curve.
    let key = Share::generate(exchange::X25519, random)?;
    prefixed(body, 2, |out| out.extend_from_slice(key.public()));
    let length = lengths[below(random, lengths.len())];
    prefixed(body, 2, |out| {
        let start = out.len();
        out.resize(start + length, 0);
        random.fill(&mut out[start..]);
    });
    Ok(())
}
