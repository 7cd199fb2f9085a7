//! `parse`: what a text holds.

use culvert_profile::{parse_document, report};

use crate::cli::ParseArguments;
use crate::{input, output};

pub(crate) fn run(arguments: &ParseArguments, json: bool) -> anyhow::Result<bool> {
    let document = parse_document(&input::read(arguments.file.as_deref())?);
    let found = !document.nodes.is_empty();
    if json {
        output::line(&serde_json::to_string_pretty(&report(&document))?)?;
    } else {
        let rows: Vec<Vec<String>> = document
            .nodes
            .iter()
            .map(|node| {
                let value = serde_json::to_value(node).unwrap_or_default();
                let protocol = value.get("protocol").and_then(|word| word.as_str()).unwrap_or_default();
                vec![
                    input::shown(node),
                    protocol.to_owned(),
                    format!("{}:{}", node.address, node.port),
                    node.unsupported.clone().unwrap_or_default(),
                ]
            })
            .collect();
        if found {
            output::table(&["NAME", "PROTOCOL", "SERVER", "CAN'T BE USED"], &rows)?;
        }
    }
    for skipped in &document.skipped {
        let line = skipped.line.map(|line| format!("line {line}: ")).unwrap_or_default();
        output::note(&format!("skipped: {line}{} ({})", skipped.reason, skipped.input_redacted));
    }
    if document.skipped_more > 0 {
        output::note(&format!("skipped: {} more", document.skipped_more));
    }
    if let Some(message) = &document.message {
        output::note(&format!("the document says: {message}"));
    }
    if !found {
        output::note("no node was found");
    }
    Ok(found)
}
