//! Applies tables.

use tributary_p4::ir::{FieldId, Keyset, MatchKind, Scalar, Table, TableId};

use crate::testgen::circuit::{Lit, TRUE, Word, constant, limb_bits, of_number};
use crate::testgen::machine::{ALWAYS, Applied, Flow, Machine, Outcome, mix};

impl Machine<'_> {
    pub(crate) fn apply(
        &mut self,
        id: TableId,
        hit: Option<FieldId>,
        action: Option<FieldId>,
    ) -> Flow {
        let program = self.program;
        let table = &program.tables[id.index()];
        let keys = table.keys.iter().filter(|key| key.kind != MatchKind::Selector);
        let keys: Vec<Word> = keys.map(|key| self.expr(&key.value)).collect();
        let (outcome, number, args) = self.find(id, table, &keys);
        let values = keys.iter().map(|key| self.trace.circuit.values(key)).collect();
        let context = self.context;
        self.trace.applied.push(Applied { table: id, keys: values, outcome, context });
        if let Some(hit) = hit {
            self.set(hit, &[Lit::from(outcome != Outcome::Miss)]);
        }
        if let Some(action) = action {
            self.set(action, &of_number(number as u64, 32));
        }
        // What follows depends on what the table did.
        self.context = mix(self.context ^ u64::from(id.0) << 32 ^ (number as u64) << 8);
        let listed = &table.actions[number];
        let called = &program.actions[listed.action.index()];
        for (&param, value) in called.params.iter().zip(&args) {
            self.set(param, value);
        }
        let flow = self.statements(&listed.prologue);
        if flow != Flow::Next {
            return flow;
        }
        let flow = self.statements(&called.body);
        if flow == Flow::Return { Flow::Next } else { flow }
    }

    /// The entry that matches: its kind, the action, and the action's data.
    fn find(&mut self, id: TableId, table: &Table, keys: &[Word]) -> (Outcome, usize, Vec<Word>) {
        let site = mix(u64::from(id.0) ^ 0x7ab1e);
        if !keys.is_empty() {
            if let Some(number) = self.find_rule(id, keys, site) {
                let args = self.trace.inputs.rules[number].1.clone();
                let action = self.case.rules[number].call.action;
                self.trace.goals.extend(self.of.added[id.index()][action]);
                return (Outcome::Rule(number), action, args);
            }
            let mut order: Vec<usize> = (0..table.entries.len()).collect();
            // Longer prefixes have precedence.
            let prefix = |entry: &usize| {
                let lengths = table.entries[*entry].keys.iter().zip(&table.keys);
                lengths
                    .filter(|(_, key)| key.kind == MatchKind::Lpm)
                    .map(|(set, key)| match set {
                        Keyset::Prefix { len, .. } => *len,
                        Keyset::Any => 0,
                        _ => key.value.ty.width,
                    })
                    .max()
                    .unwrap_or(0)
            };
            order.sort_by_key(|entry| std::cmp::Reverse(prefix(entry)));
            for number in order {
                let entry = &table.entries[number];
                let matched = self.matches(&entry.keys, keys);
                let goal = self.of.entries[id.index()][number];
                if self.fork(matched, [goal, None], mix(site ^ 2 ^ (number as u64) << 8)) {
                    self.trace.goals.extend(goal);
                    let args = self.constants(table, entry.call.action, &entry.call.args);
                    return (Outcome::Entry, entry.call.action as usize, args);
                }
            }
        }
        if let Some(call) = self.case.defaults.get(&id.0) {
            return (Outcome::Miss, call.action, self.trace.inputs.defaults[&id.0].clone());
        }
        let call = &table.default_action;
        let args = self.constants(table, call.action, &call.args);
        (Outcome::Miss, call.action as usize, args)
    }

    /// The entry of the test that matches. The branches are the other entries of the test, and none.
    fn find_rule(&mut self, id: TableId, keys: &[Word], site: u64) -> Option<usize> {
        let rules = self.case.rules.iter().enumerate().filter(|(_, rule)| rule.table == id);
        let mut found = None;
        let mut none = TRUE;
        let mut conditions = Vec::new();
        for (number, rule) in rules {
            let c = &mut self.trace.circuit;
            let wanted = &self.trace.inputs.rules[number].0;
            let parts: Vec<Lit> = keys.iter().zip(wanted).map(|(k, w)| c.equal(k, w)).collect();
            let matched = c.all(&parts);
            let first = c.and(none, matched);
            none = c.and(none, !matched);
            if c.value(first) {
                found = Some(number);
            } else if !first.is_constant() {
                let goal = self.of.added[id.index()][rule.call.action];
                self.branch(first, goal, mix(site ^ 1 ^ (number as u64) << 8), true);
            }
            conditions.push(matched);
        }
        if found.is_some() && !none.is_constant() {
            self.branch(none, None, mix(site ^ 3), false);
        }
        for condition in conditions {
            if self.fork(condition, [None, None], ALWAYS) {
                break;
            }
        }
        found
    }

    fn constants(&self, table: &Table, action: u32, args: &[Box<[u64]>]) -> Vec<Word> {
        let widths = self.widths(table, action as usize);
        widths.iter().zip(args).map(|(&w, limbs)| constant(&limb_bits(limbs, w))).collect()
    }

    fn widths(&self, table: &Table, action: usize) -> Vec<usize> {
        widths(self.program, table, action)
    }
}

/// The widths of the data of an action of a table.
pub(crate) fn widths(
    program: &tributary_p4::ir::Program,
    table: &Table,
    action: usize,
) -> Vec<usize> {
    let action = &program.actions[table.actions[action].action.index()];
    let ty = |field: &FieldId| -> Scalar { program.fields[field.index()].ty };
    action.params.iter().map(|field| ty(field).width as usize).collect()
}
