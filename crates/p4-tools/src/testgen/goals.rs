//! What tests are to reach, and the program that counts it.
//!
//! [`Instrumented::new`] adds a counter to a program, with one cell per goal, and calls that count
//! when a goal is reached. Counters do not influence packets, so the program forwards as before, and
//! every engine that runs it measures coverage.

use std::collections::{BTreeSet, HashMap, HashSet};

use tributary_p4::Architecture;
use tributary_p4::ir::visit::{self, Visit};
use tributary_p4::ir::{
    Annotation, Arg, CtorArg, Expr, ExprKind, Extern, ExternCall, ExternId, Field, FieldId,
    FieldRole, Keyset, Mark, Position, Program, Scalar, State, StateId, Stmt, Target, Transition,
};

use crate::testgen::influence::Influence;
use crate::testgen::program::{can_run, counted, takes_entries};
use crate::testgen::reach;

/// What a goal stands for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GoalKind {
    /// A statement of the source.
    Statement,
    /// One side of an `if` or `switch`.
    Branch,
    /// A parser state.
    State,
    /// A case of a `select`.
    Transition,
    /// An action of a table.
    Action,
    /// A table's miss.
    Miss,
}

impl GoalKind {
    /// All kinds, in the order of reports.
    pub const ALL: [Self; 6] =
        [Self::Statement, Self::Branch, Self::State, Self::Transition, Self::Action, Self::Miss];

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Statement => "statements",
            Self::Branch => "branches",
            Self::State => "parser states",
            Self::Transition => "transitions",
            Self::Action => "table actions",
            Self::Miss => "table misses",
        }
    }
}

/// Something that tests are to reach.
#[derive(Clone, Debug)]
pub struct Goal {
    /// Its kind.
    pub kind: GoalKind,
    /// File and line, if it has a place in the source.
    pub place: Option<(String, u32)>,
    /// The statement, or what else it is.
    pub text: String,
}

impl std::fmt::Display for Goal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some((file, line)) = &self.place {
            write!(f, "{file}:{line}: ")?;
        }
        f.write_str(&self.text)
    }
}

/// A program that counts the goals that packets reach.
#[derive(Clone, Debug)]
pub(crate) struct Instrumented {
    pub(crate) program: Program,
    pub(crate) goals: Vec<Goal>,
    /// The counter with one cell per goal.
    pub(crate) counter: ExternId,
    /// The goals that some path through the program's graph may lead to. Others are proven unreachable.
    pub(crate) alive: BTreeSet<usize>,
    /// For each entry of the program, by table: a goal of the search that is not counted, and so not
    /// reported. Different entries of one action lead to different paths.
    pub(crate) entries: Vec<Vec<Option<usize>>>,
    /// For each action of each table that an entry of a test can run: a goal of the search, of the same
    /// kind. What follows a hit is not reached by the same action on a miss.
    pub(crate) added: Vec<Vec<Option<usize>>>,
    /// What conditions depend on.
    pub(crate) influence: Influence,
    /// For the first goal of each body and parser state: all goals that may follow within.
    pub(crate) inside: HashMap<usize, BTreeSet<usize>>,
}

impl Instrumented {
    /// Instruments a program with marks. `source` yields the text of a file, if it is known.
    pub(crate) fn new(mut program: Program, source: &dyn Fn(&str) -> Option<String>) -> Self {
        let sources = program.files.iter().map(|file| {
            let text = source(file).unwrap_or_default();
            (file.clone(), text.lines().map(|line| line.trim().to_owned()).collect())
        });
        let sources = sources.collect();
        let counter = ExternId(program.externs.len() as u32);
        let mut rewriter = Rewriter {
            goals: Vec::new(),
            counter,
            sources,
            statements: HashMap::new(),
            known: HashMap::new(),
            at: None,
            turn: 0,
            names: program.tables.iter().map(|table| table.name.clone()).collect(),
            keyed: program.tables.iter().map(|table| !table.keys.is_empty()).collect(),
            fields: Vec::new(),
            first_field: program.fields.len(),
        };
        for control in &mut program.controls {
            rewriter.body(&mut control.body);
        }
        for action in &mut program.actions {
            rewriter.body(&mut action.body);
        }
        for action in &mut program.stateful {
            rewriter.body(&mut action.body);
        }
        for parser in &mut program.parsers {
            rewriter.parser(&mut parser.states);
        }
        let names: Vec<String> = program.actions.iter().map(|action| action.name.clone()).collect();
        for table in &mut program.tables {
            let possible: Vec<bool> = (0..table.actions.len()).map(|a| can_run(table, a)).collect();
            for (listed, _) in
                table.actions.iter_mut().zip(possible).filter(|(_, possible)| *possible)
            {
                let action = &names[listed.action.index()];
                let text = format!("table {}: action {action}", table.name);
                let goal = rewriter.goal(GoalKind::Action, None, text);
                let count = rewriter.count(goal);
                listed.prologue.insert(0, count);
            }
        }
        let Rewriter { goals, fields, .. } = rewriter;
        program.fields.extend(fields);
        program.externs.push(counter_of(&program, goals.len()));
        let reachable = reach::reachable(&program, counter);
        let alive = reachable.goals;
        let inside = inside(&program, counter);
        let mut next = goals.len();
        let mut number = || {
            next += 1;
            next - 1
        };
        let entries = program.tables.iter().enumerate();
        let entries = entries.map(|(table, of)| {
            let entries = (0..of.entries.len())
                .map(|entry| reachable.entries.contains(&(table as u32, entry)).then(&mut number));
            entries.collect()
        });
        let entries: Vec<Vec<Option<usize>>> = entries.collect();
        let added = program.tables.iter().enumerate();
        let added = added.map(|(table, of)| {
            let reachable = reachable.tables.contains(&(table as u32)) && takes_entries(of);
            let listed = of.actions.iter();
            listed.map(|it| (reachable && it.scope.in_entries()).then(&mut number)).collect()
        });
        let added = added.collect();
        let influence = Influence::new(&program, counter, &entries);
        Self { program, goals, counter, alive, entries, added, influence, inside }
    }
}

/// A counter with one cell for each goal.
fn counter_of(program: &Program, goals: usize) -> Extern {
    let (type_name, unit, member) = match program.architecture() {
        Some(Architecture::Tna) => ("Counter", "CounterType_t", "PACKETS"),
        _ => ("counter", "CounterType", "packets"),
    };
    let symbol = CtorArg::Symbol(unit.to_owned(), member.to_owned());
    Extern {
        name: "$coverage".to_owned(),
        type_name: type_name.to_owned(),
        type_args: Vec::new(),
        args: vec![CtorArg::Int(goals.max(1) as u128), symbol],
        annotations: Vec::<Annotation>::new(),
    }
}

/// The goals within each body that begins with a goal.
fn inside(program: &Program, counter: ExternId) -> HashMap<usize, BTreeSet<usize>> {
    let mut sides = Sides::default();
    program.controls.iter().for_each(|control| sides.visit_body(&control.body));
    program.actions.iter().for_each(|action| sides.visit_body(&action.body));
    let mut inside: HashMap<usize, BTreeSet<usize>> = HashMap::new();
    let mut add = |first: &Stmt, walk: Walk<'_>| {
        if let Some(goal) = counted(first, counter) {
            inside.entry(goal).or_default().extend(walk.goals);
        }
    };
    for parser in &program.parsers {
        for (number, state) in parser.states.iter().enumerate() {
            sides.visit_body(&state.body);
            let mut walk = Walk::new(program, counter);
            walk.states(&parser.states, StateId(number as u32));
            add(&state.body[0], walk);
        }
    }
    for body in sides.0.into_iter().filter(|body| !body.is_empty()) {
        let mut walk = Walk::new(program, counter);
        walk.visit_body(body);
        add(&body[0], walk);
    }
    for listed in program.tables.iter().flat_map(|table| &table.actions) {
        if let Some(first) = listed.prologue.first() {
            let mut walk = Walk::new(program, counter);
            walk.visit_body(&program.actions[listed.action.index()].body);
            add(first, walk);
        }
    }
    inside
}

/// The sides of branches within a body.
#[derive(Default)]
struct Sides<'p>(Vec<&'p [Stmt]>);

impl<'p> Visit<'p> for Sides<'p> {
    fn visit_stmt(&mut self, stmt: &'p Stmt) {
        match stmt {
            Stmt::If { then, otherwise, .. } => self.0.extend([&then[..], otherwise]),
            Stmt::Switch { cases, default, .. } => {
                self.0.extend(cases.iter().map(|(_, body)| &body[..]));
                self.0.push(default);
            }
            _ => {}
        }
        visit::walk_stmt(self, stmt);
    }
}

fn integer(value: usize) -> Expr {
    Expr { ty: Scalar::bit(32), kind: ExprKind::Const(Box::new([value as u64])) }
}

struct Rewriter {
    goals: Vec<Goal>,
    counter: ExternId,
    /// Names and lines of the source's files.
    sources: Vec<(String, Vec<String>)>,
    /// The goals of statements, by their numbers.
    statements: HashMap<(Position, u32), usize>,
    /// Goals of branches by statement, number of the branch within it, and side: copies of a
    /// statement share them.
    known: HashMap<(usize, usize, usize), usize>,
    /// The goal of the statement that comes next.
    at: Option<usize>,
    /// Number of branching statements since.
    turn: usize,
    names: Vec<String>,
    keyed: Vec<bool>,
    /// New fields.
    fields: Vec<Field>,
    first_field: usize,
}

impl Rewriter {
    fn goal(&mut self, kind: GoalKind, at: Option<usize>, text: String) -> usize {
        let place = at.and_then(|goal| self.goals[goal].place.clone());
        self.goals.push(Goal { kind, place, text });
        self.goals.len() - 1
    }

    /// The goal of a statement.
    fn statement(&mut self, position: Position, number: u32) -> usize {
        if let Some(&known) = self.statements.get(&(position, number)) {
            return known;
        }
        let goal = self.place(GoalKind::Statement, position);
        self.statements.insert((position, number), goal);
        goal
    }

    /// A goal that stands for a line of the source.
    fn place(&mut self, kind: GoalKind, position: Position) -> usize {
        let file = self.sources.get(position.file as usize);
        let line = file.and_then(|(_, lines)| lines.get(position.line as usize - 1));
        let text = line.filter(|line| !line.is_empty()).map_or("a statement", String::as_str);
        let place = file.map(|(name, _)| (name.clone(), position.line));
        self.goals.push(Goal { kind, place, text: text.to_owned() });
        self.goals.len() - 1
    }

    fn count(&self, goal: usize) -> Stmt {
        let args = vec![Arg::In(integer(goal))];
        let instance = Some(self.counter);
        Stmt::Call(ExternCall { instance, method: "count".to_owned(), args })
    }

    fn side(&mut self, place: (Option<usize>, usize), side: usize, text: &str) -> Stmt {
        let (at, turn) = place;
        let key = at.map(|goal| (goal, turn, side));
        let known = key.and_then(|key| self.known.get(&key).copied());
        let goal = known.unwrap_or_else(|| {
            let statement = at.map_or("", |goal| &self.goals[goal].text);
            let text = format!("{text} of `{}`", statement.trim_end_matches(" {"));
            let goal = self.goal(GoalKind::Branch, at, text);
            self.known.extend(key.map(|key| (key, goal)));
            goal
        });
        self.count(goal)
    }

    fn body(&mut self, list: &mut Vec<Stmt>) {
        for mut statement in std::mem::take(list) {
            if let Stmt::Mark(mark) = statement {
                if let Mark::At(position, number) = mark {
                    let goal = self.statement(position, number);
                    (self.at, self.turn) = (Some(goal), 0);
                    list.push(self.count(goal));
                }
                continue;
            }
            let place = (self.at, self.turn);
            let mut after = None;
            match &mut statement {
                Stmt::If { then, otherwise, .. } => {
                    let [yes, no] = [(0, "true side"), (1, "false side")]
                        .map(|(side, text)| self.side(place, side, text));
                    for (side, count) in [(then, yes), (otherwise, no)] {
                        self.body(side);
                        side.insert(0, count);
                    }
                    (self.at, self.turn) = (place.0, place.1 + 1);
                }
                Stmt::Switch { cases, default, .. } => {
                    for (number, (_, body)) in cases.iter_mut().enumerate() {
                        let text = format!("case {}", number + 1);
                        let count = self.side(place, number + 1, &text);
                        self.body(body);
                        body.insert(0, count);
                    }
                    let count = self.side(place, 0, "default case");
                    self.body(default);
                    default.insert(0, count);
                    (self.at, self.turn) = (place.0, place.1 + 1);
                }
                Stmt::Apply { table, hit, .. } if self.keyed[table.index()] => {
                    let field = *hit.get_or_insert_with(|| {
                        let name = "$hit".to_owned();
                        let role = FieldRole::Local;
                        self.fields.push(Field { name, ty: Scalar::BOOL, role });
                        FieldId((self.first_field + self.fields.len() - 1) as u32)
                    });
                    let text = format!("table {}: miss", self.names[table.index()]);
                    let goal = self.goal(GoalKind::Miss, place.0, text);
                    let condition = Expr { ty: Scalar::BOOL, kind: ExprKind::Field(field) };
                    let otherwise = vec![self.count(goal)];
                    after = Some(Stmt::If { condition, then: Vec::new(), otherwise });
                }
                Stmt::Block(body) | Stmt::Loop(_, body) | Stmt::Labelled(_, body) => {
                    self.body(body)
                }
                _ => {}
            }
            list.push(statement);
            list.extend(after);
        }
    }

    fn parser(&mut self, states: &mut Vec<State>) {
        let mut added = Vec::new();
        let count = states.len();
        for state in states.iter_mut() {
            // A state begins with the mark of its name.
            let own = match state.body.first() {
                Some(&Stmt::Mark(Mark::At(position, _))) => Some(position),
                _ => None,
            };
            let goal = match own {
                Some(position) => {
                    state.body.remove(0);
                    self.place(GoalKind::State, position)
                }
                None => self.goal(GoalKind::State, None, String::new()),
            };
            self.goals[goal].text = format!("state {}", state.name);
            self.at = Some(goal);
            self.body(&mut state.body);
            state.body.insert(0, self.count(goal));
            let Transition::Select { on, cases } = &mut state.transition else { continue };
            let any = |(sets, _): &(Vec<Keyset>, _)| sets.iter().all(|s| matches!(s, Keyset::Any));
            if !cases.iter().any(any) {
                cases.push((vec![Keyset::Any; on.len()], Target::Reject));
            }
            let last = cases.iter().position(any).unwrap_or(cases.len());
            for (number, (_, target)) in cases.iter_mut().enumerate().take(last + 1) {
                let text = format!("state {}: case {} of `select`", state.name, number + 1);
                let goal = self.goal(GoalKind::Transition, self.at, text);
                added.push(State {
                    name: format!("{}.case{}", state.name, number + 1),
                    body: vec![self.count(goal)],
                    transition: Transition::To(*target),
                });
                *target = Target::State(StateId((count + added.len() - 1) as u32));
            }
        }
        states.extend(added);
    }
}

/// Finds the goals on paths from the program's blocks.
struct Walk<'p> {
    program: &'p Program,
    counter: ExternId,
    goals: BTreeSet<usize>,
    /// Actions and tables that have been visited.
    seen: HashSet<(bool, u32)>,
}

impl<'p> Walk<'p> {
    fn new(program: &'p Program, counter: ExternId) -> Self {
        Self { program, counter, goals: BTreeSet::new(), seen: HashSet::new() }
    }

    fn states(&mut self, states: &'p [State], first: StateId) {
        let mut reached = vec![false; states.len()];
        let mut waiting = vec![first];
        while let Some(id) = waiting.pop() {
            let Some(state) = states.get(id.index()) else { continue };
            if std::mem::replace(&mut reached[id.index()], true) {
                continue;
            }
            self.visit_body(&state.body);
            let targets: Vec<Target> = match &state.transition {
                Transition::To(target) => vec![*target],
                Transition::Select { cases, .. } => cases.iter().map(|case| case.1).collect(),
            };
            waiting.extend(targets.into_iter().filter_map(|target| match target {
                Target::State(id) => Some(id),
                _ => None,
            }));
        }
    }
}

impl<'p> Visit<'p> for Walk<'p> {
    fn visit_body(&mut self, body: &'p [Stmt]) {
        for statement in body {
            self.visit_stmt(statement);
            if matches!(statement, Stmt::Exit | Stmt::Return | Stmt::Leave(_)) {
                // What follows is not reached.
                return;
            }
        }
    }

    fn visit_stmt(&mut self, statement: &'p Stmt) {
        self.goals.extend(counted(statement, self.counter));
        match statement {
            Stmt::Action(id) if self.seen.insert((false, id.0)) => {
                self.visit_body(&self.program.actions[id.index()].body);
            }
            Stmt::Apply { table: id, .. } if self.seen.insert((true, id.0)) => {
                let table = &self.program.tables[id.index()];
                for (number, listed) in table.actions.iter().enumerate() {
                    if !can_run(table, number) {
                        continue;
                    }
                    self.visit_body(&listed.prologue);
                    if self.seen.insert((false, listed.action.0)) {
                        self.visit_body(&self.program.actions[listed.action.index()].body);
                    }
                }
            }
            _ => visit::walk_stmt(self, statement),
        }
    }

    /// Goals are counted by statements.
    fn visit_expr(&mut self, _: &'p Expr) {}
}
