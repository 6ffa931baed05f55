//! MapReduce shuffles in the format of the coflow benchmark, such as Facebook's trace.
//!
//! The first line has the number of racks and of shuffles. Each further line has a shuffle: its number,
//! its arrival in milliseconds, the number of mappers and their racks, the number of reducers, and for
//! each the rack and the megabytes that it receives, as `RACK:MB`.

use std::str::{FromStr, SplitWhitespace};

use tributary_base::{EXCERPT, shortened};

use crate::{Demand, Error, Job, UnitId};

const MEGABYTE: f64 = 8e6;

/// A shuffle of the trace.
#[derive(Clone, PartialEq, Debug)]
pub struct Shuffle {
    /// Its number.
    pub id: u32,
    /// Its arrival in seconds.
    pub arrival: f64,
    /// Racks of the mappers.
    pub mappers: Vec<usize>,
    /// Racks of the reducers, each with the megabytes that it receives from all mappers together.
    pub reducers: Vec<(usize, f64)>,
}

impl Shuffle {
    /// The data between units: each reducer receives the same from each mapper. Rack *r* is in unit *r*
    /// modulo the number of units.
    #[must_use]
    pub fn demands(&self, units: usize) -> Vec<Demand> {
        let mut bits = vec![0.0; units * units];
        for &(reducer, megabytes) in &self.reducers {
            for mapper in &self.mappers {
                let share = megabytes * MEGABYTE / self.mappers.len() as f64;
                bits[mapper % units * units + reducer % units] += share;
            }
        }
        let demand = |(at, bits)| Demand { from: UnitId(at / units), to: UnitId(at % units), bits };
        bits.into_iter().enumerate().filter(|(_, bits)| *bits > 0.0).map(demand).collect()
    }
}

/// Reads a trace.
///
/// # Errors
/// The first malformed line.
pub fn parse(text: &str) -> Result<Vec<Shuffle>, Error> {
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    let (_, head) = lines.next().unwrap_or((1, ""));
    let mut head = Fields { line: 1, rest: head.split_whitespace() };
    let racks: usize = head.number("the number of racks")?;
    let count: usize = head.number("the number of shuffles")?;
    head.end()?;
    let mut shuffles = Vec::new();
    for (line, text) in lines.filter(|(_, text)| !text.trim().is_empty()) {
        let mut fields = Fields { line, rest: text.split_whitespace() };
        let id = fields.number("the shuffle's number")?;
        let arrival: f64 = fields.number("the arrival in milliseconds")?;
        if !(arrival.is_finite() && arrival >= 0.0) {
            return Err(fields.problem(format!("an arrival at {arrival} ms; write 0 or more")));
        }
        let mappers: usize = fields.number("the number of mappers")?;
        let mappers: Vec<usize> = (0..mappers)
            .map(|_| {
                let rack = fields.number("a mapper's rack")?;
                fields.rack(rack, racks)
            })
            .collect::<Result<_, _>>()?;
        let reducers: usize = fields.number("the number of reducers")?;
        let reducers: Vec<(usize, f64)> = (0..reducers)
            .map(|_| {
                let field: String = fields.number("a reducer as RACK:MB")?;
                let parts = field.split_once(':');
                let parts = parts.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
                let Some((rack, megabytes)) = parts else {
                    let field = shortened(&field, EXCERPT);
                    return Err(fields.problem(format!("`{field}`; write a reducer as RACK:MB")));
                };
                let megabytes: f64 = megabytes;
                if !(megabytes.is_finite() && megabytes > 0.0) {
                    let field = shortened(&field, EXCERPT);
                    return Err(fields.problem(format!("`{field}`; write more than 0 MB")));
                }
                Ok((fields.rack(rack, racks)?, megabytes))
            })
            .collect::<Result<_, _>>()?;
        fields.end()?;
        if mappers.is_empty() || reducers.is_empty() {
            return Err(fields.problem("a shuffle needs a mapper and a reducer; add them"));
        }
        shuffles.push(Shuffle { id, arrival: arrival / 1_000.0, mappers, reducers });
    }
    if shuffles.len() != count {
        let found = shuffles.len();
        let problem = format!("it announces {count} shuffles, and {found} follow; correct it");
        return Err(Error::Trace { line: 1, problem });
    }
    Ok(shuffles)
}

struct Fields<'a> {
    line: usize,
    rest: SplitWhitespace<'a>,
}

impl Fields<'_> {
    fn problem(&self, problem: impl Into<String>) -> Error {
        Error::Trace { line: self.line, problem: problem.into() }
    }

    fn number<T: FromStr>(&mut self, what: &str) -> Result<T, Error> {
        match self.rest.next() {
            None => Err(self.problem(format!("{what} is missing; add it at the end"))),
            Some(field) => field.parse().map_err(|_| {
                let field = shortened(field, EXCERPT);
                self.problem(format!("`{field}` is not {what}; write a number"))
            }),
        }
    }

    fn rack(&self, rack: usize, racks: usize) -> Result<usize, Error> {
        // The first rack is 0 in the published trace and 1 in its description.
        if rack > racks {
            return Err(self.problem(format!("rack {rack} is not one of {racks}; correct line 1")));
        }
        Ok(rack)
    }

    fn end(&mut self) -> Result<(), Error> {
        match self.rest.next() {
            None => Ok(()),
            Some(field) => {
                let field = shortened(field, EXCERPT);
                Err(self.problem(format!("`{field}` is more than announced; remove it")))
            }
        }
    }
}

/// The shuffles as coflows, at their own times and with their own numbers, from the first arrival on.
/// Rack *r* is in unit *r* modulo the number of units. A shuffle that needs more than `ports` ports in
/// a unit becomes several coflows.
///
/// # Errors
/// If a demand is impossible.
pub fn coflows(
    trace: &[Shuffle],
    units: usize,
    ports: usize,
    slot: f64,
) -> Result<Vec<Job>, Error> {
    let start = trace.iter().map(|shuffle| shuffle.arrival).fold(f64::INFINITY, f64::min);
    let mut jobs = Vec::new();
    for shuffle in trace {
        let arrival = ((shuffle.arrival - start) / slot).ceil() as usize;
        for part in parts(&shuffle.demands(units), units, ports) {
            jobs.push(Job::coflow(shuffle.id, arrival, units, &part)?);
        }
    }
    Ok(jobs)
}

/// Splits demands so that no unit has more than `ports` other ends in a part. All flows of a coflow
/// advance together, so a wider one could never be carried out. The largest demands come first.
pub(crate) fn parts(demands: &[Demand], units: usize, ports: usize) -> Vec<Vec<Demand>> {
    let mut sorted = demands.to_vec();
    sorted.sort_by(|a, b| b.bits.total_cmp(&a.bits));
    let mut parts: Vec<(Vec<Demand>, Peers)> = Vec::new();
    for demand in sorted {
        let fitting = parts.iter().position(|(_, peers)| peers.have_room(demand, ports));
        let at = fitting.unwrap_or_else(|| {
            parts.push((Vec::new(), Peers { of: vec![Vec::new(); units] }));
            parts.len() - 1
        });
        parts[at].0.push(demand);
        parts[at].1.add(demand);
    }
    parts.into_iter().map(|(part, _)| part).collect()
}

/// By unit: the other units that it needs circuits to.
struct Peers {
    of: Vec<Vec<UnitId>>,
}

impl Peers {
    fn have_room(&self, Demand { from, to, .. }: Demand, ports: usize) -> bool {
        let room = |a: UnitId, b: UnitId| {
            let peers = &self.of[a.0];
            peers.len() < ports || peers.contains(&b)
        };
        from == to || (room(from, to) && room(to, from))
    }

    fn add(&mut self, Demand { from, to, .. }: Demand) {
        for (a, b) in [(from, to), (to, from)] {
            if a != b && !self.of[a.0].contains(&b) {
                self.of[a.0].push(b);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4 2\n1 500 2 0 1 1 2:8.0\n7 1700 1 3 2 3:1.0 0:2.0\n";

    #[test]
    fn a_reducer_receives_the_same_from_each_mapper() {
        let shuffles = parse(TRACE).unwrap();
        assert_eq!(shuffles[0].reducers, [(2, 8.0)]);
        let jobs = coflows(&shuffles, 4, 4, 1.0).unwrap();
        assert_eq!((jobs[0].id, jobs[0].arrival), (1, 0));
        assert_eq!((jobs[1].id, jobs[1].arrival), (7, 2));
        assert_eq!(jobs[0].bits, 4.0 * MEGABYTE);
        assert_eq!(jobs[0].ways[0].flows.len(), 2);
        // Racks 0 and 2, and 1 and 3, are in one unit.
        let folded = coflows(&shuffles, 2, 4, 1.0).unwrap();
        let local = folded[0].ways[0].flows.iter().find(|flow| flow.from == flow.to).unwrap();
        assert_eq!(local.from, UnitId(0));
    }

    #[test]
    fn malformed_lines_are_one_clear_line() {
        for (text, expected) in [
            ("", "line 1: the number of racks is missing; add it at the end"),
            ("4 x", "line 1: `x` is not the number of shuffles; write a number"),
            ("4 2\n1 0 1 0 1 2:8", "line 1: it announces 2 shuffles, and 1 follow; correct it"),
            ("4 1\n1 0 1 0 1", "line 2: a reducer as RACK:MB is missing; add it at the end"),
            ("4 1\n1 0 1 0 1 2", "line 2: `2`; write a reducer as RACK:MB"),
            ("4 1\n1 0 1 0 1 2:0", "line 2: `2:0`; write more than 0 MB"),
            ("4 1\n1 0 1 9 1 2:8", "line 2: rack 9 is not one of 4; correct line 1"),
            ("4 1\n1 -1 1 0 1 2:8", "line 2: an arrival at -1 ms; write 0 or more"),
            ("4 1\n1 0 0 1 2:8", "line 2: a shuffle needs a mapper and a reducer; add them"),
            ("4 1\n1 0 1 0 1 2:8 3:1", "line 2: `3:1` is more than announced; remove it"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), expected, "{text:?}");
        }
    }

    #[test]
    fn parts_carry_all_data_and_fit_the_ports() {
        let all: Vec<Demand> = (0..6)
            .flat_map(|from| (0..6).map(move |to| (from, to)))
            .map(|(from, to)| Demand { from: UnitId(from), to: UnitId(to), bits: 1.0 })
            .collect();
        let parts = parts(&all, 6, 2);
        assert_eq!(parts.iter().map(Vec::len).sum::<usize>(), all.len());
        for part in &parts {
            for unit in (0..6).map(UnitId) {
                let ends = part.iter().filter(|demand| demand.from != demand.to);
                let mut peers: Vec<UnitId> = ends
                    .filter(|demand| demand.from == unit || demand.to == unit)
                    .map(|demand| if demand.from == unit { demand.to } else { demand.from })
                    .collect();
                peers.sort_unstable();
                peers.dedup();
                assert!(peers.len() <= 2, "{part:?}");
            }
        }
    }
}
