//! The commands, one file each.

pub(crate) mod chaos;
pub(crate) mod optical;
mod output;
pub(crate) mod place;
pub(crate) mod sim;
