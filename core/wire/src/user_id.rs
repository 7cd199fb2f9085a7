//! User identifiers of VMess and VLESS: a UUID, or a short text that stands for one.

use sha1::{Digest, Sha1};

/// Why a text is no user identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UserIdError {
    /// Neither a UUID nor a text of 1 to 30 bytes.
    #[error("the user id is neither a UUID nor a text of 1 to 30 bytes")]
    Length,
    /// 32 to 36 characters that are no UUID.
    #[error("the user id has the length of a UUID but is none")]
    NotHex,
}

/// The 16 bytes of a user identifier. A UUID may have dashes or none; a text of 1 to 30 bytes
/// becomes the start of `SHA1(16 zero bytes ‖ text)` in the form of a version 5 UUID.
pub fn parse_user_id(text: &str) -> Result<[u8; 16], UserIdError> {
    match text.len() {
        1..=30 => {
            let mut hash = Sha1::new();
            hash.update([0; 16]);
            hash.update(text.as_bytes());
            let mut id = [0; 16];
            id.copy_from_slice(&hash.finalize()[..16]);
            id[6] = (id[6] & 0x0f) | 0x50;
            id[8] = (id[8] & 0x3f) | 0x80;
            Ok(id)
        }
        32..=36 => {
            let mut id = [0u8; 16];
            let mut count = 0;
            for byte in text.bytes().filter(|&b| b != b'-') {
                let digit = char::from(byte).to_digit(16).ok_or(UserIdError::NotHex)? as u8;
                let place = id.get_mut(count / 2).ok_or(UserIdError::NotHex)?;
                *place = *place << 4 | digit;
                count += 1;
            }
            if count == 32 { Ok(id) } else { Err(UserIdError::NotHex) }
        }
        _ => Err(UserIdError::Length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_and_texts() {
        let id = parse_user_id("b831381d-6324-4d53-ad4f-8cda48b30811").unwrap();
        assert_eq!(id[..4], [0xb8, 0x31, 0x38, 0x1d]);
        assert_eq!(parse_user_id("b831381d63244d53ad4f8cda48b30811"), Ok(id));
        let text = parse_user_id("example").unwrap();
        // The vector of Xray's own documentation of mapped identifiers.
        assert_eq!(
            text,
            [0xfe, 0xb5, 0x44, 0x31, 0x30, 0x1b, 0x52, 0xbb, 0xa6, 0xdd, 0xe1, 0xe9, 0x3e, 0x81, 0xbb, 0x9e]
        );
        assert_eq!(parse_user_id(""), Err(UserIdError::Length));
        assert_eq!(parse_user_id(&"x".repeat(31)), Err(UserIdError::Length));
        assert_eq!(parse_user_id(&"x".repeat(36)), Err(UserIdError::NotHex));
        assert_eq!(parse_user_id(&"x".repeat(37)), Err(UserIdError::Length));
    }
}
