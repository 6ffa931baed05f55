//! Executes parsers.

use tributary_p4::ir::{Expr, FieldId, HeaderRef, Parser, Target, Transition};

use crate::testgen::circuit::{TRUE, Word, of_number};
use crate::testgen::machine::{Flow, Machine, Others, mix};
use crate::testgen::tna::note_end;

impl<'p> Machine<'p> {
    /// Runs a parser. Returns its error, if it stops with one.
    pub(crate) fn parse(&mut self, parser: &'p Parser) -> Option<Word> {
        let mut current = 0;
        loop {
            let state = parser.states.get(current)?;
            if self.over() {
                return None;
            }
            self.context = mix(self.context ^ current as u64);
            if let Flow::Error(error) = self.statements(&state.body) {
                return Some(error);
            }
            let target = match &state.transition {
                Transition::To(target) => *target,
                Transition::Select { on, cases } => {
                    let on: Vec<Word> = on.iter().map(|value| self.expr(value)).collect();
                    let mut target = Target::Reject;
                    let mut others: Option<Others> = None;
                    for (number, (sets, to)) in cases.iter().enumerate() {
                        let goal = match to {
                            Target::State(id) => self.first_goal(&parser.states[id.index()].body),
                            _ => None,
                        };
                        let site =
                            goal.map_or(mix(number as u64), |goal| mix(goal as u64 ^ 0x5e1e));
                        if let Some(others) = &mut others {
                            self.other(others, sets, &on, goal, site);
                            continue;
                        }
                        let matched = self.matches(sets, &on);
                        let after = self.trace.path.len();
                        if self.fork(matched, [goal, None], site) {
                            target = *to;
                            others = Some(Others { taken: matched, after });
                        }
                    }
                    target
                }
            };
            match target {
                Target::State(id) => current = id.index(),
                Target::Reject if self.is_tna => {
                    return Some(of_number(self.program.error_code("NoMatch").unwrap_or(2), 32));
                }
                Target::Accept | Target::Reject => {
                    self.deposit();
                    return None;
                }
            }
        }
    }

    /// An error if the packet has fewer bits left.
    fn needs(&mut self, bits: usize) -> Option<Flow> {
        let end = self.at.saturating_add(bits);
        if end <= self.frame.len() {
            return None;
        }
        if self.is_original {
            let bits = end.saturating_sub(self.prefix);
            self.trace.short.push((self.packet, bits.div_ceil(8)));
        }
        Some(self.error("PacketTooShort"))
    }

    fn note_consumed(&mut self) {
        if self.is_original {
            note_end(&mut self.trace.consumed[self.packet], self.at, self.prefix);
        }
    }

    /// Splits the packet's bits into fields.
    fn split(&mut self, fields: &[FieldId], mut at: usize) -> usize {
        for &field in fields {
            let end = at + self.width(field);
            self.fields[field.index()] = self.frame[at..end].iter().rev().copied().collect();
            at = end;
        }
        at
    }

    pub(crate) fn look_ahead(&mut self, fields: &[FieldId]) -> Flow {
        let bits = fields.iter().map(|&field| self.width(field)).sum::<usize>();
        if let Some(error) = self.needs(bits.next_multiple_of(8)) {
            return error;
        }
        self.split(fields, self.at);
        Flow::Next
    }

    pub(crate) fn advance(&mut self, bits: &Expr) -> Flow {
        let bits = self.expr(bits);
        let bits = self.pin_number(&bits, 0xadba);
        if !bits.is_multiple_of(8) {
            return self.error("ParserInvalidArgument");
        }
        let bits = usize::try_from(bits).unwrap_or(usize::MAX);
        if let Some(error) = self.needs(bits) {
            return error;
        }
        self.at += bits;
        self.note_consumed();
        Flow::Next
    }

    pub(crate) fn verify(&mut self, condition: &Expr, error: &Expr) -> Flow {
        let condition = self.expr(condition)[0];
        if self.fork(condition, [None, None], mix(self.at as u64 ^ 0xfe51)) {
            return Flow::Next;
        }
        Flow::Error(self.expr(error))
    }

    pub(crate) fn extract(&mut self, header_ref: &HeaderRef, varbit_bits: Option<&Expr>) -> Flow {
        let Some(id) = self.header(header_ref) else { return self.error("StackOutOfBounds") };
        let header = &self.program.headers[id.index()];
        let widths: usize = header.fields.iter().map(|&field| self.width(field)).sum();
        match (varbit_bits, header.varbit) {
            (Some(bits), Some((at, length))) => {
                let bits = self.expr(bits);
                let bits = self.pin_number(&bits, mix(u64::from(id.0) ^ 0x7a5b));
                let most = self.width(header.fields[at]);
                if !bits.is_multiple_of(8) {
                    return self.error("ParserInvalidArgument");
                }
                let bits = usize::try_from(bits).unwrap_or(usize::MAX / 2);
                if let Some(error) = self.needs(bits + widths - most) {
                    return error;
                }
                if bits > most {
                    return self.error("HeaderTooShort");
                }
                let start = self.split(&header.fields[..at], self.at);
                let end = start + bits;
                let value: Word = self.frame[start..end].iter().rev().copied().collect();
                self.set(header.fields[at], &value);
                self.at = self.split(&header.fields[at + 1..], end);
                self.set(length, &of_number(bits as u64, 32));
            }
            _ => {
                if let Some(error) = self.needs(widths) {
                    return error;
                }
                self.at = self.split(&header.fields, self.at);
            }
        }
        self.note_consumed();
        self.set(header.valid, &[TRUE]);
        if let HeaderRef::Next(stack) = header_ref {
            let next = self.next_index(*stack) as usize;
            self.set_next_index(*stack, next + 1);
        }
        Flow::Next
    }
}
