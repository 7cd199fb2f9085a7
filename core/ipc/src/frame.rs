//! Lines as frames: one JSON text and a line feed, never longer than the limit.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// The longest frame, line feed excluded, in bytes.
pub const MAX_FRAME_BYTES: usize = 8 * 1024 * 1024;

/// Reads the next frame into `line` (cleared first). `Ok(false)` is the end of the stream between
/// frames.
///
/// # Errors
/// The stream's errors; `InvalidData` for a frame above `limit`; `UnexpectedEof` for an end
/// within a frame.
pub async fn read_frame<R: AsyncBufRead + Unpin>(reader: &mut R, line: &mut Vec<u8>, limit: usize) -> io::Result<bool> {
    line.clear();
    loop {
        let available = reader.fill_buf().await?;
        if available.is_empty() {
            return if line.is_empty() {
                Ok(false)
            } else {
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the peer closed within a frame"))
            };
        }
        let (taken, ended) = match available.iter().position(|&byte| byte == b'\n') {
            Some(at) => (at, true),
            None => (available.len(), false),
        };
        if line.len() + taken > limit {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the peer sent a frame of more than {limit} bytes"),
            ));
        }
        line.extend_from_slice(&available[..taken]);
        reader.consume(if ended { taken + 1 } else { taken });
        if ended {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_are_cut_at_line_feeds_and_bounded() {
        let mut reader = tokio::io::BufReader::with_capacity(3, &b"{\"a\":1}\n\n123456\n"[..]);
        let mut line = Vec::new();
        assert!(read_frame(&mut reader, &mut line, 7).await.unwrap());
        assert_eq!(line, b"{\"a\":1}");
        assert!(read_frame(&mut reader, &mut line, 7).await.unwrap());
        assert!(line.is_empty());
        let error = read_frame(&mut reader, &mut line, 5).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[tokio::test]
    async fn an_end_within_a_frame_is_an_error() {
        let mut reader = &b"{\"a\""[..];
        let mut line = Vec::new();
        let error = read_frame(&mut reader, &mut line, 64).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(!read_frame(&mut reader, &mut line, 64).await.unwrap());
    }
}
