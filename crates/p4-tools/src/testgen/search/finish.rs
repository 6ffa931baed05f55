//! Chooses the tests that remain, and makes them short and varied.

use std::collections::BTreeSet;

use rand::Rng;

use super::{Kept, PAYLOAD, Search};
use crate::testgen::case::Case;
use crate::testgen::circuit::Gate;
use crate::testgen::judge::judge;
use crate::testgen::machine::{Outcome, Trace};
use crate::testgen::{Statistics, passes};

impl Search<'_> {
    /// The fewest tests, about, that reach all goals that were reached, shortened and with random
    /// values in place of those that do not matter.
    pub(crate) fn finish(mut self) -> (Vec<Kept>, Statistics) {
        let mut open = self.covered.clone();
        let mut chosen = Vec::new();
        let mut left = std::mem::take(&mut self.kept);
        while !open.is_empty() && chosen.len() < self.options.max_tests {
            let gain = |kept: &Kept| {
                let gain = kept.verdict.goals.intersection(&open).count();
                (gain, std::cmp::Reverse(kept.case.packets.len()))
            };
            let best = (0..left.len()).max_by_key(|&at| (gain(&left[at]), std::cmp::Reverse(at)));
            let Some(best) = best else { break };
            if gain(&left[best]).0 == 0 {
                break;
            }
            let kept = left.remove(best);
            open.retain(|goal| !kept.verdict.goals.contains(goal));
            let improved = self.improve(kept);
            chosen.push(improved);
        }
        (chosen, self.statistics)
    }

    fn improve(&mut self, mut kept: Kept) -> Kept {
        for change in [Self::shorten, Self::spread] {
            let mut case = kept.case.clone();
            let trace = passes::run(self.of, &case, false);
            change(self, &mut case, &trace);
            let trace = passes::run(self.of, &case, false);
            let verdict = judge(self.of, self.p4info, &case, &trace);
            if let Some(verdict) = verdict.filter(|v| v.goals.is_superset(&kept.verdict.goals)) {
                kept = Kept { case, verdict, written: trace.written };
            }
        }
        kept
    }

    /// Removes payload, and entries that no packet used.
    fn shorten(&mut self, case: &mut Case, trace: &Trace) {
        for (sent, ends) in case.packets.iter_mut().zip(&trace.consumed) {
            let most = ends.last().copied().unwrap_or(0) + PAYLOAD;
            sent.bits.truncate(8 * most);
        }
        let used: BTreeSet<usize> = trace
            .applied
            .iter()
            .filter_map(|applied| match applied.outcome {
                Outcome::Rule(number) => Some(number),
                _ => None,
            })
            .collect();
        case.cells.retain(|cell, _| trace.inputs.cells.contains_key(cell));
        case.colours.retain(|meter, _| trace.inputs.colours.contains_key(meter));
        let mut number = 0;
        case.rules.retain(|_| {
            number += 1;
            used.contains(&(number - 1))
        });
    }

    /// Gives random values to all inputs on which the path does not depend, so that a program that
    /// treats them differently fails the test.
    fn spread(&mut self, case: &mut Case, trace: &Trace) {
        let gates = trace.circuit.gates();
        let mut matters = vec![false; gates.len()];
        let conditions = trace.path.iter().chain(&trace.sides);
        let mut waiting: Vec<usize> = conditions.map(|holds| holds.gate()).collect();
        while let Some(gate) = waiting.pop() {
            if !std::mem::replace(&mut matters[gate], true)
                && let Gate::And(a, b) = gates[gate]
            {
                waiting.extend([a.gate(), b.gate()]);
            }
        }
        let values: Vec<Option<bool>> = matters
            .iter()
            .map(|matters| {
                let random = self.random.random();
                (!matters).then_some(random)
            })
            .collect();
        let ports: Vec<Vec<bool>> = case.packets.iter().map(|sent| sent.port.clone()).collect();
        case.adopt(&trace.circuit, &trace.inputs, &values);
        for (sent, port) in case.packets.iter_mut().zip(ports) {
            sent.port = port;
        }
    }
}
