//! Jobs of a Slurm cluster: places them by a policy of `tributary_cluster::placement`, and has the switches
//! aggregate for them.
//!
//! This module does not start processes of jobs: Slurm does. It talks to Slurm by Slurm's own
//! commands, and to the switches through their controller.
//!
//! - [`listing`]: the jobs and nodes of Slurm, from the JSON of its commands;
//! - [`hostlist`], [`gres`]: Slurm's notations for lists of names and for GPUs;
//! - [`wish`], [`decision`]: what a user asks for in a job's comment, and what was decided, which
//!   is kept in the job's admin comment;
//! - [`placer`]: the decisions, without I/O;
//! - [`commands`], [`switches`]: the commands of Slurm, and the client of the controller;
//! - [`service`]: the loop, and the two hooks that Slurm calls before and after each job;
//! - [`topology`]: our files from Slurm's `topology.conf` or `topology.yaml`.
//!
//! Start reading at [`placer::decide`]. `docs/operate/slurm.md` is the documentation for operators.

pub mod commands;
pub mod decision;
pub mod gres;
pub mod hostlist;
pub mod listing;
pub mod placer;
pub mod service;
pub mod switches;
pub mod topology;
pub mod wish;

/// The number of a Slurm job in packets and at the controller: 1 to 65535.
///
/// Job IDs that differ by a multiple of 65535 share a number. [`placer::decide`] lets only one of
/// them run at a time.
#[must_use]
pub fn number(job: u32) -> u16 {
    let index = job.saturating_sub(1) % u32::from(u16::MAX);
    u16::try_from(index).expect("a remainder by 65535 fits") + 1
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_of_jobs_go_from_1_to_65535() {
        assert_eq!([1, 2, 65_535, 65_536, 131_071].map(number), [1, 2, 65_535, 1, 1]);
        assert_eq!(number(0), 1);
    }
}
