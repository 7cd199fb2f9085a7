//! The client's handshake, without I/O: bytes in, bytes out, and at the end the two directions of
//! the record layer.

mod flight;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub(crate) use flight::signed_content;

use super::certificate::{Chain, MAX_CERTIFICATES};
use super::error::TlsError;
use super::fingerprint::Browser;
use super::hello::{Hello, Offer};
use super::record::{self, HEADER, Keys, RecordOpen, RecordSeal};
use super::schedule::{Schedule, Secret, Suite, TrafficSecrets, Transcript};
use super::session::SessionStore;
use super::verify::ServerAuth;
use crate::chunk::OpenError;
use crate::random::Random;

/// What a handshake is to be made with.
pub struct ClientConfig {
    /// Whose hello to wear.
    pub browser: Browser,
    /// The name to ask for; `None` (for an IP address) leaves the extension out.
    pub server_name: Option<String>,
    /// Application protocols instead of the browser's own (h2, http/1.1); empty for none.
    pub alpn: Option<Vec<Vec<u8>>>,
    /// Where tickets are kept, if sessions may be resumed.
    pub sessions: Option<Arc<dyn SessionStore>>,
}

/// How far [`Handshake::receive`] has come.
#[derive(Debug)]
pub enum Progress {
    /// At least this many bytes are needed in all, counted from the front of the input.
    NeedMore(usize),
    /// This many bytes are done with; call again with what follows (send the output first, if
    /// there is any).
    Consumed(usize),
    /// The handshake is done after this many bytes. What follows them belongs to the
    /// [`RecordOpen`]; the output must still be sent.
    Done(usize),
}

/// What a handshake led to.
pub struct Established {
    /// Seals what is sent.
    pub seal: RecordSeal,
    /// Opens what is received.
    pub open: RecordOpen,
    /// The application protocol that the server chose.
    pub alpn: Option<Vec<u8>>,
    /// The cipher suite.
    pub suite: Suite,
    /// The group of the key exchange.
    pub group: u16,
    /// Whether the session was resumed from a ticket.
    pub resumed: bool,
    /// The authenticator that was given.
    pub auth: Box<dyn ServerAuth>,
}

enum State {
    ServerHello,
    EncryptedExtensions,
    Certificate,
    CertificateVerify,
    Finished,
    Done,
}

/// A client's handshake under way.
pub struct Handshake {
    state: State,
    config: ClientConfig,
    auth: Box<dyn ServerAuth>,
    random: Box<dyn Random>,
    hello: Hello,
    offer: Option<Offer>,
    /// First hello and HelloRetryRequest, when there was one.
    retried: Option<(Vec<u8>, Vec<u8>, Suite)>,
    server_hello: Vec<u8>,
    transcript: Option<Transcript>,
    suite: Suite,
    group: u16,
    resumed: bool,
    schedule: Option<Schedule>,
    secrets: Option<TrafficSecrets>,
    reading: Option<Keys>,
    chain: Chain,
    alpn: Option<Vec<u8>>,
    settings_answered: bool,
    size_limit: usize,
    master: Option<(Secret, TrafficSecrets)>,
    inbox: Vec<u8>,
    output: Vec<u8>,
    sent_ccs: bool,
    records: u32,
}

/// The most records of one handshake, empty and dummy ones included.
const MAX_RECORDS: u32 = 512;

impl Handshake {
    /// Starts a handshake; the output then holds the ClientHello.
    pub fn start(
        config: ClientConfig,
        mut auth: Box<dyn ServerAuth>,
        mut random: Box<dyn Random>,
    ) -> Result<Self, TlsError> {
        let mut hello =
            Hello::build(config.browser, config.server_name.as_deref(), config.alpn.as_deref(), &mut *random)?;
        let mut offer = None;
        if auth.ordinary()
            && hello.can_resume()
            && let (Some(store), Some(name)) = (&config.sessions, &config.server_name)
            && let Some((ticket, age_ms)) = store.take(name)
            && hello.ciphers.contains(&ticket.suite.code())
        {
            let ready = Offer { ticket, age_ms };
            hello.offer(&ready, &[]);
            offer = Some(ready);
        }
        auth.finish_hello(&mut hello.message, &hello.shares)?;
        if let Some(sealed) = hello.message.get(39..71) {
            hello.session_id.copy_from_slice(sealed);
        }
        let mut output = Vec::with_capacity(hello.message.len() + HEADER);
        plain_record(&mut output, record::HANDSHAKE, 0x0301, &hello.message);
        Ok(Self {
            state: State::ServerHello,
            config,
            auth,
            random,
            hello,
            offer,
            retried: None,
            server_hello: Vec::new(),
            transcript: None,
            suite: Suite::Aes128Gcm,
            group: 0,
            resumed: false,
            schedule: None,
            secrets: None,
            reading: None,
            chain: Chain::default(),
            alpn: None,
            settings_answered: false,
            size_limit: record::MAX_PLAINTEXT,
            master: None,
            inbox: Vec::new(),
            output,
            sent_ccs: false,
            records: 0,
        })
    }

    /// Takes what is to be sent now.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Reads the record at the front of `input`. After an error the output may hold an alert to
    /// send before closing.
    pub fn receive(&mut self, input: &mut [u8]) -> Result<Progress, TlsError> {
        let result = self.receive_record(input);
        if let Err(error) = &result
            && let Some(alert) = error.alert()
        {
            self.queue_alert(alert);
        }
        result
    }

    fn receive_record(&mut self, input: &mut [u8]) -> Result<Progress, TlsError> {
        let (kind, length) = match record::header(input).map_err(|error| open_error(&error))? {
            Ok(header) => header,
            Err(needed) => return Ok(Progress::NeedMore(needed)),
        };
        let consumed = HEADER + length;
        if input.len() < consumed {
            return Ok(Progress::NeedMore(consumed));
        }
        self.records += 1;
        if self.records > MAX_RECORDS {
            return Err(TlsError::Illegal("too many records in the handshake"));
        }
        let record = &mut input[..consumed];
        let (kind, payload) = match (&mut self.reading, kind) {
            (_, record::CHANGE_CIPHER_SPEC) => {
                if record[HEADER..] != [1] {
                    return Err(TlsError::Malformed("a change-cipher-spec record of a wrong form"));
                }
                return Ok(Progress::Consumed(consumed));
            }
            (Some(keys), record::APPLICATION_DATA) => keys.open(record).map_err(|error| open_error(&error))?,
            // A server that fails before it has our keys can only send its alert in the open.
            (_, record::ALERT) | (None, record::HANDSHAKE) => (kind, HEADER..consumed),
            _ => return Err(TlsError::Illegal("a record of a kind that is not due")),
        };
        let payload = &record[payload];
        match kind {
            record::ALERT => {
                let [_, alert] = payload else {
                    return Err(TlsError::Malformed("an alert of a wrong length"));
                };
                return Err(TlsError::Alert(*alert));
            }
            record::HANDSHAKE => {
                if payload.is_empty() {
                    return Err(TlsError::Illegal("an empty handshake record"));
                }
                self.inbox.extend_from_slice(payload);
            }
            _ => return Err(TlsError::Illegal("data before the end of the handshake")),
        }
        self.read_messages()?;
        Ok(if matches!(self.state, State::Done) { Progress::Done(consumed) } else { Progress::Consumed(consumed) })
    }

    fn read_messages(&mut self) -> Result<(), TlsError> {
        while let Some(header) = self.inbox.first_chunk::<4>() {
            let length = usize::from(header[1]) << 16 | usize::from(header[2]) << 8 | usize::from(header[3]);
            if length > MAX_CERTIFICATES {
                return Err(TlsError::Malformed("a message of the handshake is longer than allowed"));
            }
            if self.inbox.len() < 4 + length {
                break;
            }
            let rest = self.inbox.split_off(4 + length);
            let message = std::mem::replace(&mut self.inbox, rest);
            self.message(&message)?;
            if matches!(self.state, State::Done) {
                if !self.inbox.is_empty() {
                    return Err(TlsError::Illegal("a message follows Finished in its record"));
                }
                break;
            }
        }
        Ok(())
    }

    /// The result, once [`Progress::Done`] was reported.
    pub fn finish(self) -> Result<Established, TlsError> {
        let (Some((resumption, secrets)), State::Done) = (self.master, self.state) else {
            return Err(TlsError::Configuration("the TLS handshake is not finished"));
        };
        let answer_update = Arc::new(AtomicBool::new(false));
        let tickets = match (self.config.sessions, self.config.server_name) {
            (Some(store), Some(server_name)) if self.auth.ordinary() => {
                Some(record::TicketSink { store, server_name, resumption })
            }
            _ => None,
        };
        Ok(Established {
            seal: RecordSeal::new(
                Keys::new(self.suite, secrets.client.clone())?,
                answer_update.clone(),
                self.size_limit,
            ),
            open: RecordOpen::new(Keys::new(self.suite, secrets.server)?, answer_update, tickets),
            alpn: self.alpn,
            suite: self.suite,
            group: self.group,
            resumed: self.resumed,
            auth: self.auth,
        })
    }

    fn queue_alert(&mut self, alert: u8) {
        let keys = self.secrets.as_ref().and_then(|secrets| Keys::new(self.suite, secrets.client.clone()).ok());
        match keys {
            Some(mut keys) => keys.seal_into(&mut self.output, record::ALERT, &[2, alert]),
            None => plain_record(&mut self.output, record::ALERT, 0x0303, &[2, alert]),
        }
    }
}

pub(crate) fn plain_record(out: &mut Vec<u8>, kind: u8, version: u16, content: &[u8]) {
    for piece in content.chunks(record::MAX_PLAINTEXT) {
        out.push(kind);
        out.extend_from_slice(&version.to_be_bytes());
        out.extend_from_slice(&(piece.len() as u16).to_be_bytes());
        out.extend_from_slice(piece);
    }
}

fn open_error(error: &OpenError) -> TlsError {
    match error {
        OpenError::Authentication(what) => TlsError::Integrity(what),
        OpenError::Malformed(what) | OpenError::Unanswered(what) => TlsError::Malformed(what),
        OpenError::ClockSkew { .. } => TlsError::Malformed("clock skew"),
    }
}
