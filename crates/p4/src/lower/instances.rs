//! Instances of externs, parsers and controls, and their constructor arguments.

use std::collections::HashMap;
use std::rc::Rc;

use num_traits::ToPrimitive;

use super::calls::BlockInstance;
use super::{Binding, Lowerer, Value, build, store};
use crate::hir::{self, DeclId};
use crate::ir::{self, CtorArg, ExternId};
use crate::types::{Extent, ExternType, Type};

impl Lowerer<'_, '_> {
    /// The binding of an instance's name. Creates the instance if it is an extern.
    pub(super) fn instance(&mut self, instance: &hir::Instance) -> Binding {
        let name = self.qualify(&instance.name, &instance.annotations);
        let construct = &instance.construct;
        match &construct.ty {
            Type::Extern(e, type_args) => {
                self.tna_instance(&e.name, instance.span);
                self.register_instance(&e.name, type_args, instance.span);
                // P4Info describes the types of each instance separately.
                self.reporter.work(Extent::of_parts(type_args.iter()).values);
                let mut args = Vec::with_capacity(construct.args.len());
                for arg in &construct.args {
                    self.ctor_arg(arg, &mut args);
                }
                let id = ExternId(self.program.externs.len() as u32);
                self.program.externs.push(ir::Extern {
                    name,
                    type_name: e.name.to_string(),
                    type_args: scalar_args(e, type_args),
                    args,
                    annotations: instance.annotations.clone(),
                });
                self.info.extern_types.push(type_args.to_vec());
                self.program.origins.externs.push(instance.span);
                self.stateful_instance(id, instance);
                Binding::Extern(id)
            }
            _ => match &construct.block {
                Some(block) => {
                    let ctor = self.constructor_bindings(block, &construct.args);
                    let mut new = BlockInstance::new(block.clone(), name, Rc::new(ctor));
                    new.construct = Some(construct.clone());
                    Binding::Block(Rc::new(new))
                }
                // A nested package: only its constructor call matters.
                None => Binding::Package(name.into(), construct.clone()),
            },
        }
    }

    /// A parser value set, as an extern.
    pub(super) fn value_set(&mut self, set: &hir::ValueSet) -> Binding {
        let name = self.qualify(&set.name, &set.annotations);
        let mut type_args = Vec::new();
        self.reporter.work(set.ty.extent().values);
        scalars_in(&set.ty, &mut type_args);
        let size = self.constant(&set.size).and_then(|size| size.to_u128()).unwrap_or_default();
        let mut args = vec![CtorArg::Int(size)];
        let kinds: Vec<String> = match &set.ty {
            Type::Struct(s) => s.fields.iter().map(|f| match_kind(&f.annotations)).collect(),
            _ => type_args.iter().map(|_| match_kind(&set.annotations)).collect(),
        };
        args.extend(kinds.into_iter().map(|kind| CtorArg::Symbol("match_kind".to_owned(), kind)));
        let id = ExternId(self.program.externs.len() as u32);
        self.program.externs.push(ir::Extern {
            name,
            type_name: "value_set".to_owned(),
            type_args,
            args,
            annotations: set.annotations.clone(),
        });
        self.info.extern_types.push(vec![set.ty.clone()]);
        self.program.origins.externs.push(set.span);
        Binding::Extern(id)
    }

    /// The bindings of a block's constructor parameters.
    pub(super) fn constructor_bindings(
        &mut self,
        block: &hir::Block,
        args: &[hir::Expr],
    ) -> HashMap<DeclId, Binding> {
        let mut map = HashMap::new();
        for (param, arg) in block.ctor_params.iter().zip(args) {
            let value = self.value(arg);
            let binding = match value {
                Value::Object(binding) => *binding,
                Value::Scalar(e) if build::value(&e).is_none() => {
                    self.error(arg.span, "a constructor's argument must be known at compile time");
                    Binding::Value(Value::Scalar(e))
                }
                Value::Loc(loc) => {
                    self.error(arg.span, "a constructor's argument must be known at compile time");
                    Binding::Loc(loc)
                }
                value => Binding::Value(value),
            };
            map.insert(param.id, binding);
        }
        map
    }

    /// The constructor arguments of an expression: one, or the scalars of a list.
    fn ctor_arg(&mut self, arg: &hir::Expr, out: &mut Vec<CtorArg>) {
        let value = self.value(arg);
        self.ctor_value(value, arg, out);
    }

    fn ctor_value(&mut self, value: Value, arg: &hir::Expr, out: &mut Vec<CtorArg>) {
        out.push(match value {
            Value::Text(t) => CtorArg::Text(t.to_string()),
            Value::Symbol { enum_name, member, .. } => {
                CtorArg::Symbol(enum_name.to_string(), member.to_string())
            }
            Value::Scalar(e) => match build::value(&e) {
                // Two's complement within the type's width.
                Some(v) if e.ty.width <= 128 => {
                    let bits = crate::check::fold::wrap(v, Some((e.ty.width, false)));
                    CtorArg::Int(bits.to_u128().unwrap_or_default())
                }
                _ => {
                    self.error(arg.span, "a constructor's argument must be known at compile time");
                    CtorArg::Int(0)
                }
            },
            Value::List(items) => {
                for item in items {
                    self.ctor_value(item, arg, out);
                }
                return;
            }
            Value::Object(binding) if matches!(*binding, Binding::Extern(_)) => match *binding {
                Binding::Extern(id) => CtorArg::Instance(id),
                _ => return,
            },
            _ => {
                self.unsupported(arg.span, "constructor arguments of this type are");
                CtorArg::Int(0)
            }
        });
    }
}

/// The match kind of a part of a value set: `@match(kind)`, or exact.
fn match_kind(annotations: &[ir::Annotation]) -> String {
    let given = annotations.iter().find(|a| a.name == "match");
    given.map_or_else(|| "exact".to_owned(), |a| a.body.trim().to_owned())
}

/// The scalars of an extern's type arguments, or for a register those of its cell.
fn scalar_args(e: &ExternType, args: &[Type]) -> Vec<ir::Scalar> {
    let args = match &*e.name {
        "register" | "Register" | "DirectRegister" => args.get(..1).unwrap_or(args),
        _ => args,
    };
    let mut list = Vec::new();
    args.iter().for_each(|ty| scalars_in(ty, &mut list));
    list
}

fn scalars_in(ty: &Type, out: &mut Vec<ir::Scalar>) {
    match ty.repr() {
        Type::Struct(s) => s.fields.iter().for_each(|f| scalars_in(&f.ty, out)),
        Type::Tuple(items) => items.iter().for_each(|t| scalars_in(t, out)),
        Type::Stack(of, size) => (0..*size).for_each(|_| scalars_in(of, out)),
        other => out.extend(store::scalar(other)),
    }
}
