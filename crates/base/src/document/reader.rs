//! Typed access to a parsed TOML document. Every value knows its position and name, so that each
//! error becomes one [`Fault`](crate::document::Fault).

use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::document::error::{Error, Source};
use crate::document::{Kind, suggest, units};

/// A table whose keys are all known.
#[derive(Clone, Debug)]
pub struct Table<'a> {
    source: Source<'a>,
    /// Its name in messages: `[switch]`, `job 2`, …
    name: String,
    span: Range<usize>,
    /// `None` if the file does not have this table; every key then has its default.
    entries: Option<&'a DeTable<'a>>,
}

impl<'a> Table<'a> {
    /// The whole document.
    pub(crate) fn document(
        source: Source<'a>,
        kind: Kind,
        entries: &'a DeTable<'a>,
        keys: &[&str],
    ) -> Result<Self, Error> {
        let name = format!("the {}", kind.name);
        let table = Self { source, name, span: 0..0, entries: Some(entries) };
        table.check_keys(keys)?;
        Ok(table)
    }

    fn check_keys(&self, keys: &[&str]) -> Result<(), Error> {
        let unknown = self
            .entries
            .iter()
            .flat_map(|entries| entries.keys())
            .filter(|key| !keys.contains(&key.get_ref().as_ref()))
            // The first unknown key in the file, independent of the order of the map.
            .min_by_key(|key| key.span().start);
        let Some(key) = unknown else { return Ok(()) };
        let word = key.get_ref().as_ref();
        let fix = match suggest::nearest(word, keys.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the keys there are {}", suggest::list(keys.iter().copied())),
        };
        Err(self.source.fault(&key.span(), format!("unknown key `{word}` in {}", self.name), fix))
    }

    /// A key's value, if the file has it.
    pub fn get(&self, key: &str) -> Option<Item<'a>> {
        let (key, value) = self.entries?.get_key_value(key)?;
        Some(Item {
            source: self.source,
            name: format!("`{}`", key.get_ref()),
            span: value.span(),
            value: value.get_ref(),
        })
    }

    /// A key's value, or an error that tells what to add.
    pub fn require(&self, key: &str, example: &str) -> Result<Item<'a>, Error> {
        self.get(key).ok_or_else(|| {
            self.fault(format!("{} has no `{key}`", self.name), format!("add `{key} = {example}`"))
        })
    }

    /// A sub-table. If the file does not have it, every key has its default.
    pub fn table(&self, key: &str, keys: &[&str]) -> Result<Table<'a>, Error> {
        match self.get(key) {
            Some(item) => item.table(&format!("[{key}]"), keys),
            None => Ok(self.absent(key)),
        }
    }

    /// Like [`table`](Self::table), but a single word counts as no table.
    pub fn table_unless_word(&self, key: &str, keys: &[&str]) -> Result<Table<'a>, Error> {
        match self.get(key) {
            Some(item) if !item.is_string() => item.table(&format!("[{key}]"), keys),
            _ => Ok(self.absent(key)),
        }
    }

    /// A sub-table that is not in the file.
    fn absent(&self, key: &str) -> Table<'a> {
        Self {
            source: self.source,
            name: format!("[{key}]"),
            span: self.span.clone(),
            entries: None,
        }
    }

    /// An array of tables (`[[key]]`); empty if it is not in the file.
    pub fn items(&self, key: &str) -> Result<Vec<Item<'a>>, Error> {
        self.get(key).map_or_else(|| Ok(Vec::new()), |item| item.array(&format!("[[{key}]]")))
    }

    /// A key read by `read`, or a default.
    pub fn or<T>(
        &self,
        key: &str,
        default: T,
        read: impl FnOnce(&Item<'a>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.get(key).map_or(Ok(default), |item| read(&item))
    }

    /// An error at the table's header.
    pub fn fault(&self, problem: impl Into<String>, fix: impl Into<String>) -> Error {
        self.source.fault(&self.span, problem, fix)
    }

    /// The position of the table.
    pub fn place(&self) -> Place<'a> {
        Place { source: self.source, span: self.span.clone() }
    }

    /// The position of a key's value, or of the table if the key is missing.
    pub fn place_of(&self, key: &str) -> Place<'a> {
        self.get(key).map_or_else(|| self.place(), |item| item.place())
    }
}

/// A position in the file, for errors that are detected later.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    source: Source<'a>,
    span: Range<usize>,
}

impl Place<'_> {
    /// An error at this position.
    pub fn fault(&self, problem: impl Into<String>, fix: impl Into<String>) -> Error {
        self.source.fault(&self.span, problem, fix)
    }
}

/// A value with its name and position.
#[derive(Clone, Debug)]
pub struct Item<'a> {
    source: Source<'a>,
    name: String,
    span: Range<usize>,
    value: &'a DeValue<'a>,
}

impl<'a> Item<'a> {
    /// The position of the value.
    pub fn place(&self) -> Place<'a> {
        Place { source: self.source, span: self.span.clone() }
    }

    /// An error at the value.
    pub fn fault(&self, problem: impl Into<String>, fix: impl Into<String>) -> Error {
        self.source.fault(&self.span, problem, fix)
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn wrong_type(&self, wanted: &str, example: &str) -> Error {
        let found = match self.value {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a number with a fraction",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date or time",
            DeValue::Array(_) => "an array",
            DeValue::Table(_) => "a table",
        };
        self.fault(
            format!("{} is {found} but must be {wanted}", self.name),
            format!("write for example {example}"),
        )
    }

    /// Whether the value is written as a string.
    pub fn is_string(&self) -> bool {
        matches!(self.value, DeValue::String(_))
    }

    /// Whether the value is written as an array.
    pub fn is_array(&self) -> bool {
        matches!(self.value, DeValue::Array(_))
    }

    /// Whether the value is a table with that key.
    pub fn has(&self, key: &str) -> bool {
        matches!(self.value, DeValue::Table(entries) if entries.contains_key(key))
    }

    /// The value as text.
    pub fn string(&self, example: &str) -> Result<&'a str, Error> {
        match self.value {
            DeValue::String(text) => Ok(text.as_ref()),
            _ => Err(self.wrong_type("a string", &format!("{example:?}"))),
        }
    }

    /// The value as a name: letters, digits, `-`, `_` and `.`; not empty, at most 64 characters.
    pub fn word(&self, example: &str) -> Result<&'a str, Error> {
        let text = self.string(example)?;
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if text.is_empty() || text.len() > 64 || !text.chars().all(fits) {
            return Err(self.fault(
                format!("{} is not a name", self.name),
                "use 1 to 64 letters, digits, `-`, `_` or `.`",
            ));
        }
        Ok(text)
    }

    /// The value as an integer within limits.
    pub fn integer(&self, range: RangeInclusive<u64>) -> Result<u64, Error> {
        let DeValue::Integer(integer) = self.value else {
            return Err(self.wrong_type("a whole number", &range.start().max(&1).to_string()));
        };
        let value = i128::from_str_radix(integer.as_str(), integer.radix()).ok();
        value
            .and_then(|value| u64::try_from(value).ok())
            .filter(|value| range.contains(value))
            .ok_or_else(|| self.out_of_range(integer, &range))
    }

    /// The value as an integer that fits `u32`.
    pub fn integer32(&self, range: RangeInclusive<u32>) -> Result<u32, Error> {
        let value = self.integer(u64::from(*range.start())..=u64::from(*range.end()))?;
        // The end of the range is a u32.
        Ok(u32::try_from(value).unwrap_or(*range.end()))
    }

    fn out_of_range<T: Display>(&self, value: impl Display, range: &RangeInclusive<T>) -> Error {
        self.fault(
            format!("{} is {value}, out of range", self.name),
            format!("choose a value from {} to {}", range.start(), range.end()),
        )
    }

    /// The value as a finite number, with or without a fraction.
    pub fn number(&self, range: RangeInclusive<f64>) -> Result<f64, Error> {
        let text = match self.value {
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
            DeValue::Float(float) => float.as_str(),
            _ => return Err(self.wrong_type("a number", "0.5")),
        };
        text.parse::<f64>()
            .ok()
            .filter(|value| value.is_finite() && range.contains(value))
            .ok_or_else(|| self.out_of_range(text, &range))
    }

    /// The value as a number from 0 to 1.
    pub fn probability(&self) -> Result<f64, Error> {
        self.number(0.0..=1.0)
    }

    /// The value as a boolean.
    pub fn boolean(&self) -> Result<bool, Error> {
        match self.value {
            DeValue::Boolean(value) => Ok(*value),
            _ => Err(self.wrong_type("true or false", "true")),
        }
    }

    /// The value as a duration within limits.
    pub fn duration(&self, range: RangeInclusive<Duration>) -> Result<Duration, Error> {
        let text = match self.value {
            DeValue::String(text) => text.as_ref(),
            _ => return Err(self.wrong_type("a duration with its unit", "\"50ms\"")),
        };
        let value = units::duration(text).ok_or_else(|| {
            self.fault(
                format!("{} is `{text}`, not a duration", self.name),
                "write a number and one of ns, us, ms, s, min, h, d, for example \"50ms\"",
            )
        })?;
        if !range.contains(&value) {
            let (low, high) = (range.start(), range.end());
            return Err(self.fault(
                format!("{} is {value:?}, out of range", self.name),
                format!("choose a value from {low:?} to {high:?}"),
            ));
        }
        Ok(value)
    }

    /// The value as a size in bytes, written with a unit.
    pub fn size(&self) -> Result<u64, Error> {
        let text = match self.value {
            DeValue::String(text) => text.as_ref(),
            _ => return Err(self.wrong_type("a size with its unit", "\"4MB\"")),
        };
        units::size(text).ok_or_else(|| {
            self.fault(
                format!("{} is `{text}`, not a size", self.name),
                "write a number and one of B, KB, MB, GB, KiB, MiB, GiB, for example \"4MB\"",
            )
        })
    }

    /// The value as a rate in bits per second within limits, written with a unit.
    pub fn rate(&self, range: RangeInclusive<u64>) -> Result<u64, Error> {
        let text = match self.value {
            DeValue::String(text) => text.as_ref(),
            _ => return Err(self.wrong_type("a rate with its unit", "\"10Gb/s\"")),
        };
        let value = units::rate(text).ok_or_else(|| {
            self.fault(
                format!("{} is `{text}`, not a rate", self.name),
                "write a number and one of b/s, kb/s, Mb/s, Gb/s, Tb/s, for example \"10Gb/s\"",
            )
        })?;
        if !range.contains(&value) {
            let [low, high] = [range.start(), range.end()].map(|&end| units::rate_text(end));
            return Err(self.fault(
                format!("{} is {}, out of range", self.name, units::rate_text(value)),
                format!("choose a value from {low} to {high}"),
            ));
        }
        Ok(value)
    }

    /// The value as one of several words.
    pub fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, Error> {
        let word = self.string(choices.first().map_or("", |(word, _)| word))?;
        if let Some((_, choice)) = choices.iter().find(|(name, _)| *name == word) {
            return Ok(*choice);
        }
        let words = choices.iter().map(|(word, _)| *word);
        let fix = match suggest::nearest(word, words.clone()) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("choose one of {}", suggest::list(words)),
        };
        Err(self.fault(format!("{} cannot be \"{word}\"", self.name), fix))
    }

    /// The elements of an array. Messages call each element `what`.
    pub fn array(&self, what: &str) -> Result<Vec<Item<'a>>, Error> {
        let DeValue::Array(array) = self.value else {
            return Err(self.wrong_type("an array", &format!("{what} or [ … ]")));
        };
        Ok(array.iter().map(|element| self.element(what, element)).collect())
    }

    fn element(&self, what: &str, element: &'a Spanned<DeValue<'a>>) -> Item<'a> {
        Item {
            source: self.source,
            name: what.to_owned(),
            span: element.span(),
            value: element.get_ref(),
        }
    }

    /// The value as a table, after checking its keys.
    pub fn table(&self, name: &str, keys: &[&str]) -> Result<Table<'a>, Error> {
        let table = self.unchecked_table(name)?;
        table.check_keys(keys)?;
        Ok(table)
    }

    /// The value as a table whose `kind` determines the allowed keys. `kinds` lists each kind, its
    /// meaning and its keys besides `kind`.
    pub fn table_by_kind<T: Copy + PartialEq>(
        &self,
        name: &str,
        default: Option<T>,
        kinds: &[(&str, T, &[&str])],
    ) -> Result<(T, Table<'a>), Error> {
        let table = self.unchecked_table(name)?;
        let words: Vec<(&str, T)> = kinds.iter().map(|&(word, kind, _)| (word, kind)).collect();
        let kind = match (table.get("kind"), default) {
            (Some(item), _) => item.choice(&words)?,
            (None, Some(kind)) => kind,
            (None, None) => {
                let all = suggest::list(kinds.iter().map(|(word, ..)| *word));
                return Err(table.fault(
                    format!("{name} has no `kind`"),
                    format!("add `kind = \"…\"`, one of {all}"),
                ));
            }
        };
        let keys: Vec<&str> = kinds
            .iter()
            .filter(|(_, of, _)| *of == kind)
            .flat_map(|(_, _, keys)| keys.iter().copied())
            .chain(["kind"])
            .collect();
        table.check_keys(&keys)?;
        Ok((kind, table))
    }

    fn unchecked_table(&self, name: &str) -> Result<Table<'a>, Error> {
        let DeValue::Table(entries) = self.value else {
            return Err(self.wrong_type("a table", "{ key = value, … }"));
        };
        Ok(Table {
            source: self.source,
            name: name.to_owned(),
            span: self.span.clone(),
            entries: Some(entries),
        })
    }
}
