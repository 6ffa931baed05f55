//! What is read from files, and again when they change.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Time between two looks at the files.
const PERIOD: Duration = Duration::from_millis(500);

/// Reads a value from its files.
type Read<T> = Box<dyn Fn() -> Result<T, String> + Send + Sync>;

/// A value that is read from files. A change that makes them unusable is reported, and the last usable value stays.
pub(crate) struct Fresh<T> {
    files: Vec<PathBuf>,
    read: Read<T>,
    state: Mutex<State<T>>,
}

struct State<T> {
    value: T,
    stamps: Vec<Stamp>,
    looked: Instant,
}

/// Differs after a file was written or replaced.
type Stamp = Option<(SystemTime, u64)>;

impl<T: Clone> Fresh<T> {
    /// Reads the value for the first time.
    pub(crate) fn new(
        files: Vec<PathBuf>,
        read: impl Fn() -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        // Before the files, which may change meanwhile.
        let stamps = files.iter().map(|file| stamp(file)).collect();
        let state = Mutex::new(State { value: read()?, stamps, looked: Instant::now() });
        Ok(Self { files, read: Box::new(read), state })
    }

    pub(crate) fn get(&self) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.looked.elapsed() >= PERIOD {
            state.looked = Instant::now();
            let stamps: Vec<_> = self.files.iter().map(|file| stamp(file)).collect();
            if stamps != state.stamps {
                let names: Vec<_> = self.files.iter().map(|it| it.display().to_string()).collect();
                let names = names.join(", ");
                match (self.read)() {
                    Ok(value) => {
                        tracing::info!("read again: {names}");
                        state.value = value;
                    }
                    Err(error) => tracing::warn!("not read again, the last contents hold: {error}"),
                }
                state.stamps = stamps;
            }
        }
        state.value.clone()
    }
}

impl<T> fmt::Debug for Fresh<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.files).finish()
    }
}

fn stamp(file: &Path) -> Stamp {
    let metadata = std::fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
