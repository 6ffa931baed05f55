//! Headers that need not be cleared before the parser has run.
//!
//! A packet starts with all fields zero. If a parser only extracts a large header, which writes all
//! of it, zeros are needed only if it was not extracted. They are written after the parser has run
//! ([`crate::Packet`]).

use std::collections::HashSet;
use std::ops::Range;

use crate::code::{Code, HeaderCode, Op, Pc, Slot};
use crate::compiled::region;
use crate::layout::Item;
use crate::packet::{FieldList, LateHeader};

/// Clearing smaller headers is as fast as testing them.
const SMALLEST: u32 = 16;

/// The late headers of a program whose parser starts there.
pub(super) fn late(code: &Code, parser: Pc, lists: &[FieldList]) -> Vec<LateHeader> {
    let mut extracted = HashSet::new();
    let mut touched = Touched::default();
    for &pc in &region(code, parser).ops {
        let op = &code.ops[pc as usize];
        if let Op::Extract(header) = *op {
            extracted.insert(header);
        } else if touched.by(code, op).is_none() {
            return Vec::new();
        }
    }
    // Data kept for a second pass is restored before its parser runs.
    lists.iter().flat_map(|list| &list.items).for_each(|&item| touched.item(item));
    let late = |(number, header): (u32, &HeaderCode)| {
        let words = header.first..header.first + header.words;
        let whole = header.varbit.is_none()
            && header.layout.slots().map(|(_, count)| count).sum::<u32>() == header.words;
        let untouched = !touched.slots.iter().any(|&(first, count)| {
            let slots = first..first + count;
            slots.contains(&header.valid) || slots.start < words.end && words.start < slots.end
        });
        let late = header.words >= SMALLEST && whole && extracted.contains(&number) && untouched;
        let words = words.start as usize..words.end as usize;
        late.then_some(LateHeader { valid: header.valid as usize, words })
    };
    let mut all: Vec<LateHeader> = (0..).zip(&code.headers).filter_map(late).collect();
    all.sort_by_key(|header| header.words.start);
    all
}

/// The words below `end` outside these headers.
pub(super) fn others(late: &[LateHeader], end: usize) -> Vec<Range<usize>> {
    let starts = [0].into_iter().chain(late.iter().map(|header| header.words.end));
    let ends = late.iter().map(|header| header.words.start).chain([end]);
    starts.zip(ends).map(|(start, end)| start..end).filter(|words| !words.is_empty()).collect()
}

/// Slots that a parser's operations read or write.
#[derive(Debug, Default)]
struct Touched {
    slots: Vec<(Slot, u32)>,
}

impl Touched {
    fn item(&mut self, item: Item) {
        self.slots.push((item.slot, item.width.div_ceil(64)));
    }

    fn words(&mut self, slots: &[Slot]) {
        self.slots.extend(slots.iter().map(|&slot| (slot, 1)));
    }

    /// Adds the slots of an operation; `None` if they are unknown.
    #[rustfmt::skip]
    fn by(&mut self, code: &Code, op: &Op) -> Option<()> {
        match *op {
            Op::Jump(_) | Op::Return | Op::Exit | Op::Tick(_) => {}
            Op::Move { dst, src } | Op::Truncate { dst, src, .. } | Op::SignExtend { dst, src, .. }
            | Op::Slice { dst, src, .. } | Op::Insert { dst, src, .. } => self.words(&[dst, src]),
            Op::Copy { dst, src, words } => self.slots.extend([(dst, words), (src, words)]),
            Op::Not { dst, a, .. } => self.words(&[dst, a]),
            Op::Add { dst, a, b, .. } | Op::Sub { dst, a, b, .. } | Op::Mul { dst, a, b, .. }
            | Op::And { dst, a, b } | Op::Or { dst, a, b } | Op::Xor { dst, a, b }
            | Op::Shl { dst, a, b, .. } | Op::Shr { dst, a, b }
            | Op::Eq { dst, a, b } | Op::Ne { dst, a, b }
            | Op::Lt { dst, a, b } | Op::Le { dst, a, b }
            | Op::SignedLt { dst, a, b, .. } | Op::SignedLe { dst, a, b, .. }
            | Op::Concat { dst, a, b, .. } => self.words(&[dst, a, b]),
            Op::Select { dst, c, a, b } => self.words(&[dst, c, a, b]),
            Op::Wide(number) => {
                let wide = &code.wides[number as usize];
                [wide.dst, wide.a, wide.b].into_iter().for_each(|item| self.item(item));
            }
            Op::JumpIf { c, .. } | Op::JumpUnless { c, .. } => self.words(&[c]),
            Op::JumpEq { a, b, .. } | Op::JumpNe { a, b, .. } => self.words(&[a, b]),
            Op::JumpMaskedNe { a, mask, value, .. } => self.words(&[a, mask, value]),
            Op::JumpOutside { a, low, high, .. } => self.words(&[a, low, high]),
            Op::Fail { error } => self.words(&[error]),
            Op::Advance { bits } => self.words(&[bits]),
            Op::Lookahead(number) => self.slots.extend(code.lookaheads[number as usize].slots()),
            Op::LoadElement { dst, index, element } => {
                let element = &code.elements[element as usize];
                self.words(&[index]);
                self.slots.push((dst, element.words));
                self.slots.extend(element.slots.iter().map(|&slot| (slot, element.words)));
            }
            _ => return None,
        }
        Some(())
    }
}
