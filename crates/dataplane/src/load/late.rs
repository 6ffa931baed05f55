//! Headers that need not be cleared before the parser has run.
//!
//! A packet starts with all fields zero. If a parser only extracts a large header, which writes all
//! of it, zeros are needed only if it was not extracted. They are written after the parser has run
//! ([`crate::Packet`]).

use std::collections::HashSet;
use std::ops::Range;

use crate::code::{Code, HeaderCode, Op, Pc};
use crate::control_flow::region;
use crate::effects::Touched;
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
        let untouched = !touched.any(header.valid, 1) && !touched.any(header.first, header.words);
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
