//! Who decides whether the server is the right one.

use super::exchange::Share;

/// Why a certificate is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// The chain, the name or the time is wrong.
    #[error("{0}")]
    Untrusted(String),
    /// The handshake's signature does not fit the certificate.
    #[error("its signature over the handshake is wrong")]
    Signature,
    /// The server signed with a scheme that is not accepted.
    #[error("it signed with scheme {0:#06x}, which was not offered or is not supported")]
    Scheme(u16),
    /// The server sent none.
    #[error("the server sent no certificate")]
    Missing,
    /// A compressed certificate message could not be unpacked.
    #[error("the compressed certificate can't be unpacked")]
    Compression,
}

/// What the server has shown.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// Certificates in DER, the server's own first.
    pub chain: &'a [Vec<u8>],
    /// A stapled OCSP response; empty when there is none.
    pub ocsp: &'a [u8],
    /// The name that was asked for.
    pub server_name: Option<&'a str>,
    /// Our last ClientHello, handshake header included.
    pub client_hello: &'a [u8],
    /// The ServerHello, handshake header included.
    pub server_hello: &'a [u8],
}

/// Authenticates the server of one handshake.
pub trait ServerAuth: Send {
    /// A last change to the finished ClientHello before it is sent (REALITY seals its session id
    /// here). `hello` starts with the handshake header.
    fn finish_hello(&mut self, hello: &mut [u8], shares: &[Share]) -> Result<(), super::TlsError> {
        let (_, _) = (hello, shares);
        Ok(())
    }

    /// Whether a HelloRetryRequest and resumption are possible: both change the ClientHello in
    /// ways that [`ServerAuth::finish_hello`] may not survive.
    fn ordinary(&self) -> bool {
        true
    }

    /// Checks the certificate chain.
    fn check_chain(&mut self, evidence: &Evidence<'_>) -> Result<(), CertificateError>;

    /// Checks the CertificateVerify signature over `message` by the leaf `certificate` (DER).
    /// `offered` are the schemes that the ClientHello listed.
    fn check_signature(
        &mut self,
        scheme: u16,
        offered: &[u16],
        certificate: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), CertificateError>;
}
