//! Recordings: files of [`Line`]s, one JSON object in each line.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use tributary_base::FileLimit;

use crate::live::model::{Invalid, Line, MOST_BYTES};

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
    /// Lines could not be written.
    #[error("the recording {} lacks {lines} lines: {source}", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// How many.
        lines: u64,
        /// Why the first one is missing.
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
///
/// A line that cannot be written is left out, and so are later ones, until there is space again. The first one of
/// these is logged, and the first one that is written again.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    file: File,
    /// The length of the lines in the file. There may be a part of another one behind them.
    length: u64,
    /// The first problem, and how many lines are missing.
    problem: Option<(io::Error, u64)>,
    /// Whether the last line is missing.
    fails: bool,
}

impl Recorder {
    /// Creates the file, or empties it.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn create(path: &Path) -> Result<Self, Error> {
        let file = File::create(path);
        let file = file.map_err(|source| Error::Write { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), file, length: 0, problem: None, fails: false })
    }

    /// Writes a line.
    pub fn write(&mut self, line: &Line) {
        let text = line.to_json() + "\n";
        let appended = self.append(text.as_bytes());
        let shown = self.path.display();
        match appended {
            Ok(()) => {
                self.length += text.len() as u64;
                if std::mem::take(&mut self.fails) {
                    tracing::warn!("the recording {shown} is written again");
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut self.fails, true) {
                    tracing::warn!(
                        "cannot write the recording {shown}: {error}; it will have a gap"
                    );
                }
                self.problem.get_or_insert((error, 0)).1 += 1;
            }
        }
    }

    fn append(&mut self, text: &[u8]) -> io::Result<()> {
        if self.fails {
            self.cut()?;
        }
        self.file.write_all(text)
    }

    /// Removes a part of a line.
    fn cut(&mut self) -> io::Result<()> {
        self.file.set_len(self.length)?;
        self.file.seek(SeekFrom::Start(self.length)).map(drop)
    }

    /// Reports whether lines are missing.
    ///
    /// # Errors
    /// [`Error::Missing`].
    pub fn finish(mut self) -> Result<(), Error> {
        if self.fails {
            // The reader of recordings copes with a part of a line at the end.
            drop(self.cut());
        }
        let Some((source, lines)) = self.problem else { return Ok(()) };
        Err(Error::Missing { path: self.path, lines, source })
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
    use crate::live::Hub;
    use crate::live::model::tests::{sample, scene};

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

    /// A file that may not grow stands for a full disk.
    #[test]
    fn a_recording_goes_on_when_there_is_space_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.jsonl");
        let mut recorder = Recorder::create(&path).unwrap();
        recorder.write(&Line::Scene(scene()));
        recorder.write(&Line::Sample(sample(1, 1, 1)));
        let disk = std::mem::replace(
            &mut recorder.file,
            File::options().write(true).open("/dev/full").unwrap(),
        );
        (2..5).for_each(|at| recorder.write(&Line::Sample(sample(at, 1, 1))));
        recorder.file = disk;
        // What was written of a line.
        recorder.file.write_all(b"{\"kind\":\"sam").unwrap();
        recorder.write(&Line::Sample(sample(5, 1, 1)));
        let error = recorder.finish().unwrap_err().to_string();
        assert!(error.contains("run.jsonl lacks 3 lines: "), "{error}");
        let replayed = Hub::replay(&path).unwrap();
        let times: Vec<u64> =
            replayed.look(|history| history.samples().map(|sample| sample.at_us).collect());
        assert_eq!(times, [1, 5]);
    }
}
