//! Reads pages of metrics, without the library that writes them.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// What Prometheus says it accepts.
const OPEN_METRICS: &str =
    "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";

/// A sample.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) value: f64,
}

/// A page in the OpenMetrics format.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    /// Types of families by name.
    pub(super) types: BTreeMap<String, String>,
    pub(super) all: Vec<Sample>,
}

impl Page {
    /// # Panics
    /// If the text breaks the rules of the format that Prometheus checks, or others of it.
    pub(super) fn parse(text: &str) -> Self {
        let body = text.strip_suffix("# EOF\n").unwrap_or_else(|| panic!("no end: {text}"));
        let mut page = Self::default();
        let mut family = String::new();
        let mut seen = std::collections::BTreeSet::new();
        for line in body.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert!(page.types.insert(name.into(), kind.into()).is_none(), "twice: {line}");
                family = name.into();
            } else if let Some(rest) = line.strip_prefix("# UNIT ") {
                let (name, unit) = rest.split_once(' ').unwrap();
                assert!(name == family && name.ends_with(&format!("_{unit}")), "{line}");
            } else if !line.starts_with("# HELP ") {
                assert!(seen.insert(line.rsplit_once(' ').unwrap().0.to_owned()), "twice: {line}");
                let sample = sample(line);
                let suffix = sample.name.strip_prefix(&family).unwrap_or_else(|| panic!("{line}"));
                let allowed: &[&str] = match page.types[&family].as_str() {
                    "counter" => &["_total"],
                    "gauge" => &[""],
                    "histogram" => &["_bucket", "_sum", "_count"],
                    other => panic!("{other}"),
                };
                assert!(allowed.contains(&suffix), "{line}");
                page.all.push(sample);
            }
        }
        page
    }

    /// The samples with this name.
    pub(super) fn samples(&self, name: &str) -> impl Iterator<Item = &Sample> {
        self.all.iter().filter(move |sample| sample.name == name)
    }

    fn matching<'p>(
        &'p self,
        name: &'p str,
        labels: &'p [(&str, &str)],
    ) -> impl Iterator<Item = &'p Sample> {
        let has = |sample: &Sample, (key, value): &(&str, &str)| {
            sample.labels.get(*key).is_some_and(|own| own == value)
        };
        self.samples(name).filter(move |sample| labels.iter().all(|label| has(sample, label)))
    }

    /// The sum of the samples with this name and these labels, whatever others they have.
    pub(super) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.matching(name, labels).map(|sample| sample.value).sum()
    }

    /// The value of the only such sample, if there is one.
    pub(super) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let mut found = self.matching(name, labels);
        let first = found.next().map(|sample| sample.value);
        assert!(found.next().is_none(), "{name} {labels:?}: {self:#?}");
        first
    }
}

/// `NAME{KEY="VALUE",…} NUMBER`.
fn sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let value = value.parse().unwrap_or_else(|_| panic!("{line}"));
    let (name, rest) = series.split_at(series.find('{').unwrap_or(series.len()));
    let mut labels = BTreeMap::new();
    let mut letters = rest.strip_prefix('{').unwrap_or("}").chars();
    loop {
        let key: String = letters.by_ref().take_while(|letter| !"=}".contains(*letter)).collect();
        if key.is_empty() {
            break;
        }
        assert_eq!(letters.next(), Some('"'), "{line}");
        let mut value = String::new();
        loop {
            match letters.next() {
                Some('"') => break,
                Some('\\') => value.extend(letters.next()),
                Some(letter) => value.push(letter),
                None => panic!("{line}"),
            }
        }
        assert!(labels.insert(key, value).is_none(), "{line}");
        if letters.next() != Some(',') {
            break;
        }
    }
    let valid = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    assert!(name.chars().all(valid), "{line}");
    Sample { name: name.into(), labels, value }
}

/// The page of a server at a Unix socket; an empty one while it does not listen.
pub(super) fn over_unix(socket: &Path) -> Page {
    let Ok(stream) = UnixStream::connect(socket) else { return Page::default() };
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    Page::parse(&ask(stream, "/metrics", OPEN_METRICS))
}

/// The body of an answer, which must be good.
pub(super) fn ask(stream: impl Read + Write, path: &str, accept: &str) -> String {
    try_ask(stream, path, accept).unwrap_or_else(|answer| panic!("{path}: {answer}"))
}

/// The body of a good answer, or the whole of another one.
pub(super) fn try_ask(
    mut stream: impl Read + Write,
    path: &str,
    accept: &str,
) -> Result<String, String> {
    write!(stream, "GET {path} HTTP/1.0\r\nHost: test\r\nAccept: {accept}\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    match head.split(' ').nth(1) {
        Some("200") => Ok(body.to_owned()),
        _ => Err(answer),
    }
}
