//! Import: a preview of what each line is, then the lines that were chosen.

use crate::types::{NodeId, wire};

wire! {
    /// Text to look at.
    #[derive(Eq)]
    pub struct ImportPreviewParams {
        /// Links, a subscription or a configuration; at most 4 MiB.
        pub text: String,
    }

    /// What a line is.
    #[derive(Copy, Eq)]
    #[serde(rename_all = "snake_case")]
    pub enum ImportStatus {
        /// Can be added.
        Ready,
        /// Is there already, or came earlier in the same text.
        Duplicate,
        /// Understood, but can't be used.
        Unsupported,
        /// Not understood.
        Broken,
    }

    /// One line or entry of the text.
    #[derive(Eq)]
    pub struct ImportRow {
        /// Place in the preview, from 0; named by the commit.
        pub index: u32,
        /// What it is.
        pub status: ImportStatus,
        /// Name of the node; of a broken line its beginning, without what may be secret.
        pub name: String,
        /// Protocol.
        pub protocol: Option<String>,
        /// Server and port.
        pub server: Option<String>,
        /// Why it can't be added, or what to know about it.
        pub reason: Option<String>,
        /// Line in the text, from 1.
        pub line: Option<u32>,
        /// Character in the line, from 1.
        pub column: Option<u32>,
        /// The node that it repeats.
        pub duplicate_of: Option<NodeId>,
        /// Weak choices to be marked, such as "accepts any certificate".
        pub warnings: Vec<String>,
    }

    /// All lines.
    #[derive(Eq)]
    pub struct ImportPreview {
        /// Name of the format that was recognised.
        pub format: String,
        /// Rows, at most 20,000.
        pub rows: Vec<ImportRow>,
        /// Rows by status: ready, duplicate, unsupported, broken.
        pub counts: ImportCounts,
        /// What a server said in place of nodes: a page's title, an error's message.
        pub message: Option<String>,
        /// The text is nothing but the address of a subscription.
        pub is_subscription_url: bool,
    }

    /// Rows by status.
    #[derive(Copy, Default, Eq)]
    pub struct ImportCounts {
        /// Can be added.
        pub ready: u32,
        /// There already.
        pub duplicate: u32,
        /// Can't be used.
        pub unsupported: u32,
        /// Not understood.
        pub broken: u32,
    }

    /// The same text again and the rows to add.
    #[derive(Eq)]
    pub struct ImportCommitParams {
        /// The text of the preview.
        pub text: String,
        /// Rows by their index; absent for all that are ready.
        #[serde(default)]
        #[ts(optional)]
        pub rows: Option<Vec<u32>>,
    }

    /// What was added.
    #[derive(Eq)]
    pub struct ImportCommitted {
        /// The new nodes, in order.
        pub nodes: Vec<NodeId>,
        /// Rows that were asked for and can't be added.
        pub refused: Vec<u32>,
    }

    /// An image with QR codes in it.
    #[derive(Eq)]
    pub struct QrDecodeParams {
        /// The pixels as 8-bit grey, row by row, base64; at most 4 MiB.
        pub grey_base64: String,
        /// Width in pixels.
        pub width: u32,
        /// Height in pixels.
        pub height: u32,
    }

    /// What the codes say.
    #[derive(Eq)]
    pub struct QrDecoded {
        /// One text a code.
        pub texts: Vec<String>,
    }

    /// A node's share link as a QR code; holds its secrets, since it was asked for.
    #[derive(Eq)]
    pub struct QrCode {
        /// An SVG image, black on white, with its quiet zone.
        pub svg: String,
    }
}
