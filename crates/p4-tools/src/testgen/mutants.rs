//! Faulty variants of a program.
//!
//! A mutant differs in one place: an operator, a constant, a condition, a statement left out, a
//! transition, the action of an entry, a header that is emitted. Tests that all pass on a mutant do
//! not check that place. Some mutants cannot be told from the program by any packet, so that the
//! share of mutants that tests notice has no natural limit of 100 %.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use tributary_dataplane::EngineKind;
use tributary_p4::Compilation;
use tributary_p4::ir::{
    Arg, BinaryOp, Block, Expr, ExprKind, Keyset, Place, Program, Stmt, Target, Transition,
};
use tributary_switch::stf::Script;

use crate::testgen::judge;

/// How many mutants tests notice.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Score {
    /// Mutants on which a test failed.
    pub killed: usize,
    /// Mutants that ran.
    pub of: usize,
    /// What the mutants changed on which all tests passed.
    pub survivors: Vec<String>,
}

/// Runs tests on at most `most` mutants of a program without marks, chosen by the seed.
///
/// # Errors
/// A test that fails on the program itself.
pub fn score(
    compiled: &Compilation,
    tests: &[Script],
    most: usize,
    seed: u64,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Score, String> {
    for test in tests {
        crate::testgen::run_test(compiled, test, EngineKind::Interpreter)?;
    }
    let mut sites: Vec<usize> = (0..count(&compiled.program)).collect();
    sites.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let mut score = Score::default();
    let most = most.min(sites.len());
    for site in sites {
        if score.of >= most {
            break;
        }
        let mut program = compiled.program.clone();
        let Some(change) = mutate(&mut program, site) else { continue };
        if judge::load(&program, &compiled.p4info, EngineKind::Interpreter).is_err() {
            continue;
        }
        score.of += 1;
        let notices = |test: &Script| {
            judge::run(&program, &compiled.p4info, test, EngineKind::Interpreter).is_err()
        };
        if tests.iter().any(notices) {
            score.killed += 1;
        } else {
            score.survivors.push(change);
        }
        progress(score.of, most);
    }
    score.survivors.sort_unstable();
    Ok(score)
}

/// Number of places that can be changed.
#[must_use]
pub fn count(program: &Program) -> usize {
    let mut mutator = Mutator { left: usize::MAX, change: None, place: String::new() };
    mutator.program(&mut program.clone());
    usize::MAX - mutator.left
}

/// Changes a program in one place, and says how.
pub fn mutate(program: &mut Program, site: usize) -> Option<String> {
    let mut mutator = Mutator { left: site, change: None, place: String::new() };
    mutator.program(program);
    mutator.change
}

struct Mutator {
    /// Places before the one to change.
    left: usize,
    change: Option<String>,
    /// Name of the block.
    place: String,
}

impl Mutator {
    /// Whether this is the place to change.
    fn here(&mut self, what: impl FnOnce() -> String) -> bool {
        if self.change.is_some() {
            return false;
        }
        if self.left > 0 {
            self.left -= 1;
            return false;
        }
        self.change = Some(format!("{}: {}", self.place, what()));
        true
    }

    fn program(&mut self, program: &mut Program) {
        let blocks = program.blocks.clone();
        let mut done = Vec::new();
        for (role, block) in blocks {
            if done.contains(&block) {
                continue;
            }
            done.push(block);
            self.place = role;
            match block {
                Block::Control(id) => self.body(&mut program.controls[id.index()].body),
                Block::Parser(id) => {
                    for state in &mut program.parsers[id.index()].states {
                        self.place = format!("state {}", state.name);
                        self.body(&mut state.body);
                        self.transition(&mut state.transition);
                    }
                }
            }
        }
        for action in &mut program.actions {
            self.place = format!("action {}", action.name);
            self.body(&mut action.body);
        }
        for table in &mut program.tables {
            self.place = format!("table {}", table.name);
            for entry in &mut table.entries {
                for set in &mut entry.keys {
                    self.keyset(set);
                }
                for arg in &mut entry.call.args {
                    self.constant(arg);
                }
            }
            for arg in &mut table.default_action.args {
                self.constant(arg);
            }
        }
    }

    fn transition(&mut self, transition: &mut Transition) {
        match transition {
            Transition::To(target) => {
                if *target != Target::Accept && self.here(|| "accepts at once".to_owned()) {
                    *target = Target::Accept;
                }
            }
            Transition::Select { on, cases } => {
                on.iter_mut().for_each(|value| self.expr(value));
                for (sets, target) in cases.iter_mut() {
                    sets.iter_mut().for_each(|set| self.keyset(set));
                    if *target != Target::Accept && self.here(|| "a case accepts".to_owned()) {
                        *target = Target::Accept;
                    }
                }
            }
        }
    }

    fn keyset(&mut self, set: &mut Keyset) {
        match set {
            Keyset::Value(value)
            | Keyset::Masked { value, .. }
            | Keyset::Prefix { value, .. }
            | Keyset::Range { low: value, .. } => self.constant(value),
            Keyset::Any | Keyset::ValueSet(_) => {}
        }
    }

    fn constant(&mut self, value: &mut [u64]) {
        if self.here(|| format!("the lowest bit of {:#x} flipped", value[0])) {
            value[0] ^= 1;
        }
    }

    fn body(&mut self, body: &mut Vec<Stmt>) {
        let mut at = 0;
        while at < body.len() {
            let removable = matches!(
                body[at],
                Stmt::Assign(..)
                    | Stmt::CopyHeader { .. }
                    | Stmt::SetValid(_)
                    | Stmt::SetInvalid(_)
                    | Stmt::PushFront(..)
                    | Stmt::PopFront(..)
                    | Stmt::Apply { .. }
                    | Stmt::Action(_)
                    | Stmt::Call(_)
                    | Stmt::Emit(_)
                    | Stmt::Verify { .. }
                    | Stmt::Exit
                    | Stmt::Advance(_)
            );
            if removable && self.here(|| format!("without {}", kind(&body[at]))) {
                body.remove(at);
                return;
            }
            self.statement(&mut body[at]);
            at += 1;
        }
    }

    fn statement(&mut self, statement: &mut Stmt) {
        match statement {
            Stmt::Assign(place, value) => {
                if let Place::Element(_, index, _) = place {
                    self.expr(index);
                }
                self.expr(value);
            }
            Stmt::If { condition, then, otherwise } => {
                if self.here(|| "a condition negated".to_owned()) {
                    std::mem::swap(then, otherwise);
                }
                self.expr(condition);
                self.body(then);
                self.body(otherwise);
            }
            Stmt::Switch { on, cases, default } => {
                self.expr(on);
                for (label, body) in cases {
                    self.constant(label);
                    self.body(body);
                }
                self.body(default);
            }
            Stmt::Call(call) => {
                for arg in &mut call.args {
                    match arg {
                        Arg::In(value) => self.expr(value),
                        Arg::List(list) => list.iter_mut().for_each(|value| self.expr(value)),
                        _ => {}
                    }
                }
            }
            Stmt::Verify { condition, error } => {
                self.expr(condition);
                self.expr(error);
            }
            Stmt::Block(body) | Stmt::Loop(_, body) | Stmt::Labelled(_, body) => self.body(body),
            _ => {}
        }
    }

    fn expr(&mut self, expr: &mut Expr) {
        match &mut expr.kind {
            ExprKind::Const(value) => self.constant(value),
            ExprKind::Unary(_, value) | ExprKind::Cast(value) | ExprKind::Slice { value, .. } => {
                self.expr(value);
            }
            ExprKind::Element(_, index, _) => self.expr(index),
            ExprKind::Binary(op, left, right) => {
                if let Some(other) = other(*op)
                    && self.here(|| format!("{} instead of {}", other.sign(), op.sign()))
                {
                    *op = other;
                }
                self.expr(left);
                self.expr(right);
            }
            ExprKind::Mux(condition, then, otherwise) => {
                if self.here(|| "a choice negated".to_owned()) {
                    std::mem::swap(then, otherwise);
                }
                self.expr(condition);
                self.expr(then);
                self.expr(otherwise);
            }
            ExprKind::Field(_) | ExprKind::Valid(_) => {}
        }
    }
}

/// An operator that takes and gives the same types.
fn other(op: BinaryOp) -> Option<BinaryOp> {
    Some(match op {
        BinaryOp::Add => BinaryOp::Sub,
        BinaryOp::Sub | BinaryOp::Mul => BinaryOp::Add,
        BinaryOp::AddSat => BinaryOp::Add,
        BinaryOp::SubSat => BinaryOp::Sub,
        BinaryOp::BitAnd => BinaryOp::BitOr,
        BinaryOp::BitOr => BinaryOp::BitXor,
        BinaryOp::BitXor => BinaryOp::BitAnd,
        BinaryOp::Shl => BinaryOp::Shr,
        BinaryOp::Shr => BinaryOp::Shl,
        BinaryOp::Eq => BinaryOp::Ne,
        BinaryOp::Ne => BinaryOp::Eq,
        BinaryOp::Lt => BinaryOp::Le,
        BinaryOp::Le => BinaryOp::Lt,
        BinaryOp::Gt => BinaryOp::Ge,
        BinaryOp::Ge => BinaryOp::Gt,
        BinaryOp::And => BinaryOp::Or,
        BinaryOp::Or => BinaryOp::And,
        BinaryOp::Div | BinaryOp::Mod | BinaryOp::Concat => return None,
    })
}

fn kind(statement: &Stmt) -> String {
    match statement {
        Stmt::Assign(..) => "an assignment".to_owned(),
        Stmt::CopyHeader { .. } => "a copy of a header".to_owned(),
        Stmt::SetValid(_) => "`setValid`".to_owned(),
        Stmt::SetInvalid(_) => "`setInvalid`".to_owned(),
        Stmt::Apply { .. } => "an application of a table".to_owned(),
        Stmt::Action(_) => "a call of an action".to_owned(),
        Stmt::Call(call) => format!("a call of `{}`", call.method),
        Stmt::Emit(_) => "`emit`".to_owned(),
        Stmt::Verify { .. } => "`verify`".to_owned(),
        Stmt::Exit => "`exit`".to_owned(),
        _ => "a statement".to_owned(),
    }
}
