//! Traces in tables with a header row.

use tributary_base::{EXCERPT, shortened};

use super::columns::{Field, hint};
use super::error::Error;
use super::format::{Format, Reading};
use super::records::{Record, Records, Repeats};
use super::time;

/// The columns of a format's tables. `a|b` is a column that has one of two names.
const fn columns(format: Format) -> &'static [(Field, &'static str)] {
    use Field::{
        Asked, Duration, End, Gpus, Gradients, Iterations, Job, Model, Share, Start, Submit, User,
    };
    match format {
        Format::PhillyTable => {
            &[(Submit, "timestamp"), (Duration, "duration"), (Gpus, "num_gpus"), (User, "cluster")]
        }
        Format::Helios => &[
            (Submit, "submit_time"),
            (Duration, "duration"),
            (Gpus, "gpu_num"),
            (Start, "start_time"),
            (End, "end_time"),
            (User, "vc"),
        ],
        Format::Acme => &[
            (Submit, "submit_time"),
            (Duration, "duration"),
            (Gpus, "gpu_num"),
            (Start, "start_time"),
            (End, "end_time"),
            (User, "type"),
        ],
        Format::ElasticFlow => &[
            (Submit, "submission_time|submit_time"),
            (Duration, "duration"),
            (Gpus, "num_gpu"),
            (Job, "job_id"),
            (Model, "model_name"),
            (Iterations, "num_iteration|iteration"),
        ],
        Format::Openb => &[
            (Submit, "creation_time"),
            (Gpus, "num_gpu"),
            (Start, "scheduled_time"),
            (End, "deletion_time"),
            (User, "qos"),
            (Job, "name"),
            (Share, "gpu_milli"),
        ],
        Format::Sacct => &[
            (Submit, "submit"),
            (Gpus, "alloctres|reqtres"),
            (Start, "start"),
            (End, "end"),
            (User, "user"),
            (Job, "jobid"),
            (Asked, "reqtres"),
        ],
        Format::Compact => &[
            (Submit, "submit_s"),
            (Duration, "duration_s"),
            (Gpus, "gpus"),
            (User, "group"),
            (Job, "job"),
            (Model, "model"),
            (Iterations, "iterations"),
            (Gradients, "gradient_bytes"),
        ],
        Format::PhillyLog | Format::Pai | Format::Swf => &[],
    }
}

/// A column that only this format has.
const MARKS: [(&str, Format); 7] = [
    ("submit_s", Format::Compact),
    ("timestamp", Format::PhillyTable),
    ("vc", Format::Helios),
    ("gpu_time", Format::Acme),
    ("gpu_milli", Format::Openb),
    ("num_gpu", Format::ElasticFlow),
    ("jobid", Format::Sacct),
];

/// Separators of columns. A header has one of them.
const DELIMITERS: [u8; 4] = *b",|\t;";

/// How a table writes points in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Clock {
    Seconds,
    Dates,
}

impl Clock {
    fn parse(self, text: &str) -> Option<f64> {
        match self {
            Self::Seconds => text.parse().ok().filter(|at: &f64| at.is_finite()),
            Self::Dates => time::parse(text),
        }
    }
}

/// A table whose header was read.
#[derive(Debug)]
pub(super) struct Table {
    /// `None` for columns that the user named.
    format: Option<Format>,
    /// Names of the columns, for messages.
    names: [String; Field::COUNT],
    /// The positions of the columns.
    at: [Option<usize>; Field::COUNT],
    /// The first time that can be read determines it, unless the format does.
    clock: Option<Clock>,
    rows: Rows,
}

impl Table {
    /// Reads the header.
    pub(super) fn new(
        head: &str,
        line: u64,
        reading: &Reading,
        records: &mut Records,
    ) -> Result<Self, Error> {
        let times = |delimiter: &u8| head.bytes().filter(|byte| byte == delimiter).count();
        // The first of several that are equally frequent.
        let delimiter = DELIMITERS.into_iter().rev().max_by_key(times).unwrap_or(b',');
        let mut rows = Rows::new(delimiter);
        let found: Vec<_> =
            rows.fields(head).map(|name| name.trim().to_ascii_lowercase()).collect();
        let mut table = Self {
            format: None,
            names: Default::default(),
            at: [None; Field::COUNT],
            clock: None,
            rows,
        };
        match reading {
            Reading::With(named) => {
                for field in Field::NAMED {
                    let Some(column) = named.get(field) else { continue };
                    table.names[field as usize] = column.to_owned();
                    let at = position(&column.to_ascii_lowercase(), &found, line, records)?;
                    table.at[field as usize] = at;
                    if at.is_none() {
                        let file = records.file.clone();
                        let hint = hint(column, &found);
                        let hint = shortened(&hint, 4 * EXCERPT).into_owned();
                        let column = shortened(column, EXCERPT).into_owned();
                        return Err(Error::NotThere { file, line, field, column, hint });
                    }
                }
            }
            &Reading::As(format) => table.find(format, &found, line, records)?,
            Reading::Detected => {
                let marked = MARKS.into_iter().find(|&(mark, format)| {
                    found.iter().any(|name| name == mark) && fits(format, &found)
                });
                let Some((_, format)) = marked else {
                    return Err(records.unknown(line, quote(head)));
                };
                table.find(format, &found, line, records)?;
            }
        }
        Ok(table)
    }

    /// Finds the columns of a format.
    fn find(
        &mut self,
        format: Format,
        found: &[String],
        line: u64,
        records: &mut Records,
    ) -> Result<(), Error> {
        for &(field, column) in columns(format) {
            let at = &mut self.at[field as usize];
            for name in column.split('|') {
                if at.is_none() {
                    *at = position(name, found, line, records)?;
                    self.names[field as usize] = name.to_owned();
                }
            }
            if at.is_none() && needs(format, field) {
                let file = records.file.clone();
                let column = column.split('|').next().unwrap_or(column);
                return Err(Error::NoColumn { file, line, format, column });
            }
        }
        self.format = Some(format);
        self.clock = match format {
            Format::Compact | Format::ElasticFlow | Format::Openb => Some(Clock::Seconds),
            // Slurm can be told to write seconds.
            Format::Sacct => None,
            _ => Some(Clock::Dates),
        };
        if format == Format::Sacct {
            records.repeats = Repeats::Attempts;
        }
        Ok(())
    }

    /// Adds a row to the records, or omits it.
    pub(super) fn take(&mut self, row: &str, line: u64, records: &mut Records) {
        let mut cells = [const { None }; Field::COUNT];
        let mut width = 0;
        for (index, field) in self.rows.fields(row).enumerate() {
            width += 1;
            // Several fields may have the same column.
            for (cell, _) in cells.iter_mut().zip(self.at).filter(|&(_, at)| at == Some(index)) {
                *cell = Some(field.trim());
            }
        }
        let row = Row { cells, format: self.format };
        for field in Field::ALL {
            let needed = self.format.is_none_or(|format| needs(format, field));
            let at = self.at[field as usize];
            if at.is_some() && row.cells[field as usize].is_none() && needed {
                let name = &self.names[field as usize];
                let what = format!("the row has {width} fields and no `{name}` among them");
                return records.leave_out(line, what);
            }
        }
        if self.clock.is_none() {
            let clocks = [Clock::Seconds, Clock::Dates];
            let submit = row.cell(Field::Submit);
            self.clock = clocks.into_iter().find(|clock| clock.parse(submit).is_some());
        }
        row.take(self.clock.unwrap_or(Clock::Dates), line, records);
    }
}

/// The cells of a row, by field.
struct Row<'r> {
    cells: [Option<&'r str>; Field::COUNT],
    format: Option<Format>,
}

impl<'r> Row<'r> {
    fn cell(&self, field: Field) -> &'r str {
        self.cells[field as usize].unwrap_or_default()
    }

    /// What a message says about a cell that cannot be read.
    fn bad(&self, field: Field, wanted: &str) -> String {
        format!("`{}` is not {wanted}", shortened(self.cell(field), EXCERPT))
    }

    /// Adds the row to the records, or omits it.
    fn take(&self, clock: Clock, line: u64, records: &mut Records) {
        if self.format == Some(Format::Sacct) && self.cell(Field::Job).contains('.') {
            // A step of a job, which has a row of its own.
            return;
        }
        let Some(gpus) = self.gpus() else {
            return records.leave_out(line, self.bad(Field::Gpus, "a number of GPUs"));
        };
        let often = [Format::Helios, Format::Acme, Format::Openb, Format::Sacct];
        if gpus == 0 && self.format.is_none_or(|format| often.contains(&format)) {
            // Half of the jobs in these traces use processors only.
            return records.leave_out_without_gpu(line);
        }
        let Some(submit_s) = clock.parse(self.cell(Field::Submit)) else {
            return records.leave_out(line, self.bad(Field::Submit, "a time of submission"));
        };
        let duration_s = match self.duration_s(clock) {
            Ok(duration_s) => duration_s,
            Err(what) => return records.leave_out(line, what),
        };
        let number = |field: Field, wanted: &str| match self.cell(field) {
            "" => Ok(None),
            text => text.parse::<f64>().map(Some).map_err(|_| self.bad(field, wanted)),
        };
        let work = number(Field::Iterations, "a number of iterations").and_then(|iterations| {
            Ok((iterations, number(Field::Gradients, "a number of bytes of gradients")?))
        });
        let (iterations, gradient_bytes) = match work {
            Ok(work) => work,
            Err(what) => return records.leave_out(line, what),
        };
        if gpus == 1 && whole(self.cell(Field::Share)).is_some_and(|share| share < 1000) {
            records.note_shared(line);
        }
        records.take(Record {
            line,
            submit_s,
            duration_s,
            gpus,
            group: self.cells[Field::User as usize],
            job: Some(self.cell(Field::Job)).filter(|job| !job.is_empty()),
            model: self.cells[Field::Model as usize],
            iterations,
            gradient_bytes,
        });
    }

    fn gpus(&self) -> Option<u32> {
        if self.format != Some(Format::Sacct) {
            return whole(self.cell(Field::Gpus));
        }
        match self.cell(Field::Gpus) {
            "" => tracked(self.cell(Field::Asked)),
            allocated => tracked(allocated),
        }
    }

    /// Time on GPUs. Start and end take precedence: Kalos' durations include the waiting time.
    fn duration_s(&self, clock: Clock) -> Result<f64, String> {
        let (start_s, end_s) =
            (clock.parse(self.cell(Field::Start)), clock.parse(self.cell(Field::End)));
        if let Some((start_s, end_s)) = start_s.zip(end_s) {
            return Ok(end_s - start_s);
        }
        if self.cells[Field::Duration as usize].is_some() {
            let duration = self.cell(Field::Duration).parse();
            return duration.map_err(|_| self.bad(Field::Duration, "a duration"));
        }
        let (field, wanted) =
            if start_s.is_none() { (Field::Start, "a start") } else { (Field::End, "an end") };
        Err(self.bad(field, wanted))
    }
}

/// Whether a format's tables need a column.
fn needs(format: Format, field: Field) -> bool {
    let has_duration = columns(format).iter().any(|&(of, _)| of == Field::Duration);
    match field {
        Field::Submit | Field::Gpus => true,
        Field::Duration => has_duration,
        Field::Start | Field::End => !has_duration,
        _ => false,
    }
}

/// Whether a table has all columns that a format needs.
fn fits(format: Format, found: &[String]) -> bool {
    let has = |column: &str| column.split('|').any(|name| found.iter().any(|has| has == name));
    columns(format).iter().all(|&(field, column)| !needs(format, field) || has(column))
}

/// The position of a column.
fn position(
    name: &str,
    found: &[String],
    line: u64,
    records: &Records,
) -> Result<Option<usize>, Error> {
    let mut places = found.iter().enumerate().filter(|(_, has)| *has == name);
    let first = places.next().map(|(at, _)| at);
    if places.next().is_some() {
        let column = shortened(name, EXCERPT).into();
        return Err(Error::Ambiguous { file: records.file.clone(), line, column });
    }
    Ok(first)
}

/// GPUs in a list of Slurm's trackable resources, such as `cpu=8,gres/gpu=2,gres/gpu:a100=2`. The
/// total is not in every list.
fn tracked(list: &str) -> Option<u32> {
    let entries = || list.split(',').filter_map(|entry| entry.split_once('='));
    if let Some((_, total)) = entries().find(|(name, _)| *name == "gres/gpu") {
        return whole(total);
    }
    let mut sum = 0_u32;
    for (_, gpus) in entries().filter(|(name, _)| name.starts_with("gres/gpu:")) {
        sum = sum.saturating_add(whole(gpus)?);
    }
    Some(sum)
}

/// An integer; some tables write it with a fraction of zero.
pub(super) fn whole(text: &str) -> Option<u32> {
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
    fn new(delimiter: u8) -> Self {
        // Programs that separate by bars do not quote.
        let mut builder = csv_core::ReaderBuilder::new();
        let reader = builder.delimiter(delimiter).quoting(delimiter != b'|').build();
        Self { reader, text: Vec::new(), ends: Vec::new() }
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
        Rows::new(b',').fields(row).map(str::to_owned).collect()
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
