//! The few fields of REALITY's temporary certificate that carry its proof.

/// What the proof needs of a leaf certificate.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Leaf<'a> {
    /// The Ed25519 public key.
    pub(super) public_key: &'a [u8; 32],
    /// The certificate's signature value.
    pub(super) signature: &'a [u8],
    /// The value of the first extension, if there is one.
    pub(super) first_extension: Option<&'a [u8]>,
}

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const BOOLEAN: u8 = 0x01;
const OBJECT: u8 = 0x06;
/// AlgorithmIdentifier of Ed25519.
const ED25519: &[u8] = &[OBJECT, 3, 0x2b, 0x65, 0x70];

/// Reads one DER element off the front: tag and content.
fn element<'a>(input: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&tag, rest) = input.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x83 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (bytes.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    *input = rest;
    Some((tag, content))
}

fn expect<'a>(input: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    element(input).filter(|(found, _)| *found == tag).map(|(_, content)| content)
}

/// Reads the fields; `None` when the certificate is not one with an Ed25519 key.
pub(super) fn parse(der: &[u8]) -> Option<Leaf<'_>> {
    let mut input = der;
    let mut certificate = expect(&mut input, SEQUENCE)?;
    let mut body = expect(&mut certificate, SEQUENCE)?;
    expect(&mut certificate, SEQUENCE)?;
    let signature = expect(&mut certificate, BIT_STRING)?.strip_prefix(&[0])?;
    if body.first() == Some(&0xa0) {
        element(&mut body)?;
    }
    expect(&mut body, INTEGER)?;
    // Signature algorithm, issuer, validity, subject.
    for _ in 0..4 {
        expect(&mut body, SEQUENCE)?;
    }
    let mut key = expect(&mut body, SEQUENCE)?;
    if expect(&mut key, SEQUENCE)? != ED25519 {
        return None;
    }
    let public_key = expect(&mut key, BIT_STRING)?.strip_prefix(&[0])?.try_into().ok()?;
    let mut first_extension = None;
    while !body.is_empty() {
        let (tag, mut content) = element(&mut body)?;
        if tag == 0xa3 {
            let mut list = expect(&mut content, SEQUENCE)?;
            if !list.is_empty() {
                let mut extension = expect(&mut list, SEQUENCE)?;
                expect(&mut extension, OBJECT)?;
                if extension.first() == Some(&BOOLEAN) {
                    element(&mut extension)?;
                }
                first_extension = Some(expect(&mut extension, OCTET_STRING)?);
            }
        }
    }
    Some(Leaf { public_key, signature, first_extension })
}

fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match content.len() {
        length @ 0..0x80 => out.push(length as u8),
        length @ 0x80..0x100 => out.extend_from_slice(&[0x81, length as u8]),
        length => out.extend_from_slice(&[0x82, (length >> 8) as u8, length as u8]),
    }
    out.extend_from_slice(content);
    out
}

/// Makes the temporary certificate of a server: no names, the proof in the signature's place.
pub(super) fn build(public_key: &[u8], proof: &[u8]) -> Vec<u8> {
    let bits = |content: &[u8]| der(BIT_STRING, &[&[0], content].concat());
    let algorithm = der(SEQUENCE, ED25519);
    let empty_name = der(SEQUENCE, &[]);
    let times = [der(0x17, b"000101000000Z"), der(0x17, b"491231235959Z")].concat();
    let body = [
        der(0xa0, &der(INTEGER, &[2])),
        der(INTEGER, &[0]),
        algorithm.clone(),
        empty_name.clone(),
        der(SEQUENCE, &times),
        empty_name,
        der(SEQUENCE, &[algorithm.clone(), bits(public_key)].concat()),
    ]
    .concat();
    der(SEQUENCE, &[der(SEQUENCE, &body), algorithm, bits(proof)].concat())
}
