//! The hellos, each with its date and source.

use super::{Extension, GREASE, Table};

const TLS13: u16 = 0x0304;
const TLS12: u16 = 0x0303;
const TLS11: u16 = 0x0302;
const TLS10: u16 = 0x0301;

/// Chromium 156.0.8078 of Debian 12, recorded on 2026-12-01 (`testdata/chromium-156-*.bin`).
pub(super) static CHROMIUM: Table = Table {
    ciphers: &[
        GREASE, 0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc013, 0xc014, 0x009c, 0x009d,
        0x002f, 0x0035,
    ],
    extensions: &[
        Extension::Grease(b""),
        Extension::ServerName,
        Extension::Fixed(23, b""),
        Extension::Fixed(0xff01, b"\0"),
        Extension::Groups(&[GREASE, 0x11ec, 0x001d, 0x0017, 0x0018]),
        Extension::Fixed(11, b"\x01\0"),
        Extension::Fixed(35, b""),
        Extension::Alpn,
        Extension::Fixed(5, b"\x01\0\0\0\0"),
        Extension::Signatures(&[
            GREASE, 0x0904, 0x0905, 0x0906, 0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806, 0x0601,
        ]),
        Extension::Fixed(18, b""),
        Extension::KeyShare(&[GREASE, 0x11ec, 0x001d]),
        Extension::Fixed(45, b"\x01\x01"),
        Extension::Versions(&[GREASE, TLS13, TLS12]),
        Extension::CompressCertificate(&[2]),
        Extension::ApplicationSettings(17613),
        Extension::EncryptedHello(&[144, 176, 208, 240]),
        Extension::TrustAnchors(CHROME_ROOTS),
        Extension::Grease(b"\0"),
    ],
    shuffled: true,
    joined_shares: false,
};

/// Identifiers of the trust anchors that Chromium 156 announces.
static CHROME_ROOTS: &[&[u8]] = &[
    b"\x82\xdf\x13\x02\x01",
    b"\x82\xdf\x13\x02\x06",
    b"\x82\xdf\x13\x02\x0d",
    b"\x82\xdf\x13\x02\x0e",
    b"\x82\xdf\x13\x02\x0f",
    b"\x82\xdf\x13\x02\x12",
    b"\x82\xdf\x13\x02\x13",
    b"\x82\xdf\x13\x02\x14",
    b"\x83\x9a\x64\x8c\x9b\x2d\x01\x07",
    b"\x83\x9a\x64\x8c\x9b\x2d\x01\x08",
    b"\x83\x9a\x64\x8c\x9b\x2d\x01\x09",
    b"\x83\x9a\x64\x8c\x9b\x2d\x01\x0a",
    b"\x83\x9a\x64\x8c\x9b\x2d\x01\x0b",
    b"\x83\x9a\x64\x8c\x9b\x2d\x01\x0c",
    b"\x83\x9a\x64\x8c\x9b\x2d\x01\x0d",
    b"\x83\x9a\x64\x8c\x9b\x2d\x01\x12",
    b"\x83\x9a\x64\x8c\x9b\x2d\x01\x13",
    b"\xd6\x79\x09\x01",
    b"\xd6\x79\x09\x04",
    b"\xd6\x79\x09\x05",
    b"\xd6\x79\x09\x06",
    b"\xd6\x79\x09\x07",
    b"\xd6\x79\x09\x08",
    b"\xd6\x79\x09\x0a",
    b"\xd6\x79\x09\x0b",
    b"\xd6\x79\x09\x0c",
    b"\xd6\x79\x09\x0d",
    b"\xd6\x79\x09\x0f",
];

/// Firefox 148, from the public descriptions of its hello (early 2026); not recorded here.
pub(super) static FIREFOX: Table = Table {
    ciphers: &[
        0x1301, 0x1303, 0x1302, 0xc02b, 0xc02f, 0xcca9, 0xcca8, 0xc02c, 0xc030, 0xc00a, 0xc009, 0xc013, 0xc014, 0x009c,
        0x009d, 0x002f, 0x0035,
    ],
    extensions: &[
        Extension::ServerName,
        Extension::Fixed(23, b""),
        Extension::Fixed(0xff01, b"\0"),
        Extension::Groups(&[0x11ec, 0x001d, 0x0017, 0x0018, 0x0019, 0x0100, 0x0101]),
        Extension::Fixed(11, b"\x01\0"),
        Extension::Alpn,
        Extension::Fixed(5, b"\x01\0\0\0\0"),
        Extension::DelegatedCredentials(&[0x0403, 0x0503, 0x0603, 0x0203]),
        Extension::Fixed(18, b""),
        Extension::KeyShare(&[0x11ec, 0x001d, 0x0017]),
        Extension::Versions(&[TLS13, TLS12]),
        Extension::Signatures(&[
            0x0403, 0x0503, 0x0603, 0x0804, 0x0805, 0x0806, 0x0401, 0x0501, 0x0601, 0x0203, 0x0201,
        ]),
        Extension::RecordSizeLimit(0x4001),
        Extension::CompressCertificate(&[1, 2, 3]),
        Extension::EncryptedHello(&[239]),
    ],
    shuffled: false,
    joined_shares: true,
};

/// Safari 26.3 (macOS and iOS), from the public descriptions of its hello (2026); not recorded here.
pub(super) static SAFARI: Table = Table {
    ciphers: &[
        GREASE, 0x1302, 0x1303, 0x1301, 0xc02c, 0xc02b, 0xcca9, 0xc030, 0xc02f, 0xcca8, 0xc00a, 0xc009, 0xc014, 0xc013,
        0x009d, 0x009c, 0x0035, 0x002f, 0xc008, 0xc012, 0x000a,
    ],
    extensions: &[
        Extension::Grease(b""),
        Extension::ServerName,
        Extension::Fixed(23, b""),
        Extension::Fixed(0xff01, b"\0"),
        Extension::Groups(&[GREASE, 0x11ec, 0x001d, 0x0017, 0x0018, 0x0019]),
        Extension::Fixed(11, b"\x01\0"),
        Extension::Alpn,
        Extension::Fixed(5, b"\x01\0\0\0\0"),
        Extension::Signatures(&[0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0805, 0x0501, 0x0806, 0x0601, 0x0201]),
        Extension::Fixed(18, b""),
        Extension::KeyShare(&[GREASE, 0x11ec, 0x001d]),
        Extension::Fixed(45, b"\x01\x01"),
        Extension::Versions(&[GREASE, TLS13, TLS12, TLS11, TLS10]),
        Extension::CompressCertificate(&[1]),
        Extension::Grease(b"\0"),
        Extension::Padding,
    ],
    shuffled: false,
    joined_shares: false,
};
