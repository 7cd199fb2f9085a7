//! The server's side of a handshake with an Ed25519 certificate: what a REALITY server needs.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use aws_lc_rs::signature::Ed25519KeyPair;

use super::client::{Progress, plain_record, signed_content};
use super::codec::{Reader, extensions, prefixed};
use super::error::TlsError;
use super::exchange::{self, X25519, X25519_MLKEM768};
use super::record::{self, HEADER, Keys, RecordOpen, RecordSeal};
use super::schedule::{Schedule, Suite, TrafficSecrets, Transcript, application_traffic, early_secret, finished};
use crate::random::Random;

/// A received ClientHello.
pub struct ClientHello<'a> {
    /// The handshake message, header included.
    pub message: &'a [u8],
    /// The client's random.
    pub random: &'a [u8],
    /// The session id.
    pub session_id: &'a [u8],
    /// The server name, if it asks for one.
    pub server_name: Option<&'a str>,
    /// Key shares, in order: group and bytes.
    pub shares: Vec<(u16, &'a [u8])>,
    ciphers: &'a [u8],
    tls13: bool,
}

impl<'a> ClientHello<'a> {
    /// Parses a whole handshake message.
    pub fn parse(message: &'a [u8]) -> Result<Self, TlsError> {
        let mut reader = Reader::new(message);
        if reader.u8()? != 1 {
            return Err(TlsError::Malformed("no ClientHello"));
        }
        let mut body = Reader::new(reader.vector(3)?);
        reader.end()?;
        body.u16()?;
        let random = body.take(32)?;
        let session_id = body.vector(1)?;
        let ciphers = body.vector(2)?;
        body.vector(1)?;
        let found = if body.is_empty() { Vec::new() } else { extensions(body.vector(2)?)? };
        body.end()?;
        let mut hello =
            Self { message, random, session_id, server_name: None, shares: Vec::new(), ciphers, tls13: false };
        for (kind, content) in found {
            let mut content = Reader::new(content);
            match kind {
                0 => {
                    let mut names = Reader::new(content.vector(2)?);
                    if names.u8()? == 0 {
                        hello.server_name = std::str::from_utf8(names.vector(2)?).ok();
                    }
                }
                43 => hello.tls13 = content.vector(1)?.chunks_exact(2).any(|version| version == [3, 4]),
                51 => {
                    let mut shares = Reader::new(content.vector(2)?);
                    while !shares.is_empty() {
                        hello.shares.push((shares.u16()?, shares.vector(2)?));
                    }
                }
                _ => {}
            }
        }
        Ok(hello)
    }

    /// Whether TLS 1.3 is offered.
    pub fn offers_tls13(&self) -> bool {
        self.tls13
    }

    fn offers(&self, cipher: u16) -> bool {
        self.ciphers.chunks_exact(2).any(|offered| offered == cipher.to_be_bytes())
    }
}

/// A server's handshake that waits for the client's Finished.
pub struct ServerHandshake {
    suite: Suite,
    reading: Keys,
    expected: Vec<u8>,
    application: TrafficSecrets,
    output: Vec<u8>,
    done: bool,
}

impl ServerHandshake {
    /// Answers a hello: the output then holds everything up to our Finished. `certificate` makes
    /// the leaf certificate (DER) once the ServerHello is known.
    pub fn answer(
        hello: &ClientHello<'_>,
        key: &Ed25519KeyPair,
        certificate: impl FnOnce(&[u8]) -> Vec<u8>,
        random: &mut dyn Random,
    ) -> Result<Self, TlsError> {
        let suite = [Suite::Aes128Gcm, Suite::Chacha20Poly1305, Suite::Aes256Gcm]
            .into_iter()
            .find(|suite| hello.offers(suite.code()))
            .ok_or(TlsError::Illegal("no common cipher suite"))?;
        let (group, share) = hello
            .shares
            .iter()
            .find(|(group, _)| matches!(*group, X25519_MLKEM768 | X25519))
            .ok_or(TlsError::Illegal("no usable key share"))?;
        let (public, shared) = exchange::respond(*group, share, random)?;
        let mut server_random = [0; 32];
        random.fill(&mut server_random);
        let mut message = vec![2];
        prefixed(&mut message, 3, |out| {
            out.extend_from_slice(&[3, 3]);
            out.extend_from_slice(&server_random);
            prefixed(out, 1, |out| out.extend_from_slice(hello.session_id));
            out.extend_from_slice(&suite.code().to_be_bytes());
            out.push(0);
            prefixed(out, 2, |out| {
                out.extend_from_slice(&[0, 43, 0, 2, 3, 4, 0, 51]);
                prefixed(out, 2, |out| {
                    out.extend_from_slice(&group.to_be_bytes());
                    prefixed(out, 2, |out| out.extend_from_slice(&public));
                });
            });
        });
        let schedule = Schedule::new(suite, &early_secret(suite, None), &shared);
        let mut transcript = Transcript::new(suite);
        transcript.add(hello.message);
        transcript.add(&message);
        let secrets = schedule.handshake_traffic(transcript.hash().as_ref());
        let mut keys = Keys::new(suite, secrets.server.clone())?;
        let mut output = Vec::with_capacity(4096);
        plain_record(&mut output, record::HANDSHAKE, 0x0303, &message);
        plain_record(&mut output, record::CHANGE_CIPHER_SPEC, 0x0303, &[1]);
        let mut flight = Vec::new();
        let mut add = |transcript: &mut Transcript, kind: u8, body: &dyn Fn(&mut Vec<u8>)| {
            let start = flight.len();
            flight.push(kind);
            prefixed(&mut flight, 3, body);
            transcript.add(&flight[start..]);
        };
        add(&mut transcript, 8, &|out| out.extend_from_slice(&[0, 0]));
        let leaf = certificate(&message);
        add(&mut transcript, 11, &|out| {
            out.push(0);
            prefixed(out, 3, |out| {
                prefixed(out, 3, |out| out.extend_from_slice(&leaf));
                out.extend_from_slice(&[0, 0]);
            });
        });
        let signature = key.sign(&signed_content(transcript.hash().as_ref()));
        add(&mut transcript, 15, &|out| {
            out.extend_from_slice(&[8, 7]);
            prefixed(out, 2, |out| out.extend_from_slice(signature.as_ref()));
        });
        let verify_data = finished(suite, &secrets.server, transcript.hash().as_ref());
        add(&mut transcript, 20, &|out| out.extend_from_slice(verify_data.as_slice()));
        keys.seal_into(&mut output, record::HANDSHAKE, &flight);
        let hash = transcript.hash();
        let client_finished = finished(suite, &secrets.client, hash.as_ref());
        let mut expected = vec![20, 0, 0, suite.hash_length() as u8];
        expected.extend_from_slice(client_finished.as_slice());
        Ok(Self {
            suite,
            reading: Keys::new(suite, secrets.client)?,
            expected,
            application: application_traffic(suite, &schedule.master(), hash.as_ref()),
            output,
            done: false,
        })
    }

    /// Takes what is to be sent now.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Reads the record at the front of `input`.
    pub fn receive(&mut self, input: &mut [u8]) -> Result<Progress, TlsError> {
        let broken = TlsError::Malformed("the client's answer is no TLS");
        let (kind, length) = match record::header(input).map_err(|_| broken.clone())? {
            Ok(header) => header,
            Err(needed) => return Ok(Progress::NeedMore(needed)),
        };
        let consumed = HEADER + length;
        if input.len() < consumed {
            return Ok(Progress::NeedMore(consumed));
        }
        match kind {
            record::CHANGE_CIPHER_SPEC => Ok(Progress::Consumed(consumed)),
            record::APPLICATION_DATA => {
                let (kind, payload) = self.reading.open(&mut input[..consumed]).map_err(|_| broken)?;
                let matches: bool = subtle::ConstantTimeEq::ct_eq(&input[payload], self.expected.as_slice()).into();
                if kind != record::HANDSHAKE || !matches {
                    return Err(TlsError::Integrity("the client's Finished does not match"));
                }
                self.done = true;
                Ok(Progress::Done(consumed))
            }
            _ => Err(TlsError::Illegal("the client broke off the handshake")),
        }
    }

    /// The two directions, once [`Progress::Done`] was reported.
    pub fn finish(self) -> Result<(RecordSeal, RecordOpen), TlsError> {
        if !self.done {
            return Err(TlsError::Configuration("the TLS handshake is not finished"));
        }
        let answer = Arc::new(AtomicBool::new(false));
        Ok((
            RecordSeal::new(
                Keys::new(self.suite, self.application.server.clone())?,
                answer.clone(),
                record::MAX_PLAINTEXT,
            ),
            RecordOpen::new(Keys::new(self.suite, self.application.client)?, answer, None),
        ))
    }
}
