//! Register actions: methods defined by instances.

use super::store::{Loc, Store};
use super::{Binding, Lowerer, Value, build};
use crate::hir::{self, CallArg, Callee, ExprKind, StmtKind};
use crate::ir::{self, BinaryOp, CtorArg, ExternId, StatefulAction, Stmt};
use crate::tofino::{self, Step, alu};
use crate::types::Type;
use crate::{Architecture, Severity};

impl Lowerer<'_, '_> {
    /// Lowers the `apply` of a register action, and checks that it fits Tofino's stateful ALU.
    pub(super) fn stateful_instance(&mut self, id: ExternId, instance: &hir::Instance) {
        let Some(apply) = instance.methods.iter().find(|m| &*m.name == "apply") else { return };
        let e = &self.program.externs[id.index()];
        if !matches!(e.type_name.as_str(), "RegisterAction" | "DirectRegisterAction") {
            return;
        }
        let Some(&CtorArg::Instance(register)) = e.args.first() else { return };
        let outer = std::mem::replace(&mut self.prefix, e.name.clone());
        let mut stores = Vec::with_capacity(apply.params.len());
        for param in &apply.params {
            let store = self.local(&param.name, &param.ty);
            self.vars.insert(param.id, Binding::Loc(Loc::Store(store.clone())));
            stores.push(store);
        }
        let mut value = Vec::new();
        if let Some(store) = stores.first() {
            store.scalars(&mut value);
        }
        let result = stores.get(1).and_then(|store| match store {
            Store::Scalar(field) => Some(*field),
            _ => None,
        });
        let returned = self.result.take();
        // The check below knows the statements only; they get marks afterwards.
        let marks = std::mem::take(&mut self.marks);
        let body = self.steps(&apply.body);
        self.marks = marks;
        self.result = returned;
        self.prefix = outer;
        self.check_action(id, register, instance, apply, &value, result, &body);
        let body = Step::strip(body, &mut |span| self.mark(span));
        self.program.stateful.push(StatefulAction { instance: id, register, value, result, body });
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one action")]
    fn check_action(
        &mut self,
        id: ExternId,
        register: ExternId,
        instance: &hir::Instance,
        apply: &hir::Function,
        value: &[ir::FieldId],
        result: Option<ir::FieldId>,
        body: &[Step],
    ) {
        let cell: Vec<ir::Scalar> =
            value.iter().map(|f| self.program.fields[f.index()].ty).collect();
        let declared = &self.program.externs[register.index()];
        if declared.type_args != cell {
            let show = |list: &[ir::Scalar]| {
                list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            };
            let message = format!(
                "`apply` works on a cell of ({}), but `{}` has cells of ({})",
                show(&cell),
                declared.name,
                show(&declared.type_args)
            );
            let help = "give the register action the register's type of cell";
            self.reporter.error_help(apply.span, message, help);
            return;
        }
        if result.is_none()
            && let Some(out) = apply.params.get(1)
        {
            self.error(apply.span, format!("a register action cannot return {}", out.ty));
            return;
        }
        let mut used = tofino::Use {
            register,
            name: self.program.externs[id.index()].name.clone(),
            span: instance.span,
            inputs: Vec::new(),
            constants: Vec::new(),
            params: Vec::new(),
            units: Vec::new(),
            flags: Vec::new(),
        };
        let (fields, externs) = (&self.program.fields, &self.program.externs);
        let action = alu::Action { fields, externs, value, result, body, span: instance.span };
        if let Err(refusal) = alu::check(&action, &mut used) {
            self.refuse(refusal);
        }
        self.uses.push(used);
    }

    /// Checks constraints on the program as a whole.
    pub(super) fn check_tofino(&mut self) {
        let psa = self.program.architecture() == Some(Architecture::Psa);
        if psa || self.reporter.list.has_errors() {
            return;
        }
        let spans = &self.program.origins.externs;
        let mut refusals = tofino::check_registers(&self.program, &self.uses, spans);
        refusals.extend(tofino::access::check(&self.program, &self.info.calls, spans));
        for refusal in refusals {
            self.refuse(refusal);
        }
    }

    pub(super) fn refuse(&mut self, refusal: tofino::Refusal) {
        let text = self.reporter.text;
        let mut d = text.diagnostic(Severity::Error, refusal.span, refusal.message);
        d.help = Some(refusal.help);
        if let Some((what, other)) = refusal.other {
            d.notes.push(format!("{what} at {}", text.place(other)));
        }
        self.reporter.list.push(d);
    }

    /// Statements with their positions.
    fn steps(&mut self, list: &[hir::Stmt]) -> Vec<Step> {
        let mut steps = Vec::with_capacity(list.len());
        for s in list {
            match &s.kind {
                StmtKind::Block(inner) => steps.extend(self.steps(inner)),
                StmtKind::If(condition, then, otherwise) => {
                    let mut value = build::boolean(false);
                    let before = self.buffered(|l| value = l.scalar(condition));
                    steps.extend(before.into_iter().map(|stmt| Step::Leaf(stmt, s.span)));
                    match build::truth(&value) {
                        Some(true) => steps.extend(self.steps(then)),
                        Some(false) => steps.extend(self.steps(otherwise)),
                        None => {
                            let then = self.steps(then);
                            let otherwise = self.steps(otherwise);
                            let span = condition.span;
                            steps.push(Step::If { condition: value, span, then, otherwise });
                        }
                    }
                }
                StmtKind::Assign(to, value) if crosses(to, value) => {
                    self.refuse(tofino::Refusal::new(
                        s.span,
                        "Tofino's compiler copies a list that reads one word of the cell for the other, which no register action can hold",
                        "keep one word in a local variable, and assign to the two one after the other",
                    ));
                }
                _ => {
                    let stmts = self.buffered(|l| l.statement(s));
                    let predicate = match &s.kind {
                        StmtKind::Assign(_, value) => predicate_arguments(value),
                        _ => None,
                    };
                    match (predicate, <[Stmt; 1]>::try_from(stmts)) {
                        (Some(args), Ok([stmt])) => {
                            let args = args.iter().filter_map(|a| a.value.as_ref());
                            let comparisons = args.map(|e| self.scalar(e)).collect();
                            steps.push(Step::Predicate { comparisons, stmt, span: s.span });
                        }
                        (_, Ok([stmt])) => steps.push(Step::Leaf(stmt, s.span)),
                        (_, Err(stmts)) => {
                            steps.extend(stmts.into_iter().map(|stmt| Step::Leaf(stmt, s.span)));
                        }
                    }
                }
            }
        }
        steps
    }

    /// `this.predicate(cmplo, cmphi)`: one of four bits, at the index of the low comparison's
    /// result plus twice that of the high comparison.
    pub(super) fn predicate(&mut self, args: &[CallArg], ty: &Type) -> Value {
        let wide = super::store::scalar(ty).unwrap_or(ir::Scalar::bit(4));
        let bits = ir::Scalar::bit(4);
        let mut mask = build::constant(&1.into(), bits);
        for (i, arg) in args.iter().enumerate() {
            let Some(arg) = &arg.value else { continue };
            let condition = self.scalar(arg);
            let by = build::constant(&(1 << i).into(), bits);
            let shifted = build::binary(BinaryOp::Shl, mask.clone(), by);
            mask = build::mux(condition, shifted, mask);
        }
        Value::Scalar(build::cast(mask, wide))
    }
}

/// Whether an element of a list that is assigned to a struct reads another field of the struct than
/// the one it is assigned to.
fn crosses(to: &hir::Expr, value: &hir::Expr) -> bool {
    let (ExprKind::Var(cell), ExprKind::List(items)) = (&to.kind, &value.kind) else {
        return false;
    };
    items.iter().enumerate().any(|(i, item)| {
        let mut found = false;
        crate::walk::expr(item, &mut |e| {
            if let ExprKind::Field(base, at) = &e.kind
                && matches!(&base.kind, ExprKind::Var(id) if id == cell)
            {
                found |= *at != i;
            }
        });
        found
    })
}

/// The arguments of `this.predicate(…)`, ignoring casts.
fn predicate_arguments(e: &hir::Expr) -> Option<&[CallArg]> {
    match &e.kind {
        ExprKind::Cast(inner) => predicate_arguments(inner),
        ExprKind::Call(call) if matches!(call.target, Callee::Predicate) => Some(&call.args),
        _ => None,
    }
}
