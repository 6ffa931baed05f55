//! Results of experiments in a file, so that an interrupted sweep goes on where it stopped.
//!
//! The file has a line for each experiment. It belongs to one executable: another may measure
//! something else, so it starts anew.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::measured::Measured;

/// The first line.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    /// Identifies the executable that measured.
    program: u64,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    setup: String,
    measured: Measured,
}

/// Results by set-up.
#[derive(Debug, Default)]
pub struct Store {
    known: HashMap<String, Measured>,
    file: Option<File>,
}

impl Store {
    /// A store in memory only.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::default()
    }

    /// A store in a file, with the results that the same executable left there.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn open(path: &Path) -> io::Result<Self> {
        let program = executable()?;
        let mut known = HashMap::new();
        let mut valid = 0;
        if let Ok(file) = File::open(path) {
            let mut lines = BufReader::new(file);
            let mut line = String::new();
            while lines.read_line(&mut line)? > 0 && line.ends_with('\n') {
                let begins = valid == 0;
                if begins && serde_json::from_str(&line).ok() != Some(Head { program }) {
                    break;
                }
                if !begins {
                    // A line that was cut off by a crash ends what can be used.
                    let Ok(Entry { setup, measured }) = serde_json::from_str(&line) else { break };
                    known.insert(setup, measured);
                }
                valid += line.len() as u64;
                line.clear();
            }
        }
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        file.set_len(valid)?;
        let mut store = Self { known, file: Some(file) };
        if valid == 0 {
            store.append(&Head { program })?;
        }
        Ok(store)
    }

    /// Number of results.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether there are no results.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    pub(super) fn get(&self, setup: &str) -> Option<&Measured> {
        self.known.get(setup)
    }

    pub(super) fn insert(&mut self, setup: String, measured: Measured) -> io::Result<()> {
        let line = self.append(&Entry { setup, measured })?;
        // As another run will read it: the last digit of a number may differ.
        let Entry { setup, measured } = serde_json::from_str(&line)?;
        self.known.insert(setup, measured);
        Ok(())
    }

    /// Returns the line that it appends.
    fn append(&mut self, entry: &impl Serialize) -> io::Result<String> {
        let mut line = serde_json::to_string(entry)?;
        line.push('\n');
        if let Some(file) = &mut self.file {
            // One write, so that two processes do not mix their lines.
            file.write_all(line.as_bytes())?;
        }
        Ok(line)
    }
}

/// Identifies this program.
fn executable() -> io::Result<u64> {
    let mut hasher = DefaultHasher::new();
    std::fs::read(std::env::current_exe()?)?.hash(&mut hasher);
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(hops: u64) -> Measured {
        Measured { hops, ..Measured::default() }
    }

    #[test]
    fn results_survive_and_a_torn_line_does_not() {
        let path = std::env::temp_dir().join(format!("tributary-store-{}", std::process::id()));
        let mut store = Store::open(&path).unwrap();
        store.insert("a".into(), measured(1)).unwrap();
        store.insert("b".into(), measured(2)).unwrap();
        drop(store);
        let length = std::fs::metadata(&path).unwrap().len();
        File::options().write(true).open(&path).unwrap().set_len(length - 3).unwrap();
        let mut store = Store::open(&path).unwrap();
        assert_eq!(store.get("a"), Some(&measured(1)));
        assert_eq!((store.len(), store.get("b")), (1, None));
        store.insert("c".into(), measured(3)).unwrap();
        drop(store);
        assert_eq!(Store::open(&path).unwrap().len(), 2);
        // Another program's results are not used.
        std::fs::write(&path, "{\"program\":0}\n{\"setup\":\"a\",\"measured\":null}\n").unwrap();
        assert!(Store::open(&path).unwrap().is_empty());
        std::fs::remove_file(&path).unwrap();
    }
}
