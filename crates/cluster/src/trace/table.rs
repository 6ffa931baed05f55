//! Traces in tables with a header row.

use std::io::{BufRead, Read as _};

use tributary_base::{EXCERPT, shortened};

use super::{Error, Format, Record, Records, time};

/// Maximum length of a line in bytes: thousands of times that of a published trace.
const MAX_LINE: u64 = 1 << 20;

/// Columns of a row.
const SUBMIT: usize = 0;
const DURATION: usize = 1;
const GPUS: usize = 2;
const START: usize = 3;
const END: usize = 4;
const GROUP: usize = 5;
const COLUMNS: usize = 6;

/// The names of a format's columns in the order of the constants above, and the number of mandatory
/// ones.
const fn columns(format: Format) -> (&'static [&'static str], usize) {
    match format {
        Format::PhillyTable => (&["timestamp", "duration", "num_gpus", "", "", "cluster"], 3),
        Format::Helios => {
            (&["submit_time", "duration", "gpu_num", "start_time", "end_time", "vc"], 3)
        }
        Format::Acme => {
            (&["submit_time", "duration", "gpu_num", "start_time", "end_time", "type"], 3)
        }
        Format::Compact => (&["submit_s", "duration_s", "gpus", "", "", "group"], 3),
        Format::PhillyLog => (&[], 0),
    }
}

/// A column that only this format has.
const MARKS: [(&str, Format); 4] = [
    ("submit_s", Format::Compact),
    ("timestamp", Format::PhillyTable),
    ("vc", Format::Helios),
    ("gpu_time", Format::Acme),
];

/// The positions of a format's columns in a table.
#[derive(Debug)]
struct Layout {
    format: Format,
    at: [Option<usize>; COLUMNS],
}

impl Layout {
    fn new(
        head: &str,
        rows: &mut Rows,
        line: u64,
        format: Option<Format>,
        records: &Records,
    ) -> Result<Self, Error> {
        let names: Vec<_> =
            rows.fields(head).map(|name| name.trim().to_ascii_lowercase()).collect();
        let has = |name: &str| names.iter().any(|found| found == name);
        let format = format.or_else(|| {
            let fits = |format: Format| {
                let (columns, needed) = columns(format);
                columns[..needed].iter().all(|column| has(column))
            };
            let marks = MARKS.iter().filter(|(mark, format)| has(mark) && fits(*format));
            marks.map(|&(_, format)| format).next()
        });
        let Some(format) = format else {
            return Err(Error::Unknown { file: records.file.clone(), line, found: quote(head) });
        };
        let (columns, needed) = columns(format);
        let mut at = [None; COLUMNS];
        for (index, &column) in columns.iter().enumerate() {
            at[index] = names.iter().position(|name| name == column && !column.is_empty());
            if at[index].is_none() && index < needed {
                let file = records.file.clone();
                return Err(Error::NoColumn { file, line, format, column });
            }
        }
        Ok(Self { format, at })
    }

    /// Adds a row to the records, or omits it.
    fn take(&self, row: &str, rows: &mut Rows, line: u64, records: &mut Records) {
        let mut cells = [const { None }; COLUMNS];
        let mut width = 0;
        for (index, field) in rows.fields(row).enumerate() {
            width += 1;
            if let Some(column) = self.at.iter().position(|&at| at == Some(index)) {
                cells[column] = Some(field);
            }
        }
        let cell = |column: usize| cells[column].map_or("", str::trim);
        for column in [SUBMIT, DURATION, GPUS] {
            if cells[column].is_none() {
                let name = columns(self.format).0[column];
                let what = format!("the row has {width} fields and no `{name}` among them");
                return records.leave_out(line, what);
            }
        }
        let Some(gpus) = whole(cell(GPUS)) else {
            let what = format!("`{}` is not a number of GPUs", shortened(cell(GPUS), EXCERPT));
            return records.leave_out(line, what);
        };
        if gpus == 0 && matches!(self.format, Format::Helios | Format::Acme) {
            // Half of the jobs in these traces use processors only.
            return records.leave_out_without_gpu(line);
        }
        let submit_s = if self.format == Format::Compact {
            cell(SUBMIT).parse().ok().filter(|submit_s: &f64| submit_s.is_finite())
        } else {
            time::parse(cell(SUBMIT))
        };
        let Some(submit_s) = submit_s else {
            let what =
                format!("`{}` is not a time of submission", shortened(cell(SUBMIT), EXCERPT));
            return records.leave_out(line, what);
        };
        // Start and end take precedence: Kalos' durations include the waiting time.
        let held_s = time::parse(cell(START))
            .zip(time::parse(cell(END)))
            .map(|(start_s, end_s)| end_s - start_s);
        let Some(duration_s) = held_s.or_else(|| cell(DURATION).parse().ok()) else {
            let what = format!("`{}` is not a duration", shortened(cell(DURATION), EXCERPT));
            return records.leave_out(line, what);
        };
        let group = cells[GROUP].map(str::trim);
        records.take(Record { line, submit_s, duration_s, gpus, group });
    }
}

/// Reads a table. If `format` is `None`, the header determines it.
pub(super) fn read(
    mut reader: impl BufRead,
    format: Option<Format>,
    records: &mut Records,
) -> Result<(), Error> {
    let mut layout = None;
    let mut rows = Rows::new();
    let mut bytes = Vec::new();
    let mut line = 0;
    loop {
        bytes.clear();
        let read = reader.by_ref().take(MAX_LINE + 1).read_until(b'\n', &mut bytes);
        let read = read.map_err(|source| Error::Read { file: records.file.clone(), source })?;
        if read == 0 {
            break;
        }
        line += 1;
        if read as u64 > MAX_LINE {
            let found = format!("a line is longer than {} MB", MAX_LINE >> 20);
            return Err(Error::Unknown { file: records.file.clone(), line, found });
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
        match (&layout, std::str::from_utf8(text)) {
            (None, Ok(head)) => layout = Some(Layout::new(head, &mut rows, line, format, records)?),
            (None, Err(_)) => {
                let found = "it is not text".to_owned();
                return Err(Error::Unknown { file: records.file.clone(), line, found });
            }
            (Some(layout), Ok(row)) => layout.take(row, &mut rows, line, records),
            (Some(_), Err(_)) => records.leave_out(line, "the row is not text"),
        }
    }
    if layout.is_none() {
        let found = "it is empty".to_owned();
        return Err(Error::Unknown { file: records.file.clone(), line: line.max(1), found });
    }
    Ok(())
}

/// An integer; some tables write it with a fraction of zero.
fn whole(text: &str) -> Option<u32> {
    text.parse().ok().or_else(|| {
        let value: f64 = text.parse().ok()?;
        (value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&value))
            .then_some(value as u32)
    })
}

/// Splits rows into fields. A quoted field may contain commas and doubled quotes.
#[derive(Debug)]
struct Rows {
    reader: csv_core::Reader,
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Rows {
    fn new() -> Self {
        // The default would not know its own table of states.
        Self { reader: csv_core::Reader::new(), text: Vec::new(), ends: Vec::new() }
    }

    fn fields(&mut self, row: &str) -> impl Iterator<Item = &str> {
        let Self { reader, text, ends } = self;
        text.resize(row.len(), 0);
        ends.resize(row.len() + 1, 0);
        // The second call tells the reader that the row is over.
        let (_, _, written, ended) = reader.read_record(row.as_bytes(), text, ends);
        let (_, _, _, last) = reader.read_record(&[], &mut text[written..], &mut ends[ended..]);
        reader.reset();
        let (text, mut begin) = (&*text, 0);
        ends[..ended + last].iter().map(move |&end| {
            let field = &text[std::mem::replace(&mut begin, end)..end];
            std::str::from_utf8(field).unwrap_or_default()
        })
    }
}

/// The header of a table, shortened for a message.
fn quote(head: &str) -> String {
    format!("it begins with `{}`", shortened(head, EXCERPT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(row: &str) -> Vec<String> {
        Rows::new().fields(row).map(str::to_owned).collect()
    }

    #[test]
    fn fields_of_a_row() {
        assert_eq!(split("a,b,,c"), ["a", "b", "", "c"]);
        assert_eq!(split("a,"), ["a", ""]);
        assert_eq!(split("\"a,b\",c"), ["a,b", "c"]);
        assert_eq!(split("\"say \"\"x\"\"\",2"), ["say \"x\"", "2"]);
        assert_eq!(split("\"never ends"), ["never ends"]);
        assert_eq!(split("\"a\""), ["a"]);
        assert_eq!(split("\"a\",\"\""), ["a", ""]);
    }

    #[test]
    fn whole_numbers() {
        assert_eq!(whole("8"), Some(8));
        assert_eq!(whole("8.0"), Some(8));
        for text in ["8.5", "-1", "", "x", "1e99", "nan"] {
            assert_eq!(whole(text), None, "{text}");
        }
    }
}
