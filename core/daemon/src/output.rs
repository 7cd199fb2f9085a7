//! Results on standard output, progress and prose on standard error.

use std::io::{self, Write};

use serde::Serialize;

/// A line of prose on standard error. A closed standard error is no reason to fail.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// A line of result on standard output.
///
/// # Errors
/// When standard output is closed.
pub(crate) fn line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

/// A result as one line of JSON.
///
/// # Errors
/// When standard output is closed.
pub(crate) fn json(value: &impl Serialize) -> io::Result<()> {
    line(&serde_json::to_string(value)?)
}

/// A table with its heads; columns are as wide as their widest cell.
///
/// # Errors
/// When standard output is closed.
pub(crate) fn table(heads: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .chain(heads.get(column).map(|head| head.chars().count()))
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let write = |cells: Vec<&str>| {
        let padded: Vec<String> = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        line(padded.join("  ").trim_end())
    };
    write(heads.to_vec())?;
    for row in rows {
        write(row.iter().map(String::as_str).collect())?;
    }
    Ok(())
}
