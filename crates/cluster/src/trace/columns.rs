//! Columns of a table that is in no known format, named by the user.

use std::fmt;

use tributary_base::document::suggest;

/// What a column of a trace holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Field {
    /// Time of submission: seconds, or a date with a time of day.
    Submit,
    /// Time on GPUs, in seconds.
    Duration,
    /// Number of GPUs.
    Gpus,
    /// Start of the job, as the submission.
    Start,
    /// End of the job, as the submission.
    End,
    /// User, or another group of jobs.
    User,
    /// Number or name of the job.
    Job,
    /// Name of the model.
    Model,
    /// Number of iterations.
    Iterations,
    /// Gradients summed per iteration, in bytes per worker.
    Gradients,
    /// Requested GPUs, for jobs without allocated ones. Only formats have it.
    Asked,
    /// Thousandths of a GPU, for jobs with one. Only formats have it.
    Share,
}

impl Field {
    /// Number of fields.
    pub(super) const COUNT: usize = Self::ALL.len();

    /// All fields, in the order of the variants.
    pub(super) const ALL: [Self; 12] = [
        Self::Submit,
        Self::Duration,
        Self::Gpus,
        Self::Start,
        Self::End,
        Self::User,
        Self::Job,
        Self::Model,
        Self::Iterations,
        Self::Gradients,
        Self::Asked,
        Self::Share,
    ];

    /// The fields that a user can name, in the order of the variants.
    pub const NAMED: [Self; 10] = {
        let mut named = [Self::Submit; 10];
        named.copy_from_slice(Self::ALL.split_at(10).0);
        named
    };

    /// The name on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Duration => "duration",
            Self::Gpus => "gpus",
            Self::Start => "start",
            Self::End => "end",
            Self::User => "user",
            Self::Job => "job",
            Self::Model => "model",
            Self::Iterations => "iterations",
            Self::Gradients => "gradients",
            Self::Asked => "asked",
            Self::Share => "share",
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The columns of a table, by field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Columns(Vec<(Field, String)>);

impl Columns {
    /// Reads `FIELD=COLUMN` pairs, such as `gpus=GPUs`.
    ///
    /// # Errors
    ///
    /// One line that names the wrong or missing pair.
    pub fn parse<'p>(pairs: impl IntoIterator<Item = &'p str>) -> Result<Self, String> {
        let mut columns = Self(Vec::new());
        for pair in pairs {
            let Some((field, column)) = pair.split_once('=') else {
                return Err(format!("`{pair}` is not FIELD=COLUMN; write for example gpus=GPUs"));
            };
            let (field, column) = (field.trim(), column.trim());
            let Some(field) = Field::NAMED.into_iter().find(|known| known.name() == field) else {
                let fields = Field::NAMED.map(Field::name).join(", ");
                return Err(format!("`{pair}`: there is no field `{field}`; there are {fields}"));
            };
            if column.is_empty() {
                return Err(format!("`{pair}` names no column; write for example {field}=NAME"));
            }
            if let Some(other) = columns.get(field) {
                return Err(format!(
                    "`{pair}`: the field `{field}` has the column `{other}` already; remove one"
                ));
            }
            columns.0.push((field, column.to_owned()));
        }
        columns.check()?;
        Ok(columns)
    }

    /// Whether the fields suffice.
    fn check(&self) -> Result<(), String> {
        let missing = |field: Field| self.get(field).is_none();
        for field in [Field::Submit, Field::Gpus] {
            if missing(field) {
                return Err(format!("the field `{field}` is missing; add {field}=COLUMN"));
            }
        }
        if missing(Field::Duration) && (missing(Field::Start) || missing(Field::End)) {
            return Err("how long jobs ran is missing; add duration=COLUMN, or start=COLUMN and \
                        end=COLUMN"
                .to_owned());
        }
        Ok(())
    }

    /// The column of a field.
    #[must_use]
    pub fn get(&self, field: Field) -> Option<&str> {
        self.0.iter().find(|(of, _)| *of == field).map(|(_, column)| column.as_str())
    }
}

/// What helps someone who named a column that a table does not have.
pub(super) fn hint(column: &str, names: &[String]) -> String {
    match suggest::nearest(column, names.iter().map(String::as_str)) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => format!("the table has {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Columns, String> {
        Columns::parse(text.split(','))
    }

    #[test]
    fn pairs_name_the_columns() {
        let columns = parse("submit=Submitted at, gpus = GPUs,duration=a=b").unwrap();
        assert_eq!(columns.get(Field::Submit), Some("Submitted at"));
        assert_eq!(
            (columns.get(Field::Gpus), columns.get(Field::Duration)),
            (Some("GPUs"), Some("a=b"))
        );
        assert_eq!(columns.get(Field::Model), None);
        parse("submit=a,gpus=b,start=c,end=d").unwrap();
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, expected) in [
            ("", "`` is not FIELD=COLUMN; write for example gpus=GPUs"),
            ("gpu=A", "`gpu=A`: there is no field `gpu`; there are submit, duration, gpus, "),
            ("share=A", "`share=A`: there is no field `share`"),
            ("gpus=", "`gpus=` names no column; write for example gpus=NAME"),
            ("gpus=A,gpus=B", "`gpus=B`: the field `gpus` has the column `A` already; remove one"),
            ("gpus=A,duration=B", "the field `submit` is missing; add submit=COLUMN"),
            ("submit=A,duration=B", "the field `gpus` is missing; add gpus=COLUMN"),
            ("submit=A,gpus=B,start=C", "how long jobs ran is missing; add duration=COLUMN, or"),
        ] {
            let found = parse(text).unwrap_err();
            assert!(found.starts_with(expected), "{text:?}: {found}");
        }
    }
}
