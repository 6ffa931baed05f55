//! Prediction of the register rows that a packet will access.
//!
//! In-network aggregation adds a packet's values to the row of registers that one of its headers
//! names. The row is far away in memory, and reading the values does not need it, so the row is
//! prefetched meanwhile. A wrong prediction costs a little time and has no other effect.

use std::collections::HashMap;

use super::Plan;
use crate::code::{Code, Op};
use crate::externs::register::RegisterPlace;
use crate::slot::Slot;

/// Smaller registers are in the caches anyway.
const FAR: u64 = 512 << 10;

/// The register element that each slot is combined with.
#[derive(Debug)]
pub(super) struct Ahead {
    elements: HashMap<Slot, Element>,
}

/// Neighbouring elements, by the first one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element {
    pub(super) place: RegisterPlace,
    /// The header field with the index.
    pub(super) index: Slot,
}

impl Ahead {
    pub(super) fn new(plan: &Plan) -> Self {
        let code = &*plan.code;
        let sources: HashMap<Slot, Slot> = code
            .ops
            .iter()
            .filter_map(|op| match *op {
                Op::Move { dst, src } => Some((dst, src)),
                _ => None,
            })
            .collect();
        let mut elements = HashMap::new();
        for run in &code.runs {
            let Some(index) = header_field(code, &sources, run.index) else { continue };
            for (slot, register) in (run.slot..).zip(run.register..).take(run.count as usize) {
                if let Some(&place) = plan.registers.places.get(register as usize)
                    && place.size.saturating_mul(place.stride as u64) >= FAR
                {
                    elements.entry(slot).or_insert(Element { place, index });
                }
            }
        }
        Self { elements }
    }

    /// The row that these slots are combined with, word by word.
    pub(super) fn row(&self, slot: Slot, count: u32) -> Option<Element> {
        let first = *self.elements.get(&slot)?;
        let same = |(offset, slot): (usize, Slot)| {
            self.elements.get(&slot).is_some_and(|other| {
                other.index == first.index
                    && other.place.size == first.place.size
                    && other.place.bank == first.place.bank
                    && other.place.offset == first.place.offset + 4 * offset
            })
        };
        (0..).zip(slot..).take(count as usize).all(same).then_some(first)
    }
}

/// The header field that a slot is a copy of, if moves show it.
fn header_field(code: &Code, sources: &HashMap<Slot, Slot>, slot: Slot) -> Option<Slot> {
    let chain = std::iter::successors(Some(slot), |slot| sources.get(slot).copied());
    let in_header = |slot: &Slot| {
        code.headers.iter().any(|header| (header.first..header.first + header.words).contains(slot))
    };
    // Moves may be cyclic.
    chain.take(LONGEST_CHAIN).find(in_header)
}

/// Most moves from a header's field to an index.
const LONGEST_CHAIN: usize = 8;
