//! TLS 1.2 and 1.3 by rustls, client and server.

use std::io;
use std::sync::{Arc, OnceLock};

use aws_lc_rs::digest;
use culvert_profile::node::Tls;
use culvert_wire::{Destination, Host};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::outbound::{ConnectError, Phase};
use crate::stream::{BoxStream, LendRead, LendWrite, Stream};

/// The one crypto provider.
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider())))
}

/// The system's trusted roots, read once at the first use.
pub fn system_roots() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    Arc::clone(ROOTS.get_or_init(|| {
        let mut store = RootCertStore::empty();
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::warn!("a system root certificate can't be read: {error}");
        }
        store.add_parsable_certificates(found.certs);
        Arc::new(store)
    }))
}

/// What a server's certificate is judged by.
#[derive(Debug)]
enum Trust {
    /// The system's roots and the name.
    Roots(Arc<WebPkiServerVerifier>),
    /// SHA-256 of a certificate of the chain, or of the public key of the leaf.
    Pinned(Vec<[u8; 32]>),
    /// Anything: a marked choice.
    Anything,
}

#[derive(Debug)]
struct Verifier {
    trust: Trust,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match &self.trust {
            Trust::Roots(roots) => roots.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now),
            Trust::Pinned(pins) => {
                let hash = digest::digest(&digest::SHA256, end_entity);
                if pins.iter().any(|pin| pin[..] == *hash.as_ref()) {
                    Ok(ServerCertVerified::assertion())
                } else {
                    Err(rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
                }
            }
            Trust::Anything => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn pins(text: &str) -> Result<Vec<[u8; 32]>, String> {
    text.split(',')
        .map(|pin| {
            let digits: Vec<u8> = pin.trim().bytes().filter(|b| *b != b':').collect();
            let mut hash = [0; 32];
            if digits.len() != 64 {
                return Err("a pinned certificate hash must have 64 hex digits".to_owned());
            }
            for (byte, pair) in hash.iter_mut().zip(digits.chunks(2)) {
                *byte = std::str::from_utf8(pair)
                    .ok()
                    .and_then(|pair| u8::from_str_radix(pair, 16).ok())
                    .ok_or("a pinned certificate hash holds something that is no hex digit")?;
            }
            Ok(hash)
        })
        .collect()
}

/// What judges a server's certificate by these options.
pub(super) fn verifier(tls: &Tls) -> Result<Arc<dyn ServerCertVerifier>, String> {
    static SYSTEM: OnceLock<Result<Arc<WebPkiServerVerifier>, String>> = OnceLock::new();
    let provider = provider();
    let trust = if let Some(text) = &tls.pin_sha256 {
        Trust::Pinned(pins(text)?)
    } else if tls.insecure {
        Trust::Anything
    } else {
        let roots = SYSTEM.get_or_init(|| {
            WebPkiServerVerifier::builder_with_provider(system_roots(), Arc::clone(&provider))
                .build()
                .map_err(|e| format!("this computer has no usable trusted roots: {e}"))
        });
        Trust::Roots(roots.clone()?)
    };
    Ok(Arc::new(Verifier { trust, provider }))
}

fn client_config(tls: &Tls, alpn: &[&str]) -> Result<ClientConfig, String> {
    let verifier = verifier(tls)?;
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = if tls.alpn.is_empty() {
        alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect()
    } else {
        tls.alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect()
    };
    config.enable_sni = !tls.disable_sni;
    Ok(config)
}

type CachedConfigs = Vec<(Tls, Vec<String>, Arc<ClientConfig>)>;

/// Configurations in use, so that sessions can be resumed and roots are not parsed again.
fn cached_config(tls: &Tls, alpn: &[&str]) -> Result<Arc<ClientConfig>, String> {
    const LIMIT: usize = 64;
    static CONFIGS: OnceLock<std::sync::Mutex<CachedConfigs>> = OnceLock::new();
    let mut configs =
        CONFIGS.get_or_init(std::sync::Mutex::default).lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some((.., config)) = configs.iter().find(|(t, a, _)| t == tls && a == alpn) {
        return Ok(Arc::clone(config));
    }
    let config = Arc::new(client_config(tls, alpn)?);
    if configs.len() >= LIMIT {
        configs.remove(0);
    }
    configs.push((tls.clone(), alpn.iter().map(|a| (*a).to_owned()).collect(), Arc::clone(&config)));
    Ok(config)
}

/// The client's handshake.
pub async fn connect(
    stream: BoxStream,
    server: &Destination,
    name: &Host,
    tls: &Tls,
    alpn: &[&str],
) -> Result<BoxStream, ConnectError> {
    let config = cached_config(tls, alpn).map_err(ConnectError::NotOffered)?;
    let name = match name {
        Host::Ip(address) => ServerName::IpAddress((*address).into()),
        Host::Name(name) => ServerName::try_from(name.to_string())
            .map_err(|_| ConnectError::NotOffered(format!("{name} can't be a TLS server name")))?,
    };
    match TlsConnector::from(config).connect(name, stream).await {
        Ok(stream) => Ok(Box::new(stream)),
        Err(error) => Err(explain(error, server)),
    }
}

/// Turns a failed handshake into its cause.
fn explain(error: io::Error, server: &Destination) -> ConnectError {
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>());
    if let Some(rustls::Error::InvalidCertificate(problem)) = inner {
        return ConnectError::Certificate { server: server.to_string(), reason: certificate_problem(problem) };
    }
    let (problem, hint) = match inner {
        Some(error) => (error.to_string(), "is this the right port, and does the server speak TLS there?"),
        None if error.kind() == io::ErrorKind::UnexpectedEof || error.kind() == io::ErrorKind::ConnectionReset => (
            "the server closed the connection during the TLS handshake".to_owned(),
            "wrong server name, or something on the way blocks it?",
        ),
        None => {
            return ConnectError::Io { server: server.to_string(), phase: Phase::Security, source: Arc::new(error) };
        }
    };
    ConnectError::Handshake { server: server.to_string(), phase: Phase::Security, problem, hint }
}

/// What is wrong with a certificate, in words.
pub(super) fn certificate_reason(error: &rustls::Error) -> String {
    if let rustls::Error::InvalidCertificate(problem) = error {
        certificate_problem(problem)
    } else {
        error.to_string()
    }
}

fn certificate_problem(problem: &CertificateError) -> String {
    #[expect(clippy::wildcard_enum_match_arm, reason = "a foreign, open enum with its own wording")]
    match problem {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired".to_owned(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet (is this computer's clock right?)".to_owned()
        }
        CertificateError::UnknownIssuer => "no authority that this computer trusts has signed it".to_owned(),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for another name".to_owned()
        }
        CertificateError::ApplicationVerificationFailure => "it is not the pinned one".to_owned(),
        other => other.to_string(),
    }
}

/// The server's side, for the demo server and tests.
#[derive(Clone)]
pub struct Acceptor {
    acceptor: TlsAcceptor,
}

impl Acceptor {
    /// Serves with this certificate chain and key; `alpn` in order of preference.
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        alpn: &[&str],
    ) -> Result<Self, rustls::Error> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)) })
    }

    /// The server's handshake.
    pub async fn accept(&self, stream: BoxStream) -> io::Result<BoxStream> {
        Ok(Box::new(self.acceptor.accept(stream).await?))
    }
}

impl<S: Stream> Stream for tokio_rustls::client::TlsStream<S> {
    fn raw_read(&self) -> Option<&TcpStream> {
        None
    }

    fn raw_write(&self) -> Option<&TcpStream> {
        None
    }

    fn lend_read(&mut self) -> Option<&mut dyn LendRead> {
        None
    }

    fn lend_write(&mut self) -> Option<&mut dyn LendWrite> {
        None
    }
}

impl<S: Stream> Stream for tokio_rustls::server::TlsStream<S> {
    fn raw_read(&self) -> Option<&TcpStream> {
        None
    }

    fn raw_write(&self) -> Option<&TcpStream> {
        None
    }

    fn lend_read(&mut self) -> Option<&mut dyn LendRead> {
        None
    }

    fn lend_write(&mut self) -> Option<&mut dyn LendWrite> {
        None
    }
}
