//! The optimum of tiny instances, from every choice of ways, slots and circuits.
//!
//! It shares no code with the exact model: it tries all whole-number decisions, and for each of them a
//! small simplex method decides whether rates exist.

use tributary_optical::{Circuits, Job, Network, UnitId, Way};

/// The least CT-BTI in seconds of schedules with up to `slots` slots, if there is one.
pub(crate) fn optimum(
    network: &Network,
    jobs: &[Job],
    initial: Option<&Circuits>,
    slots: usize,
) -> Option<f64> {
    let updates = jobs.iter().flat_map(|job| &job.ways).map(|way| way.update);
    let mut times: Vec<f64> = updates
        .flat_map(|update| (0..=slots).map(move |end| end as f64 * network.slot + update))
        .collect();
    times.sort_by(f64::total_cmp);
    times.into_iter().find(|&time| {
        let mut search = Search {
            network,
            jobs,
            time,
            circuits: sequences(network, initial, slots),
            chosen: Vec::new(),
        };
        search.possible()
    })
}

/// A job's way, its first slot, and the slot after its last.
type Chosen<'a> = (&'a Way, usize, usize);

struct Search<'a> {
    network: &'a Network,
    jobs: &'a [Job],
    time: f64,
    /// All sequences of circuits before the first slot and in each slot: by slot, the matrices.
    circuits: Vec<Vec<Matrix>>,
    chosen: Vec<Chosen<'a>>,
}

impl Search<'_> {
    /// Tries all ways and slots of the next job.
    fn possible(&mut self) -> bool {
        let (jobs, network) = (self.jobs, self.network);
        let Some(job) = jobs.get(self.chosen.len()) else {
            return self.aggregated() && self.connected();
        };
        for way in &job.ways {
            let deadline = ((self.time - way.update) / network.slot + 1e-9).floor().max(0.0);
            let deadline = (deadline as usize).min(self.circuits[0].len() - 1);
            for first in job.arrival..deadline {
                for end in first + 1..=deadline {
                    self.chosen.push((way, first, end));
                    if self.possible() {
                        return true;
                    }
                    self.chosen.pop();
                }
            }
        }
        false
    }

    /// Eq. 3.
    fn aggregated(&self) -> bool {
        (0..self.circuits[0].len()).all(|slot| {
            self.network.unit_ids().all(|unit| {
                let sends = |&&(way, first, end): &&Chosen<'_>| {
                    way.inc == Some(unit) && (first..end).contains(&slot)
                };
                self.chosen.iter().filter(sends).count() <= self.network.unit(unit).inc as usize
            })
        })
    }

    /// Tries all circuits.
    fn connected(&self) -> bool {
        self.circuits.iter().any(|sequence| {
            let wide = self.jobs.iter().zip(&self.chosen).all(|(job, &(way, first, end))| {
                let rate = |slot: usize| {
                    let flows = way.flows.iter().filter(|flow| flow.from != flow.to);
                    let rates = flows.map(|flow| {
                        let circuits = sequence[slot + 1][flow.from.0][flow.to.0];
                        f64::from(circuits) * self.network.port_rate / flow.weight
                    });
                    rates.fold(f64::INFINITY, f64::min)
                };
                let rates: Vec<f64> = (first..end).map(rate).collect();
                rates.iter().all(|&rate| rate > 0.0)
                    && rates.iter().sum::<f64>() * self.network.slot >= job.bits * (1.0 - 1e-9)
            });
            wide && self.fits(sequence)
        })
    }

    /// Whether rates exist: the greatest share of all data that can be sent is 1.
    fn fits(&self, sequence: &[Matrix]) -> bool {
        let slots = sequence.len() - 1;
        let rate = |job: usize, slot: usize| 1 + job * slots + slot;
        let mut columns = 1 + self.jobs.len() * slots;
        let mut rows: Vec<(Vec<(usize, f64)>, f64)> = vec![(vec![(0, 1.0)], 1.0)];
        for slot in 0..slots {
            let sending = || {
                let chosen = self.chosen.iter().enumerate();
                chosen.filter(move |(_, (_, first, end))| (*first..*end).contains(&slot))
            };
            let circuits = &sequence[slot + 1];
            for (unit, circuits) in circuits.iter().enumerate() {
                let load = sending().map(|(job, (way, ..))| (rate(job, slot), way.load[unit]));
                let capacity = self.network.units[unit].bandwidth / self.network.port_rate;
                rows.push((load.collect(), capacity));
                for (other, &circuits) in circuits.iter().enumerate().skip(unit + 1) {
                    let mut traffic = Vec::new();
                    for (job, (way, ..)) in sending() {
                        for flow in &way.flows {
                            let ends = (flow.from.0.min(flow.to.0), flow.from.0.max(flow.to.0));
                            if ends == (unit, other) {
                                traffic.push((rate(job, slot), flow.weight));
                            }
                        }
                    }
                    rows.push((traffic, f64::from(circuits)));
                }
            }
        }
        let lost = self.network.reconfiguration / self.network.slot;
        for (job, (way, first, end)) in self.chosen.iter().enumerate() {
            let data = self.jobs[job].bits / (self.network.port_rate * self.network.slot);
            for flow in &way.flows {
                let mut sent = vec![(0, data)];
                for slot in *first..*end {
                    sent.push((rate(job, slot), -1.0));
                    let circuits = |at: usize| sequence[at][flow.from.0][flow.to.0];
                    if flow.from != flow.to && circuits(slot + 1) > circuits(slot) {
                        let mut increase = vec![(rate(job, slot), 1.0), (columns, -1.0)];
                        if slot > *first {
                            increase.push((rate(job, slot - 1), -1.0));
                        }
                        rows.push((increase, 0.0));
                        sent.push((columns, lost));
                        columns += 1;
                    }
                }
                rows.push((sent, 0.0));
            }
        }
        greatest(columns, &rows) >= 1.0 - 1e-7
    }
}

/// Circuits by two units.
type Matrix = Vec<Vec<u32>>;

/// All sequences of circuits: before slot 0, and in each slot.
fn sequences(network: &Network, initial: Option<&Circuits>, slots: usize) -> Vec<Vec<Matrix>> {
    let units = network.units.len();
    let mut all = vec![vec![vec![0; units]; units]];
    for a in 0..units {
        for b in a + 1..units {
            let wider = all.iter().flat_map(|matrix| {
                let used = |unit: usize| matrix[unit].iter().sum::<u32>();
                let ports = |unit: usize| network.units[unit].ports - used(unit);
                (0..=ports(a).min(ports(b))).map(move |count| {
                    let mut matrix = matrix.clone();
                    (matrix[a][b], matrix[b][a]) = (count, count);
                    matrix
                })
            });
            all = wider.collect();
        }
    }
    let count = |a: usize, b: usize| match initial {
        Some(circuits) if a != b => circuits.between(UnitId(a), UnitId(b)),
        _ => 0,
    };
    let before: Matrix = (0..units).map(|a| (0..units).map(|b| count(a, b)).collect()).collect();
    let mut sequences = vec![vec![before]];
    for slot in 0..slots {
        let longer = sequences.iter().flat_map(|sequence| {
            all.iter().map(move |matrix| {
                let mut sequence = sequence.clone();
                if slot == 0 && initial.is_none() {
                    sequence[0] = matrix.clone();
                }
                sequence.push(matrix.clone());
                sequence
            })
        });
        sequences = longer.collect();
    }
    sequences
}

/// The greatest value of column 0 with all columns from 0, and rows (factors, limit from 0): the simplex
/// method with Bland's rule.
fn greatest(columns: usize, rows: &[(Vec<(usize, f64)>, f64)]) -> f64 {
    let width = columns + rows.len() + 1;
    let mut table: Vec<Vec<f64>> = rows
        .iter()
        .enumerate()
        .map(|(row, (factors, limit))| {
            let mut line = vec![0.0; width];
            for &(column, factor) in factors {
                line[column] += factor;
            }
            line[columns + row] = 1.0;
            line[width - 1] = *limit;
            line
        })
        .collect();
    let mut basis: Vec<usize> = (columns..columns + rows.len()).collect();
    let mut goal = vec![0.0; width];
    goal[0] = -1.0;
    while let Some(column) = goal[..width - 1].iter().position(|&value| value < -1e-9) {
        let leaving = (0..table.len())
            .filter(|&row| table[row][column] > 1e-9)
            .min_by(|&a, &b| {
                let ratio = |row: usize| table[row][width - 1] / table[row][column];
                ratio(a).total_cmp(&ratio(b)).then(basis[a].cmp(&basis[b]))
            })
            .expect("column 0 is at most 1");
        let pivot = table[leaving][column];
        table[leaving].iter_mut().for_each(|value| *value /= pivot);
        let line = table[leaving].clone();
        let others = table.iter_mut().enumerate().filter(|(row, _)| *row != leaving);
        for row in others.map(|(_, row)| row).chain(std::iter::once(&mut goal)) {
            let factor = row[column];
            if factor != 0.0 {
                row.iter_mut().zip(&line).for_each(|(value, line)| *value -= factor * line);
            }
        }
        basis[leaving] = column;
    }
    goal[width - 1]
}
