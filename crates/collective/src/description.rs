//! What the first rank tells the others: which job is theirs, and how they reach its network.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use rand::RngCore as _;
use serde::{Deserialize, Serialize};
use tributary_wire::JobId;

use crate::members::Members;
use crate::settings::Group;
use crate::tunnels::Tunnels;

/// Bytes of a job's key.
const KEY: usize = 16;

/// The job of a group: text for all ranks, which is secret.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Description {
    /// The group's settings that are not its job's.
    pub group: Group,
    /// Its ranks, by the workers of the job.
    pub members: Members,
    /// The job's name, for people.
    pub name: String,
    /// The job's ID.
    pub job: u16,
    /// What ranks show to the controller of the job.
    pub key: Vec<u8>,
    /// Its network.
    pub fabric: Fabric,
}

/// The network of a group.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fabric {
    /// A switch and its controller, in the process of the first rank.
    Embedded {
        /// Where the controller listens.
        controller: SocketAddr,
        /// How ranks reach the switch.
        tunnels: Tunnels,
    },
    /// Switches of a network, whose controller has admitted the group's job. Each rank knows the controller.
    External,
}

impl Description {
    /// From the text that [`to_text`](Self::to_text) made.
    ///
    /// # Errors
    /// If it is not such a text.
    pub fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).context("not the description of a group")
    }

    /// As text.
    ///
    /// # Panics
    /// Never: it is plain data.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("plain data")
    }

    /// The job and its key.
    ///
    /// # Errors
    /// If the ID is zero.
    pub(crate) fn admitted(&self) -> Result<(JobId, Vec<u8>)> {
        let job = JobId::new(self.job).context("the first rank describes no job")?;
        Ok((job, self.key.clone()))
    }
}

/// A new key.
pub(crate) fn key() -> Vec<u8> {
    let mut key = vec![0; KEY];
    rand::rng().fill_bytes(&mut key);
    key
}
