//! Rows of registers that a packet is going to meet, found out before it does.
//!
//! In-network aggregation adds a packet's values to the row of registers that one of its headers
//! names. The row is far away in memory, and what is done first, reading the values, needs none of
//! it: so it can come while that is done. A wrong guess costs a little time and changes nothing.

use std::collections::HashMap;

use super::Plan;
use crate::code::{Code, Op, Slot};
use crate::externs::register::RegisterPlace;

/// Registers that take less memory than that are in the caches anyway.
const FAR: u64 = 512 << 10;

/// Which element of which register each slot meets.
#[derive(Debug)]
pub(super) struct Ahead {
    elements: HashMap<Slot, Element>,
}

/// Neighbouring elements, from the first on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element {
    pub(super) place: RegisterPlace,
    /// The header field that is the index.
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

    /// The row that these slots meet, word by word.
    pub(super) fn row(&self, slot: Slot, count: u32) -> Option<Element> {
        let first = *self.elements.get(&slot)?;
        let same = |(offset, slot): (usize, Slot)| {
            self.elements.get(&slot).is_some_and(|other| {
                other.index == first.index
                    && other.place.size == first.place.size
                    && other.place.base == first.place.base + 4 * offset
            })
        };
        (0..).zip(slot..).take(count as usize).all(same).then_some(first)
    }
}

/// The field of a header that a slot is a copy of, as far as moves tell.
fn header_field(code: &Code, sources: &HashMap<Slot, Slot>, slot: Slot) -> Option<Slot> {
    let chain = std::iter::successors(Some(slot), |slot| sources.get(slot).copied());
    let in_header = |slot: &Slot| {
        code.headers.iter().any(|header| (header.first..header.first + header.words).contains(slot))
    };
    // Moves may go round in a circle.
    chain.take(LONGEST_CHAIN).find(in_header)
}

/// Moves from a header's field to an index.
const LONGEST_CHAIN: usize = 8;
