//! The server's Certificate message, plain or compressed.

use std::io::Read;

use super::codec::{Reader, extensions};
use super::error::TlsError;
use super::verify::CertificateError;

/// The most bytes of a certificate message, unpacked.
pub(crate) const MAX_CERTIFICATES: usize = 256 * 1024;

/// Certificates and what was stapled to the first.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    pub(crate) certificates: Vec<Vec<u8>>,
    pub(crate) ocsp: Vec<u8>,
}

/// Parses the body of a Certificate message; `offered` tells whether we sent an extension.
pub(crate) fn parse(body: &[u8], offered: impl Fn(u16) -> bool) -> Result<Chain, TlsError> {
    let mut reader = Reader::new(body);
    if !reader.vector(1)?.is_empty() {
        return Err(TlsError::Illegal("its certificate message answers a request that was not made"));
    }
    let mut entries = Reader::new(reader.vector(3)?);
    reader.end()?;
    let mut chain = Chain::default();
    while !entries.is_empty() {
        let certificate = entries.vector(3)?;
        let extra = extensions(entries.vector(2)?)?;
        if certificate.is_empty() {
            return Err(TlsError::Malformed("an empty certificate"));
        }
        for (kind, content) in extra {
            if !offered(kind) {
                return Err(TlsError::Illegal("a certificate carries an extension that was not offered"));
            }
            match kind {
                5 if chain.certificates.is_empty() => {
                    let mut status = Reader::new(content);
                    if status.u8()? == 1 {
                        chain.ocsp = status.vector(3)?.to_vec();
                    }
                }
                34 => return Err(TlsError::Unsupported("a delegated credential")),
                _ => {}
            }
        }
        chain.certificates.push(certificate.to_vec());
    }
    if chain.certificates.is_empty() {
        return Err(CertificateError::Missing.into());
    }
    Ok(chain)
}

/// Unpacks a CompressedCertificate message's body to that of a Certificate message.
pub(crate) fn decompress(body: &[u8], offered: &[u16]) -> Result<Vec<u8>, TlsError> {
    let mut reader = Reader::new(body);
    let algorithm = reader.u16()?;
    let length = reader.u24()?;
    let packed = reader.vector(3)?;
    reader.end()?;
    if !offered.contains(&algorithm) {
        return Err(TlsError::Illegal("the certificate is compressed in a way that was not offered"));
    }
    let failed = TlsError::Certificate(CertificateError::Compression);
    if length > MAX_CERTIFICATES {
        return Err(failed);
    }
    let unpacked = match algorithm {
        1 => read_bounded(flate2::read::ZlibDecoder::new(packed), length),
        2 => read_bounded(brotli_decompressor::Decompressor::new(packed, 4096), length),
        3 => zstd::bulk::decompress(packed, length).ok(),
        _ => None,
    };
    unpacked.filter(|unpacked| unpacked.len() == length).ok_or(failed)
}

/// Reads until the end, but one byte more than `length` at most.
fn read_bounded(from: impl Read, length: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(length);
    from.take(length as u64 + 1).read_to_end(&mut out).ok()?;
    Some(out)
}
