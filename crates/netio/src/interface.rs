//! What the kernel knows of a network interface of the calling thread's network namespace.

use std::{fs, io};

use crate::sys;

/// A network interface, as it was when it was looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, as given.
    pub name: String,
    /// The kernel's number for it.
    pub index: u32,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// The most bytes that follow an Ethernet header.
    pub mtu: usize,
    /// Whether it is administratively up.
    pub up: bool,
}

/// Why an interface cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InterfaceError {
    /// Not in this network namespace.
    #[error("there is no network interface `{name}` here; there are: {}", available.join(", "))]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names that exist.
        available: Vec<String>,
    },
    /// The kernel did not answer.
    #[error("cannot ask for the {what} of network interface `{name}`: {source}")]
    Query {
        /// Which interface.
        name: String,
        /// What was asked for.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl Interface {
    /// Looks up an interface by its name.
    ///
    /// # Errors
    /// If it does not exist or the kernel refuses to tell.
    pub fn find(name: &str) -> Result<Self, InterfaceError> {
        let unknown = |_| InterfaceError::Unknown { name: name.to_owned(), available: names() };
        let query =
            |what| move |source| InterfaceError::Query { name: name.to_owned(), what, source };
        let requests = sys::InterfaceRequests::new().map_err(query("address"))?;
        let index = requests.index(name).map_err(unknown)?;
        let up = requests.is_up(name).map_err(query("state"))?;
        Ok(Self {
            name: name.to_owned(),
            index,
            mac: requests.mac(name).map_err(query("address"))?,
            mtu: requests.mtu(name).map_err(query("MTU"))?,
            up,
        })
    }
}

/// The names of all interfaces of the calling thread's network namespace.
#[must_use]
pub fn names() -> Vec<String> {
    // Not /sys: it shows the namespace of whoever mounted it.
    let table = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let lines = table.lines().skip(2);
    lines.filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known_to_every_namespace() {
        let loopback = Interface::find("lo").expect("every namespace has it");
        assert_eq!(loopback.mac, [0; 6]);
        assert!(loopback.index >= 1);
        assert!(loopback.mtu >= 1_500, "{loopback:?}");
        assert!(names().contains(&"lo".to_owned()));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        for name in ["trib-none", "", "a-name-that-no-interface-can-have"] {
            let error = Interface::find(name).expect_err("must not exist").to_string();
            assert!(error.contains(&format!("`{name}`")), "{error}");
            assert!(error.contains("lo"), "{error}");
        }
    }
}
