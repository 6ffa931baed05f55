//! The segment of a job with aggregators of its own (P4INC, SwitchML).
use comfy_table::Table;
use serde::Serialize;
use tributary_base::decimal_size;
use tributary_controller::outcomes::Outcome;
use tributary_p4::ir;
use tributary_protocol::{Assignment, Mode};
use tributary_worker::rounding::grouped;
use tributary_worker::rounds::WorkerReport;

use super::table;
use crate::fabric::Counted;

/// The segment of a job, and how it was used.
#[derive(Clone, Debug, Serialize)]
pub struct SegmentReport {
    /// The job's mode.
    pub mode: &'static str,
    /// Switches that have the segment.
    pub switches: usize,
    /// Number of its segments: one for each thread of a worker.
    pub segments: usize,
    /// The first aggregator of its first segment.
    pub offset: u32,
    /// Number of its aggregators.
    pub aggregators: u32,
    /// Their memory in each switch, in bytes.
    pub memory_bytes: u64,
    /// Packets returned because the aggregator was busy with an earlier round: asynchronous errors.
    pub turned_back: u64,
    /// Results sent to one worker from an aggregator's copy.
    pub from_the_copy: u64,
    /// Partial sums sent to the parameter server again.
    pub again: u64,
    /// Packets of rounds that the aggregators had left behind.
    pub stale: u64,
    /// Packets that named an aggregator outside the segment.
    pub outside: u64,
    /// Rounds that all workers repeated at a coarser scale.
    pub coarser: u64,
}

impl SegmentReport {
    /// Combines what a job's workers report with what its switches counted. `lanes`: the assignments of
    /// its lanes, at least one, which differ in their segments only.
    pub fn new(
        lanes: &[Assignment],
        switches: usize,
        aggregator_bits: u64,
        workers: &[WorkerReport],
        counted: &Counted,
    ) -> Self {
        let Assignment { segment, mode, .. } = lanes[0];
        let aggregators = lanes.iter().map(|lane| lane.segment.size).sum();
        let of = |outcome: Outcome| counted.outcomes[outcome].packets;
        Self {
            mode: match mode {
                Mode::Local => "local",
                Mode::Partial => "partial",
                Mode::Forwarded => "server",
            },
            switches: if mode == Mode::Forwarded { 0 } else { switches },
            segments: lanes.len(),
            offset: segment.offset.0,
            aggregators,
            memory_bytes: (u64::from(aggregators) * aggregator_bits).div_ceil(8),
            turned_back: of(Outcome::Asynchronous),
            from_the_copy: of(Outcome::Repeated),
            again: of(Outcome::Resent),
            stale: of(Outcome::Stale),
            outside: of(Outcome::Outside),
            coarser: workers.iter().map(|worker| worker.stats.coarser).max().unwrap_or_default(),
        }
    }
}

fn is_register(instance: &ir::Extern) -> bool {
    matches!(instance.type_name.as_str(), "register" | "Register")
}

/// Bits of memory per aggregator in a program with `pool` aggregators: in all register arrays.
pub fn aggregator_bits(program: &ir::Program, pool: u32) -> u64 {
    let registers = program.externs.iter().filter(|instance| is_register(instance));
    let bits = registers.map(|register| {
        // v1model has no registers of structs; the second type argument is the index type.
        let scalars = if register.type_name == "Register" { 2 } else { 1 };
        let width = register.type_args.iter().take(scalars).map(|s| u64::from(s.width)).sum();
        match register.args.first() {
            Some(&ir::CtorArg::Int(cells)) if cells == u128::from(pool) => width,
            _ => 0,
        }
    });
    bits.sum()
}

/// One row per job.
pub(super) fn segment_table<'a>(jobs: impl Iterator<Item = (&'a str, &'a SegmentReport)>) -> Table {
    let mut rows = table(&[
        "job",
        "summed by",
        "aggregators",
        "memory",
        "turned back",
        "from the copy",
        "again to server",
        "stale",
        "coarser",
    ]);
    for (name, job) in jobs {
        let summed_by = match (job.mode, job.switches) {
            ("server", _) => "server".to_owned(),
            (_, 1) => "switch".to_owned(),
            (_, switches) => format!("{switches} switches, server"),
        };
        let aggregators = match job.aggregators {
            0 => "–".to_owned(),
            size if job.segments > 1 => format!("{size} in {} segments", job.segments),
            size => format!("{} to {}", job.offset, job.offset + size - 1),
        };
        let counts = [job.turned_back, job.from_the_copy, job.again, job.stale, job.coarser];
        let texts = [name.to_owned(), summed_by, aggregators, decimal_size(job.memory_bytes)];
        rows.add_row(texts.into_iter().chain(counts.map(grouped)));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_embedded::program;

    /// The sizes in the pages of docs/concepts.
    #[test]
    fn the_size_of_an_aggregator_matches_the_documentation() {
        for (protocol, sums, rest) in
            [("atp", 32, 129), ("esa", 32, 105), ("p4inc", 64, 100), ("switchml", 32, 66)]
        {
            for values in [32, 64] {
                let text = format!(
                    "[protocol]\nkind = \"{protocol}\"\nvalues_per_packet = {values}\n\
                     [switch]\npool = 77\n[[job]]\n"
                );
                let scenario = tributary_model::jobfile::parse(&text, "f").unwrap();
                let program = program::compile(&scenario, None).unwrap().program;
                let bits = aggregator_bits(&program, scenario.network.switch.pool);
                assert_eq!(bits, sums * values + rest, "{protocol}, {values} values");
            }
        }
    }
}
