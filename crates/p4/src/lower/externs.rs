//! Extern calls. `packet_in`, `packet_out` and `verify` become statements of the IR; other calls
//! reach the execution engine by name.

use super::store::{Loc, Store, scalar};
use super::tna::pad_flexible;
use super::{Binding, Lowerer, Value};
use crate::ast::Str;
use crate::hir::{self, CallArg};
use crate::ir::{Arg, ExternCall, FieldId, FieldRole, HeaderRef, Scalar, Stmt};
use crate::source::Span;
use crate::types::{Direction, Signature, Type};

impl Lowerer<'_, '_> {
    pub(super) fn extern_call(
        &mut self,
        instance: Option<&(hir::Expr, Str)>,
        signature: &Signature,
        args: &[CallArg],
        ret: &Type,
        span: Span,
    ) -> Value {
        let method = &*signature.name;
        match instance {
            Some((object, type_name)) => {
                self.extern_method(object, type_name, method, args, ret, span)
            }
            None => self.extern_function(method, args, ret, span),
        }
    }

    fn extern_method(
        &mut self,
        object: &hir::Expr,
        type_name: &str,
        method: &str,
        args: &[CallArg],
        ret: &Type,
        span: Span,
    ) -> Value {
        match (type_name, method) {
            ("packet_in", _) => return self.packet_in(method, args, ret, span),
            ("packet_out", "emit") => {
                if let Some(value) = args.first().and_then(|a| a.value.as_ref()) {
                    match self.value(value) {
                        Value::Loc(loc) => self.emit_packet(&loc, &value.ty, span),
                        other => {
                            let store = Loc::Store(self.local("$emitted", &value.ty));
                            self.assign(&store, other, &value.ty);
                            self.emit_packet(&store, &value.ty, span);
                        }
                    }
                }
                return Value::Void;
            }
            _ => {}
        }
        let Value::Object(binding) = self.value(object) else { return Value::Void };
        let Binding::Extern(id) = *binding else { return Value::Void };
        if self.tna_refuses(type_name, method, span) {
            return Value::Void;
        }
        if self.register_call(id, method, args) {
            return Value::Void;
        }
        if let Some(value) = self.parser_extern(id, type_name, method, args, span) {
            return value;
        }
        let mut list = self.extern_args(args);
        self.symmetric(id, args, &mut list);
        pad_flexible(type_name, args, &mut list);
        let result = self.result_arg(ret, &mut list, span);
        if let Value::Loc(Loc::Store(Store::Scalar(field))) = result {
            self.info.calls.insert(field, span);
        }
        let call =
            Stmt::Call(ExternCall { instance: Some(id), method: method.to_owned(), args: list });
        let call = self.tna_request(id, type_name, call, span);
        self.emit(call);
        if (type_name, method) == ("Digest", "pack") {
            self.note_tna_digest(id);
        }
        result
    }

    fn extern_function(&mut self, method: &str, args: &[CallArg], ret: &Type, span: Span) -> Value {
        if let Some(value) = self.tna_function(method, args, ret, span) {
            return value;
        }
        if let Some(value) = self.psa_function(method, args) {
            return value;
        }
        if method == "verify" {
            if let [condition, error] = args {
                let (Some(condition), Some(error)) = (&condition.value, &error.value) else {
                    return Value::Void;
                };
                let (condition, error) = (self.scalar(condition), self.scalar(error));
                self.emit(Stmt::Verify { condition, error });
            }
            return Value::Void;
        }
        let mut list = self.extern_args(args);
        if method == "digest"
            && let Some(arg) = args.get(1)
        {
            let name = self.note_digest(&arg.ty);
            list.push(Arg::Text(name));
        }
        let result = self.result_arg(ret, &mut list, span);
        self.emit(Stmt::Call(ExternCall { instance: None, method: method.to_owned(), args: list }));
        result
    }

    /// Records a digest for P4Info and returns its name there.
    fn note_digest(&mut self, ty: &Type) -> String {
        let name = match ty {
            Type::Struct(s) => s.name.to_string(),
            _ => format!("digest_{}", self.info.digests.len()),
        };
        if !self.info.digests.iter().any(|(n, _)| *n == name) {
            self.info.digests.push((name.clone(), ty.clone()));
        }
        name
    }

    /// Adds a last argument that receives the returned value.
    fn result_arg(&mut self, ret: &Type, list: &mut Vec<Arg>, span: Span) -> Value {
        if matches!(ret, Type::Void) {
            return Value::Void;
        }
        let Some(ty) = scalar(ret) else {
            self.unsupported(span, &format!("an extern that returns {ret} is"));
            return Value::Void;
        };
        let temp = self.temp("result", ty);
        list.push(Arg::Out(crate::ir::Place::Field(temp), ty));
        Value::Loc(Loc::Store(Store::Scalar(temp)))
    }

    pub(super) fn extern_args(&mut self, args: &[CallArg]) -> Vec<Arg> {
        // Omitted optional arguments are dropped.
        let mut turns = hir::in_turn(args);
        turns.retain(|(_, a)| a.value.is_some() || a.direction == Direction::Out);
        if turns.is_sorted_by_key(|(at, _)| *at) {
            return turns.into_iter().map(|(_, arg)| self.extern_arg(arg)).collect();
        }
        let mut given: Vec<(usize, Arg)> =
            turns.into_iter().map(|(at, a)| (at, self.extern_arg(a))).collect();
        given.sort_by_key(|(at, _)| *at);
        given.into_iter().map(|(_, arg)| arg).collect()
    }

    fn extern_arg(&mut self, arg: &CallArg) -> Arg {
        let output = matches!(arg.direction, Direction::Out | Direction::Inout);
        let Some(e) = &arg.value else {
            // `_`: the result is discarded.
            let ty = scalar(&arg.ty).unwrap_or(Scalar::BOOL);
            let temp = self.temp("unused", ty);
            return Arg::Out(crate::ir::Place::Field(temp), ty);
        };
        let value = self.value(e);
        if !output {
            return self.input_arg(value, e);
        }
        let Value::Loc(loc) = value else { return Arg::Opaque };
        if let Some((place, ty)) = self.place(&loc) {
            return Arg::Out(place, ty);
        }
        if let Some(header) = self.header_ref(&loc) {
            return Arg::Header(header);
        }
        match &loc {
            Loc::Store(store) if self.is_intrinsic(store) => Arg::Opaque,
            Loc::Store(Store::Struct(parts)) if is_standard_metadata(&e.ty) => {
                Arg::Copy(named_fields(&e.ty, parts))
            }
            _ => {
                self.unsupported(
                    e.span,
                    &format!("passing {} to be changed by an extern is", e.ty),
                );
                Arg::Opaque
            }
        }
    }

    fn is_intrinsic(&mut self, store: &Store) -> bool {
        let mut fields: Vec<FieldId> = Vec::new();
        store.fields(&self.program.headers, &mut fields);
        self.reporter.work(fields.len() as u64 / 8);
        fields
            .first()
            .is_some_and(|f| self.program.fields[f.index()].role == crate::ir::FieldRole::Intrinsic)
    }

    fn input_arg(&mut self, value: Value, e: &hir::Expr) -> Arg {
        match value {
            _ if e.ty.is_empty() => Arg::List(Vec::new()),
            Value::Scalar(value) if e.ty == Type::Int && super::build::value(&value).is_none() => {
                self.sized(e.span);
                Arg::Opaque
            }
            Value::Text(t) => Arg::Text(t.to_string()),
            Value::Symbol { enum_name, member, .. } => {
                Arg::Symbol(enum_name.to_string(), member.to_string())
            }
            Value::Scalar(e) => Arg::In(e),
            Value::Loc(loc) => match self.read(&loc) {
                Some(e) => Arg::In(e),
                None => {
                    let mut list = Vec::new();
                    let value = self.settled(Value::Loc(loc), &e.ty);
                    self.flatten(value, &e.ty, e.span, &mut list);
                    Arg::List(list)
                }
            },
            value @ Value::List(_) => {
                let mut list = Vec::new();
                self.flatten(value, &e.ty, e.span, &mut list);
                Arg::List(list)
            }
            _ => Arg::Opaque,
        }
    }

    /// The scalars of a value, in order; for a header its fields without the validity.
    pub(super) fn flatten(
        &mut self,
        value: Value,
        ty: &Type,
        span: Span,
        out: &mut Vec<crate::ir::Expr>,
    ) {
        self.reporter.work(1);
        if ty.is_empty() {
            return;
        }
        if let (Type::Varbit(_), Value::Loc(loc)) = (ty, &value) {
            match loc {
                Loc::Store(Store::Varbit(field, _)) if self.is_header_field(*field) => {
                    out.extend(self.read(&Loc::Store(Store::Scalar(*field))));
                }
                _ => self.unsupported(span, "a varbit here that is not the field of a header is"),
            }
            return;
        }
        let types = ty.parts();
        if types.is_empty() {
            match value {
                Value::Scalar(e) if *ty == Type::Int && super::build::value(&e).is_none() => {
                    self.sized(span);
                }
                Value::Scalar(e) | Value::Symbol { code: e, .. } => out.push(e),
                Value::Loc(loc) => out.extend(self.read(&loc)),
                _ => {}
            }
            return;
        }
        for (i, ty) in types.iter().enumerate() {
            let part = match &value {
                Value::List(items) => items.get(i).cloned().unwrap_or(Value::Void),
                Value::Loc(Loc::Store(Store::Stack(_, parts) | Store::UnionStack(_, parts))) => {
                    Value::Loc(Loc::Store(parts[i].clone()))
                }
                Value::Loc(loc) => Value::Loc(self.member(loc.clone(), &Type::Void, i)),
                _ => Value::Void,
            };
            let part = self.settled(part, ty);
            self.flatten(part, ty, span, out);
        }
    }

    /// Reports a run-time value without a width where the width matters.
    fn sized(&mut self, span: Span) {
        let message = "this value has no width, and is known at run time only";
        self.reporter.error_help(span, message, "cast it to bit<W> or int<W>");
    }

    fn is_header_field(&self, field: FieldId) -> bool {
        matches!(self.program.fields[field.index()].role, FieldRole::Header(_))
    }

    fn packet_in(&mut self, method: &str, args: &[CallArg], ret: &Type, span: Span) -> Value {
        let first = args.first();
        match method {
            "extract" => {
                let Some(first) = first else { return Value::Void };
                let header = first.value.as_ref().map(|e| (self.value(e), e));
                let varbit_bits = args.get(1).and_then(|a| a.value.as_ref());
                let varbit_bits = varbit_bits.map(|e| self.scalar(e));
                match header {
                    Some((value, e)) => self.on_header_value(value, e, |l, header| {
                        l.extract(header, varbit_bits.clone());
                    }),
                    // `extract<H>(_)`: the bytes are skipped.
                    None => {
                        if let Store::Header(id, _) = self.local("$skipped", &first.ty) {
                            self.extract(HeaderRef::Fixed(id), varbit_bits);
                        }
                    }
                }
                Value::Void
            }
            "lookahead" => {
                let store = self.local("$lookahead", ret);
                let mut all = Vec::new();
                store.scalars(&mut all);
                self.reporter.work(all.len() as u64);
                // Set the validity first, because it clears the header.
                let mut headers = Vec::new();
                store.headers(&mut headers);
                for header in headers {
                    self.emit(Stmt::SetValid(HeaderRef::Fixed(header)));
                }
                if !all.is_empty() {
                    self.emit(Stmt::Lookahead(all));
                }
                Value::Loc(Loc::Store(store))
            }
            "advance" => {
                if let Some(bits) = first.and_then(|a| a.value.as_ref()) {
                    let bits = self.scalar(bits);
                    self.emit(Stmt::Advance(bits));
                }
                Value::Void
            }
            // The length of the received packet, as in v1model's metadata.
            "length" if let Some(field) = self.program.intrinsic_field("packet_length") => {
                Value::Loc(Loc::Store(Store::Scalar(field)))
            }
            _ => {
                self.unsupported(span, &format!("`packet_in.{method}` is"));
                Value::Void
            }
        }
    }

    fn emit_packet(&mut self, loc: &Loc, ty: &Type, span: Span) {
        if let Loc::Choice(choice) = loc {
            return self.for_chosen(choice, |l, part| l.emit_packet(part, ty, span));
        }
        if let Some(header) = self.header_ref(loc) {
            self.emit(Stmt::Emit(header));
            return;
        }
        match (loc, ty) {
            (
                Loc::Store(Store::Stack(_, parts) | Store::UnionStack(_, parts)),
                Type::Stack(of, _),
            ) => {
                for part in parts.clone().iter() {
                    self.emit_packet(&Loc::Store(part.clone()), of, span);
                }
            }
            (Loc::Store(Store::Struct(parts) | Store::Union(parts)), Type::Struct(s)) => {
                let s = s.clone();
                for (part, field) in parts.clone().iter().zip(&s.fields) {
                    self.emit_packet(&Loc::Store(part.clone()), &field.ty, span);
                }
            }
            (Loc::UnionElement(..), Type::Struct(s)) => {
                let s = s.clone();
                for (i, field) in s.fields.iter().enumerate() {
                    let member = self.member(loc.clone(), ty, i);
                    self.emit_packet(&member, &field.ty, span);
                }
            }
            _ => self.error(span, format!("only headers can be emitted, not {ty}")),
        }
    }
}

/// Whether a type is v1model's intrinsic metadata. A program may have copies of it.
fn is_standard_metadata(ty: &Type) -> bool {
    matches!(ty, Type::Struct(s) if &*s.name == "standard_metadata_t")
}

/// The scalar fields of a struct.
fn named_fields(ty: &Type, parts: &[Store]) -> Vec<(String, FieldId)> {
    let Type::Struct(s) = ty else { return Vec::new() };
    let named = s.fields.iter().zip(parts).filter_map(|(field, part)| match part {
        Store::Scalar(id) => Some((field.name.to_string(), *id)),
        _ => None,
    });
    named.collect()
}
