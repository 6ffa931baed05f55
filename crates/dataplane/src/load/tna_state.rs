//! Compiles calls of TNA's counters, meters, filters and direct registers.

use tributary_p4::Architecture;
use tributary_p4::ir::{Arg, CtorArg, Extern, ExternId, Scalar};

use super::Loader;
use super::calls::Args;
use super::instances::nth_initial;
use crate::code::{Cell, ExternOp, Op};
use crate::error::LoadError;
use crate::externs::meter::Color;
use crate::slot::{Item, NO_SLOT, Slot};
use crate::store::Instance;

/// Bits of a colour that a packet has before it is metered.
const COLOR_BITS: u32 = 8;

/// The numbers of green, yellow and red in programs that state no others (`MeterColor_t`).
const COLORS: [u8; 3] = [0, 1, 3];

impl Loader<'_> {
    /// Compiles `count` of a counter.
    pub(super) fn tna_count(
        &mut self,
        instance: ExternId,
        direct: bool,
        args: &Args<'_>,
    ) -> Result<(), LoadError> {
        let (at, next) = self.cell(instance, direct, args)?;
        let less = match args.args.get(next) {
            None => NO_SLOT,
            // The length that a NIC counts: p4c's back end for DPDK.
            Some(_) if self.program.architecture() == Some(Architecture::Psa) => {
                return Err(args.wrong("takes no length here"));
            }
            Some(_) => self.word(args.value(next)?)?,
        };
        match at {
            Cell::Array { number, index } if less == NO_SLOT => {
                self.op(Op::Count { counter: number, index });
            }
            _ => self.extern_op(ExternOp::CountAt { at, less }),
        }
        Ok(())
    }

    /// Compiles `execute` of a meter. A colour of the packet and an adjustment of its bytes may
    /// follow the index.
    pub(super) fn tna_meter(
        &mut self,
        instance: ExternId,
        direct: bool,
        args: &Args<'_>,
    ) -> Result<(), LoadError> {
        let (at, next) = self.cell(instance, direct, args)?;
        let (mut before, mut less) = (NO_SLOT, NO_SLOT);
        let last = args.args.len().saturating_sub(1);
        for place in next..last {
            let (slot, width) = match args.args.get(place) {
                Some(Arg::Symbol(_, member)) => {
                    (self.slots.constant(Color::number_of(member, &COLORS)), COLOR_BITS)
                }
                _ => {
                    let value = args.value(place)?;
                    (self.word(value)?, value.ty.width)
                }
            };
            *(if width == COLOR_BITS { &mut before } else { &mut less }) = slot;
        }
        let colors = colors(&self.program.externs[instance.index()])?;
        let (place, ty) = args.out(last)?;
        self.through_place(place, ty, |this, dst| {
            let given = COLORS;
            this.extern_op(ExternOp::MeterAt { dst, at, before, less, colors, given });
        })
    }

    /// Compiles `execute` of a filter.
    pub(super) fn tna_filter(
        &mut self,
        instance: ExternId,
        direct: bool,
        drops: bool,
        args: &Args<'_>,
    ) -> Result<(), LoadError> {
        let value = self.word(args.value(0)?)?;
        let at = if direct {
            Cell::Entry { table: self.table_of(instance, args)? }
        } else {
            let Some(Instance::Filter(number)) = self.instance(Some(instance)) else {
                return Err(args.wrong("is not a filter"));
            };
            Cell::Array { number, index: self.word(args.value(1)?)? }
        };
        let declared = &self.program.externs[instance.index()];
        let first = usize::from(!direct);
        let drops = match drops {
            true => Some([small(declared, first)?, small(declared, first + 1)?]),
            false => None,
        };
        let (place, ty) = args.out(args.args.len().saturating_sub(1))?;
        let width = args.narrow(ty)?;
        self.through_place(place, ty, |this, dst| {
            this.extern_op(ExternOp::Filter { dst, width, at, value, drops });
        })
    }

    /// Compiles the read of a register action's parameter.
    pub(super) fn tna_parameter(
        &mut self,
        instance: ExternId,
        args: &Args<'_>,
    ) -> Result<(), LoadError> {
        let Some(Instance::Register { first: register, .. }) = self.instance(Some(instance)) else {
            return Err(args.wrong("is not a parameter of a register action"));
        };
        let (place, ty) = args.out(0)?;
        let index = self.slots.constant(0);
        self.through_place(place, ty, |this, dst| {
            this.op(Op::RegisterRead { dst, register, index });
        })
    }

    /// Compiles a stateful action on the register of the entry that matched.
    pub(super) fn execute_direct(
        &mut self,
        instance: ExternId,
        args: &Args<'_>,
    ) -> Result<(), LoadError> {
        let program = self.program;
        let action = program
            .stateful_action(instance)
            .ok_or_else(|| args.wrong("has no stateful action"))?;
        let table = self.table_of(action.register, args)?;
        let cells: Vec<Item> = action.value.iter().map(|&field| self.item(field)).collect();
        if self.instance(Some(action.register))
            != Some(Instance::DirectRegister(cells.len() as u32))
        {
            return Err(args.wrong("has another cell than its register"));
        }
        self.extern_op(ExternOp::CellLoad { table, cells: cells.clone() });
        self.stateful_body(action)?;
        self.extern_op(ExternOp::CellStore { table, cells });
        self.stateful_result(action, args, 0)
    }

    /// The counter or meter cell of a call, and the number of the argument after its index.
    fn cell(
        &mut self,
        instance: ExternId,
        direct: bool,
        args: &Args<'_>,
    ) -> Result<(Cell, usize), LoadError> {
        if direct {
            return Ok((Cell::Entry { table: self.table_of(instance, args)? }, 0));
        }
        let number = match self.instance(Some(instance)) {
            Some(Instance::Counter(number) | Instance::Meter(number)) => number,
            _ => return Err(args.wrong("is neither a counter nor a meter")),
        };
        let index: Slot = self.word(args.value(0)?)?;
        Ok((Cell::Array { number, index }, 1))
    }
}

/// The words of a new cell of a direct register.
pub(super) fn initial_cell(register: &Extern) -> Result<Vec<u64>, LoadError> {
    let mut words = Vec::new();
    for (at, scalar) in register.type_args.iter().enumerate() {
        words.push(nth_initial(register, at)?);
        words.resize(words.len() + Scalar::limbs(*scalar).saturating_sub(1), 0);
    }
    Ok(words)
}

/// The numbers of green, yellow and red that a meter's last arguments state in reverse.
fn colors(meter: &Extern) -> Result<[u8; 3], LoadError> {
    let unit = meter.args.iter().position(|arg| matches!(arg, CtorArg::Symbol(..)));
    let first = unit.map_or(0, |at| at + 1);
    if meter.args.len() <= first {
        return Ok(COLORS);
    }
    Ok([small(meter, first + 2)?, small(meter, first + 1)?, small(meter, first)?])
}

/// An argument of eight bits.
fn small(instance: &Extern, at: usize) -> Result<u8, LoadError> {
    let value = match instance.args.get(at) {
        Some(CtorArg::Int(value)) => u8::try_from(*value).ok(),
        _ => None,
    };
    value.ok_or_else(|| LoadError::ExternUse {
        name: instance.name.clone(),
        reason: format!("its argument {} must be a number of eight bits", at + 1),
    })
}
