//! The life of a job: admission, endpoints, work, report, sweep.
//!
//! [`run()`] runs a job file on a [`Fabric`]: threads of one process ([`fabric::Memory`]),
//! processes in network namespaces ([`fabric::Netns`]), or virtual time ([`fabric::Sim`]). All
//! produce the same kind of [`report`].
//!
//! | module | content |
//! | --- | --- |
//! | [`mod@run`] | the steps, the same on every fabric |
//! | [`fabric`] | where switches and endpoints run |
//! | [`capture`] | the capture of a run's frames |
//! | [`cores`] | the processor cores of processes |
//! | [`watch`] | samples for the live view |
//! | `diagnosis` | what is wrong with a run while it lasts |
//! | `findings` | the rules for that, which the report shares |
//! | [`report`] | the result, as tables and as JSON |
//!
//! To add a fabric, implement [`Fabric`] and add it to [`fabric::Kind`] and [`run()`].

pub mod capture;
pub mod cores;
mod diagnosis;
pub mod fabric;
mod findings;
pub mod live;
mod options;
pub mod report;
pub mod run;
pub mod testbed;
pub mod watch;

pub use fabric::Fabric;
pub use options::Options;
pub use run::run;
