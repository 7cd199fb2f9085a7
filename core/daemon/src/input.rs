//! Nodes from the command line: links, or files of them.

use std::io::Read;
use std::path::Path;

use anyhow::Context;
use culvert_profile::document::LARGEST_DOCUMENT;
use culvert_profile::{Document, Node, parse_document};

/// The arguments make no sense: exit status 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadUsage(pub(crate) String);

/// Reads `file`, or standard input for `-` and for nothing.
pub(crate) fn read(file: Option<&Path>) -> anyhow::Result<Vec<u8>> {
    let limit = LARGEST_DOCUMENT as u64 + 1;
    let mut text = Vec::new();
    match file {
        Some(path) if path != Path::new("-") => {
            let file = std::fs::File::open(path).with_context(|| format!("{} can't be read", path.display()))?;
            file.take(limit).read_to_end(&mut text).with_context(|| format!("{} can't be read", path.display()))?;
        }
        Some(_) | None => {
            std::io::stdin().lock().take(limit).read_to_end(&mut text).context("standard input can't be read")?;
        }
    }
    Ok(text)
}

/// A link on the command line, or the file of that name.
pub(crate) fn document(argument: &str) -> anyhow::Result<Document> {
    if argument.contains("://") {
        return Ok(parse_document(argument.as_bytes()));
    }
    Ok(parse_document(&read(Some(Path::new(argument)))?))
}

/// The nodes of `argument`, those that can't be used included.
pub(crate) fn nodes(argument: &str) -> anyhow::Result<Vec<Node>> {
    let document = document(argument)?;
    if document.nodes.is_empty() {
        let reason = document
            .message
            .or_else(|| document.skipped.first().map(|skipped| skipped.reason.clone()))
            .unwrap_or_else(|| "there is nothing in it".to_owned());
        anyhow::bail!("no node was found: {reason}");
    }
    Ok(document.nodes)
}

/// A name to show for a node.
pub(crate) fn shown(node: &Node) -> String {
    if node.name.is_empty() { format!("{}:{}", node.address, node.port) } else { node.name.clone() }
}
