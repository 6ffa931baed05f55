//! Compiles calls of PSA's externs.

use tributary_p4::ir::{Arg, CtorArg, ExternCall, ExternId};

use super::Loader;
use super::calls::Args;
use crate::code::{Cell, ExternOp, Op};
use crate::error::LoadError;
use crate::externs::binding::PsaBehaviour;
use crate::externs::hash::Algorithm;
use crate::externs::meter::Color;
use crate::slot::{NO_SLOT, Slot};
use crate::store::Instance;

/// The numbers of green, yellow and red in `PSA_MeterColor_t`.
const COLORS: [u8; 3] = [1, 2, 0];

impl Loader<'_> {
    pub(super) fn psa_call(
        &mut self,
        behaviour: PsaBehaviour,
        call: &ExternCall,
        args: &Args<'_>,
    ) -> Result<(), LoadError> {
        let instance = call.instance.ok_or_else(|| args.wrong("is called without an instance"))?;
        // The result, if the method returns one.
        let last = args.args.len().saturating_sub(1);
        match behaviour {
            PsaBehaviour::RegisterRead => {
                let register = self.registers(call.instance, args)?.start;
                let index = self.word(args.value(0)?)?;
                let (place, ty) = args.out(last)?;
                self.through_place(place, ty, |this, dst| {
                    this.op(Op::CellRead { dst, register, index });
                })?;
            }
            PsaBehaviour::Hash => self.psa_hash(instance, args)?,
            PsaBehaviour::Random => self.psa_random(instance, args)?,
            PsaBehaviour::Meter => {
                let Some(Instance::Meter(meter)) = self.instance(call.instance) else {
                    return Err(args.wrong("is not a meter"));
                };
                let index = self.word(args.value(0)?)?;
                let before = if last == 2 { self.psa_color(args, 1)? } else { NO_SLOT };
                let at = Cell::Array { number: meter, index };
                self.psa_meter(at, before, args)?;
            }
            PsaBehaviour::DirectMeter => {
                let table = self.table_of(instance, args)?;
                let before = if last == 1 { self.psa_color(args, 0)? } else { NO_SLOT };
                self.psa_meter(Cell::Entry { table }, before, args)?;
            }
            PsaBehaviour::Clear => {
                let dst = match self.instance(call.instance) {
                    Some(Instance::Checksum(slot) | Instance::Running { digest: slot, .. }) => slot,
                    _ => return Err(args.wrong("is not a checksum")),
                };
                let src = self.slots.constant(0);
                self.op(Op::Move { dst, src });
            }
            PsaBehaviour::Update => match self.instance(call.instance) {
                Some(Instance::Running { digest, algorithm }) => {
                    let list = self.number(args, 0)?;
                    self.extern_op(ExternOp::DigestAdd { digest, algorithm, list });
                }
                _ => {
                    let (sum, subtract) = (self.checksum(instance, args)?, false);
                    let list = self.words_of(args, 0)?;
                    self.extern_op(ExternOp::ChecksumAdd { sum, list, subtract });
                }
            },
            PsaBehaviour::Get => self.psa_checksum(instance, args)?,
            PsaBehaviour::State => {
                let src = self.checksum(instance, args)?;
                let (place, ty) = args.out(0)?;
                self.through_place(place, ty, |this, dst| this.op(Op::Move { dst, src }))?;
            }
            PsaBehaviour::SetState => {
                let dst = self.checksum(instance, args)?;
                let src = self.word(args.value(0)?)?;
                self.op(Op::Move { dst, src });
            }
        }
        Ok(())
    }

    /// Hashes values, in a range if one is given. The hash is the last argument.
    fn psa_hash(&mut self, instance: ExternId, args: &Args<'_>) -> Result<(), LoadError> {
        let algorithm = self.psa_algorithm(instance, args)?;
        let ranged = args.args.len() == 4;
        let (base, max) = match ranged {
            true => (self.word(args.value(0)?)?, self.word(args.value(2)?)?),
            false => (self.slots.constant(0), NO_SLOT),
        };
        let list = self.number(args, usize::from(ranged))?;
        let (place, ty) = args.out(args.args.len().saturating_sub(1))?;
        let width = args.narrow(ty)?;
        self.through_place(place, ty, |this, dst| {
            this.extern_op(ExternOp::Hash { dst, width, algorithm, base, max, list });
        })
    }

    /// Draws a number within the bounds of the instance.
    fn psa_random(&mut self, instance: ExternId, args: &Args<'_>) -> Result<(), LoadError> {
        let bound = |at: usize| match self.program.externs[instance.index()].args.get(at) {
            Some(CtorArg::Int(value)) => u64::try_from(*value).ok(),
            _ => None,
        };
        let bounds = bound(0).zip(bound(1));
        let (low, high) = bounds.ok_or_else(|| args.wrong("has no bounds of 64 bits"))?;
        let (low, high) = (self.slots.constant(low), self.slots.constant(high));
        let (place, ty) = args.out(args.args.len().saturating_sub(1))?;
        let width = args.narrow(ty)?;
        self.through_place(place, ty, |this, dst| {
            this.extern_op(ExternOp::Random { dst, width, low, high });
        })
    }

    /// Reads the result of a checksum of either kind.
    fn psa_checksum(&mut self, instance: ExternId, args: &Args<'_>) -> Result<(), LoadError> {
        let (place, ty) = args.out(0)?;
        let width = args.narrow(ty)? as u8;
        let running = self.instance(Some(instance));
        let sum = match running {
            Some(Instance::Running { digest, .. }) => digest,
            _ => self.checksum(instance, args)?,
        };
        let is_sum = matches!(running, Some(Instance::Checksum(_)));
        self.through_place(place, ty, |this, dst| {
            if is_sum {
                this.extern_op(ExternOp::ChecksumGet { dst, sum, complement: true });
            }
            let src = if is_sum { dst } else { sum };
            this.op(Op::Truncate { dst, src, width });
        })
    }

    /// Meters the packet; the colour is the last argument.
    fn psa_meter(&mut self, at: Cell, before: Slot, args: &Args<'_>) -> Result<(), LoadError> {
        let (place, ty) = args.out(args.args.len().saturating_sub(1))?;
        self.through_place(place, ty, |this, dst| {
            let (less, colors, given) = (NO_SLOT, COLORS, COLORS);
            this.extern_op(ExternOp::MeterAt { dst, at, before, less, colors, given });
        })
    }

    /// A colour that the program gives to a meter.
    fn psa_color(&mut self, args: &Args<'_>, at: usize) -> Result<Slot, LoadError> {
        let Some(Arg::Symbol(_, member)) = args.args.get(at) else {
            return self.word(args.value(at)?);
        };
        Ok(self.slots.constant(Color::number_of(member, &COLORS)))
    }

    /// The algorithm of a `Hash` instance.
    fn psa_algorithm(&self, instance: ExternId, args: &Args<'_>) -> Result<Algorithm, LoadError> {
        let named = match self.program.externs[instance.index()].args.first() {
            Some(CtorArg::Symbol(_, member)) => Algorithm::from_name(member),
            _ => None,
        };
        named.ok_or_else(|| args.wrong("names no algorithm"))
    }
}
