//! The judge of a server's certificate: as strict as rustls, whose verifier it asks.

use std::sync::Arc;

use culvert_profile::node::Tls;
use culvert_wire::Host;
use culvert_wire::tls::{CertificateError, Evidence, ServerAuth};
use rustls::SignatureScheme;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

use crate::transport::tls;

/// Signature schemes of TLS 1.3 (RFC 8446 §4.2.3): no PKCS #1, no SHA-1.
const SCHEMES: [u16; 7] = [0x0403, 0x0503, 0x0603, 0x0804, 0x0805, 0x0806, 0x0807];

/// Judges by the system's roots and the name, or by the node's pins, or not at all.
pub struct Judge {
    verifier: Arc<dyn ServerCertVerifier>,
    name: ServerName<'static>,
}

impl Judge {
    /// A judge for a server called `name`.
    pub fn new(tls: &Tls, name: &Host) -> Result<Self, String> {
        let name = match name {
            Host::Ip(address) => ServerName::IpAddress((*address).into()),
            Host::Name(name) => {
                ServerName::try_from(name.to_string()).map_err(|_| format!("{name} can't be a TLS server name"))?
            }
        };
        Ok(Self { verifier: tls::verifier(tls)?, name })
    }
}

impl ServerAuth for Judge {
    fn check_chain(&mut self, evidence: &Evidence<'_>) -> Result<(), CertificateError> {
        let chain: Vec<CertificateDer<'_>> =
            evidence.chain.iter().map(|der| CertificateDer::from(der.as_slice())).collect();
        let (leaf, intermediates) = chain.split_first().ok_or(CertificateError::Missing)?;
        self.verifier
            .verify_server_cert(leaf, intermediates, &self.name, evidence.ocsp, UnixTime::now())
            .map(|_| ())
            .map_err(|error| CertificateError::Untrusted(tls::certificate_reason(&error)))
    }

    fn check_signature(
        &mut self,
        scheme: u16,
        offered: &[u16],
        certificate: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), CertificateError> {
        if !SCHEMES.contains(&scheme) || !offered.contains(&scheme) {
            return Err(CertificateError::Scheme(scheme));
        }
        let provider = tls::provider();
        let algorithm = provider
            .signature_verification_algorithms
            .mapping
            .iter()
            .find(|(known, _)| *known == SignatureScheme::from(scheme))
            // In TLS 1.3 a scheme fixes its curve: the first algorithm is the one that fits.
            .and_then(|(_, algorithms)| algorithms.first())
            .ok_or(CertificateError::Scheme(scheme))?;
        let der = CertificateDer::from(certificate);
        webpki::EndEntityCert::try_from(&der)
            .and_then(|leaf| leaf.verify_signature(*algorithm, message, signature))
            .map_err(|_| CertificateError::Signature)
    }
}
