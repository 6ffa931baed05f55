//! Traces with one record per line.

use std::io::{BufRead, Read as _};

use super::error::Error;
use super::format::{Format, Reading};
use super::pai::Pai;
use super::records::Records;
use super::swf;
use super::table::Table;

/// Maximum length of a line in bytes: thousands of times that of a published trace.
const MAX_LINE: u64 = 1 << 20;

/// What the lines are.
enum Lines {
    Table(Box<Table>),
    Pai(Pai),
    Swf,
}

impl Lines {
    /// Determined by the first line that is not blank, unless it is known. The line is used up if
    /// it is the header of a table.
    fn new(
        first: &str,
        line: u64,
        reading: &Reading,
        records: &mut Records,
    ) -> Result<Self, Error> {
        match reading {
            Reading::As(Format::Swf) => Ok(Self::Swf),
            Reading::As(Format::Pai) => Ok(Self::Pai(Pai::default())),
            Reading::Detected if swf::fits(first) => Ok(Self::Swf),
            Reading::Detected if Pai::fits(first) => Ok(Self::Pai(Pai::default())),
            _ => {
                Table::new(first, line, reading, records).map(|table| Self::Table(Box::new(table)))
            }
        }
    }

    /// Adds a line to the records, or omits it.
    fn take(&mut self, text: &str, line: u64, records: &mut Records) {
        match self {
            Self::Table(table) => table.take(text, line, records),
            Self::Pai(pai) => pai.take(text, line, records),
            Self::Swf => swf::take(text, line, records),
        }
    }
}

/// Reads the lines of a file.
pub(super) fn read(
    mut reader: impl BufRead,
    reading: &Reading,
    records: &mut Records,
) -> Result<(), Error> {
    let mut lines = None;
    let mut bytes = Vec::new();
    let mut line = 0;
    loop {
        bytes.clear();
        let read = reader.by_ref().take(MAX_LINE + 1).read_until(b'\n', &mut bytes);
        let read = read.map_err(|source| records.unreadable(source))?;
        if read == 0 {
            break;
        }
        line += 1;
        if read as u64 > MAX_LINE {
            let found = format!("a line is longer than {} MB", MAX_LINE >> 20);
            return Err(records.unknown(line, found));
        }
        let text = if line == 1 {
            bytes.strip_prefix(&super::BYTE_ORDER_MARK).unwrap_or(&bytes)
        } else {
            &bytes
        };
        let text = text.trim_ascii();
        if text.is_empty() {
            continue;
        }
        match (&mut lines, std::str::from_utf8(text)) {
            (None, Ok(first)) => {
                let mut found = Lines::new(first, line, reading, records)?;
                if !matches!(found, Lines::Table(_)) {
                    found.take(first, line, records);
                }
                lines = Some(found);
            }
            (None, Err(_)) => return Err(records.unknown(line, "it is not text")),
            (Some(lines), Ok(row)) => lines.take(row, line, records),
            (Some(_), Err(_)) => records.leave_out(line, "the row is not text"),
        }
    }
    match lines {
        None => Err(records.unknown(line.max(1), "it is empty")),
        Some(Lines::Pai(pai)) => {
            pai.finish(records);
            Ok(())
        }
        Some(_) => Ok(()),
    }
}
