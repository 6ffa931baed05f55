//! The capture of a run: where it goes, and what became of it.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use serde::Serialize;
use tributary_model::Scenario;
use tributary_netio::capture::{Buffer, Recorder};
use tributary_sim::{Ends, Taps};
use tributary_worker::rounding::grouped;

use crate::fabric::Kind;

/// Where the frames of a run are captured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Capture {
    /// A new file in this directory, which is named after the job file.
    Directory(PathBuf),
    /// Memory, for [`Observer::capture`](crate::run::Observer::capture); on the fabric `sim`.
    Memory,
}

/// What became of the capture of a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CaptureReport {
    /// The file.
    pub file: PathBuf,
    /// Frames in it.
    pub frames: u64,
    /// Frames that are missing, because they came faster than they could be written.
    pub missing: u64,
    /// Why nothing was written from some frame on.
    pub problem: Option<String>,
}

/// A capture that has begun.
pub(crate) struct Capturing {
    pub(crate) taps: Taps,
    out: Out,
}

enum Out {
    File(PathBuf),
    Memory(Buffer),
}

/// Checks that the directory of a capture can be written to, and that the file does not exist. To be
/// called before the run is prepared, which takes time.
pub(crate) fn check(capture: &Capture, job_file: &Path) -> Result<()> {
    let Capture::Directory(directory) = capture else { return Ok(()) };
    tributary_base::output_directory(directory)
        .with_context(|| format!("--capture: cannot write to {}", directory.display()))?;
    let path = path(directory, job_file);
    ensure!(!path.exists(), exists(&path));
    Ok(())
}

fn path(directory: &Path, job_file: &Path) -> PathBuf {
    let stem = job_file.file_stem().unwrap_or(job_file.as_os_str());
    directory.join(stem).with_added_extension("pcapng")
}

fn exists(path: &Path) -> String {
    format!("--capture: {} exists; choose another directory, or remove it", path.display())
}

impl Capturing {
    /// Creates the file.
    pub(crate) fn begin(
        capture: &Capture,
        job_file: &Path,
        scenario: &Scenario,
        fabric: Kind,
    ) -> Result<Self> {
        let ends = Ends::of(&scenario.network.topology);
        let interfaces = ends.interfaces();
        let name = job_file.file_name().unwrap_or(job_file.as_os_str()).display();
        let comment = format!("job file {name}, fabric {fabric}, seed {}", scenario.seed);
        let (recorder, out) = match capture {
            Capture::Memory => {
                let (recorder, buffer) = Recorder::in_memory(&comment, &interfaces);
                (recorder, Out::Memory(buffer))
            }
            Capture::Directory(directory) => {
                let path = path(directory, job_file);
                let create = match fabric {
                    Kind::Sim => Recorder::create_direct,
                    Kind::Memory | Kind::Netns => Recorder::create,
                };
                let recorder =
                    create(&path, &comment, &interfaces).map_err(|error| match error.kind() {
                        io::ErrorKind::AlreadyExists => anyhow!(exists(&path)),
                        _ => anyhow!("--capture: cannot write {}: {error}", path.display()),
                    })?;
                (recorder, Out::File(path))
            }
        };
        Ok(Self { taps: Taps { recorder, ends }, out })
    }

    /// Ends the capture. Returns a report on a file, or the contents of memory. `missing` frames were
    /// lost on their way to the recorder. A file without frames of a run that `failed` is removed.
    pub(crate) fn finish(self, missing: u64, failed: bool) -> (Option<CaptureReport>, Vec<u8>) {
        let (summary, result) = self.taps.recorder.finish();
        match self.out {
            Out::Memory(buffer) => (None, buffer.take()),
            Out::File(file) => {
                if failed && summary.written == 0 {
                    // Nothing is lost with it; an error changes nothing about the failure.
                    drop(std::fs::remove_file(&file));
                }
                let report = CaptureReport {
                    file,
                    frames: summary.written,
                    missing: summary.dropped + missing,
                    problem: result.err().map(|error| error.to_string()),
                };
                (Some(report), Vec::new())
            }
        }
    }
}

impl CaptureReport {
    /// One sentence.
    #[must_use]
    pub fn to_text(&self) -> String {
        let frames = grouped(self.frames);
        let mut text = format!("{frames} frames captured in {}", self.file.display());
        if self.missing > 0 {
            let missing = grouped(self.missing);
            text += &format!(", {missing} more could not be written in time");
        }
        text + "."
    }

    /// An error if the file is not complete because it could not be written.
    ///
    /// # Errors
    /// One line that describes the problem.
    pub fn check(&self) -> Result<()> {
        match &self.problem {
            None => Ok(()),
            Some(problem) => Err(anyhow!(
                "--capture: cannot write {} after {} frames: {problem}",
                self.file.display(),
                self.frames
            )),
        }
    }
}
