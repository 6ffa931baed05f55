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
//! | [`program`] | the P4 program of a job file, compiled |
//! | [`switches`] | the numbers of running switches, for metrics |
//! | [`watch`] | samples for the live view |
//! | [`report`] | the result, as tables and as JSON |
//!
//! To add a fabric, implement [`Fabric`] and add it to [`fabric::Kind`] and [`run()`].

pub mod capture;
pub mod cores;
pub mod fabric;
pub mod program;
pub mod report;
pub mod run;
pub mod switches;
pub mod watch;

pub use fabric::Fabric;
pub use run::{Options, run};
use tributary_limits::shortened;

/// The chain of causes in one line, without causes that their error's text already contains. Errors
/// can contain text of any length from files and other machines, so control characters are escaped, and the
/// middle of a long line is left out.
#[must_use]
pub fn one_line(error: &anyhow::Error) -> String {
    let line = error.chain().skip(1).fold(error.to_string(), |line, cause| {
        let cause = cause.to_string();
        if line.contains(&cause) { line } else { format!("{line}: {cause}") }
    });
    let short = |line| shortened(&tributary_p4::printable(line), LINE).into_owned();
    line.split('\n').map(short).collect::<Vec<_>>().join("\n")
}

/// Most characters of a line of an error.
const LINE: usize = 2_000;

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn an_error_stays_short_whatever_it_repeats() {
        let error = anyhow!("`{}` is no name\nline 2", "x".repeat(200_000)).context("job 1");
        let line = one_line(&error);
        assert!(
            line.starts_with("job 1: `xxx") && line.ends_with("` is no name\nline 2"),
            "{line}"
        );
        assert!(line.chars().count() < LINE + 10, "{}", line.len());
    }
}
