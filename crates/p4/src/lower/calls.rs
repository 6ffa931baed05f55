//! Calls of functions, actions, controls and parsers: binding of arguments.
//!
//! P4 copies arguments in and out. If that makes no observable difference, the parameter shares the
//! argument's storage instead. A called block or function accesses the caller's storage through its
//! parameters only, so sharing is safe if no written argument overlaps another one. Actions also
//! access their control's variables directly, so their arguments must in addition not overlap
//! variables named in the body.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::store::{Loc, Store, Which};
use super::{Binding, InlinedAction, LoweredTable, Lowerer, Value, integers};
use crate::hir::{self, CallArg, Callee, DeclId, ExprKind, StmtKind};
use crate::ir::{self, ActionId, FieldId, HeaderRef, Inlined, Stmt};
use crate::source::Span;
use crate::types::{BlockKind, Direction, Type};
use crate::walk;

/// An instance of a parser or control.
#[derive(Clone)]
pub(super) struct BlockInstance {
    pub(super) block: Rc<hir::Block>,
    /// Hierarchical name.
    pub(super) name: String,
    /// Constructor parameters.
    pub(super) ctor: Rc<HashMap<DeclId, Binding>>,
    /// The constructor call, for package arguments that name an instance.
    pub(super) construct: Option<Rc<hir::Construct>>,
    /// The frame, from its first use on.
    pub(super) frame: RefCell<Option<Frame>>,
}

/// The permanent part of an instance: its storage, tables and actions exist once, however often it
/// is applied.
#[derive(Clone, Default)]
pub(super) struct Frame {
    pub(super) bindings: HashMap<DeclId, Binding>,
    pub(super) actions: HashMap<DeclId, ActionId>,
    pub(super) tables: HashMap<DeclId, LoweredTable>,
    /// Parameters that are copied.
    pub(super) copied: Vec<DeclId>,
}

impl BlockInstance {
    pub(super) fn new(
        block: Rc<hir::Block>,
        name: String,
        ctor: Rc<HashMap<DeclId, Binding>>,
    ) -> Self {
        Self { block, name, ctor, construct: None, frame: RefCell::new(None) }
    }
}

/// The bindings of the arguments of one call.
pub(super) struct Bound {
    pub(super) bindings: Vec<(DeclId, Binding)>,
    pub(super) copied: Vec<DeclId>,
    pub(super) copy_outs: Vec<(Loc, Store, Type)>,
}

/// State of the caller while another block is lowered.
pub(super) struct Outer {
    prefix: String,
    actions: HashMap<DeclId, ActionId>,
    tables: HashMap<DeclId, LoweredTable>,
}

impl Lowerer<'_, '_> {
    /// Lowers a call and returns its value.
    pub(super) fn call(&mut self, call: &hir::Call, ty: &Type, span: Span) -> Value {
        match &call.target {
            Callee::Extern { instance, signature } => {
                self.extern_call(instance.as_ref(), signature, &call.args, ty, span)
            }
            Callee::Function(function) => self.function_call(function, &call.args),
            Callee::Action(action) => {
                self.action_call(action, &call.args);
                Value::Void
            }
            Callee::Block { instance } => {
                match self.vars.get(instance).cloned() {
                    Some(Binding::Block(block)) => {
                        self.apply_control(&block, *instance, &call.args, span)
                    }
                    _ => self.error(span, "what is applied here is not known"),
                }
                Value::Void
            }
            Callee::Direct { site, block } => {
                let instance = self.direct_instance(*site, block);
                self.apply_control(&instance, *site, &call.args, span);
                Value::Void
            }
            Callee::Predicate => self.predicate(&call.args, ty),
            Callee::SetValid(header) => {
                self.on_header(header, Self::set_valid);
                Value::Void
            }
            Callee::SetInvalid(header) => {
                self.on_header(header, |l, header| l.emit(Stmt::SetInvalid(header)));
                Value::Void
            }
            Callee::PushFront(stack, count) => {
                if let Value::Loc(stack) = self.value(stack) {
                    self.shift(&stack, *count, Stmt::PushFront);
                }
                Value::Void
            }
            Callee::PopFront(stack, count) => {
                if let Value::Loc(stack) = self.value(stack) {
                    self.shift(&stack, *count, Stmt::PopFront);
                }
                Value::Void
            }
        }
    }

    fn shift(&mut self, stack: &Loc, count: u32, statement: fn(ir::StackId, u32) -> Stmt) {
        match stack {
            Loc::Store(store) => self.shift_stack(store, count, statement),
            Loc::Choice(choice) => {
                self.for_chosen(choice, |l, stack| l.shift(stack, count, statement));
            }
            _ => {}
        }
    }

    /// Emits a statement on the header that an expression refers to.
    fn on_header(&mut self, e: &hir::Expr, f: impl Fn(&mut Self, HeaderRef)) {
        let value = self.value(e);
        self.on_header_value(value, e, f);
    }

    /// The same with the expression's value.
    pub(super) fn on_header_value(
        &mut self,
        value: Value,
        e: &hir::Expr,
        f: impl Fn(&mut Self, HeaderRef),
    ) {
        let found = match value {
            Value::Loc(loc) => self.at_header(&loc, &f),
            _ => false,
        };
        if !found {
            self.unsupported(e.span, "a header that is not a variable is");
        }
    }

    /// The same for the header at a location. False if there is none.
    fn at_header(&mut self, loc: &Loc, f: &impl Fn(&mut Self, HeaderRef)) -> bool {
        if let Loc::Choice(choice) = loc {
            let mut found = true;
            self.for_chosen(choice, |l, part| found &= l.at_header(part, f));
            return found;
        }
        match self.header_ref(loc) {
            Some(header) => {
                f(self, header);
                true
            }
            None => false,
        }
    }

    /// The instance that `Type.apply(…)` creates.
    pub(super) fn direct_instance(
        &mut self,
        site: DeclId,
        block: &Rc<hir::Block>,
    ) -> Rc<BlockInstance> {
        if let Some(Binding::Block(known)) = self.vars.get(&site)
            && known.name.starts_with(&self.prefix)
        {
            return known.clone();
        }
        let name = self.qualify(&block.name, &block.annotations);
        let instance = Rc::new(BlockInstance::new(block.clone(), name, Rc::default()));
        self.vars.insert(site, Binding::Block(instance.clone()));
        instance
    }

    fn function_call(&mut self, function: &Rc<hir::Function>, args: &[CallArg]) -> Value {
        let bound = self.bind(&function.params, args, &[], &|_| true);
        if function.ret == Type::Int {
            self.vars.extend(bound.bindings);
            let result = self.deeper(|l| l.int_result(function));
            self.copy_back(&bound.copy_outs);
            return result;
        }
        let result = match function.ret {
            Type::Void => None,
            _ => Some(self.local(&format!("{}.$result", function.name), &function.ret)),
        };
        self.vars.extend(bound.bindings);
        let outer = std::mem::replace(&mut self.result, result.clone());
        self.copy_outs.push(Vec::new());
        let body = self.deeper(|l| l.buffered(|l| l.statements(&function.body)));
        self.copy_outs.pop();
        self.result = outer;
        self.mark_enter(Inlined::Function, &function.name);
        self.splice(body);
        self.mark_leave();
        self.copy_back(&bound.copy_outs);
        match result {
            Some(store) => Value::Loc(Loc::Store(store)),
            None => Value::Void,
        }
    }

    /// The result of a function of type `int`. It has no width, so no variable can hold it: the
    /// function must be one expression that is known at compile time.
    fn int_result(&mut self, function: &hir::Function) -> Value {
        if let [hir::Stmt { kind: StmtKind::Return(Some(result)), .. }] = &function.body[..]
            && let Value::Scalar(e) = self.value(result)
            && matches!(e.kind, ir::ExprKind::Const(_))
        {
            return Value::Scalar(e);
        }
        let message =
            format!("`{}` returns an int that is not known at compile time", function.name);
        self.reporter.error_help(function.span, message, "give its result a width, as in bit<32>");
        Value::Scalar(integers::constant(&0.into()))
    }

    /// Inlines a direct call of an action.
    fn action_call(&mut self, action: &Rc<hir::Action>, args: &[CallArg]) {
        if action.params.is_empty() {
            let id = self.action(action, &[]);
            self.emit(Stmt::Action(id));
            return;
        }
        let name = if action.top_level {
            action.name.to_string()
        } else {
            self.qualify(&action.name, &action.annotations)
        };
        if !self.in_action && !self.info.inlined_actions.iter().any(|a| a.name == name) {
            let annotations = action.annotations.clone();
            let name = name.clone();
            self.info.inlined_actions.push(InlinedAction { name, annotations, params: Vec::new() });
        }
        let bound = self.bind_action(action, &action.params, args);
        self.vars.extend(bound.bindings);
        self.copy_outs.push(bound.copy_outs.clone());
        let in_action = std::mem::replace(&mut self.in_action, true);
        let body = self.deeper(|l| l.buffered(|l| l.statements(&action.body)));
        self.in_action = in_action;
        self.copy_outs.pop();
        self.mark_enter(Inlined::Action, &name);
        self.splice(body);
        self.mark_leave();
        self.copy_back(&bound.copy_outs);
    }

    /// Adds an inlined body, in its own scope if it returns.
    pub(super) fn splice(&mut self, body: Vec<Stmt>) {
        if returns(&body) {
            self.emit(Stmt::Block(body));
        } else {
            self.out.extend(body);
        }
    }

    fn copy_back(&mut self, list: &[(Loc, Store, Type)]) {
        for (to, from, ty) in list {
            self.assign(to, Value::Loc(Loc::Store(from.clone())), ty);
        }
    }

    /// Copies out the parameters of all active calls, for `exit`.
    pub(super) fn copy_out_all(&mut self) {
        self.reporter.work(self.copy_outs.iter().map(|list| 1 + list.len() as u64).sum());
        for list in self.copy_outs.clone().iter().rev() {
            self.copy_back(list);
        }
    }

    /// Binds the arguments of an action to `params`.
    pub(super) fn bind_action(
        &mut self,
        action: &hir::Action,
        params: &[hir::Param],
        args: &[CallArg],
    ) -> Bound {
        let names = self.free_variables(action);
        let mut touched = Vec::new();
        for id in names {
            if let Some(Binding::Loc(Loc::Store(store))) = self.vars.get(&id)
                && !params.iter().any(|p| p.id == id)
            {
                store.fields(&self.program.headers, &mut touched);
            }
        }
        self.bind(params, args, &touched, &|_| true)
    }

    /// Variables named in an action's body, including those of the actions that it calls.
    fn free_variables(&mut self, action: &hir::Action) -> HashSet<DeclId> {
        let (mut names, mut steps) = (HashSet::new(), 0);
        let mut known = HashSet::from([action.id]);
        let mut open = vec![action];
        while let Some(action) = open.pop() {
            walk::stmts(&action.body, &mut |e| {
                steps += 1;
                match &e.kind {
                    ExprKind::Var(id) => {
                        names.insert(*id);
                    }
                    ExprKind::Call(call) => {
                        if let Callee::Action(inner) = &call.target
                            && known.insert(inner.id)
                        {
                            open.push(inner);
                        }
                    }
                    _ => {}
                }
            });
        }
        self.reporter.work(steps / 8);
        names
    }

    /// Binds arguments. Arguments that overlap `touched` are copied. `uniform` returns whether a
    /// parameter's argument is the same at all calls.
    pub(super) fn bind(
        &mut self,
        params: &[hir::Param],
        args: &[CallArg],
        touched: &[FieldId],
        uniform: &dyn Fn(usize) -> bool,
    ) -> Bound {
        let mut bound = Bound { bindings: Vec::new(), copied: Vec::new(), copy_outs: Vec::new() };
        // Fields of arguments bound by reference, and whether they are written.
        self.reporter.work(touched.len() as u64 / 8);
        let mut shared: HashMap<FieldId, bool> = touched.iter().map(|f| (*f, true)).collect();
        let turns = hir::in_turn(args);
        let effects =
            |(_, arg): &(usize, &CallArg)| arg.value.as_ref().is_some_and(super::expr::has_effects);
        let last_effect = turns.iter().rposition(effects);
        for (turn, &(i, arg)) in turns.iter().enumerate() {
            let param = &params[i];
            let later_effects = last_effect.is_some_and(|last| turn < last);
            let may_share = uniform(i) && !later_effects;
            let output = Self::is_output(param.direction);
            let value = arg.value.as_ref().map(|v| self.value(v));
            let binding = match value {
                Some(Value::Object(binding)) => *binding,
                Some(value @ (Value::Text(_) | Value::Symbol { .. })) if uniform(i) => {
                    Binding::Value(value)
                }
                Some(Value::Scalar(e))
                    if uniform(i) && matches!(e.kind, ir::ExprKind::Const(_)) =>
                {
                    Binding::Value(Value::Scalar(e))
                }
                Some(Value::Loc(Loc::Store(store)))
                    if may_share && self.claim(&store, output, &mut shared) =>
                {
                    if param.direction == Direction::Out {
                        self.invalidate(&store);
                    }
                    Binding::Loc(Loc::Store(store))
                }
                // No variable can hold such a value.
                Some(_) if matches!(param.ty, Type::Int | Type::Text) => {
                    self.not_fixed(param, arg, uniform(i));
                    Binding::Value(match param.ty {
                        Type::Int => Value::Scalar(integers::constant(&0.into())),
                        _ => Value::Text("".into()),
                    })
                }
                value => {
                    let store = self.local(&param.name, &param.ty);
                    if let Some(value) = value {
                        self.copy_in(param, &store, value, &mut bound.copy_outs);
                    }
                    bound.copied.push(param.id);
                    Binding::Loc(Loc::Store(store))
                }
            };
            bound.bindings.push((param.id, binding));
        }
        bound
    }

    /// Reports an argument that is not one constant, for a parameter that must be one.
    fn not_fixed(&mut self, param: &hir::Param, arg: &CallArg, uniform: bool) {
        let at = arg.value.as_ref().map_or(param.span, |value| value.span);
        let (name, ty) = (&param.name, &param.ty);
        let (message, help) = if uniform {
            let message =
                format!("`{name}` has the type {ty}: its argument must be known at compile time");
            (message, "give the parameter a width, as in bit<32>")
        } else {
            let message =
                format!("`{name}` has the type {ty}: it must be the same constant at all calls");
            (message, "use one instance for each value, or a constructor parameter")
        };
        self.reporter.error_help(at, message, help);
    }

    /// Copies an argument into a parameter's storage.
    fn copy_in(
        &mut self,
        param: &hir::Param,
        store: &Store,
        value: Value,
        copy_outs: &mut Vec<(Loc, Store, Type)>,
    ) {
        let value = match value {
            Value::Loc(loc) if Self::is_output(param.direction) => {
                let loc = self.fix(loc);
                copy_outs.push((loc.clone(), store.clone(), param.ty.clone()));
                Value::Loc(loc)
            }
            other => other,
        };
        // A parameter that nothing is assigned to keeps its argument's value, as one does that is bound to it:
        // programs for Tofino rely on it. Headers start invalid.
        self.assign(&Loc::Store(store.clone()), value, &param.ty);
        if param.direction == Direction::Out {
            self.invalidate(store);
        }
    }

    /// Whether storage may be shared, given the storage that is already shared. If so, records it.
    fn claim(&mut self, store: &Store, written: bool, shared: &mut HashMap<FieldId, bool>) -> bool {
        let mut fields = Vec::new();
        store.fields(&self.program.headers, &mut fields);
        self.reporter.work(fields.len() as u64 / 8);
        let clash = |f: &FieldId| shared.get(f).is_some_and(|other| *other || written);
        if fields.iter().any(clash) {
            return false;
        }
        for field in fields {
            *shared.entry(field).or_default() |= written;
        }
        true
    }

    /// A location whose index no longer changes.
    pub(super) fn fix(&mut self, loc: Loc) -> Loc {
        match loc {
            Loc::Element(HeaderRef::Index(stack, index), ty) => {
                let index = Box::new(self.keep_index(*index));
                Loc::Element(HeaderRef::Index(stack, index), ty)
            }
            Loc::UnionElement(Which::Index(index), stack, ty) => {
                Loc::UnionElement(Which::Index(self.keep_index(index)), stack, ty)
            }
            Loc::Part { stack, index, at, ty } => {
                Loc::Part { stack, index: self.keep_index(index), at, ty }
            }
            Loc::Slice(inner, hi, lo) => Loc::Slice(Box::new(self.fix(*inner)), hi, lo),
            // Its own index no longer changes.
            Loc::Choice(choice) => self.chosen_parts(&choice, Self::fix),
            other => other,
        }
    }

    /// Invalidates the headers of `out` parameters and new variables.
    pub(super) fn invalidate(&mut self, store: &Store) {
        let mut headers = Vec::new();
        store.headers(&mut headers);
        for header in headers {
            self.emit(Stmt::SetInvalid(HeaderRef::Fixed(header)));
        }
    }

    /// Enters a block's frame. The bindings of its parameters are those of the first call.
    pub(super) fn enter(&mut self, instance: &BlockInstance, frame: Frame) -> Outer {
        self.reporter.work((instance.ctor.len() + frame.bindings.len()) as u64);
        self.vars.extend(instance.ctor.iter().map(|(k, v)| (*k, v.clone())));
        self.vars.extend(frame.bindings);
        Outer {
            prefix: std::mem::replace(&mut self.prefix, instance.name.clone()),
            actions: std::mem::replace(&mut self.actions, frame.actions),
            tables: std::mem::replace(&mut self.tables, frame.tables),
        }
    }

    /// Leaves the frame, and keeps the bindings added to it.
    pub(super) fn leave(
        &mut self,
        instance: &BlockInstance,
        outer: Outer,
        bindings: HashMap<DeclId, Binding>,
        copied: Vec<DeclId>,
    ) {
        let actions = std::mem::replace(&mut self.actions, outer.actions);
        let tables = std::mem::replace(&mut self.tables, outer.tables);
        self.prefix = outer.prefix;
        *instance.frame.borrow_mut() = Some(Frame { bindings, actions, tables, copied });
    }

    /// Binds the arguments of `instance.apply(…)`. Later calls use the same storage as the first.
    pub(super) fn bind_block(
        &mut self,
        instance: &BlockInstance,
        site: DeclId,
        args: &[CallArg],
    ) -> (Frame, Bound) {
        let params = &instance.block.params;
        let known = instance.frame.borrow().clone();
        // The copies are named after the instance.
        let prefix = std::mem::replace(&mut self.prefix, instance.name.clone());
        let result = match known {
            None => {
                let sites = self.sites.get(&site).cloned().unwrap_or_default();
                let uniform = |i: usize| {
                    sites.split_first().is_none_or(|(first, rest)| {
                        rest.iter().all(|s| same_argument(&first[i], &s[i]))
                    })
                };
                let bound = self.bind(params, args, &[], &uniform);
                let bindings: HashMap<DeclId, Binding> = bound.bindings.iter().cloned().collect();
                let frame = Frame { bindings, copied: bound.copied.clone(), ..Frame::default() };
                (frame, bound)
            }
            Some(frame) => {
                let mut copy_outs = Vec::new();
                for (i, arg) in hir::in_turn(args) {
                    let param = &params[i];
                    let store = match frame.bindings.get(&param.id) {
                        Some(Binding::Loc(Loc::Store(store))) => store.clone(),
                        _ => continue,
                    };
                    if !frame.copied.contains(&param.id) {
                        if param.direction == Direction::Out {
                            self.invalidate(&store);
                        }
                        continue;
                    }
                    if let Some(value) = arg.value.as_ref().map(|v| self.value(v)) {
                        self.copy_in(param, &store, value, &mut copy_outs);
                    }
                }
                let bound = Bound { bindings: Vec::new(), copied: frame.copied.clone(), copy_outs };
                (frame, bound)
            }
        };
        self.prefix = prefix;
        result
    }

    fn apply_control(
        &mut self,
        instance: &Rc<BlockInstance>,
        site: DeclId,
        args: &[CallArg],
        span: Span,
    ) {
        if instance.block.kind != BlockKind::Control {
            self.unsupported(span, "a parser that is applied inside a conditional statement is");
            return;
        }
        let (frame, bound) = self.bind_block(instance, site, args);
        self.copy_outs.push(bound.copy_outs.clone());
        let body = self.deeper(|l| l.buffered(|l| l.control_body(instance, frame, bound.copied)));
        self.copy_outs.pop();
        self.mark_enter(Inlined::Control, &instance.name);
        self.splice(body);
        self.mark_leave();
        self.copy_back(&bound.copy_outs);
    }

    /// Records the calls of each instance in a block's statements.
    pub(super) fn note_sites(&mut self, block: &hir::Block) {
        let mut sites: HashMap<DeclId, Vec<Vec<CallArg>>> = HashMap::new();
        collect_sites(&block.body, &mut sites);
        for state in &block.states {
            collect_sites(&state.body, &mut sites);
        }
        self.sites.extend(sites);
    }
}

fn collect_sites(list: &[hir::Stmt], sites: &mut HashMap<DeclId, Vec<Vec<CallArg>>>) {
    walk::stmts(list, &mut |e| {
        if let ExprKind::Call(call) = &e.kind
            && let Callee::Block { instance } = call.target
        {
            sites.entry(instance).or_default().push(call.args.clone());
        }
    });
}

fn same_argument(a: &CallArg, b: &CallArg) -> bool {
    match (&a.value, &b.value) {
        (Some(a), Some(b)) => same_path(a, b),
        (None, None) => true,
        _ => false,
    }
}

/// Whether two expressions are the same variable, the same part of one, or the same constant.
fn same_path(a: &hir::Expr, b: &hir::Expr) -> bool {
    match (&a.kind, &b.kind) {
        (ExprKind::Var(a), ExprKind::Var(b)) => a == b,
        (ExprKind::Field(a, i), ExprKind::Field(b, j)) => i == j && same_path(a, b),
        (ExprKind::Index(a, i), ExprKind::Index(b, j)) => {
            i.int().is_some() && i.int() == j.int() && same_path(a, b)
        }
        (ExprKind::Int(a), ExprKind::Int(b)) => a == b,
        (ExprKind::Bool(a), ExprKind::Bool(b)) => a == b,
        (ExprKind::Member(a), ExprKind::Member(b)) => a == b,
        _ => false,
    }
}

/// Whether a body leaves its scope by `Return`.
pub(super) fn returns(body: &[Stmt]) -> bool {
    body.iter().any(|s| match s {
        Stmt::Return => true,
        Stmt::If { then, otherwise, .. } => returns(then) || returns(otherwise),
        Stmt::Switch { cases, default, .. } => {
            returns(default) || cases.iter().any(|(_, b)| returns(b))
        }
        Stmt::Loop(_, body) | Stmt::Labelled(_, body) => returns(body),
        _ => false,
    })
}
