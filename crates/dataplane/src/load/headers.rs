//! Compiles headers, stacks and header references.

use tributary_p4::Architecture;
use tributary_p4::ir::{HeaderId, HeaderRef, Program, Scalar, StackId};

use super::slots::Slots;
use super::{Context, Loader, Place};
use crate::code::{Element, HeaderCode, Op, Varbit};
use crate::error::LoadError;
use crate::layout::Layout;
use crate::slot::{Item, Slot};

/// Maximum bits of a header.
const LARGEST_HEADER: u32 = 1 << 20;

/// Compiles the layouts of all headers.
pub(super) fn headers(
    program: &Program,
    slots: &Slots,
    at: &Place,
) -> Result<Vec<HeaderCode>, LoadError> {
    (0..)
        .map(HeaderId)
        .zip(&program.headers)
        .map(|(id, header)| {
            at.set(program.origins.header(id));
            let items: Vec<Item> = header
                .fields
                .iter()
                .map(|&field| Item {
                    slot: slots.field(field),
                    width: program.fields[field.index()].ty.width,
                })
                .collect();
            let bits: u64 = items.iter().map(|item| u64::from(item.width)).sum();
            if bits > u64::from(LARGEST_HEADER) {
                return Err(LoadError::Limit(format!("the size of header `{}`", header.name)));
            }
            let words = header
                .fields
                .iter()
                .chain(header.varbit.as_ref().map(|(_, length)| length))
                .map(|field| program.fields[field.index()].ty.limbs() as u32)
                .sum();
            let first = items.first().map_or(0, |item| item.slot);
            let fixed = match header.varbit {
                None => bits as u32,
                Some((at, _)) => bits as u32 - items[at].width,
            };
            if !fixed.is_multiple_of(8) {
                return Err(LoadError::HeaderSize { name: header.name.clone(), bits: fixed });
            }
            let (layout, varbit) = match header.varbit {
                None => (Layout::new(&items), None),
                Some((at, length)) => {
                    let varbit = Varbit {
                        field: items[at],
                        length: slots.field(length),
                        rest: items[at + 1..].to_vec(),
                        fixed_bits: fixed,
                    };
                    (Layout::new(&items[..at]), Some(Box::new(varbit)))
                }
            };
            let (name, valid) = (header.name.clone(), slots.field(header.valid));
            let tna = program.architecture() == Some(Architecture::Tna);
            let cleared = if tna { 0 } else { words };
            Ok(HeaderCode { name, valid, first, words, cleared, layout, varbit })
        })
        .collect()
}

impl Loader<'_> {
    /// Compiles an operation on a header that may be chosen at run time: a test for each element of
    /// the stack, and the operation on it. Out of range, a parser stops and a control continues.
    pub(super) fn on_header(
        &mut self,
        header: &HeaderRef,
        body: &mut dyn FnMut(&mut Self, HeaderId) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        let (stack, index) = match header {
            HeaderRef::Fixed(header) => return body(self, *header),
            other => self.stack_index(other)?,
        };
        let mut done = Vec::new();
        for (i, &element) in self.program.stacks[stack.index()].elements.iter().enumerate() {
            let number = self.slots.constant(i as u64);
            let other = self.jump(Op::JumpNe { a: index, b: number, to: 0 });
            body(self, element)?;
            done.push(self.jump(Op::Jump(0)));
            self.patch_here(&[other]);
        }
        if self.context == Context::Parser {
            let code = super::error_code(self.program, "StackOutOfBounds", 3);
            let error = self.slots.constant(code);
            self.jump(Op::Fail { error });
        }
        self.patch_here(&done);
        Ok(())
    }

    /// The stack and the index of a header reference.
    pub(super) fn stack_index(&mut self, header: &HeaderRef) -> Result<(StackId, Slot), LoadError> {
        match header {
            HeaderRef::Fixed(_) => Err(LoadError::Malformed("a header is not a stack".to_owned())),
            HeaderRef::Index(stack, index) => Ok((*stack, self.word(index)?)),
            HeaderRef::Next(stack) => Ok((*stack, self.next_index(*stack))),
            HeaderRef::Last(stack) => {
                // Indices below zero wrap and are out of range.
                let (next, one) = (self.next_index(*stack), self.slots.constant(1));
                let last = self.slots.temporary(Scalar::bit(32));
                self.op(Op::Sub { dst: last, a: next, b: one, width: 32 });
                Ok((*stack, last))
            }
        }
    }

    pub(super) fn next_index(&self, stack: StackId) -> Slot {
        self.slots.field(self.program.stacks[stack.index()].next_index)
    }

    /// The slots of one field, or of the validity bit, in all elements of a stack.
    pub(super) fn element(
        &mut self,
        stack: StackId,
        position: Option<u32>,
    ) -> Result<u32, LoadError> {
        if let Some(&number) = self.element_numbers.get(&(stack, position)) {
            return Ok(number);
        }
        let mut slots = Vec::new();
        let mut words = 1;
        for &element in &self.program.stacks[stack.index()].elements {
            let header = &self.program.headers[element.index()];
            let field = match position {
                None => header.valid,
                Some(position) => {
                    let length = header.varbit.map(|(_, length)| length);
                    let mut fields = header.fields.iter().copied().chain(length);
                    fields.nth(position as usize).ok_or_else(|| {
                        LoadError::Malformed(format!("header `{}` has fewer fields", header.name))
                    })?
                }
            };
            words = self.program.fields[field.index()].ty.limbs() as u32;
            slots.push(self.slots.field(field));
        }
        let number = self.elements.len() as u32;
        self.elements.push(Element { slots, words });
        self.element_numbers.insert((stack, position), number);
        Ok(number)
    }

    pub(super) fn push_front(&mut self, stack: StackId, count: u32) {
        let elements = self.program.stacks[stack.index()].elements.clone();
        let shift = (count as usize).min(elements.len());
        for i in (shift..elements.len()).rev() {
            self.op(Op::CopyHeader { to: elements[i].0, from: elements[i - shift].0 });
        }
        self.invalidate(&elements[..shift]);
        let next = self.next_index(stack);
        let size = self.slots.constant(elements.len() as u64);
        let room = self.slots.constant((elements.len() - shift) as u64);
        let by = self.slots.constant(shift as u64);
        let (fits, sum) =
            (self.slots.temporary(Scalar::BOOL), self.slots.temporary(Scalar::bit(32)));
        self.op(Op::Le { dst: fits, a: next, b: room });
        self.op(Op::Add { dst: sum, a: next, b: by, width: 32 });
        self.op(Op::Select { dst: next, c: fits, a: sum, b: size });
    }

    pub(super) fn pop_front(&mut self, stack: StackId, count: u32) {
        let elements = self.program.stacks[stack.index()].elements.clone();
        let shift = (count as usize).min(elements.len());
        for i in 0..elements.len() - shift {
            self.op(Op::CopyHeader { to: elements[i].0, from: elements[i + shift].0 });
        }
        self.invalidate(&elements[elements.len() - shift..]);
        let next = self.next_index(stack);
        let (by, zero) = (self.slots.constant(shift as u64), self.slots.constant(0));
        let (enough, rest) =
            (self.slots.temporary(Scalar::BOOL), self.slots.temporary(Scalar::bit(32)));
        self.op(Op::Le { dst: enough, a: by, b: next });
        self.op(Op::Sub { dst: rest, a: next, b: by, width: 32 });
        self.op(Op::Select { dst: next, c: enough, a: rest, b: zero });
    }

    /// Invalidates headers without changing the packet's length, as BMv2 does when it shifts stacks
    /// and keeps one header of a union.
    pub(super) fn invalidate(&mut self, headers: &[HeaderId]) {
        let zero = self.slots.constant(0);
        for &header in headers {
            let dst = self.header(header).valid;
            self.op(Op::Move { dst, src: zero });
        }
    }
}
