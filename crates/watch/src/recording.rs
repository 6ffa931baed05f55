//! Recordings: files of [`Line`]s, one JSON object in each line.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use tributary_limits::FileLimit;

use crate::model::{Invalid, Line, MOST_BYTES};

/// More than two days of samples with 4 KB each.
const LIMIT: FileLimit = FileLimit::new("recording", 4 << 30);

/// Why a recording cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be written.
    #[error("cannot write the recording {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file cannot be read.
    #[error("cannot read the recording {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line is not valid in a recording.
    #[error("{}:{line}: {source}; is it a file that `--record` wrote?", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Its number, from 1.
        line: usize,
        /// Why.
        source: Invalid,
    },
    /// The first line is no scene.
    #[error("{}: it does not begin with a scene; is it a file that `--record` wrote?", path.display())]
    NoScene {
        /// The file.
        path: PathBuf,
    },
}

/// Writes lines as they come. Each is in the file at once, so a recording of a killed process is complete
/// up to its end.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    out: BufWriter<File>,
    problem: Option<io::Error>,
}

impl Recorder {
    /// Creates the file, or empties it.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn create(path: &Path) -> Result<Self, Error> {
        let file = File::create(path);
        let file = file.map_err(|source| Error::Write { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), out: BufWriter::new(file), problem: None })
    }

    /// Writes a line. After an error, nothing more is written.
    pub fn write(&mut self, line: &Line) {
        if self.problem.is_none() {
            let written = writeln!(self.out, "{}", line.to_json()).and_then(|()| self.out.flush());
            self.problem = written.err();
        }
    }

    /// Reports the first error.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn finish(mut self) -> Result<(), Error> {
        let flushed = self.problem.take().map_or_else(|| self.out.flush(), Err);
        flushed.map_err(|source| Error::Write { path: self.path, source })
    }
}

/// Reads a recording, line by line.
///
/// # Errors
/// [`Error::Read`], [`Error::Line`], [`Error::NoScene`].
pub fn read(path: &Path, mut take: impl FnMut(Line)) -> Result<(), Error> {
    let unreadable = |source| Error::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let mut lines = BufReader::new(LIMIT.of(file));
    let mut text = String::new();
    for number in 1.. {
        text.clear();
        // One byte more, so that a line that is too long is noticed as such.
        let most = MOST_BYTES as u64 + 2;
        if lines.by_ref().take(most).read_line(&mut text).map_err(unreadable)? == 0 {
            return match number {
                1 => Err(Error::NoScene { path: path.to_owned() }),
                _ => Ok(()),
            };
        }
        let line = match Line::parse(text.trim_end()) {
            Ok(line) => line,
            // The process was killed while it wrote the last line.
            Err(Invalid::Json(source))
                if number > 1 && source.is_eof() && !text.ends_with('\n') =>
            {
                return Ok(());
            }
            Err(source) => return Err(Error::Line { path: path.to_owned(), line: number, source }),
        };
        if number == 1 && !matches!(line, Line::Scene(_)) {
            return Err(Error::NoScene { path: path.to_owned() });
        }
        take(line);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::Hub;
    use crate::model::tests::{sample, scene};

    #[test]
    fn a_recording_replays_to_the_same_history() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.jsonl");
        let hub = Hub::recorded(Recorder::create(&path).unwrap());
        hub.push(Line::Scene(scene()));
        for at in 0..100 {
            hub.push(Line::Sample(sample(at, at / 25, at)));
        }
        hub.end(Some("interrupted".into()));
        hub.close().unwrap();
        let replayed = Hub::replay(&path).unwrap();
        let lines = |hub: &Hub| hub.look(|history| history.lines().cloned().collect::<Vec<_>>());
        assert_eq!(lines(&replayed), lines(&hub));
        assert_eq!(lines(&replayed).len(), 102);
    }

    #[test]
    fn a_recording_of_a_killed_process_is_read_up_to_its_last_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.jsonl");
        let whole = Line::Scene(scene()).to_json();
        let cut = &Line::Sample(sample(1, 1, 1)).to_json()[..40];
        fs::write(&path, format!("{whole}\n{cut}")).unwrap();
        let replayed = Hub::replay(&path).unwrap();
        assert_eq!(replayed.look(|history| history.lines().count()), 1);
        // The same in the middle is an error that names the line.
        fs::write(&path, format!("{whole}\n{cut}\n{whole}\n")).unwrap();
        let error = Hub::replay(&path).unwrap_err().to_string();
        assert!(error.contains("run.jsonl:2: "), "{error}");
    }

    #[test]
    fn another_file_is_refused_with_a_reason() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("other");
        for content in ["", "hello\n", "{\"kind\":\"end\",\"at_us\":1,\"failure\":null}\n"] {
            fs::write(&path, content).unwrap();
            let error = Hub::replay(&path).unwrap_err().to_string();
            assert!(error.contains("is it a file that `--record` wrote?"), "{error}");
        }
    }
}
