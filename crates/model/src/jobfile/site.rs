//! A network whose jobs come later, one at a time.

use std::path::Path;

use crate::{HostId, JobSpec, Network};
use tributary_base::document::{Document, Error, Kind};

use crate::jobfile::jobs::{Jobs, Place};
use crate::jobfile::{KEYS, KIND, Switches, load_for, parse};

/// The settings of a job in messages.
const SETTINGS: Kind = Kind { name: "settings of a job", page: "docs/start/job-files.md" };

/// The network of a job file, and what the file says about all jobs.
#[derive(Clone, Debug)]
pub struct Site {
    network: Network,
    text: String,
    file: String,
}

impl Site {
    /// The network of a file that [`load_for`] can read.
    ///
    /// # Errors
    /// As of `load_for`.
    pub fn load(path: impl AsRef<Path>, switches: Switches) -> Result<Self, Error> {
        let path = path.as_ref();
        let (text, file) = (KIND.read(path)?, path.display().to_string());
        Ok(Self { network: load_for(path, None, switches)?.network, text, file })
    }

    /// The network of a text that [`parse`] can read.
    ///
    /// # Errors
    /// As of `parse`.
    pub fn of(text: &str, file: &str) -> Result<Self, Error> {
        Ok(Self { network: parse(text, file)?.network, text: text.into(), file: file.into() })
    }

    /// A job with settings of its own: the table `[job]` as in a job file, but without name, ID and hosts.
    /// Where it is summed by servers, `server` is asked for their host.
    ///
    /// # Errors
    /// [`Error::Invalid`] for any error in the settings, or if the job needs a server and there is none.
    pub fn job(
        &self,
        place: Place,
        settings: &str,
        server: impl FnOnce() -> Option<HostId>,
    ) -> Result<JobSpec, Error> {
        let file = Document::parse(KIND, &self.text, &self.file)?;
        let own = Document::parse(SETTINGS, settings, "the job's settings")?;
        let raw = Jobs::of_settings(&file.table(&KEYS)?, &own.table(&["job"])?, place.group)?;
        raw.place(&self.network, place, server)
    }
}
