//! Compiles calls of v1model's externs. PSA has some of them, too.

use tributary_p4::Architecture;
use tributary_p4::ir::{Arg, Expr, ExprKind, ExternId, Place, Scalar};

use super::calls::Args;
use super::{Intrinsics, Loader};
use crate::code::{ExternOp, Op};
use crate::error::LoadError;
use crate::externs::binding::Kept;
use crate::packet::FieldList;
use crate::pass::DROP_PORT;
use crate::slot::{Item, Slot};
use crate::store::Instance;
use crate::v1model::metadata;

/// Bits of a clone session's number.
const SESSION_BITS: u64 = 0x7fff;

/// First number of field lists in calls; numbers of annotations have eight bits.
const FIELD_LISTS: u32 = 1 << 8;

impl Loader<'_> {
    /// The slots of v1model.
    pub(super) fn v1model(&self, args: &Args<'_>) -> Result<&metadata::Intrinsics, LoadError> {
        match &self.intrinsics {
            Intrinsics::V1model(intrinsics) => Ok(intrinsics),
            Intrinsics::Tna(_) | Intrinsics::Psa(_) => Err(args.wrong("belongs to v1model")),
        }
    }

    pub(super) fn register_read(
        &mut self,
        instance: Option<ExternId>,
        args: &Args<'_>,
    ) -> Result<(), LoadError> {
        let registers = self.registers(instance, args)?;
        let index = self.word(args.value(registers.len())?)?;
        for (register, at) in registers.zip(0..) {
            let (place, ty) = args.out(at)?;
            self.through_place(place, ty, |this, dst| {
                this.op(Op::RegisterRead { dst, register, index });
            })?;
        }
        Ok(())
    }

    pub(super) fn register_write(
        &mut self,
        instance: Option<ExternId>,
        args: &Args<'_>,
    ) -> Result<(), LoadError> {
        let registers = self.registers(instance, args)?;
        let index = self.word(args.value(0)?)?;
        let values = args.exprs(1);
        if values.len() != registers.len() {
            return Err(args.wrong("the value has other parts than the register's cells"));
        }
        for (register, value) in registers.zip(values) {
            let src = self.expr(value)?;
            self.op(Op::RegisterWrite { src, register, index });
        }
        Ok(())
    }

    pub(super) fn count(
        &mut self,
        instance: Option<ExternId>,
        args: &Args<'_>,
    ) -> Result<(), LoadError> {
        let Some(Instance::Counter(counter)) = self.instance(instance) else {
            return Err(args.wrong("is not a counter"));
        };
        if self.intrinsics.architecture() == Architecture::Psa && args.args.len() != 1 {
            return Err(args.wrong("a packet length of its own is not supported"));
        }
        let index = self.word(args.value(0)?)?;
        self.op(Op::Count { counter, index });
        Ok(())
    }

    pub(super) fn meter(
        &mut self,
        instance: Option<ExternId>,
        args: &Args<'_>,
    ) -> Result<(), LoadError> {
        let Some(Instance::Meter(meter)) = self.instance(instance) else {
            return Err(args.wrong("is not a meter"));
        };
        let index = self.word(args.value(0)?)?;
        let (place, ty) = args.out(1)?;
        let width = args.narrow(ty)?;
        self.through_place(place, ty, |this, dst| {
            this.extern_op(ExternOp::Meter { dst, width, meter, index });
        })
    }

    /// Compiles the read of a direct meter's colour. The table meters every packet that matches an
    /// entry and stores the colour, as in BMv2. The call determines where.
    pub(super) fn direct_meter(
        &mut self,
        instance: Option<ExternId>,
        args: &Args<'_>,
    ) -> Result<(), LoadError> {
        let (Some(meter), Ok((Place::Field(field), _))) = (instance, args.out(0)) else {
            return Err(args.wrong("the colour must be read into a whole field"));
        };
        let target = self.item(*field);
        let known = *self.meter_targets.entry(meter).or_insert(target);
        if known.slot != target.slot {
            return Err(args.wrong("the colour must be read into one field everywhere"));
        }
        Ok(())
    }

    pub(super) fn mark_to_drop(&mut self, args: &Args<'_>) -> Result<(), LoadError> {
        let (port, zero) = (self.slots.constant(u64::from(DROP_PORT)), self.slots.constant(0));
        let metadata::Intrinsics { egress_spec, mcast_grp, .. } = *self.v1model(args)?;
        if let Some(Arg::Copy(fields)) = args.args.first() {
            for (field, src) in [("egress_spec", port), ("mcast_grp", zero)] {
                if let Some((_, id)) = fields.iter().find(|(name, _)| name == field) {
                    self.op(Op::Move { dst: self.slots.field(*id), src });
                }
            }
        } else {
            self.op(Op::Move { dst: egress_spec.slot, src: port });
            self.op(Op::Move { dst: mcast_grp.slot, src: zero });
        }
        Ok(())
    }

    /// Compiles the request of a clone. The place of the call determines ingress or egress, as in
    /// BMv2.
    pub(super) fn request_clone(&mut self, list: Kept, args: &Args<'_>) -> Result<(), LoadError> {
        let metadata::Intrinsics { clone, clone_list, .. } = *self.v1model(args)?;
        let session = self.word(args.value(1)?)?;
        let (bits, one) = (self.slots.constant(SESSION_BITS), self.slots.constant(1));
        let number = self.slots.temporary(Scalar::bit(32));
        self.op(Op::And { dst: number, a: session, b: bits });
        self.op(Op::Add { dst: clone, a: number, b: one, width: 64 });
        self.keep(clone_list, list, args, 2)
    }

    /// Stores the number plus one of the field list that an argument names; zero means none.
    pub(super) fn keep(
        &mut self,
        dst: Slot,
        list: Kept,
        args: &Args<'_>,
        at: usize,
    ) -> Result<(), LoadError> {
        let number = match list {
            Kept::Nothing => {
                let src = self.slots.constant(0);
                self.op(Op::Move { dst, src });
                return Ok(());
            }
            Kept::Number => self.word(args.value(at)?)?,
            Kept::Fields => {
                let field = |expr: &Expr| match expr.kind {
                    ExprKind::Field(field) => Ok(self.item(field)),
                    _ => Err(args.wrong("the data to keep must be fields")),
                };
                let items = args.exprs(at).iter().map(field).collect::<Result<_, _>>()?;
                let id = FIELD_LISTS + self.field_lists.len() as u32;
                self.field_lists.push(FieldList { id, items });
                self.slots.constant(u64::from(id))
            }
        };
        let one = self.slots.constant(1);
        self.op(Op::Add { dst, a: number, b: one, width: 64 });
        Ok(())
    }

    pub(super) fn random(&mut self, args: &Args<'_>) -> Result<(), LoadError> {
        let (place, ty) = args.out(0)?;
        let (low, high) = (self.word(args.value(1)?)?, self.word(args.value(2)?)?);
        let width = args.narrow(ty)?;
        self.through_place(place, ty, |this, dst| {
            this.extern_op(ExternOp::Random { dst, width, low, high });
        })
    }

    /// Compiles a hash in a range.
    pub(super) fn hash_within(&mut self, args: &Args<'_>) -> Result<(), LoadError> {
        let (place, ty) = args.out(0)?;
        let width = args.narrow(ty)?;
        let algorithm = args.algorithm(1)?;
        let base = self.word(args.value(2)?)?;
        let list = self.list(args, 3)?;
        let max = self.word(args.value(4)?)?;
        self.through_place(place, ty, |this, dst| {
            this.extern_op(ExternOp::Hash { dst, width, algorithm, base, max, list });
        })
    }

    pub(super) fn verify_checksum(
        &mut self,
        payload: bool,
        args: &Args<'_>,
    ) -> Result<(), LoadError> {
        let condition = self.expr(args.value(0)?)?;
        let list = self.list(args, 1)?;
        let target = args.value(2)?;
        let checksum = self.word(target)?;
        let valid = self.validity(target);
        let algorithm = args.algorithm(3)?;
        let error = self.v1model(args)?.checksum_error.slot;
        self.extern_op(ExternOp::VerifyChecksum {
            condition,
            valid,
            checksum,
            algorithm,
            list,
            payload,
            error,
        });
        Ok(())
    }

    pub(super) fn update_checksum(
        &mut self,
        payload: bool,
        args: &Args<'_>,
    ) -> Result<(), LoadError> {
        let condition = self.expr(args.value(0)?)?;
        let list = self.list(args, 1)?;
        let (place, ty) = args.out(2)?;
        let width = args.narrow(ty)?;
        let algorithm = args.algorithm(3)?;
        self.through_place(place, ty, |this, checksum| {
            this.extern_op(ExternOp::UpdateChecksum {
                condition,
                checksum,
                width,
                algorithm,
                list,
                payload,
            });
        })
    }

    pub(super) fn assert(&mut self, what: &'static str, args: &Args<'_>) -> Result<(), LoadError> {
        let condition = self.expr(args.value(0)?)?;
        let failed = match &self.intrinsics {
            Intrinsics::V1model(intrinsics) => intrinsics.failed,
            Intrinsics::Psa(intrinsics) => intrinsics.failed,
            Intrinsics::Tna(_) => return Err(args.wrong("does not belong to TNA")),
        };
        self.extern_op(ExternOp::Assert { condition, failed, what });
        Ok(())
    }

    pub(super) fn log(&mut self, args: &Args<'_>) -> Result<(), LoadError> {
        let Some(Arg::Text(message)) = args.args.first() else {
            return Err(args.wrong("the message must be a string literal"));
        };
        let mut values = Vec::new();
        for expr in args.exprs(1) {
            values.push(Item { slot: self.expr(expr)?, width: expr.ty.width });
        }
        self.extern_op(ExternOp::Log { message: message.clone(), values });
        Ok(())
    }

    /// Compiles a digest for the controller.
    pub(super) fn learn(&mut self, args: &Args<'_>) -> Result<(), LoadError> {
        let Some(Arg::Text(name)) = args.args.last() else {
            return Err(args.wrong("the digest has no name"));
        };
        let digest = self.digest(name, args, 1)?;
        let request = self.v1model(args)?.digest;
        self.extern_op(ExternOp::Learn { digest, request });
        Ok(())
    }
}
