//! Calls: functions, actions, methods, `apply`.

use std::rc::Rc;

use num_traits::ToPrimitive;

use super::{Checker, Entry, FunctionBody, FunctionEntry, GenericFunction, Place, closest};
use crate::ast::{self, Arg, Direction, Ident, Str, TypeRef};
use crate::hir::{self, ApplyPart, Call, CallArg, Callee, Expr, ExprKind};
use crate::source::Span;
use crate::types::{BlockKind, BlockType, ParamType, Signature, Substitution, Type};

impl Checker<'_, '_> {
    pub(super) fn call(
        &mut self,
        callee: &ast::Expr,
        type_args: &[TypeRef],
        args: &[Arg],
        span: Span,
    ) -> Expr {
        match &callee.kind {
            ast::ExprKind::Member(base, method) => {
                self.method_call(base, method, type_args, args, span)
            }
            ast::ExprKind::TypeMember(ty, method) => self.type_method_call(ty, method, args, span),
            ast::ExprKind::Name(name) => {
                let entry = self.lookup(&name.name).cloned();
                self.named_call(name, entry, type_args, args, span)
            }
            ast::ExprKind::Global(name) => {
                let entry = self.lookup_global(&name.name).cloned();
                self.named_call(name, entry, type_args, args, span)
            }
            _ => {
                self.error(callee.span, "this cannot be called");
                Expr::error(span)
            }
        }
    }

    fn named_call(
        &mut self,
        name: &Ident,
        entry: Option<Entry>,
        type_args: &[TypeRef],
        args: &[Arg],
        span: Span,
    ) -> Expr {
        match entry {
            Some(Entry::Action(action)) => {
                if let Some(first) = type_args.first() {
                    self.error(first.span, "an action has no type parameters");
                }
                self.action_call(&action, args, span)
            }
            Some(Entry::Functions(all)) => self.function_call(&all, name, type_args, args, span),
            Some(Entry::ExternFunctions(all)) => {
                match &*name.name {
                    "static_assert" => return self.static_assert(args, span),
                    "verify" if matches!(self.place, Place::Control | Place::Action) => {
                        self.error(name.span, "`verify` is called in parsers only");
                    }
                    "sizeInBits" | "sizeInBytes" => return self.size_of(name, args, span),
                    _ => {}
                }
                self.extern_call(None, &all, &Substitution::new(), name, type_args, args, span)
            }
            Some(Entry::Broken) => Expr::error(span),
            Some(Entry::Table(_)) => {
                self.error_help(
                    name.span,
                    format!("table `{}` cannot be called", name.name),
                    "write `.apply()` after it",
                );
                Expr::error(span)
            }
            Some(_) => {
                self.error(name.span, format!("`{}` cannot be called", name.name));
                Expr::error(span)
            }
            None => {
                let message = format!("there is no `{}` here", name.name);
                self.unknown(name.span, message, &name.name);
                Expr::error(span)
            }
        }
    }

    fn function_call(
        &mut self,
        all: &[FunctionEntry],
        name: &Ident,
        type_args: &[TypeRef],
        args: &[Arg],
        span: Span,
    ) -> Expr {
        let signatures: Vec<Rc<Signature>> = all.iter().map(|f| f.signature.clone()).collect();
        let Some(signature) = self.choose(&signatures, args, &name.name, span) else {
            return Expr::error(span);
        };
        let chosen = all.iter().find(|f| Rc::ptr_eq(&f.signature, &signature));
        let found = match chosen.map(|f| f.body.clone()) {
            Some(FunctionBody::Plain(function)) => {
                let params: Vec<ParamType> = function.params.iter().map(param_type).collect();
                let defaults: Vec<Option<Expr>> =
                    function.params.iter().map(|p| p.default.clone()).collect();
                match self.arguments(&name.name, &params, &defaults, args, span) {
                    Some(args) => Some((function, args)),
                    None => {
                        return Expr { span, ty: function.ret.clone(), kind: ExprKind::Error };
                    }
                }
            }
            Some(FunctionBody::Generic(generic)) => {
                self.generic_call(&generic, &signature, type_args, args, span)
            }
            None => None,
        };
        let Some((function, args)) = found else { return Expr::error(span) };
        let ty = function.ret.clone();
        let call = Call { target: Callee::Function(function), args };
        Expr { span, ty, kind: ExprKind::Call(Box::new(call)) }
    }

    fn generic_call(
        &mut self,
        generic: &Rc<GenericFunction>,
        signature: &Signature,
        type_args: &[TypeRef],
        args: &[Arg],
        span: Span,
    ) -> Option<(Rc<hir::Function>, Vec<CallArg>)> {
        let name = &*signature.name;
        let mut map = self.explicit(&signature.type_params, type_args, name, span)?;
        let mut args = self.generic_arguments(name, &signature.params, &mut map, args, span)?;
        let mut types = Vec::with_capacity(signature.type_params.len());
        for param in &signature.type_params {
            match map.get(&param.id) {
                Some(Type::Unknown) => return None,
                Some(ty) if !ty.is_open() && !matches!(ty, Type::Int) => types.push(ty.clone()),
                _ => {
                    let message =
                        format!("what `{}` of `{name}` stands for is not known", param.name);
                    self.error_help(span, message, format!("write it: {name}<…>(…)"));
                    return None;
                }
            }
        }
        let Some(function) = self.make_function(generic, &types) else {
            self.error(span, format!("function `{name}` calls itself"));
            return None;
        };
        for (arg, param) in args.iter_mut().zip(&function.params) {
            let value = arg.value.take().or_else(|| param.default.clone());
            arg.value = value.map(|value| self.pass(&param_type(param), &param.ty, value));
            arg.ty = param.ty.clone();
        }
        Some((function, args))
    }

    fn action_call(&mut self, action: &Rc<hir::Action>, args: &[Arg], span: Span) -> Expr {
        let params: Vec<ParamType> = action.params.iter().map(param_type).collect();
        let defaults: Vec<Option<Expr>> = action.params.iter().map(|p| p.default.clone()).collect();
        if matches!(self.place, Place::Parser | Place::Function | Place::Method) {
            self.error(span, "actions are called in controls and actions only");
        }
        match self.arguments(&action.name, &params, &defaults, args, span) {
            Some(args) => {
                let call = Call { target: Callee::Action(action.clone()), args };
                Expr { span, ty: Type::Void, kind: ExprKind::Call(Box::new(call)) }
            }
            None => Expr::error(span),
        }
    }

    fn static_assert(&mut self, args: &[Arg], span: Span) -> Expr {
        let Some(first) = args.first() else {
            self.error(span, "`static_assert` needs a condition");
            return Expr::error(span);
        };
        let condition = self.expect(&first.value, &Type::Bool);
        let text = args.get(1).map(|a| self.expr(&a.value));
        match condition.kind {
            ExprKind::Bool(true) | ExprKind::Error => {}
            ExprKind::Bool(false) => {
                let message = match text.map(|t| t.kind) {
                    Some(ExprKind::Text(t)) => format!("static assertion failed: {t}"),
                    _ => "static assertion failed".to_owned(),
                };
                self.error(span, message);
            }
            _ => self.error(span, "the condition is not known at compile time"),
        }
        Expr { span, ty: Type::Bool, kind: ExprKind::Bool(true) }
    }

    /// `sizeInBits(x)`, `sizeInBytes(x)` of TNA.
    fn size_of(&mut self, name: &Ident, args: &[Arg], span: Span) -> Expr {
        let [arg] = args else {
            self.error(span, format!("`{}` takes one header or value", name.name));
            return Expr::error(span);
        };
        let value = self.expr(&arg.value);
        if matches!(value.ty, Type::Unknown) {
            return Expr::error(span);
        }
        let Some(bits) = value.ty.size_bits(false) else {
            self.error(value.span, format!("{} has no size in bits", value.ty));
            return Expr::error(span);
        };
        let size = if &*name.name == "sizeInBytes" { bits.div_ceil(8) } else { bits };
        Expr { span, ty: Type::Bit(32), kind: ExprKind::Int(size.into()) }
    }

    fn type_method_call(&mut self, ty: &TypeRef, method: &Ident, args: &[Arg], span: Span) -> Expr {
        if let ast::TypeKind::Name(name) = &ty.kind
            && let Some(Entry::Block(block)) = self.lookup(&name.name).cloned()
        {
            if &*method.name != "apply" {
                self.error(method.span, format!("`{}` has no method `{}`", name.name, method.name));
                return Expr::error(span);
            }
            if !block.ctor_params.is_empty() {
                let help = format!("declare an instance: {}(…) name;", name.name);
                self.error_help(span, format!("`{}` has constructor parameters", name.name), help);
                return Expr::error(span);
            }
            self.may_apply(&block.signature, span);
            let params = block.signature.params.clone();
            let Some(args) = self.arguments(&name.name, &params, &[], args, span) else {
                return Expr::error(span);
            };
            let call = Call { target: Callee::Direct { site: self.fresh(), block }, args };
            return Expr { span, ty: Type::Void, kind: ExprKind::Call(Box::new(call)) };
        }
        let ty = self.resolve(ty);
        if matches!(ty, Type::Unknown) {
            return Expr::error(span);
        }
        if let Some(size) = self.size_constant(&ty, method, span) {
            return size;
        }
        self.error(method.span, format!("{ty} has no method `{}`", method.name));
        Expr::error(span)
    }

    fn may_apply(&mut self, block: &BlockType, span: Span) {
        let fits = match block.kind {
            BlockKind::Parser => self.place == Place::Parser,
            BlockKind::Control => self.place == Place::Control,
        };
        if !fits {
            let (what, place) = match block.kind {
                BlockKind::Parser => ("parsers", "parser states"),
                BlockKind::Control => ("controls", "the apply blocks of controls"),
            };
            self.error(span, format!("{what} are applied in {place} only"));
        }
    }

    fn method_call(
        &mut self,
        base: &ast::Expr,
        method: &Ident,
        type_args: &[TypeRef],
        args: &[Arg],
        span: Span,
    ) -> Expr {
        if let ast::ExprKind::Name(name) = &base.kind
            && let Some(Entry::Table(table)) = self.lookup(&name.name).cloned()
        {
            if &*method.name != "apply" || !args.is_empty() {
                self.error(span, "a table has the method `apply()` only");
                return Expr::error(span);
            }
            if self.place != Place::Control {
                self.error(span, "tables are applied in the apply blocks of controls only");
            }
            return Expr {
                span,
                ty: Type::ApplyResult,
                kind: ExprKind::Apply(table, ApplyPart::Whole),
            };
        }
        if matches!(base.kind, ast::ExprKind::This) {
            return self.this_call(base.span, method, args, span);
        }
        let base = self.expr(base);
        match base.ty.clone() {
            Type::Unknown => Expr::error(span),
            Type::Block(block) => self.block_call(&base, &block, method, args, span),
            Type::Extern(e, given) => {
                let all: Vec<Rc<Signature>> =
                    e.methods.iter().filter(|m| m.name == method.name).cloned().collect();
                if all.is_empty() {
                    let message = format!("{} has no method `{}`", base.ty, method.name);
                    let names: Vec<Str> = e.methods.iter().map(|m| m.name.clone()).collect();
                    self.suggest(method.span, message, closest(&method.name, names.iter()));
                    return Expr::error(span);
                }
                let map: Substitution =
                    e.type_params.iter().map(|p| p.id).zip(given.iter().cloned()).collect();
                self.extern_call(
                    Some((base, e.name.clone())),
                    &all,
                    &map,
                    method,
                    type_args,
                    args,
                    span,
                )
            }
            ty => {
                if let Some(size) = self.size_constant(&ty, method, span) {
                    return size;
                }
                self.builtin_method(base, method, args, span)
            }
        }
    }

    /// Applies a parser or control.
    fn block_call(
        &mut self,
        base: &Expr,
        block: &BlockType,
        method: &Ident,
        args: &[Arg],
        span: Span,
    ) -> Expr {
        let ExprKind::Var(instance) = base.kind else {
            self.error(base.span, format!("{} cannot be applied here", base.ty));
            return Expr::error(span);
        };
        if self.at_top(instance) {
            let help = "declare an instance in the parser or control that applies it";
            let message = "instances of the top level are arguments of packages only";
            self.error_help(base.span, message, help);
        }
        if &*method.name != "apply" {
            self.error(method.span, format!("{} has no method `{}`", base.ty, method.name));
            return Expr::error(span);
        }
        self.may_apply(block, span);
        let Some(args) = self.arguments(&block.name, &block.params, &[], args, span) else {
            return Expr::error(span);
        };
        let call = Call { target: Callee::Block { instance }, args };
        Expr { span, ty: Type::Void, kind: ExprKind::Call(Box::new(call)) }
    }

    /// Methods of headers and stacks.
    fn builtin_method(&mut self, base: Expr, method: &Ident, args: &[Arg], span: Span) -> Expr {
        let header = Self::is_header(&base.ty);
        let stack = matches!(&base.ty, Type::Stack(of, _) if Self::is_header(of));
        let (takes, needs) = match &*method.name {
            "isValid" if header => (0, false),
            "setValid" | "setInvalid" if base.ty.as_header().is_some() => (0, true),
            "push_front" | "pop_front" if stack => (1, true),
            _ => {
                self.error(method.span, format!("{} has no method `{}`", base.ty, method.name));
                return Expr::error(span);
            }
        };
        if args.len() != takes {
            self.error(
                span,
                format!("`{}` takes {takes} arguments, but {} are given", method.name, args.len()),
            );
            return Expr::error(span);
        }
        if needs && !self.writable(&base) {
            return Expr::error(span);
        }
        let count = match args.first() {
            Some(arg) => match self.constant_int(&arg.value).and_then(|v| v.to_u32()) {
                Some(count) => count,
                None => {
                    self.error(span, "the count must be a constant that is not negative");
                    return Expr::error(span);
                }
            },
            None => 0,
        };
        let target = match &*method.name {
            "isValid" => {
                return Expr { span, ty: Type::Bool, kind: ExprKind::IsValid(Box::new(base)) };
            }
            "setValid" => Callee::SetValid(base),
            "setInvalid" => Callee::SetInvalid(base),
            "push_front" => Callee::PushFront(base, count),
            _ => Callee::PopFront(base, count),
        };
        Expr {
            span,
            ty: Type::Void,
            kind: ExprKind::Call(Box::new(Call { target, args: Vec::new() })),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one call")]
    fn extern_call(
        &mut self,
        instance: Option<(Expr, Str)>,
        all: &[Rc<Signature>],
        outer: &Substitution,
        name: &Ident,
        type_args: &[TypeRef],
        args: &[Arg],
        span: Span,
    ) -> Expr {
        let Some(signature) = self.choose(all, args, &name.name, span) else {
            return Expr::error(span);
        };
        let Some(mut map) = self.explicit(&signature.type_params, type_args, &name.name, span)
        else {
            return Expr::error(span);
        };
        map.extend(outer.iter().map(|(k, v)| (*k, v.clone())));
        let Some(args) =
            self.generic_arguments(&name.name, &signature.params, &mut map, args, span)
        else {
            return Expr::error(span);
        };
        let ty = signature.ret.substitute(&map);
        if ty.is_open() {
            let message = format!("the type of `{}`'s result cannot be inferred", name.name);
            self.error_help(span, message, format!("write it: {}<…>(…)", name.name));
            return Expr::error(span);
        }
        if let Some((_, object)) = &instance
            && &**object == "packet_in"
        {
            self.packet_call(&signature.name, &args, &ty, span);
        }
        let call = Call { target: Callee::Extern { instance, signature }, args };
        Expr { span, ty, kind: ExprKind::Call(Box::new(call)) }
    }

    /// Checks constraints of `packet_in`'s methods that their types do not express.
    fn packet_call(&mut self, method: &str, args: &[CallArg], ret: &Type, span: Span) {
        match (method, args) {
            ("extract", [header, rest @ ..]) => {
                let ty = &header.ty;
                if matches!(ty, Type::Unknown) || ty.is_open() || ty.is_opaque() {
                    return;
                }
                if ty.as_header().is_none() {
                    let at = header.value.as_ref().map_or(span, |value| value.span);
                    self.error(at, format!("only headers can be extracted, not {ty}"));
                } else if ty.varies() == rest.is_empty() {
                    let (kind, takes) = match ty.varies() {
                        true => ("with a varbit field", "two arguments: the header and its bits"),
                        false => ("without a varbit field", "the header alone"),
                    };
                    let message = format!("a header {kind} is not extracted that way");
                    self.error_help(span, message, format!("`extract` takes {takes}"));
                }
            }
            ("lookahead", _) => {
                let known = !matches!(ret, Type::Unknown) && !ret.is_open() && !ret.is_opaque();
                if known && (ret.size_bits(true).is_none() || ret.varies()) {
                    self.error(span, format!("{ret} cannot be looked ahead at"));
                }
            }
            _ => {}
        }
    }

    /// Whether an instance is declared at the top level.
    fn at_top(&self, instance: hir::DeclId) -> bool {
        let of = |named: &super::Named| matches!(&named.entry, Entry::Var(v) if v.id == instance);
        self.scopes.first().is_some_and(|scope| scope.values().any(of))
    }

    /// Selects the overload for these arguments.
    pub(super) fn choose(
        &mut self,
        all: &[Rc<Signature>],
        args: &[Arg],
        name: &str,
        span: Span,
    ) -> Option<Rc<Signature>> {
        self.reporter.work(all.iter().map(|s| s.params.len() as u64).sum::<u64>() / 16);
        let fits = |s: &&Rc<Signature>| {
            let required = s.params.iter().filter(|p| !p.optional).count();
            let named = args
                .iter()
                .flat_map(|a| &a.name)
                .all(|n| s.params.iter().any(|p| p.name == n.name));
            args.len() >= required && args.len() <= s.params.len() && named
        };
        // By names, an optional parameter may be given without the one before it.
        let positional = args.iter().take_while(|a| a.name.is_none()).count();
        let complete = |s: &&Rc<Signature>| {
            let given = |p: &ParamType| args.iter().flat_map(|a| &a.name).any(|n| n.name == p.name);
            let mut rest = s.params.iter().skip(positional);
            fits(s) && rest.all(|p| p.optional || given(p))
        };
        if let Some(found) = all.iter().find(complete).or_else(|| all.iter().find(fits)) {
            let unnamed = args.iter().all(|a| a.name.is_none());
            let twin = |s: &&Rc<Signature>| fits(s) && s.params.len() == found.params.len();
            if unnamed && !args.is_empty() && all.iter().filter(twin).count() > 1 {
                let message = format!("several `{name}` take these {} arguments", args.len());
                self.error_help(span, message, "name the arguments, as in f(size = 3)");
                return None;
            }
            return Some(found.clone());
        }
        let counts: Vec<String> = all.iter().map(|s| s.params.len().to_string()).collect();
        let plural = if counts.len() == 1 && counts[0] == "1" { "argument" } else { "arguments" };
        let message = format!(
            "`{name}` takes {} {plural}, but {} are given",
            counts.join(" or "),
            args.len()
        );
        if let [only] = all {
            let params: Vec<String> =
                only.params.iter().map(|p| format!("{} {}", p.ty, p.name)).collect();
            self.error_help(span, message, format!("its parameters are ({})", params.join(", ")));
        } else {
            self.error(span, message);
        }
        for arg in args {
            if !matches!(arg.value.kind, ast::ExprKind::Any) {
                self.expr(&arg.value);
            }
        }
        None
    }

    /// Arguments of a call without type parameters.
    pub(super) fn arguments(
        &mut self,
        name: &str,
        params: &[ParamType],
        defaults: &[Option<Expr>],
        args: &[Arg],
        span: Span,
    ) -> Option<Vec<CallArg>> {
        let slots = self.match_arguments(name, params, args, span)?;
        let mut out = Vec::with_capacity(params.len());
        for (i, (param, slot)) in params.iter().zip(slots).enumerate() {
            let (turn, value) = match slot {
                Some((turn, arg)) => (turn, self.argument(param, &param.ty, arg)),
                None => (args.len(), defaults.get(i).cloned().flatten()),
            };
            out.push(CallArg { direction: param.direction, turn, value, ty: param.ty.clone() });
        }
        Some(out)
    }

    pub(super) fn generic_arguments(
        &mut self,
        name: &str,
        params: &[ParamType],
        map: &mut Substitution,
        args: &[Arg],
        span: Span,
    ) -> Option<Vec<CallArg>> {
        let slots = self.match_arguments(name, params, args, span)?;
        let mut values: Vec<Option<Expr>> = Vec::with_capacity(params.len());
        // A parameter whose type is known from here on infers nothing: its argument may convert.
        let known = map.clone();
        for (param, slot) in params.iter().zip(&slots) {
            let value = match slot {
                Some((_, arg)) if !matches!(arg.value.kind, ast::ExprKind::Any) => {
                    Some(self.expr(&arg.value))
                }
                Some((_, arg)) if param.direction != Direction::Out => {
                    self.error(arg.value.span, "`_` can only be given for an `out` parameter");
                    return None;
                }
                _ => None,
            };
            if let Some(value) = &value {
                self.charge(&value.ty);
            }
            if let Some(value) = &value
                && matches!((&param.ty, &value.ty), (Type::Var(_), Type::Block(_)))
            {
                let message = format!("{} cannot be an argument of `{name}`", value.ty);
                self.error(value.span, message);
                return None;
            }
            if let Some(value) = &value
                && param.ty.substitute(&known).is_open()
                && !self.unify(&param.ty, &value.ty, map)
            {
                let wanted = param.ty.substitute(map);
                self.cannot_pass(param, &wanted, &value.ty, value.span);
                return None;
            }
            values.push(value);
        }
        let mut out = Vec::with_capacity(params.len());
        for ((param, value), slot) in params.iter().zip(values).zip(slots) {
            let ty = param.ty.substitute(map);
            if let Some(value) = &value
                && param.direction == Direction::In
                && param.ty.is_open()
                && matches!(ty, Type::Int | Type::Text)
            {
                let message = format!("{ty} cannot be the type of parameter `{}`", param.name);
                let help = "it has values at run time: write a number with its width, as in 8w1";
                self.error_help(value.span, message, help);
                return None;
            }
            if value.is_none() && param.direction == Direction::Out && ty.is_open() {
                let message = format!("the type of `{}` cannot be inferred", param.name);
                self.error_help(span, message, format!("write it: {name}<…>(…)"));
                return None;
            }
            let value = value.map(|v| self.pass(param, &ty, v));
            if let (Some(value), Type::Record(_)) = (&value, &ty) {
                let message = "what struct these values are of is not known";
                let help = format!("write the type: {name}<…>(…), or (Struct) before the values");
                self.error_help(value.span, message, help);
                return None;
            }
            let ty = if ty.is_open() {
                value.as_ref().map_or(Type::Unknown, |v| v.ty.clone())
            } else {
                ty
            };
            let turn = slot.map_or(args.len(), |(turn, _)| turn);
            out.push(CallArg { direction: param.direction, turn, value, ty });
        }
        Some(out)
    }

    /// Matches arguments to parameters, by name or position. Each keeps its index in the call.
    pub(super) fn match_arguments<'a>(
        &mut self,
        name: &str,
        params: &[ParamType],
        args: &'a [Arg],
        span: Span,
    ) -> Option<Vec<Option<(usize, &'a Arg)>>> {
        let mut slots: Vec<Option<(usize, &Arg)>> = vec![None; params.len()];
        for (i, arg) in args.iter().enumerate() {
            let position = match &arg.name {
                Some(n) => params.iter().position(|p| p.name == n.name),
                None => (i < params.len()).then_some(i),
            };
            match (position, &arg.name) {
                (Some(p), _) if slots[p].is_none() => slots[p] = Some((i, arg)),
                (Some(p), _) => {
                    self.error(
                        arg.value.span,
                        format!("parameter `{}` is given twice", params[p].name),
                    );
                    return None;
                }
                (None, Some(n)) => {
                    self.error(n.span, format!("`{name}` has no parameter `{}`", n.name));
                    return None;
                }
                (None, None) => {}
            }
        }
        let missing = params.iter().zip(&slots).any(|(p, s)| s.is_none() && !p.optional);
        if args.len() > params.len() || missing {
            let list: Vec<String> = params.iter().map(|p| format!("{} {}", p.ty, p.name)).collect();
            let message =
                format!("`{name}` takes {} arguments, but {} are given", params.len(), args.len());
            self.error_help(span, message, format!("its parameters are ({})", list.join(", ")));
            for arg in args {
                self.expr(&arg.value);
            }
            return None;
        }
        Some(slots)
    }

    fn argument(&mut self, param: &ParamType, ty: &Type, arg: &Arg) -> Option<Expr> {
        if matches!(arg.value.kind, ast::ExprKind::Any) {
            if param.direction != Direction::Out {
                self.error(arg.value.span, "`_` can only be given for an `out` parameter");
            }
            return None;
        }
        let value = self.expr(&arg.value);
        Some(self.pass(param, ty, value))
    }

    /// Passes a value as an argument.
    fn pass(&mut self, param: &ParamType, ty: &Type, value: Expr) -> Expr {
        if matches!(param.direction, Direction::Out | Direction::Inout) {
            if !self.writable(&value) {
                return Expr::error(value.span);
            }
            let unknown = matches!(value.ty, Type::Unknown) || matches!(ty, Type::Unknown);
            if value.ty != *ty && !unknown && !ty.is_open() {
                self.cannot_pass(param, ty, &value.ty, value.span);
                return Expr::error(value.span);
            }
            return value;
        }
        if ty.is_open() {
            return value;
        }
        let span = value.span;
        let value = match (&value.ty, ty) {
            // Unlike an assignment, an argument needs a cast to a type made by `type`.
            (Type::Int, Type::New(_)) => Err(Type::Int),
            _ => self.try_coerce(value, ty),
        };
        match value {
            Ok(e) => e,
            Err(from) => {
                self.cannot_pass(param, ty, &from, span);
                Expr { span, ty: ty.clone(), kind: ExprKind::Error }
            }
        }
    }

    fn cannot_pass(&mut self, param: &ParamType, wanted: &Type, found: &Type, span: Span) {
        let (direction, help) = match param.direction {
            Direction::Out | Direction::Inout => {
                let help = "what is written back must have the same type: no cast is possible here";
                let direction =
                    if param.direction == Direction::Out { "`out` " } else { "`inout` " };
                (direction, Some(help.to_owned()))
            }
            _ => ("", super::convert::cast_help(found, wanted)),
        };
        let name = &param.name;
        let message =
            format!("{found} cannot be passed as {direction}parameter `{name}` of type {wanted}");
        match help {
            Some(help) => self.error_help(span, message, help),
            None => self.error(span, message),
        }
    }
}

pub(super) fn param_type(p: &hir::Param) -> ParamType {
    ParamType {
        name: p.name.clone(),
        direction: p.direction,
        ty: p.ty.clone(),
        optional: p.default.is_some(),
    }
}
