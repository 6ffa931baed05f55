//! The fabrics, and what joins units, by their names.

use std::fmt;

use anyhow::Result;

/// A fabric.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Kind {
    /// Threads of one process; needs no privileges.
    #[default]
    Memory,
    /// Processes in network namespaces, over raw sockets: needs root or user namespaces.
    Netns,
    /// Virtual time: everything follows from the job file and its seed.
    Sim,
}

impl Kind {
    /// Name on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Netns => "netns",
            Self::Sim => "sim",
        }
    }

    /// Gets the rights that a run needs, in a user namespace if it must. It must happen before the process
    /// has a second thread; [`run`](crate::run()) does it, too.
    ///
    /// # Errors
    /// If the system does not give them.
    pub fn enter(self) -> Result<()> {
        if self == Self::Netns {
            crate::testbed::enter_user_namespace_if_needed()?;
        }
        Ok(())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What joins the units of a job file by circuits, on the fabric [`Kind::Netns`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum CrossConnectKind {
    /// The process `tributary crossconnect`, with the outage of the job file.
    #[default]
    Emulated,
    /// Open vSwitch in user space, over OpenFlow 1.3: changes have no outage.
    #[cfg_attr(feature = "clap", value(name = "openvswitch"))]
    OpenVSwitch,
}
