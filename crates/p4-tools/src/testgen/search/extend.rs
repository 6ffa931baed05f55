//! Tests with more packets, for what registers must hold.

use std::rc::Rc;

use rand::Rng;
use tributary_p4::ir::ExternId;

use super::{Change, EXTENDED, Kept, NEAR_REGISTERS, Promise, Search};
use crate::testgen::case::{Case, Rule};
use crate::testgen::influence::Holder;

impl Search<'_> {
    /// Queues tests with another packet. False if there is none.
    pub(super) fn extend(&mut self) -> bool {
        self.rounds += 1;
        let mut any = false;
        let kept: Vec<Case> = self.kept.iter().map(|kept| kept.case.clone()).collect();
        for turn in 0..kept.len().min(EXTENDED) {
            if turn % 2 == 1 && self.joined_by_register() {
                any = true;
                continue;
            }
            // Tests that were found last come first: they go deepest.
            let last = kept.len() - 1;
            let number =
                if self.rounds == 1 { last - turn } else { self.random.random_range(0..=last) };
            let one = &kept[number];
            // Another packet like the last, or what another test does.
            let same = self.random.random_bool(0.6);
            let other = if same { number } else { self.random.random_range(0..=last) };
            let other = &kept[other];
            let room = self.options.packets.saturating_sub(one.packets.len());
            if room == 0 {
                continue;
            }
            // State may build up over several packets.
            let more = 1 + (self.rounds - 1) % room;
            let mut joined = one.joined(other, more);
            if same && self.random.random_bool(0.5) {
                self.double(&mut joined);
            }
            any = true;
            self.push(2, Rc::new(joined), Change::Whole);
        }
        any
    }

    /// Queues a test that comes to a condition before a new goal, after another test that writes a register
    /// on which the condition depends. False if there is none.
    fn joined_by_register(&mut self) -> bool {
        let goals = self.blocked.keys().copied().collect::<Vec<_>>();
        let open = |goal: &usize| self.promise(Some(*goal)) != Promise::Nothing;
        let goals: Vec<usize> = goals.into_iter().filter(open).collect();
        if goals.is_empty() {
            return false;
        }
        let goal = goals[self.random.random_range(0..goals.len())];
        let needs = self.of.influence.needs(goal);
        let mut registers: Vec<(u32, ExternId)> = needs
            .iter()
            .filter_map(|(holder, distance)| match holder {
                Holder::Register(id) => Some((*distance, *id)),
                Holder::Field(_) => None,
            })
            .collect();
        registers.sort_unstable();
        registers.truncate(NEAR_REGISTERS);
        if registers.is_empty() {
            return false;
        }
        let (_, register) = registers[self.random.random_range(0..registers.len())];
        let then = Rc::clone(&self.blocked[&goal]);
        let first: Vec<&Kept> = self
            .kept
            .iter()
            .filter(|kept| kept.written.contains(&register))
            .filter(|kept| kept.case.packets.len() < self.options.packets)
            .collect();
        if first.is_empty() {
            return false;
        }
        let first = first[self.random.random_range(0..first.len())];
        let joined = first.case.joined(&then, 1);
        self.push(2, Rc::new(joined), Change::Whole);
        true
    }

    /// Adds a second entry like each one, for packets that differ in little.
    fn double(&mut self, case: &mut Case) {
        for at in 0..case.rules.len() {
            let mut rule = case.rules[at].clone();
            let key = self.random.random_range(0..rule.keys.len().max(1));
            let Some(key) = rule.keys.get_mut(key) else { continue };
            let bit = self.random.random_range(0..key.len());
            key[bit] = !key[bit];
            let known = |known: &Rule| (known.table, &known.keys) == (rule.table, &rule.keys);
            if !case.rules.iter().any(known) {
                case.rules.push(rule);
            }
        }
    }
}
