//! The server's messages, one after the other, and our answers to them.

use super::{Handshake, State, plain_record};
use crate::tls::certificate;
use crate::tls::codec::{Reader, extensions, prefixed};
use crate::tls::error::TlsError;
use crate::tls::record::{self, Keys};
use crate::tls::schedule::{Schedule, Suite, Transcript, application_traffic, derive, early_secret, finished};
use crate::tls::verify::{CertificateError, Evidence};

/// The ServerHello random that marks a HelloRetryRequest (RFC 8446 §4.1.3).
const RETRY_RANDOM: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2, 0x11,
    0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// What a CertificateVerify of a server signs, before the transcript's hash.
pub(crate) fn signed_content(transcript: &[u8]) -> Vec<u8> {
    let mut content = vec![b' '; 64];
    content.extend_from_slice(b"TLS 1.3, server CertificateVerify\0");
    content.extend_from_slice(transcript);
    content
}

impl Handshake {
    pub(super) fn message(&mut self, message: &[u8]) -> Result<(), TlsError> {
        let body = &message[4..];
        match (&self.state, message[0]) {
            (State::ServerHello, 2) => self.server_hello(message, body),
            (State::EncryptedExtensions, 8) => self.encrypted_extensions(message, body),
            (State::Certificate, 11) => self.certificate(message, body),
            (State::Certificate, 25) => {
                let body = certificate::decompress(body, &self.hello.compressions)?;
                self.certificate(message, &body)
            }
            (State::Certificate, 13) => Err(TlsError::Unsupported("to ask for a client certificate")),
            (State::CertificateVerify, 15) => self.certificate_verify(message, body),
            (State::Finished, 20) => self.finished(message, body),
            _ => Err(TlsError::Illegal("a message of the handshake is not due")),
        }
    }

    fn server_hello(&mut self, message: &[u8], body: &[u8]) -> Result<(), TlsError> {
        let mut reader = Reader::new(body);
        let legacy_version = reader.u16()?;
        let random = reader.take(32)?;
        let session_id = reader.vector(1)?;
        let cipher = reader.u16()?;
        let compression = reader.u8()?;
        let found = if reader.is_empty() { Vec::new() } else { extensions(reader.vector(2)?)? };
        reader.end()?;
        let find = |kind: u16| found.iter().find(|(other, _)| *other == kind).map(|(_, body)| *body);
        match find(43) {
            Some([3, 4]) => {}
            Some(_) => return Err(TlsError::Illegal("it chose a version that was not offered")),
            None => return Err(TlsError::OnlyOlderTls),
        }
        if legacy_version != 0x0303 || compression != 0 {
            return Err(TlsError::Illegal("its hello has a wrong version or compression"));
        }
        if session_id != self.hello.session_id {
            return Err(TlsError::Illegal("it does not repeat our session id"));
        }
        let suite = Suite::from_code(cipher)
            .filter(|_| self.hello.ciphers.contains(&cipher))
            .ok_or(TlsError::Illegal("it chose a cipher suite that was not offered"))?;
        if !self.inbox.is_empty() {
            return Err(TlsError::Illegal("a message crosses a change of keys"));
        }
        if random == RETRY_RANDOM {
            return self.retry_request(message, suite, &found);
        }
        if self.retried.as_ref().is_some_and(|(.., first)| *first != suite) {
            return Err(TlsError::Illegal("it changed the cipher suite after its retry request"));
        }
        if found.iter().any(|(kind, _)| !matches!(kind, 41 | 43 | 51)) {
            return Err(TlsError::Illegal("its hello carries an extension that does not belong there"));
        }
        let mut share = Reader::new(find(51).ok_or(TlsError::Illegal("it sent no key share"))?);
        self.group = share.u16()?;
        let peer = share.vector(2)?;
        share.end()?;
        let ours = self
            .hello
            .shares
            .iter()
            .find(|share| share.group() == self.group)
            .ok_or(TlsError::Illegal("it chose a group that we sent no share for"))?;
        let shared = ours.agree(peer)?;
        let psk = match (find(41), &self.offer) {
            (None, _) => None,
            (Some([0, 0]), Some(offer)) if offer.ticket.suite.digest() == suite.digest() => Some(&offer.ticket.secret),
            (Some(_), _) => {
                return Err(TlsError::Illegal("it chose a session that was not offered"));
            }
        };
        self.resumed = psk.is_some();
        self.suite = suite;
        let schedule = Schedule::new(suite, &early_secret(suite, psk), &shared);
        let mut transcript = match &self.retried {
            Some((first, retry, _)) => Transcript::after_retry(suite, first, retry),
            None => Transcript::new(suite),
        };
        transcript.add(&self.hello.message);
        transcript.add(message);
        let secrets = schedule.handshake_traffic(transcript.hash().as_ref());
        self.reading = Some(Keys::new(suite, secrets.server.clone())?);
        self.server_hello = message.to_vec();
        self.secrets = Some(secrets);
        self.schedule = Some(schedule);
        self.transcript = Some(transcript);
        self.offer = None;
        self.state = State::EncryptedExtensions;
        Ok(())
    }

    fn retry_request(&mut self, message: &[u8], suite: Suite, found: &[(u16, &[u8])]) -> Result<(), TlsError> {
        if self.retried.is_some() || !self.auth.ordinary() {
            return Err(TlsError::Illegal("it asked for another hello where that is not possible"));
        }
        let mut group = None;
        let mut cookie = None;
        for (kind, body) in found {
            let mut reader = Reader::new(body);
            match kind {
                43 => continue,
                44 => cookie = Some(reader.vector(2)?),
                51 => group = Some(reader.u16()?),
                // The server's part of ECH, which was offered as GREASE only.
                0xfe0d if self.hello.offered(0xfe0d) => continue,
                _ => {
                    return Err(TlsError::Illegal("its retry request carries an extension that does not belong there"));
                }
            }
            reader.end()?;
        }
        if let Some(group) = group {
            let shared = self.hello.shares.iter().any(|share| share.group() == group);
            if shared || !self.hello.groups.contains(&group) {
                return Err(TlsError::Illegal("its retry request asks for a group that makes no sense"));
            }
        } else if cookie.is_none() {
            return Err(TlsError::Illegal("its retry request asks for nothing"));
        }
        let first = self.hello.message.clone();
        self.hello.retry(group, cookie, &mut *self.random)?;
        self.offer = self.offer.take().filter(|offer| offer.ticket.suite.digest() == suite.digest());
        if let Some(offer) = &self.offer {
            let hash = aws_lc_rs::digest::digest(suite.digest(), &first);
            let mut before = vec![254, 0, 0, hash.as_ref().len() as u8];
            before.extend_from_slice(hash.as_ref());
            before.extend_from_slice(message);
            self.hello.offer(offer, &before);
        }
        self.send_ccs();
        plain_record(&mut self.output, record::HANDSHAKE, 0x0303, &self.hello.message);
        self.retried = Some((first, message.to_vec(), suite));
        Ok(())
    }

    fn encrypted_extensions(&mut self, message: &[u8], body: &[u8]) -> Result<(), TlsError> {
        let mut reader = Reader::new(body);
        let found = extensions(reader.vector(2)?)?;
        reader.end()?;
        for (kind, content) in found {
            if !self.hello.offered(kind) || matches!(kind, 41 | 43 | 51) {
                return Err(TlsError::Illegal("it answers an extension that was not offered"));
            }
            let mut content = Reader::new(content);
            if kind == 16 {
                let mut names = Reader::new(content.vector(2)?);
                let name = names.vector(1)?;
                names.end()?;
                if !self.hello.alpn.iter().any(|offered| offered == name) {
                    return Err(TlsError::Illegal("it chose an application protocol that was not offered"));
                }
                self.alpn = Some(name.to_vec());
            } else if kind == 28 {
                // The limit counts the content type byte.
                self.size_limit = usize::from(content.u16()?).saturating_sub(1).min(record::MAX_PLAINTEXT);
                if self.size_limit < 63 {
                    return Err(TlsError::Illegal("its limit of the record size is too low"));
                }
            } else if Some(kind) == self.hello.application_settings {
                self.settings_answered = true;
            }
        }
        self.add(message);
        self.state = if self.resumed { State::Finished } else { State::Certificate };
        Ok(())
    }

    fn certificate(&mut self, message: &[u8], body: &[u8]) -> Result<(), TlsError> {
        self.chain = certificate::parse(body, |kind| self.hello.offered(kind))?;
        self.add(message);
        self.state = State::CertificateVerify;
        Ok(())
    }

    fn certificate_verify(&mut self, message: &[u8], body: &[u8]) -> Result<(), TlsError> {
        let mut reader = Reader::new(body);
        let scheme = reader.u16()?;
        let signature = reader.vector(2)?;
        reader.end()?;
        let evidence = Evidence {
            chain: &self.chain.certificates,
            ocsp: &self.chain.ocsp,
            server_name: self.config.server_name.as_deref(),
            client_hello: &self.hello.message,
            server_hello: &self.server_hello,
        };
        self.auth.check_chain(&evidence)?;
        let leaf = self.chain.certificates.first().ok_or(CertificateError::Missing)?;
        let content = signed_content(self.hash()?.as_ref());
        self.auth.check_signature(scheme, &self.hello.signatures, leaf, &content, signature)?;
        self.add(message);
        self.state = State::Finished;
        Ok(())
    }

    fn finished(&mut self, message: &[u8], body: &[u8]) -> Result<(), TlsError> {
        let (Some(secrets), Some(schedule)) = (&self.secrets, &self.schedule) else {
            return Err(TlsError::Illegal("Finished is not due"));
        };
        let expected = finished(self.suite, &secrets.server, self.hash()?.as_ref());
        if !bool::from(subtle::ConstantTimeEq::ct_eq(expected.as_slice(), body)) {
            return Err(TlsError::Integrity("the server's Finished does not match"));
        }
        let mut keys = Keys::new(self.suite, secrets.client.clone())?;
        let master = schedule.master();
        self.add(message);
        let application = application_traffic(self.suite, &master, self.hash()?.as_ref());
        self.send_ccs();
        if let Some(kind) = self.hello.application_settings.filter(|_| self.settings_answered) {
            let mut settings = vec![8];
            prefixed(&mut settings, 3, |out| {
                prefixed(out, 2, |out| {
                    out.extend_from_slice(&kind.to_be_bytes());
                    out.extend_from_slice(&[0, 0]);
                });
            });
            self.add(&settings);
            keys.seal_into(&mut self.output, record::HANDSHAKE, &settings);
        }
        let client_secret = match &self.secrets {
            Some(secrets) => finished(self.suite, &secrets.client, self.hash()?.as_ref()),
            None => return Err(TlsError::Illegal("Finished is not due")),
        };
        let mut ours = vec![20];
        prefixed(&mut ours, 3, |out| out.extend_from_slice(client_secret.as_slice()));
        self.add(&ours);
        keys.seal_into(&mut self.output, record::HANDSHAKE, &ours);
        let resumption = derive(self.suite, &master, b"res master", self.hash()?.as_ref());
        self.master = Some((resumption, application));
        self.state = State::Done;
        Ok(())
    }

    fn add(&mut self, message: &[u8]) {
        if let Some(transcript) = &mut self.transcript {
            transcript.add(message);
        }
    }

    fn hash(&self) -> Result<aws_lc_rs::digest::Digest, TlsError> {
        self.transcript.as_ref().map(Transcript::hash).ok_or(TlsError::Illegal("no hello came yet"))
    }

    fn send_ccs(&mut self) {
        if !std::mem::replace(&mut self.sent_ccs, true) {
            plain_record(&mut self.output, record::CHANGE_CIPHER_SPEC, 0x0303, &[1]);
        }
    }
}
