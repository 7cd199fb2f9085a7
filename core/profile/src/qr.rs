//! QR codes: a text to a picture, and the texts in a picture. Pixels in, texts out.

mod finders;

use std::panic::{AssertUnwindSafe, catch_unwind};

use finders::Area;
use qrcode::{EcLevel, QrCode};

/// The most bytes that one code can hold (version 40, level L).
pub const MOST_BYTES: usize = 2953;
/// Pictures with more pixels than this are refused (8K).
const MOST_PIXELS: usize = 7680 * 4320;

/// Why there is no code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QrError {
    /// The text is longer than a code can hold.
    #[error("the link has {bytes} bytes and a QR code holds {MOST_BYTES} at most: copy it as text instead")]
    TooLong {
        /// Its length, bytes.
        bytes: usize,
    },
    /// The buffer and the measures of a picture don't belong together, or it is too large.
    #[error("the picture of {width} × {height} pixels can't be read")]
    BadPicture {
        /// Width, pixels.
        width: usize,
        /// Height, pixels.
        height: usize,
    },
}

/// A code as modules, `true` for dark, without the quiet zone of four modules that belongs round it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    /// Modules a side.
    pub side: usize,
    /// Row by row from the top left, `side * side` of them.
    pub dark: Vec<bool>,
}

fn code(text: &str) -> Result<QrCode, QrError> {
    let too_long = || QrError::TooLong { bytes: text.len() };
    // The strongest correction that does not make the code much denser: people photograph screens.
    let level = if text.len() > 800 { EcLevel::L } else { EcLevel::M };
    QrCode::with_error_correction_level(text, level).map_err(|_| too_long())
}

/// Encodes `text`.
///
/// # Errors
/// When the text is too long.
pub fn encode(text: &str) -> Result<Matrix, QrError> {
    let code = code(text)?;
    let dark = code.to_colors().into_iter().map(|color| color == qrcode::Color::Dark).collect();
    Ok(Matrix { side: code.width(), dark })
}

/// Encodes `text` as an SVG picture, black on white with its quiet zone.
///
/// # Errors
/// When the text is too long.
pub fn svg(text: &str) -> Result<String, QrError> {
    use std::fmt::Write as _;
    let matrix = encode(text)?;
    let side = matrix.side + 8;
    let mut path = String::new();
    for (at, _) in matrix.dark.iter().enumerate().filter(|(_, dark)| **dark) {
        // Writing to a String does not fail.
        let _ = write!(path, "M{} {}h1v1h-1z", at % matrix.side + 4, at / matrix.side + 4);
    }
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {side} {side}\" shape-rendering=\"crispEdges\">\
         <path fill=\"#fff\" d=\"M0 0h{side}v{side}H0z\"/><path fill=\"#000\" d=\"{path}\"/></svg>"
    ))
}

/// All texts in a greyscale picture of one byte a pixel, row by row, 0 for black. Codes that are
/// light on dark are found too. No text is given twice.
///
/// # Errors
/// When the buffer is not `width * height` bytes long, or larger than 8K.
pub fn decode(pixels: &[u8], width: usize, height: usize) -> Result<Vec<String>, QrError> {
    let bad = QrError::BadPicture { width, height };
    match width.checked_mul(height) {
        Some(count) if count == pixels.len() && count <= MOST_PIXELS => {}
        Some(_) | None => return Err(bad),
    }
    if width < 21 || height < 21 {
        return Ok(Vec::new());
    }
    let mut texts = Vec::new();
    find(width, height, |x, y| pixels.get(y * width + x).copied().unwrap_or(255), &mut texts);
    if texts.is_empty() {
        find(width, height, |x, y| 255 - pixels.get(y * width + x).copied().unwrap_or(0), &mut texts);
    }
    // Large pictures blur fine modules away; small ones are often screenshots of half a pixel a module.
    if texts.is_empty() && width >= 1000 && height >= 1000 {
        let (half_width, half_height) = (width / 2, height / 2);
        let mean = |x: usize, y: usize| {
            let at =
                |dx: usize, dy: usize| u16::from(pixels.get((2 * y + dy) * width + 2 * x + dx).copied().unwrap_or(255));
            let sum = at(0, 0) + at(1, 0) + at(0, 1) + at(1, 1);
            u8::try_from(sum / 4).unwrap_or(255)
        };
        find(half_width, half_height, mean, &mut texts);
    }
    Ok(texts)
}

/// Small pictures are tried even when no pattern shows.
const SMALL_PIXELS: usize = 1 << 20;

fn find(width: usize, height: usize, pixel: impl Fn(usize, usize) -> u8, texts: &mut Vec<String>) {
    let (left, top, width, height) = match finders::area(width, height, &pixel) {
        Area::Part(left, top, width, height) => (left, top, width, height),
        Area::Unknown if width * height <= SMALL_PIXELS => (0, 0, width, height),
        Area::Unknown | Area::Noise => return,
    };
    // The decoder is not ours: a picture that makes it panic holds no code.
    let found = catch_unwind(AssertUnwindSafe(|| {
        let mut picture = rqrr::PreparedImage::prepare_from_greyscale(width, height, |x, y| pixel(left + x, top + y));
        let mut found = Vec::new();
        for grid in picture.detect_grids() {
            let mut bytes = Vec::new();
            if grid.decode_to(&mut bytes).is_ok()
                && let Ok(text) = String::from_utf8(bytes)
            {
                found.push(text);
            }
        }
        found
    }));
    for text in found.unwrap_or_default() {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST_BYTES, QrError, decode, encode, svg};

    /// A picture of codes side by side, each `scale` pixels a module, with quiet zones.
    fn picture(texts: &[&str], scale: usize, dark: u8, light: u8) -> (Vec<u8>, usize, usize) {
        let codes: Vec<_> = texts.iter().map(|text| encode(text).unwrap()).collect();
        let side = codes.iter().map(|code| code.side).max().unwrap() + 8;
        let (width, height) = (side * scale * codes.len(), side * scale);
        let pixel = |at: usize| {
            let (x, y) = (at % width / scale, at / width / scale);
            let code = &codes[x / side];
            let (x, y) = ((x % side).wrapping_sub(4), y.wrapping_sub(4));
            let inside = x < code.side && y < code.side;
            if inside && code.dark[y * code.side + x] { dark } else { light }
        };
        ((0..width * height).map(pixel).collect(), width, height)
    }

    #[test]
    fn what_is_written_is_read() {
        let link = "vless://0d4170f2-4709-4533-a04d-9cc882af2d21@vl.example.com:443?security=tls#%E9%A6%99";
        for (dark, light) in [(0, 255), (90, 150), (255, 0)] {
            let (pixels, width, height) = picture(&[link], 4, dark, light);
            assert_eq!(decode(&pixels, width, height).unwrap(), [link], "{dark} on {light}");
        }
        assert!(svg(link).unwrap().starts_with("<svg"));
    }

    #[test]
    fn several_codes_in_one_picture() {
        let (pixels, width, height) =
            picture(&["trojan://a@a.example.com:443", "trojan://b@b.example.com:443"], 5, 0, 255);
        let mut texts = decode(&pixels, width, height).unwrap();
        texts.sort();
        assert_eq!(texts, ["trojan://a@a.example.com:443", "trojan://b@b.example.com:443"]);
    }

    #[test]
    fn limits_are_told_in_words() {
        assert!(encode(&"a".repeat(MOST_BYTES)).is_ok());
        let error = encode(&"a".repeat(MOST_BYTES + 1)).unwrap_err();
        assert_eq!(error, QrError::TooLong { bytes: MOST_BYTES + 1 });
        assert!(decode(&[0; 10], 100, 100).is_err());
        assert_eq!(decode(&[7; 400 * 300], 400, 300).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_turned_code_is_read() {
        let text = "hysteria2://pw@hy.example.com:443/?sni=s.example.com#turned";
        let (pixels, width, _) = picture(&[text], 6, 20, 230);
        let side = width * 3 / 2;
        for degrees in [10.0_f64, 30.0, 45.0, 90.0, 180.0] {
            let (sin, cos) = degrees.to_radians().sin_cos();
            let (middle, half) = (side as f64 / 2.0, width as f64 / 2.0);
            let turned: Vec<u8> = (0..side * side)
                .map(|at| {
                    let (x, y) = ((at % side) as f64 - middle, (at / side) as f64 - middle);
                    let (x, y) = (cos * x + sin * y + half, cos * y - sin * x + half);
                    let inside = x >= 0.0 && y >= 0.0 && x < width as f64 && y < width as f64;
                    if inside { pixels[y as usize * width + x as usize] } else { 230 }
                })
                .collect();
            assert_eq!(decode(&turned, side, side).unwrap(), [text], "{degrees} degrees");
        }
    }

    #[test]
    fn a_code_on_a_large_screen_is_found_and_noise_ends_soon() {
        let (width, height) = (3840, 2160);
        let text = "trojan://pw@tj.example.com:443#screen";
        let (code, side, _) = picture(&[text], 3, 0, 255);
        let background = |x: usize, y: usize| if (x * 7919 + y * 104_729) % 97 < 30 && y % 20 < 12 { 40 } else { 250 };
        let mut screen: Vec<u8> = (0..width * height).map(|at| background(at % width, at / width)).collect();
        for y in 0..side {
            screen[(1500 + y) * width + 3000..][..side].copy_from_slice(&code[y * side..][..side]);
        }
        assert_eq!(decode(&screen, width, height).unwrap(), [text]);
        let mut state = 1u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .take(width * height)
        .collect();
        let start = std::time::Instant::now();
        assert_eq!(decode(&noise, width, height).unwrap(), Vec::<String>::new());
        assert!(start.elapsed() < std::time::Duration::from_secs(5));
    }
}
