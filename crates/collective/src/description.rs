//! What the first rank tells the others: how they reach the network of a group.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use rand::Rng as _;
use serde::{Deserialize, Serialize};

use crate::admission::Admitted;
use crate::settings::Settings;
use crate::switch::Tunnels;

/// How ranks reach each other and the switches: text for all of them, which is secret.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Description {
    /// The group's settings.
    pub settings: Settings,
    /// What ranks show to the hub.
    pub secret: String,
    /// Where the hub listens.
    pub hub: SocketAddr,
    /// The switches.
    pub fabric: Fabric,
}

/// The switches of a group.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fabric {
    /// A switch in the process of the first rank.
    Embedded(Tunnels),
    /// Switches of a network whose controller has admitted the group's job.
    External(Admitted),
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
}

/// A new secret.
pub(crate) fn secret() -> String {
    format!("{:032x}", rand::rng().random::<u128>())
}
