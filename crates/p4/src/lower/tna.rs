//! TNA's externs that need more than a call by name: functions that become statements of the IR,
//! requests that depend on a type, and features that the embedded switch does not model.

use super::store::{Loc, Store, scalar};
use super::{Lowerer, Value, build};
use crate::hir::{self, CallArg};
use crate::ir::{
    self, Arg, BinaryOp, CtorArg, ExprKind, ExternId, FieldId, HeaderRef, Scalar, Stmt,
};
use crate::source::Span;
use crate::types::Type;

/// Bits of the port metadata.
const PORT_METADATA_BITS: u32 = 64;

/// Extern types that are declared but not modelled, with alternatives.
const REFUSED: [(&str, &str); 1] =
    [("SelectorAction", "let the control plane change the selector's groups")];

/// Externs that request something, and the metadata that says which.
const REQUESTS: [(&str, &str); 3] =
    [("Mirror", "mirror_type"), ("Resubmit", "resubmit_type"), ("Digest", "digest_type")];

/// Pads the data of a request to whole bytes if it is a header with flexible fields.
pub(super) fn pad_flexible(type_name: &str, args: &[CallArg], list: &mut [Arg]) {
    if !matches!(type_name, "Mirror" | "Resubmit") {
        return;
    }
    for (arg, lowered) in args.iter().zip(list) {
        let (Type::Struct(s), Arg::List(values)) = (&arg.ty, lowered) else { continue };
        let bits: u32 = values.iter().map(|value| value.ty.width).sum();
        if s.is_flexible() && !bits.is_multiple_of(8) {
            values.push(build::constant(&0.into(), Scalar::bit(8 - bits % 8)));
        }
    }
}

fn flag_value(flag: FieldId) -> ir::Expr {
    ir::Expr { ty: Scalar::BOOL, kind: ExprKind::Field(flag) }
}

fn only_if(condition: ir::Expr, call: Stmt) -> Stmt {
    Stmt::If { condition, then: vec![call], otherwise: Vec::new() }
}

impl Lowerer<'_, '_> {
    /// Reports an instance of an extern that the embedded switch does not model.
    pub(super) fn tna_instance(&mut self, type_name: &str, span: Span) {
        if self.program.architecture() == Some(crate::Architecture::Psa) {
            return;
        }
        if let Some((_, help)) = REFUSED.iter().find(|(name, _)| *name == type_name) {
            let message = format!("the extern `{type_name}` of TNA is not supported");
            self.reporter.error_help(span, message, *help);
        }
    }

    /// Reports a method that cannot be called.
    pub(super) fn tna_refuses(&mut self, type_name: &str, method: &str, span: Span) -> bool {
        if self.program.architecture() == Some(crate::Architecture::Psa) {
            return false;
        }
        let help = match (type_name, method) {
            ("Register" | "DirectRegister", _) => {
                "declare a RegisterAction for the register and call its `execute`"
            }
            ("RegisterAction", "execute_log") => "give the index to `execute`",
            ("RegisterAction" | "DirectRegisterAction", "predicate") => {
                "call it as `this.predicate(…)` in the method `apply`"
            }
            ("RegisterAction" | "DirectRegisterAction", "apply") => "call `execute`",
            _ => return false,
        };
        let message = format!("`{type_name}.{method}` cannot be called here");
        self.reporter.error_help(span, message, help);
        true
    }

    /// A mirror, resubmit or digest request, under the condition given by its instance.
    pub(super) fn tna_request(
        &mut self,
        id: ExternId,
        type_name: &str,
        call: Stmt,
        span: Span,
    ) -> Stmt {
        let Some((_, member)) = REQUESTS.iter().find(|(of, _)| *of == type_name) else {
            return call;
        };
        let role = if self.egress { "eg_dprsr_md" } else { "ig_dprsr_md" };
        let field = self.program.intrinsic_field(&format!("{role}.{member}"));
        let Some(&CtorArg::Int(wanted)) = self.program.externs[id.index()].args.first() else {
            return match field.and_then(|field| self.requested.get(&field)) {
                Some(&flag) => only_if(flag_value(flag), call),
                None => call,
            };
        };
        let Some(field) = field else {
            let message = format!("this {type_name} waits for a `{member}` that nothing sets");
            let help =
                "give the deparser's metadata to the control as a parameter, and set it there";
            self.reporter.error_help(span, message, help);
            return call;
        };
        let ty = self.program.fields[field.index()].ty;
        let value = ir::Expr { ty, kind: ExprKind::Field(field) };
        let wanted = build::constant(&wanted.into(), ty);
        let mut condition = build::binary(BinaryOp::Eq, value, wanted);
        if let Some(&flag) = self.requested.get(&field) {
            condition = build::binary(BinaryOp::And, flag_value(flag), condition);
        }
        only_if(condition, call)
    }

    /// Gives the type of a deparser's request a flag: a chip's deparser requests nothing before the
    /// type is written, also if zero is one of its types.
    pub(super) fn tna_request_type(&mut self, name: &str, field: FieldId) {
        if REQUESTS.iter().any(|(_, member)| *member == name) {
            let flag = self.temp("written", Scalar::BOOL);
            self.requested.insert(field, flag);
        }
    }

    /// Makes a hash independent of the order of two of its inputs, for each `@symmetric` of the
    /// instance: the lower one comes first.
    pub(super) fn symmetric(&mut self, id: ExternId, args: &[CallArg], list: &mut [Arg]) {
        let pairs: Vec<Vec<String>> = {
            let annotations = self.program.externs[id.index()].annotations.iter();
            let symmetric = annotations.filter(|a| a.name == "symmetric");
            let names = |body: &str| {
                body.split(',').map(|name| name.trim().trim_matches('"').to_owned()).collect()
            };
            symmetric.map(|a| names(&a.body)).collect()
        };
        let Some(input) = args.first().and_then(|a| a.value.as_ref()) else { return };
        if pairs.is_empty() {
            return;
        }
        let (Some(Arg::List(values)), hir::ExprKind::List(items)) = (list.first_mut(), &input.kind)
        else {
            let message = "the inputs of a hash with @symmetric must be a list of fields";
            return self.error(input.span, message);
        };
        let text = self.reporter.text;
        let place = |name: &str| items.iter().position(|item| text.slice(item.span) == name);
        for pair in pairs {
            let places: Vec<_> = pair.iter().filter_map(|name| place(name)).collect();
            let two = match *places.as_slice() {
                [at, other] if pair.len() == 2 && values.len() == items.len() => {
                    (values[at].ty == values[other].ty).then_some((at, other))
                }
                _ => None,
            };
            let Some((at, other)) = two else {
                let message = format!(
                    "@symmetric({}) does not name two of these inputs, of one type",
                    pair.join(", ")
                );
                return self.error(input.span, message);
            };
            let (a, b) = (values[at].clone(), values[other].clone());
            let in_order = build::binary(BinaryOp::Le, a.clone(), b.clone());
            values[at] = build::mux(in_order.clone(), a.clone(), b.clone());
            values[other] = build::mux(in_order, b, a);
        }
    }

    /// Records a digest for P4Info: an instance of `Digest` that is packed.
    pub(super) fn note_tna_digest(&mut self, id: ExternId) {
        let e = &self.program.externs[id.index()];
        if self.info.digests.iter().any(|(name, _)| *name == e.name) {
            return;
        }
        let ty = self.info.extern_types[id.index()].first().cloned().unwrap_or(Type::Unknown);
        self.info.digests.push((e.name.clone(), ty));
    }

    /// TNA functions that need no engine support. `None` for other functions.
    pub(super) fn tna_function(
        &mut self,
        name: &str,
        args: &[CallArg],
        ret: &Type,
        span: Span,
    ) -> Option<Value> {
        if self.program.architecture() != Some(crate::Architecture::Tna) {
            return None;
        }
        let mut values = args.iter().map(|a| a.value.as_ref());
        Some(match (name, values.next().flatten(), values.next().flatten()) {
            ("max" | "min", Some(a), Some(b)) => {
                let (x, y) = (self.value(a), self.value(b));
                let (x, y) = (self.keep(x, &a.ty), self.keep(y, &b.ty));
                let (x, y) = (self.value_scalar(x, a), self.value_scalar(y, b));
                let op = if name == "max" { BinaryOp::Ge } else { BinaryOp::Le };
                let first = build::binary(op, x.clone(), y.clone());
                Value::Scalar(build::mux(first, x, y))
            }
            ("funnel_shift_right", Some(to), Some(high)) => {
                let low = args.get(2).and_then(|a| a.value.as_ref())?;
                let by = args.get(3).and_then(|a| a.value.as_ref())?;
                let (high, low) = (self.scalar(high), self.scalar(low));
                let by = self.constant(by)?;
                let ty = low.ty;
                let both = build::binary(BinaryOp::Concat, high, low);
                let by = build::constant(&by, Scalar::bit(32));
                let shifted = build::binary(BinaryOp::Shr, both, by);
                let Value::Loc(loc) = self.value(to) else { return Some(Value::Void) };
                self.assign(&loc, Value::Scalar(build::cast(shifted, ty)), &to.ty);
                Value::Void
            }
            ("invalidate", Some(field), _) => {
                let Value::Loc(loc) = self.value(field) else { return Some(Value::Void) };
                match self.header_ref(&loc) {
                    Some(header) => self.emit(Stmt::SetInvalid(header)),
                    None => self.invalidate_field(&loc, &field.ty, span),
                }
                Value::Void
            }
            ("is_validated", ..) => {
                let message = "`is_validated` is not supported";
                let help = "keep a flag in the metadata, or ask a header by `isValid()`";
                self.reporter.error_help(span, message, help);
                Value::Scalar(build::boolean(false))
            }
            ("port_metadata_unpack", ..) => self.port_metadata(ret, span),
            _ => return None,
        })
    }

    /// `invalidate` of a scalar: the chip's container counts as unwritten, which is zero, and for
    /// the unicast copy no port.
    fn invalidate_field(&mut self, loc: &Loc, ty: &Type, span: Span) {
        let Some(ty) = scalar(ty) else {
            self.unsupported(span, "`invalidate` of this is");
            return;
        };
        let unicast = self.program.intrinsic_field("ig_tm_md.ucast_egress_port");
        let port = matches!(loc, Loc::Store(Store::Scalar(f)) if Some(*f) == unicast);
        let value = if port { (1 << 9) - 1 } else { 0 };
        self.assign_scalar(loc, build::constant(&value.into(), ty));
        if let Loc::Store(Store::Scalar(field)) = loc
            && let Some(&flag) = self.requested.get(field)
        {
            self.emit(Stmt::Assign(ir::Place::Field(flag), build::boolean(false)));
        }
    }

    /// The port metadata after the intrinsic header: read as the program's struct, then skipped as
    /// a whole.
    fn port_metadata(&mut self, ret: &Type, span: Span) -> Value {
        let store = self.local("$port_metadata", ret);
        let mut all = Vec::new();
        store.scalars(&mut all);
        let width: u32 = all.iter().map(|f| self.program.fields[f.index()].ty.width).sum();
        if width > PORT_METADATA_BITS {
            let message =
                format!("the port metadata has {PORT_METADATA_BITS} bits, but {ret} takes {width}");
            self.error(span, message);
        }
        // A header is cleared when it becomes valid.
        let mut headers = Vec::new();
        store.headers(&mut headers);
        for header in headers {
            self.emit(Stmt::SetValid(HeaderRef::Fixed(header)));
        }
        self.emit(Stmt::Lookahead(all));
        let skip = build::constant(&PORT_METADATA_BITS.into(), Scalar::bit(32));
        self.emit(Stmt::Advance(skip));
        Value::Loc(Loc::Store(store))
    }
}
