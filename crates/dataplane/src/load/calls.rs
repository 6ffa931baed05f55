//! Compiles calls of externs, by the behaviours of [`crate::externs::binding`].

use std::ops::Range;

use tributary_p4::ir::{
    Arg, Expr, ExprKind, ExternCall, ExternId, FieldId, FieldRole, HeaderRef, Place, Scalar,
};

use super::Loader;
use crate::code::{ExternOp, Group, List, Op};
use crate::error::LoadError;
use crate::externs::binding::{Behaviour, bind};
use crate::externs::hash::Algorithm;
use crate::layout::Layout;
use crate::packet::DigestShape;
use crate::slot::{Item, NO_SLOT, Slot};
use crate::store::Instance;

impl Loader<'_> {
    /// Compiles a call of an extern. Errors are at the instance if the statement has no mark.
    pub(super) fn call(&mut self, call: &ExternCall) -> Result<(), LoadError> {
        let origins = &self.program.origins;
        self.call_unmarked(call).map_err(|error| {
            let declared = || call.instance.and_then(|instance| origins.instance(instance));
            error.at(self.program, self.at.get().or_else(declared))
        })
    }

    fn call_unmarked(&mut self, call: &ExternCall) -> Result<(), LoadError> {
        let type_name =
            call.instance.map(|instance| self.program.externs[instance.index()].type_name.as_str());
        let name = match call.instance {
            Some(instance) => {
                let instance = &self.program.externs[instance.index()];
                format!("{} {}.{}", instance.type_name, instance.name, call.method)
            }
            None => call.method.clone(),
        };
        let architecture = self.intrinsics.architecture();
        let Some(behaviour) = bind(architecture, type_name, &call.method) else {
            return Err(LoadError::Extern(name));
        };
        let use_error = |reason: String| LoadError::ExternUse { name: name.clone(), reason };
        let args = Args { args: &call.args, error: &use_error };
        match behaviour {
            Behaviour::RegisterRead => self.register_read(call.instance, &args),
            Behaviour::RegisterWrite => self.register_write(call.instance, &args),
            Behaviour::Count => self.count(call.instance, &args),
            // The table counts every packet that matches an entry, as in BMv2.
            Behaviour::DirectCount => Ok(()),
            Behaviour::Meter => self.meter(call.instance, &args),
            Behaviour::DirectMeter => self.direct_meter(call.instance, &args),
            Behaviour::MarkToDrop => self.mark_to_drop(&args),
            Behaviour::Clone { list } => self.request_clone(list, &args),
            Behaviour::Resubmit { list } => {
                let request = self.v1model(&args)?.resubmit;
                self.keep(request, list, &args, 0)
            }
            Behaviour::Recirculate { list } => {
                let request = self.v1model(&args)?.recirculate;
                self.keep(request, list, &args, 0)
            }
            Behaviour::Truncate => {
                let length = self.word(args.value(0)?)?;
                let limit = self.v1model(&args)?.truncate;
                self.extern_op(ExternOp::Truncate { length, limit });
                Ok(())
            }
            Behaviour::Random => self.random(&args),
            Behaviour::Hash => self.hash_within(&args),
            Behaviour::VerifyChecksum { payload } => self.verify_checksum(payload, &args),
            Behaviour::UpdateChecksum { payload } => self.update_checksum(payload, &args),
            Behaviour::Assert { what } => self.assert(what, &args),
            Behaviour::Log => self.log(&args),
            Behaviour::Digest => self.learn(&args),
            Behaviour::Tna(behaviour) => self.tna_call(behaviour, call, &args),
            Behaviour::Psa(behaviour) => self.psa_call(behaviour, call, &args),
        }
    }

    pub(super) fn instance(&self, instance: Option<ExternId>) -> Option<Instance> {
        instance.map(|instance| self.instances[instance.index()])
    }

    /// The engine's registers for a register of the program: one for each scalar of its cells.
    pub(super) fn registers(
        &self,
        instance: Option<ExternId>,
        args: &Args<'_>,
    ) -> Result<Range<u32>, LoadError> {
        match self.instance(instance) {
            Some(Instance::Register { first, scalars }) => Ok(first..first + scalars),
            _ => Err(args.wrong("is not a register")),
        }
    }

    pub(super) fn extern_op(&mut self, op: ExternOp) {
        let number = self.externs.len() as u32;
        self.externs.push(op);
        self.op(Op::Extern(number));
    }

    /// Compiles an operation that writes to a slot, and the store from there to a place. Before,
    /// the slot holds the place's value, for operations that may leave it unchanged.
    pub(super) fn through_place(
        &mut self,
        place: &Place,
        ty: Scalar,
        body: impl FnOnce(&mut Self, Slot),
    ) -> Result<(), LoadError> {
        if let Place::Field(field) = place {
            body(self, self.slots.field(*field));
            return Ok(());
        }
        let slot = self.slots.temporary(ty);
        self.load(place, ty, slot)?;
        body(self, slot);
        self.store(place, slot)
    }

    /// The validity bit of the header that contains a value's field.
    pub(super) fn validity(&self, expr: &Expr) -> Slot {
        match &expr.kind {
            ExprKind::Field(field) => match self.program.fields[field.index()].role {
                FieldRole::Header(header) => self.header(header).valid,
                _ => NO_SLOT,
            },
            ExprKind::Cast(inner) => self.validity(inner),
            _ => NO_SLOT,
        }
    }

    /// The length slot of a header's varbit field; [`NO_SLOT`] for all other fields.
    fn varbit_length(&self, field: FieldId) -> Slot {
        let FieldRole::Header(header) = self.program.fields[field.index()].role else {
            return NO_SLOT;
        };
        let header = &self.program.headers[header.index()];
        match header.varbit {
            Some((at, length)) if header.fields[at] == field => self.slots.field(length),
            _ => NO_SLOT,
        }
    }

    /// Compiles a list of values to hash, without fields of invalid headers.
    pub(super) fn list(&mut self, args: &Args<'_>, at: usize) -> Result<u32, LoadError> {
        let mut items: Vec<(Presence, Item)> = Vec::new();
        if let Some(Arg::Header(HeaderRef::Fixed(header))) = args.args.get(at) {
            let valid = self.header(*header).valid;
            let fields = &self.program.headers[header.index()].fields;
            items.extend(fields.iter().map(|&field| {
                (Presence { valid, length: self.varbit_length(field) }, self.item(field))
            }));
        }
        for expr in args.exprs(at) {
            let length = match expr.kind {
                ExprKind::Field(field) => self.varbit_length(field),
                _ => NO_SLOT,
            };
            let presence = Presence { valid: self.validity(expr), length };
            items.push((presence, Item { slot: self.expr(expr)?, width: expr.ty.width }));
        }
        Ok(self.list_of(&items))
    }

    /// Adds a digest: its fields are read when it is made; other values are computed now and kept
    /// until then.
    pub(super) fn digest(
        &mut self,
        name: &str,
        args: &Args<'_>,
        at: usize,
    ) -> Result<u32, LoadError> {
        let mut items = Vec::new();
        if let Some(Arg::Header(HeaderRef::Fixed(header))) = args.args.get(at) {
            let fields = &self.program.headers[header.index()].fields;
            items.extend(fields.iter().map(|&field| self.item(field)));
        }
        for expr in args.exprs(at) {
            items.push(match expr.kind {
                ExprKind::Field(field) => self.item(field),
                _ => {
                    let slot = self.slots.words(expr.ty.limbs());
                    self.expr_to(expr, slot)?;
                    Item { slot, width: expr.ty.width }
                }
            });
        }
        let widths = items.iter().map(|item| item.width).collect();
        self.digests.push((DigestShape { name: name.to_owned(), widths }, items));
        Ok(self.digests.len() as u32 - 1)
    }

    /// Adds a list of values.
    pub(super) fn list_of(&mut self, items: &[(Presence, Item)]) -> u32 {
        let groups: Vec<Group> = items
            .chunk_by(|a, b| a.0 == b.0 && a.0.length == NO_SLOT)
            .map(|group| {
                let items: Vec<Item> = group.iter().map(|&(_, item)| item).collect();
                let Presence { valid, length } = group[0].0;
                Group { valid, length, layout: Layout::new(&items), items }
            })
            .collect();
        let ragged = groups.iter().any(|group| group.length != NO_SLOT)
            || groups
                .split_last()
                .is_some_and(|(_, rest)| rest.iter().any(|group| group.layout.bits() % 8 != 0));
        self.lists.push(List { groups, ragged });
        self.lists.len() as u32 - 1
    }
}

/// What determines whether, and how much of, a value takes part in a list: the validity bit of its
/// header, and the length of a varbit; or [`NO_SLOT`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Presence {
    pub(super) valid: Slot,
    pub(super) length: Slot,
}

/// The arguments of a call, taken by position.
pub(super) struct Args<'a> {
    pub(super) args: &'a [Arg],
    error: &'a dyn Fn(String) -> LoadError,
}

impl<'a> Args<'a> {
    pub(super) fn wrong(&self, reason: &str) -> LoadError {
        (self.error)(reason.to_owned())
    }

    pub(super) fn value(&self, at: usize) -> Result<&'a Expr, LoadError> {
        match self.args.get(at) {
            Some(Arg::In(expr)) => Ok(expr),
            _ => Err((self.error)(format!("argument {} must be a value", at + 1))),
        }
    }

    pub(super) fn out(&self, at: usize) -> Result<(&'a Place, Scalar), LoadError> {
        match self.args.get(at) {
            Some(Arg::Out(place, ty)) => Ok((place, *ty)),
            _ => Err((self.error)(format!("argument {} must be a place to store to", at + 1))),
        }
    }

    /// The values of a list, or a single value.
    pub(super) fn exprs(&self, at: usize) -> &'a [Expr] {
        match self.args.get(at) {
            Some(Arg::List(list)) => list,
            Some(Arg::In(expr)) => std::slice::from_ref(expr),
            _ => &[],
        }
    }

    pub(super) fn algorithm(&self, at: usize) -> Result<Algorithm, LoadError> {
        match self.args.get(at) {
            Some(Arg::Symbol(_, member)) => Algorithm::from_name(member)
                .ok_or_else(|| (self.error)(format!("algorithm `{member}` is not supported"))),
            _ => Err((self.error)(format!("argument {} must be an algorithm", at + 1))),
        }
    }

    pub(super) fn narrow(&self, ty: Scalar) -> Result<u32, LoadError> {
        if ty.width <= 64 {
            Ok(ty.width)
        } else {
            Err((self.error)(format!("a result of type {ty} is too wide")))
        }
    }
}
