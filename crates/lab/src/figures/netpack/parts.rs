//! Not in the paper: which part of NetPack gives its advantage. Each row exchanges one of the four
//! parts of a policy.

use tributary_cluster::metrics::Metric;

use super::{Effort, completion_cells, completion_columns};
use crate::figures::page::Figure;
use crate::figures::sweep::Results;
use crate::figures::table::{Cell, Table};

/// What a row has exchanged, and the policy. The first is that to which the others are compared.
const ROWS: [(&str, &str); 30] = [
    ("NetPack", "netpack"),
    ("queue", "netpack:fifo"),
    ("queue", "netpack:shortest"),
    ("parameter servers", "netpack:apart"),
    ("parameter servers", "netpack:beside"),
    ("parameter servers", "netpack:by-count"),
    ("parameter servers", "netpack:by-flows"),
    ("parameter servers", "netpack:apart:by-count"),
    ("flows counted by duty", "netpack+:shared"),
    ("flows counted by duty", "netpack+"),
    ("placement", "gpu-balance:knapsack"),
    ("placement", "flow-balance:knapsack"),
    ("placement", "least-fragmentation:knapsack"),
    ("placement", "optimus:knapsack"),
    ("placement", "tetris:knapsack"),
    ("placement; parameter servers may share", "gpu-balance:knapsack:shared"),
    ("placement; parameter servers may share", "flow-balance:knapsack:shared"),
    ("placement; parameter servers may share", "least-fragmentation:knapsack:shared"),
    ("placement; parameter servers may share", "tetris:knapsack:shared"),
    ("placement, parameter servers alike", "gpu-balance:knapsack:apart:by-count"),
    ("placement, parameter servers alike", "flow-balance:knapsack:apart:by-count"),
    ("placement, parameter servers alike", "least-fragmentation:knapsack:apart:by-count"),
    ("placement, parameter servers alike", "optimus:knapsack:apart:by-count"),
    ("placement, parameter servers alike", "tetris:knapsack:apart:by-count"),
    ("placement and queue", "gpu-balance:fifo"),
    ("placement and queue", "flow-balance:fifo"),
    ("placement and queue", "least-fragmentation:fifo"),
    ("placement and queue", "optimus:fifo"),
    ("placement and queue", "tetris:fifo"),
    ("placement and queue", "tetris:shortest"),
];

/// The policies of all rows.
pub(super) fn policies() -> Vec<&'static str> {
    ROWS.iter().map(|&(_, policy)| policy).collect()
}

pub(super) fn figure(results: &Results, effort: &Effort) -> Figure {
    let mut table = Table::new(["set-up", "exchanged"].into_iter().chain(completion_columns()));
    for (point, label) in results.labels.iter().enumerate() {
        for (policy, (exchanged, _)) in ROWS.iter().enumerate() {
            let mut row = vec![Cell::text(label), Cell::text(*exchanged)];
            row.extend(completion_cells(results, point, policy));
            table.push(row);
        }
    }
    let waiting = |point: usize| results.spread(point, 0, Metric::AverageWait).mean / 60.0;
    let waits: Vec<String> = results
        .labels
        .iter()
        .enumerate()
        .map(|(point, label)| format!("{label}: {:.1} min", waiting(point)))
        .collect();
    Figure {
        id: "netpack-parts".to_owned(),
        title: "Which part of NetPack gives its advantage".to_owned(),
        notes: vec![
            "A policy is a queue, a placement of workers, a rule for parameter servers and a rule for racks. Each row \
             exchanges what its second column says; names are those of `place --policy`. A rule that a name does not \
             have is the policy's own: NetPack has the queue `knapsack` (step 1) and parameter servers by equation 1; the others \
             have `fifo` and `apart:by-count`, except Optimus (`beside`), flow-balance (fewest flows) and Tetris (most bandwidth). \
             `shortest` takes the durations of the trace as known."
                .to_owned(),
            format!(
                "Where nobody waits, a queue cannot matter. Mean waiting with NetPack: {}. {}",
                waits.join(", "),
                effort.about()
            ),
        ],
        table,
        charts: Vec::new(),
    }
}
