//! Applies tables. If the actions of a table only assign values, all of them are executed, as in `merge`.

use tributary_p4::ir::{FieldId, Keyset, MatchKind, Scalar, Stmt, Table, TableId};

use crate::testgen::circuit::{FALSE, Lit, TRUE, Word, constant, limb_bits, of_number};
use crate::testgen::machine::{ALWAYS, Applied, Flow, Machine, Others, Outcome, mix};

/// Different actions, with their data, that are executed at one application of a table.
const MOST_MERGED: usize = 16;

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
        let values = keys.iter().map(|key| self.trace.circuit.values(key)).collect();
        let context = self.context;
        if self.has_plain_actions(id)
            && let Some(outcome) = self.apply_merged(id, &keys, hit, action)
        {
            self.trace.applied.push(Applied { table: id, keys: values, outcome, context });
            return Flow::Next;
        }
        let (outcome, number, args) = self.find(id, table, &keys);
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
            let mut cases = order(table).into_iter();
            while let Some(number) = cases.next() {
                let entry = &table.entries[number];
                let matched = self.matches(&entry.keys, keys);
                let goal = self.of.entries[id.index()][number];
                let site = |number: usize| mix(site ^ 2 ^ (number as u64) << 8);
                let after = self.trace.path.len();
                if self.fork(matched, [goal, None], site(number)) {
                    let mut others = Others { taken: matched, after };
                    for later in cases {
                        let goal = self.of.entries[id.index()][later];
                        self.other(
                            &mut others,
                            &table.entries[later].keys,
                            keys,
                            goal,
                            site(later),
                        );
                    }
                    self.trace.goals.extend(goal);
                    let args = self.constants(table, entry.call.action, &entry.call.args);
                    return (Outcome::Entry, entry.call.action as usize, args);
                }
            }
        }
        let (action, args) = self.default(id, table);
        (Outcome::Miss, action, args)
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

    /// Whether the actions of a table only assign values.
    fn has_plain_actions(&mut self, id: TableId) -> bool {
        if let Some(&known) = self.plain_tables.get(&id.0) {
            return known;
        }
        let program = self.program;
        let table = &program.tables[id.index()];
        let plain = !table.keys.is_empty()
            && table.actions.iter().all(|listed| {
                self.are_plain(&listed.prologue)
                    && self.are_plain(&program.actions[listed.action.index()].body)
            });
        self.plain_tables.insert(id.0, plain);
        plain
    }

    /// Executes all actions that the table may run, and gives each field the value of the one that it
    /// does run, like `merge`. `None` if that would be too many.
    fn apply_merged(
        &mut self,
        id: TableId,
        keys: &[Word],
        hit: Option<FieldId>,
        action: Option<FieldId>,
    ) -> Option<Outcome> {
        let program = self.program;
        let table = &program.tables[id.index()];
        let (outcomes, miss) = self.outcomes(id, table, keys);
        let mut runs: Vec<Run> = Vec::new();
        for Candidate { guard, action, args, .. } in &outcomes {
            match runs.iter_mut().find(|run| run.action == *action && run.args == *args) {
                Some(run) => run.guard = self.trace.circuit.or(run.guard, *guard),
                None => runs.push(Run { guard: *guard, action: *action, args: args.clone() }),
            }
        }
        runs.retain(|run| run.guard != FALSE);
        if runs.len() > MOST_MERGED {
            return None;
        }
        let mut outcome = Outcome::Miss;
        for (turn, candidate) in outcomes.iter().enumerate() {
            let Candidate { guard, goal, kind, .. } = *candidate;
            if self.trace.circuit.value(guard) {
                outcome = kind;
                self.trace.goals.extend(goal);
                // Another entry of the test is another path.
                let by_rule = u64::from(matches!(kind, Outcome::Rule(_)));
                let did = (candidate.action as u64) << 1 | by_rule;
                self.trace.signature = mix(self.trace.signature ^ u64::from(id.0) << 32 ^ did);
                if !guard.is_constant() {
                    self.trace.sides.push(guard);
                }
            } else if guard.is_constant() {
                self.trace.blocked.extend(goal);
            } else {
                let site = mix(u64::from(id.0) ^ 0x3e26ed ^ (turn as u64) << 32);
                self.branch(guard, goal, site, matches!(kind, Outcome::Rule(_)));
            }
        }
        if let Some(hit) = hit {
            self.set(hit, &[!miss]);
        }
        let mut number = Word::new();
        for run in &runs {
            let this = of_number(run.action as u64, 32);
            number = if number.is_empty() {
                this
            } else {
                self.trace.circuit.mux(run.guard, &this, &number)
            };
        }
        if matches!(outcome, Outcome::Rule(_)) {
            let number = self.trace.circuit.values(&number);
            let number = crate::testgen::circuit::number(&number).unwrap_or_default();
            self.context = mix(self.context ^ u64::from(id.0) << 32 ^ (number + 1) << 8);
        }
        self.run_merged(table, &runs);
        if let Some(action) = action {
            self.set(action, &number);
        }
        Some(outcome)
    }

    /// All that a table may do, each with the condition under which it does: one of these is true. The
    /// last is a miss, whose condition is returned, too.
    fn outcomes(&mut self, id: TableId, table: &Table, keys: &[Word]) -> (Vec<Candidate>, Lit) {
        let mut all = Vec::new();
        let mut none = TRUE;
        let mut add = |this: &mut Self, matched: Lit, mut candidate: Candidate| {
            let circuit = &mut this.trace.circuit;
            candidate.guard = circuit.and(none, matched);
            none = circuit.and(none, !matched);
            all.push(candidate);
        };
        for (number, rule) in self.case.rules.iter().enumerate() {
            if rule.table != id {
                continue;
            }
            let (wanted, args) = self.trace.inputs.rules[number].clone();
            let circuit = &mut self.trace.circuit;
            let parts: Vec<Lit> =
                keys.iter().zip(&wanted).map(|(k, w)| circuit.equal(k, w)).collect();
            let matched = circuit.all(&parts);
            let action = rule.call.action;
            let goal = self.of.added[id.index()][action];
            let kind = Outcome::Rule(number);
            add(self, matched, Candidate { guard: FALSE, action, args, goal, kind });
        }
        for number in order(table) {
            let entry = &table.entries[number];
            let matched = self.matches(&entry.keys, keys);
            let action = entry.call.action as usize;
            let args = self.constants(table, entry.call.action, &entry.call.args);
            let goal = self.of.entries[id.index()][number];
            let kind = Outcome::Entry;
            add(self, matched, Candidate { guard: FALSE, action, args, goal, kind });
        }
        let (action, args) = self.default(id, table);
        let miss = Candidate { guard: FALSE, action, args, goal: None, kind: Outcome::Miss };
        add(self, TRUE, miss);
        let miss = all.last().map_or(TRUE, |miss| miss.guard);
        (all, miss)
    }

    /// Runs actions, each under its condition, of which one is true.
    fn run_merged(&mut self, table: &Table, runs: &[Run]) {
        let program = self.program;
        let parts = runs.iter().map(|run| {
            let listed = &table.actions[run.action];
            (&listed.prologue[..], &program.actions[listed.action.index()])
        });
        let parts: Vec<_> = parts.collect();
        let bodies: Vec<&[Stmt]> =
            parts.iter().flat_map(|(prologue, action)| [*prologue, &action.body[..]]).collect();
        let written = self.written(&bodies);
        let before: Vec<Word> = written.iter().map(|field| self.field(*field).clone()).collect();
        let mut after = before.clone();
        let outer = self.guard;
        for (run, (prologue, action)) in runs.iter().zip(parts) {
            for (field, value) in written.iter().zip(&before) {
                self.fields[field.index()].clone_from(value);
            }
            for (&param, value) in action.params.iter().zip(&run.args) {
                self.set(param, value);
            }
            self.guard = self.trace.circuit.and(outer, run.guard);
            self.statements(prologue);
            self.statements(&action.body);
            for (field, value) in written.iter().zip(&mut after) {
                *value = self.trace.circuit.mux(run.guard, &self.fields[field.index()], value);
            }
        }
        self.guard = outer;
        for (field, value) in written.iter().zip(after) {
            self.fields[field.index()] = value;
        }
    }

    /// The action of a miss, and its data.
    fn default(&self, id: TableId, table: &Table) -> (usize, Vec<Word>) {
        if let Some(call) = self.case.defaults.get(&id.0) {
            return (call.action, self.trace.inputs.defaults[&id.0].clone());
        }
        let call = &table.default_action;
        (call.action as usize, self.constants(table, call.action, &call.args))
    }

    fn constants(&self, table: &Table, action: u32, args: &[Box<[u64]>]) -> Vec<Word> {
        let widths = self.widths(table, action as usize);
        widths.iter().zip(args).map(|(&w, limbs)| constant(&limb_bits(limbs, w))).collect()
    }

    fn widths(&self, table: &Table, action: usize) -> Vec<usize> {
        widths(self.program, table, action)
    }
}

/// Something that a table may do.
struct Candidate {
    guard: Lit,
    action: usize,
    args: Vec<Word>,
    goal: Option<usize>,
    kind: Outcome,
}

/// An action that a table may run, for all entries with the same data.
struct Run {
    guard: Lit,
    action: usize,
    args: Vec<Word>,
}

/// The entries of the program in the order of their precedence: longer prefixes come first.
fn order(table: &Table) -> Vec<usize> {
    let mut order: Vec<usize> = (0..table.entries.len()).collect();
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
    order
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
