//! Statements.

use std::fmt::Write;

use super::draw::{Draw, Ty, WIDTHS};

impl Draw {
    /// Statements for the apply block of a control.
    pub(super) fn statements(&mut self, depth: usize) -> String {
        let outer = self.scope.len();
        let mut text = String::new();
        for _ in 0..2 + self.below(5) {
            let statement = match self.below(8) {
                0 if !self.tables.is_empty() => self.applied(depth),
                1 => {
                    let action = self.pick(&self.actions.clone());
                    format!("{action}({});", self.below(2))
                }
                2 => self.of_headers(),
                _ => self.statement(depth),
            };
            let _ = writeln!(text, "        {statement}");
        }
        self.scope.truncate(outer);
        text
    }

    /// Statements that are allowed everywhere except in parsers.
    pub(super) fn plain_statements(&mut self, depth: usize) -> String {
        let outer = self.scope.len();
        let list: Vec<String> = (0..self.below(4)).map(|_| self.statement(depth)).collect();
        self.scope.truncate(outer);
        list.join(" ")
    }

    pub(super) fn statement(&mut self, depth: usize) -> String {
        let text = self.one(depth);
        self.or_mistake(text)
    }

    fn one(&mut self, depth: usize) -> String {
        let deep = depth > 0;
        match self.below(9) {
            0 => {
                let (ty, name) = (self.ty(), self.name("v"));
                let value = self.expression(ty, 2);
                self.scope.push((name.clone(), ty, true));
                format!("{ty} {name} = {value};")
            }
            1 if deep => {
                let condition = self.expression(Ty::Bool, 2);
                let (then, otherwise) = (self.inner(depth), self.inner(depth));
                format!("if ({condition}) {{ {then} }} else {{ {otherwise} }}")
            }
            2 if deep && !self.in_parser => self.for_loop(depth),
            3 if deep && !self.in_parser => {
                let ty = if self.one_in(2) { Ty::Bit(8) } else { Ty::Enum(0) };
                let on = self.expression(ty, 1);
                let label = if ty == Ty::Bit(8) { "17" } else { "e0_t.m0" };
                let (a, b) = (self.inner(depth), self.inner(depth));
                format!("switch ({on}) {{ {label}: {{ {a} }} default: {{ {b} }} }}")
            }
            4 if self.loops > 0 => self.pick(&["break;", "continue;"]).to_owned(),
            _ => self.assignment(),
        }
    }

    fn inner(&mut self, depth: usize) -> String {
        let outer = self.scope.len();
        let text = self.statement(depth - 1);
        self.scope.truncate(outer);
        text
    }

    fn for_loop(&mut self, depth: usize) -> String {
        let outer = self.scope.len();
        let name = self.name("i");
        self.loops += 1;
        let text = match self.below(3) {
            0 => {
                self.scope.push((name.clone(), Ty::Bit(8), false));
                let body = self.statement(depth - 1);
                format!("for (bit<8> {name} = 0; {name} < 4; {name} = {name} + 1) {{ {body} }}")
            }
            1 => {
                let ty = Ty::Bit(self.pick(&WIDTHS));
                self.scope.push((name.clone(), ty, false));
                let body = self.statement(depth - 1);
                format!("for ({ty} {name} in 0 .. 1) {{ {body} }}")
            }
            _ => {
                self.scope.push((name.clone(), Ty::Int(9), false));
                let body = self.statement(depth - 1);
                format!("for (int<9> {name} in {{ 1, -2, 3 }}) {{ {body} }}")
            }
        };
        self.loops -= 1;
        self.scope.truncate(outer);
        text
    }

    fn assignment(&mut self) -> String {
        let writable: Vec<(String, Ty)> = self
            .scope
            .iter()
            .filter(|(_, _, writable)| *writable)
            .map(|(name, ty, _)| (name.clone(), *ty))
            .collect();
        if writable.is_empty() {
            return ";".to_owned();
        }
        let (name, ty) = self.pick(&writable);
        match ty {
            Ty::Bit(width) if width > 1 && self.one_in(4) => {
                let high = self.below(width as usize) as u32;
                let low = self.below(high as usize + 1) as u32;
                let value = self.expression(Ty::Bit(high - low + 1), 2);
                format!("{name}[{high}:{low}] = {value};")
            }
            Ty::Bit(_) if self.one_in(5) => {
                let operator = self.pick(&["+=", "-=", "|=", "^=", "|+|="]);
                format!("{name} {operator} {};", self.expression(ty, 1))
            }
            _ => format!("{name} = {};", self.expression(ty, 2)),
        }
    }

    /// Validity, copies and stacks.
    fn of_headers(&mut self) -> String {
        let text = match self.below(7) {
            0 => format!("{}.setValid();", self.header()),
            1 => format!("{}.setInvalid();", self.header()),
            2 => "hdr.u = meta.u;".to_owned(),
            3 => "hdr.stack[0] = hdr.h0; hdr.stack.push_front(1);".to_owned(),
            4 => "hdr.stack[meta.x] = hdr.stack[2]; hdr.stack.pop_front(2);".to_owned(),
            5 => "meta.pair = { a = 3, ... };".to_owned(),
            _ => "if (hdr.u == meta.u) { hdr.u = {#}; }".to_owned(),
        };
        self.or_mistake(text)
    }

    fn applied(&mut self, depth: usize) -> String {
        let table = self.pick(&self.tables.clone());
        let (a, b) = (self.inner(depth), self.inner(depth));
        let text = match self.below(3) {
            0 => format!("{table}.apply();"),
            1 => format!("if ({table}.apply().hit) {{ {a} }} else {{ {b} exit; }}"),
            _ => {
                let action = self.pick(&self.actions.clone());
                format!(
                    "switch ({table}.apply().action_run) {{ {action}: {{ {a} }} NoAction: {{ {b} }} }}"
                )
            }
        };
        self.or_mistake(text)
    }
}
