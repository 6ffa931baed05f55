//! Finds inputs for which conditions hold: a solver for Boolean satisfiability with
//! conflict-driven learning, on the gates that the conditions depend on.
//!
//! Decisions take the current value of a bit first, so that a solution differs from the current
//! inputs in little more than it must.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::time::Instant;

use crate::testgen::circuit::{Circuit, Gate, Lit};

/// Conflicts after which a query counts as unsolved.
const PATIENCE: usize = 3000;
/// Conflicts between restarts.
const RESTART: usize = 100;
/// Decisions and conflicts between two looks at the clock.
const CLOCK: usize = 64;

/// The outcome of a query.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The values of gates, for those that matter.
    Solved(Vec<Option<bool>>),
    Impossible,
    /// Not decided within the limits.
    Unsolved,
}

/// Looks for inputs that make all these bits true, until a point in time.
pub(crate) fn solve(circuit: &Circuit, conditions: &[Lit], until: Instant) -> Answer {
    let gates = circuit.gates();
    let mut variable: Vec<u32> = vec![u32::MAX; gates.len()];
    let mut used = Vec::new();
    let mut waiting: Vec<usize> = Vec::new();
    for condition in conditions {
        if condition.is_constant() {
            if !circuit.value(*condition) {
                return Answer::Impossible;
            }
            continue;
        }
        waiting.push(condition.gate());
    }
    while let Some(gate) = waiting.pop() {
        if variable[gate] != u32::MAX {
            continue;
        }
        variable[gate] = used.len() as u32;
        used.push(gate);
        if let Gate::And(a, b) = gates[gate] {
            waiting.extend([a.gate(), b.gate()]);
        }
    }
    let term = |lit: Lit| variable[lit.gate()] << 1 | u32::from(lit.is_complement());
    let current = used.iter().map(|&gate| circuit.gate_value(gate)).collect();
    let mut solver = Solver::new(current);
    for &gate in &used {
        if let Gate::And(a, b) = gates[gate] {
            let (out, a, b) = (variable[gate] << 1, term(a), term(b));
            solver.clause(vec![out ^ 1, a]);
            solver.clause(vec![out ^ 1, b]);
            solver.clause(vec![out, a ^ 1, b ^ 1]);
        }
    }
    for &condition in conditions.iter().filter(|condition| !condition.is_constant()) {
        if !solver.require(term(condition)) {
            return Answer::Impossible;
        }
    }
    match solver.search(until) {
        Some(true) => {
            let mut values = vec![None; gates.len()];
            for (&gate, &value) in used.iter().zip(&solver.values) {
                values[gate] = value;
            }
            Answer::Solved(values)
        }
        Some(false) => Answer::Impossible,
        None => Answer::Unsolved,
    }
}

/// A literal: the number of a variable, times two, plus one if it is negated.
type Term = u32;

fn index(term: Term) -> usize {
    (term >> 1) as usize
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Candidate {
    activity: f64,
    variable: u32,
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.activity.total_cmp(&other.activity).then(other.variable.cmp(&self.variable))
    }
}

struct Solver {
    clauses: Vec<Vec<Term>>,
    /// For each term: the clauses that watch it.
    watches: Vec<Vec<u32>>,
    values: Vec<Option<bool>>,
    /// The values to try first.
    phases: Vec<bool>,
    levels: Vec<u32>,
    reasons: Vec<Option<u32>>,
    trail: Vec<Term>,
    /// The length of the trail before each decision.
    decisions: Vec<usize>,
    /// Number of terms of the trail that have been propagated.
    propagated: usize,
    activity: Vec<f64>,
    increment: f64,
    order: BinaryHeap<Candidate>,
}

impl Solver {
    fn new(phases: Vec<bool>) -> Self {
        let count = phases.len();
        let order = (0..count as u32).map(|variable| Candidate { activity: 0.0, variable });
        Self {
            clauses: Vec::new(),
            watches: vec![Vec::new(); 2 * count],
            values: vec![None; count],
            phases,
            levels: vec![0; count],
            reasons: vec![None; count],
            trail: Vec::new(),
            decisions: Vec::new(),
            propagated: 0,
            activity: vec![0.0; count],
            increment: 1.0,
            order: order.collect(),
        }
    }

    /// Adds a clause of at least two terms. The first two must not be false.
    fn clause(&mut self, terms: Vec<Term>) -> u32 {
        let number = self.clauses.len() as u32;
        for &term in &terms[..2] {
            self.watches[term as usize].push(number);
        }
        self.clauses.push(terms);
        number
    }

    /// Makes a term true from the start. False if it is already false.
    fn require(&mut self, term: Term) -> bool {
        match self.value(term) {
            Some(value) => value,
            None => {
                self.assign(term, None);
                true
            }
        }
    }

    fn value(&self, term: Term) -> Option<bool> {
        self.values[index(term)].map(|value| value ^ (term & 1 == 1))
    }

    fn assign(&mut self, term: Term, reason: Option<u32>) {
        let at = index(term);
        self.values[at] = Some(term & 1 == 0);
        self.phases[at] = term & 1 == 0;
        self.levels[at] = self.decisions.len() as u32;
        self.reasons[at] = reason;
        self.trail.push(term);
    }

    /// Derives what follows; returns a clause that is false.
    fn propagate(&mut self) -> Option<u32> {
        while let Some(&term) = self.trail.get(self.propagated) {
            self.propagated += 1;
            let falsified = term ^ 1;
            let watching = std::mem::take(&mut self.watches[falsified as usize]);
            let mut kept = Vec::with_capacity(watching.len());
            let mut conflict = None;
            for (at, &number) in watching.iter().enumerate() {
                let clause = &mut self.clauses[number as usize];
                if clause[0] == falsified {
                    clause.swap(0, 1);
                }
                let first = clause[0];
                let values = &self.values;
                let is = |term: Term, wanted: bool| {
                    values[index(term)].is_some_and(|value| (value ^ (term & 1 == 1)) == wanted)
                };
                if is(first, true) {
                    kept.push(number);
                    continue;
                }
                if let Some(other) = (2..clause.len()).find(|&i| !is(clause[i], false)) {
                    clause.swap(1, other);
                    let watched = clause[1];
                    self.watches[watched as usize].push(number);
                    continue;
                }
                kept.push(number);
                if is(first, false) {
                    kept.extend_from_slice(&watching[at + 1..]);
                    conflict = Some(number);
                    break;
                }
                self.assign(first, Some(number));
            }
            self.watches[falsified as usize] = kept;
            if conflict.is_some() {
                return conflict;
            }
        }
        None
    }

    fn bump(&mut self, variable: usize) {
        self.activity[variable] += self.increment;
        let activity = self.activity[variable];
        self.order.push(Candidate { activity, variable: variable as u32 });
    }

    /// The clause that follows from a conflict, its asserting term first, and the level to which the
    /// search returns.
    fn learn(&mut self, conflict: u32) -> (Vec<Term>, u32) {
        let level = self.decisions.len() as u32;
        let mut seen = vec![false; self.values.len()];
        let mut clause = vec![0];
        let mut open = 0;
        let mut reason = conflict;
        let mut at = self.trail.len();
        let mut pivot: Option<Term> = None;
        loop {
            for term in self.clauses[reason as usize].clone() {
                let variable = index(term);
                if Some(term) == pivot || seen[variable] || self.levels[variable] == 0 {
                    continue;
                }
                seen[variable] = true;
                self.bump(variable);
                if self.levels[variable] == level {
                    open += 1;
                } else {
                    clause.push(term);
                }
            }
            let term = loop {
                at -= 1;
                if seen[index(self.trail[at])] {
                    break self.trail[at];
                }
            };
            open -= 1;
            if open == 0 {
                clause[0] = term ^ 1;
                break;
            }
            pivot = Some(term);
            reason = self.reasons[index(term)].expect("only a decision has no reason");
        }
        self.increment /= 0.95;
        if self.increment > 1e100 {
            self.activity.iter_mut().for_each(|activity| *activity *= 1e-100);
            self.increment *= 1e-100;
        }
        let back = (1..clause.len()).max_by_key(|&i| self.levels[index(clause[i])]);
        let back = back.map_or(0, |i| {
            clause.swap(1, i);
            self.levels[index(clause[1])]
        });
        (clause, back)
    }

    fn undo(&mut self, level: u32) {
        let Some(&length) = self.decisions.get(level as usize) else { return };
        for term in self.trail.drain(length..) {
            let variable = index(term);
            self.values[variable] = None;
            let activity = self.activity[variable];
            self.order.push(Candidate { activity, variable: variable as u32 });
        }
        self.decisions.truncate(level as usize);
        self.propagated = length;
        // Variables are in the heap once for each activity that they have had.
        if self.order.len() > 4 * self.values.len() + 1024 {
            let open = (0..).zip(&self.values).filter(|(_, value)| value.is_none());
            let candidate = |(variable, _): (u32, _)| Candidate {
                activity: self.activity[variable as usize],
                variable,
            };
            self.order = open.map(candidate).collect();
        }
    }

    /// Whether there is a solution; `None` if that is not decided within the limits.
    fn search(&mut self, until: Instant) -> Option<bool> {
        let mut conflicts = 0;
        for turn in 0_usize.. {
            if turn.is_multiple_of(CLOCK) && Instant::now() >= until {
                return None;
            }
            if let Some(conflict) = self.propagate() {
                if self.decisions.is_empty() {
                    return Some(false);
                }
                conflicts += 1;
                if conflicts >= PATIENCE {
                    return None;
                }
                let (clause, level) = self.learn(conflict);
                self.undo(level);
                let term = clause[0];
                let reason = (clause.len() > 1).then(|| self.clause(clause));
                self.assign(term, reason);
                if conflicts.is_multiple_of(RESTART) {
                    self.undo(0);
                }
                continue;
            }
            let next = loop {
                match self.order.pop() {
                    None => break self.values.iter().position(Option::is_none),
                    Some(Candidate { variable, .. }) => {
                        if self.values[variable as usize].is_none() {
                            break Some(variable as usize);
                        }
                    }
                }
            };
            let Some(variable) = next else { return Some(true) };
            self.decisions.push(self.trail.len());
            self.assign((variable as u32) << 1 | u32::from(!self.phases[variable]), None);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testgen::circuit::{FALSE, Word, of_number, to_bits};

    fn solve(circuit: &Circuit, conditions: &[Lit]) -> Answer {
        super::solve(circuit, conditions, Instant::now() + std::time::Duration::from_secs(600))
    }

    fn word(circuit: &mut Circuit, number: u64, width: usize) -> Word {
        to_bits(number, width).into_iter().map(|bit| circuit.input(bit)).collect()
    }

    fn read(values: &[Option<bool>], word: &[Lit]) -> u64 {
        let bit = |lit: &Lit| values[lit.gate()].unwrap_or(false) ^ lit.is_complement();
        word.iter().rev().fold(0, |number, lit| number << 1 | u64::from(bit(lit)))
    }

    #[test]
    fn factors_are_found_and_primes_have_none() {
        for (product, expected) in [(143, true), (221, true), (251, false), (241, false)] {
            let mut circuit = Circuit::new();
            let (a, b) = (word(&mut circuit, 0, 8), word(&mut circuit, 0, 8));
            let wide = |word: &[Lit]| crate::testgen::circuit::resize(word, 16, false);
            let result = circuit.mul(&wide(&a), &wide(&b));
            let is = circuit.equal(&result, &of_number(product, 16));
            let two = of_number(2, 8);
            let (low_a, low_b) = (circuit.less(&a, &two, false), circuit.less(&b, &two, false));
            match solve(&circuit, &[is, !low_a, !low_b]) {
                Answer::Solved(values) => {
                    assert!(expected, "{product} is prime");
                    assert_eq!(read(&values, &a) * read(&values, &b), product);
                }
                Answer::Impossible => assert!(!expected, "{product} has factors"),
                Answer::Unsolved => panic!("{product} takes more than {PATIENCE} conflicts"),
            }
        }
    }

    #[test]
    fn a_solution_keeps_the_bits_that_may_stay() {
        let mut circuit = Circuit::new();
        let (a, b) = (word(&mut circuit, 0xabcd, 16), word(&mut circuit, 0x1234, 16));
        let (sum, _) = circuit.add(&a[..8], &b[..8], FALSE);
        let low = circuit.equal(&sum, &of_number(0x42, 8));
        let high = circuit.equal(&a[8..], &of_number(0xab, 8));
        let Answer::Solved(values) = solve(&circuit, &[low, high]) else { panic!("solvable") };
        assert_eq!(read(&values, &a[8..]), 0xab);
        assert_eq!((read(&values, &a[..8]) + read(&values, &b[..8])) & 0xff, 0x42);
        assert!(values[b[12].gate()].is_none(), "a bit that does not matter is left alone");
        assert!(matches!(solve(&circuit, &[low, !low]), Answer::Impossible));
    }

    #[test]
    fn a_query_ends_with_its_time() {
        let mut circuit = Circuit::new();
        let (a, b) = (word(&mut circuit, 0, 32), word(&mut circuit, 0, 32));
        let product = circuit.mul(&a, &b);
        let is = circuit.equal(&product, &of_number(0x7fff_ffff, 32));
        assert!(matches!(super::solve(&circuit, &[is], Instant::now()), Answer::Unsolved));
    }

    /// Random formulas of three terms per clause, near the threshold where half of them have a
    /// solution, against all assignments.
    #[test]
    fn random_formulas_are_decided_as_by_trial() {
        use rand::{Rng, SeedableRng};
        let mut outcomes = [0; 2];
        for seed in 0..300 {
            let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let mut circuit = Circuit::new();
            let inputs = word(&mut circuit, 0, 10);
            let mut clauses = Vec::new();
            for _ in 0..43 {
                let mut terms = || {
                    let lit = inputs[random.random_range(0..10)];
                    if random.random() { lit } else { !lit }
                };
                clauses.push([terms(), terms(), terms()]);
            }
            let conditions: Vec<Lit> = clauses.iter().map(|clause| circuit.any(clause)).collect();
            let holds = |number: u64| {
                let bit = |lit: Lit| (number >> (lit.gate() - 1) & 1 == 1) ^ lit.is_complement();
                clauses.iter().all(|clause| clause.iter().any(|&lit| bit(lit)))
            };
            let possible = (0..1024).any(holds);
            match solve(&circuit, &conditions) {
                Answer::Solved(values) => assert!(holds(read(&values, &inputs)), "seed {seed}"),
                Answer::Impossible => assert!(!possible, "seed {seed}"),
                Answer::Unsolved => panic!("seed {seed}"),
            }
            outcomes[usize::from(possible)] += 1;
        }
        assert!(outcomes.iter().all(|&count| count > 50), "{outcomes:?}");
    }
}
