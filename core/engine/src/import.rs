//! From text to rows: what each line is, and which nodes are there already.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use culvert_ipc::types::{ImportCounts, ImportPreview, ImportRow, ImportStatus, NodeId};

use culvert_profile::document::Skipped;
use culvert_profile::identity::Identity;
use culvert_profile::{Node, parse_document};

use crate::store::StoredNode;
use crate::summary::{Summary, weak_choices};

/// The longest text that is read, in bytes.
pub const MAX_TEXT: usize = 4 * 1024 * 1024;
/// The most rows of a preview.
pub const MAX_ROWS: usize = 20_000;

/// A preview and the nodes behind its rows.
pub struct Previewed {
    /// What is shown.
    pub preview: ImportPreview,
    /// By row; rows of what is broken come after them.
    pub nodes: Vec<Option<Node>>,
}

/// Looks at `text`, beside the nodes that are there.
pub fn preview(text: &str, present: &[StoredNode]) -> Previewed {
    let document = parse_document(text.as_bytes());
    let mut seen: HashMap<Identity, Option<NodeId>> =
        present.iter().map(|stored| (stored.node.identity(), Some(stored.id))).collect();
    let mut counts = ImportCounts::default();
    let mut rows = Vec::new();
    let mut nodes = Vec::new();
    for (index, node) in (0..).zip(document.nodes.into_iter().take(MAX_ROWS)) {
        let row = node_row(index, &node, &mut seen);
        match row.status {
            ImportStatus::Ready => counts.ready += 1,
            ImportStatus::Duplicate => counts.duplicate += 1,
            ImportStatus::Unsupported => counts.unsupported += 1,
            ImportStatus::Broken => counts.broken += 1,
        }
        rows.push(row);
        nodes.push(Some(node));
    }
    let first = u32::try_from(rows.len()).unwrap_or(u32::MAX);
    let is_subscription_url = document.subscription_url.is_some();
    if !is_subscription_url {
        for (index, skipped) in (first..).zip(document.skipped) {
            counts.broken += 1;
            rows.push(broken_row(index, skipped));
        }
        counts.broken += u32::try_from(document.skipped_more).unwrap_or(u32::MAX);
    }
    let format = serde_json::to_value(document.format).ok();
    let format = format.as_ref().and_then(|value| value.as_str()).unwrap_or("unknown").to_owned();
    let preview = ImportPreview { format, rows, counts, message: document.message, is_subscription_url };
    Previewed { preview, nodes }
}

fn broken_row(index: u32, skipped: Skipped) -> ImportRow {
    ImportRow {
        index,
        status: ImportStatus::Broken,
        name: skipped.input_redacted,
        protocol: None,
        server: None,
        reason: Some(skipped.reason),
        line: skipped.line.and_then(|line| u32::try_from(line).ok()),
        column: None,
        duplicate_of: None,
        warnings: Vec::new(),
    }
}

fn node_row(index: u32, node: &Node, seen: &mut HashMap<Identity, Option<NodeId>>) -> ImportRow {
    let server = if node.address.contains(':') {
        format!("[{}]:{}", node.address, node.port)
    } else {
        format!("{}:{}", node.address, node.port)
    };
    let mut row = ImportRow {
        index,
        status: ImportStatus::Unsupported,
        name: node.name.clone(),
        protocol: Some(Summary::of(node).protocol.to_owned()),
        server: Some(server),
        reason: node.unsupported.clone(),
        line: None,
        column: None,
        duplicate_of: None,
        warnings: weak_choices(node),
    };
    match seen.entry(node.identity()) {
        Entry::Occupied(known) => {
            row.status = ImportStatus::Duplicate;
            row.duplicate_of = *known.get();
        }
        Entry::Vacant(place) => {
            place.insert(None);
            if node.unsupported.is_none() {
                row.status = ImportStatus::Ready;
            }
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: &str = "trojan://secret@example.com:443#One";

    #[test]
    fn lines_are_told_apart() {
        let present = vec![StoredNode { id: NodeId(7), node: culvert_profile::parse_link(LINK).unwrap() }];
        let text = "trojan://secret@example.com:443#Other%20name\ntrojan://other@example.com:443#Two\n\
             trojan://other@example.com:443#Three\nvmess://!!!\n";
        let previewed = preview(text, &present);
        let statuses: Vec<ImportStatus> = previewed.preview.rows.iter().map(|row| row.status).collect();
        assert_eq!(
            statuses,
            [ImportStatus::Duplicate, ImportStatus::Ready, ImportStatus::Duplicate, ImportStatus::Broken]
        );
        assert_eq!(previewed.preview.rows[0].duplicate_of, Some(NodeId(7)));
        assert_eq!(previewed.preview.rows[2].duplicate_of, None);
        assert_eq!(previewed.preview.rows[3].line, Some(4));
        assert_eq!(previewed.preview.counts.broken, 1);
        let shown = serde_json::to_string(&previewed.preview).unwrap();
        assert!(!shown.contains("secret") && !shown.contains("other@"), "{shown}");
    }
}
