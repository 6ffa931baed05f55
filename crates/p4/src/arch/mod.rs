//! Architectures: P4 declarations that programs include.
//!
//! They are data. The compiler treats only a few externs of `core.p4` specially (`packet_in`,
//! `packet_out`, `verify`). Everything in `v1model.p4`, `tna.p4` and `psa.p4` reaches the IR by name,
//! with the exceptions for TNA and PSA listed in [`crate::ir`].

use std::fmt;
use std::str::FromStr;

/// An architecture for which programs can be written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Architecture {
    /// `v1model.p4`, of BMv2's `simple_switch`: package `V1Switch`.
    V1model,
    /// `tna.p4`, of Tofino 1: package `Switch`.
    Tna,
    /// `psa.p4`, the Portable Switch Architecture, as BMv2's `psa_switch`: package `PSA_Switch`.
    Psa,
}

/// Error: the name is not that of an architecture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownArchitecture(String);

impl Architecture {
    /// All supported architectures.
    pub const ALL: [Self; 3] = [Self::V1model, Self::Tna, Self::Psa];

    /// Its name: `v1model`, `tna` or `psa`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1model => "v1model",
            Self::Tna => "tna",
            Self::Psa => "psa",
        }
    }

    /// The package that a program of this architecture instantiates as `main`.
    #[must_use]
    pub const fn package(self) -> &'static str {
        match self {
            Self::V1model => "V1Switch",
            Self::Tna => "Switch",
            Self::Psa => "PSA_Switch",
        }
    }

    /// The architecture to which a package belongs.
    #[must_use]
    pub fn of_package(package: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|a| a.package() == package)
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Architecture {
    type Err = UnknownArchitecture;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|a| a.name() == name);
        found.ok_or_else(|| UnknownArchitecture(name.to_owned()))
    }
}

impl fmt::Display for UnknownArchitecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no architecture `{}`: it is v1model, tna or psa", self.0)
    }
}

impl std::error::Error for UnknownArchitecture {}

/// The text of a built-in include file.
pub(crate) fn builtin(name: &str) -> Option<&'static str> {
    match name {
        "core.p4" => Some(include_str!("core.p4")),
        "v1model.p4" => Some(include_str!("v1model.p4")),
        // Elsewhere `tna.p4` consists of several files, whose names programs may use. Here it is
        // one.
        "tna.p4" | "tofino1_specs.p4" | "tofino1_base.p4" | "tofino1_arch.p4" => {
            Some(include_str!("tna.p4"))
        }
        "psa.p4" | "bmv2/psa.p4" => Some(include_str!("psa.p4")),
        "dpdk/psa.p4" => Some(include_str!("dpdk_psa.p4")),
        _ => None,
    }
}
