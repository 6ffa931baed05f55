//! Expressions of a type.

use super::draw::{Draw, Ty, WIDTHS};

impl Draw {
    pub(super) fn expression(&mut self, ty: Ty, depth: usize) -> String {
        let text = self.typed(ty, depth);
        self.or_mistake(text)
    }

    fn typed(&mut self, ty: Ty, depth: usize) -> String {
        let readable: Vec<String> = self
            .scope
            .iter()
            .filter(|(_, of, _)| *of == ty)
            .map(|(name, ..)| name.clone())
            .collect();
        if depth == 0 || self.one_in(4) {
            return match readable.is_empty() || self.one_in(4) {
                true => self.literal(ty),
                false => self.pick(&readable),
            };
        }
        let calls: Vec<_> = self.functions.iter().filter(|f| f.2 == ty).cloned().collect();
        if !calls.is_empty() && self.one_in(6) {
            let (name, types, _) = self.pick(&calls);
            let args: Vec<String> =
                types.into_iter().map(|ty| self.expression(ty, depth - 1)).collect();
            return format!("{name}({})", args.join(", "));
        }
        if self.one_in(8) {
            let condition = self.expression(Ty::Bool, depth - 1);
            let (a, b) = (self.wide(ty, depth - 1), self.wide(ty, depth - 1));
            return format!("({condition} ? {a} : {b})");
        }
        match ty {
            Ty::Bit(width) => self.bits(width, depth - 1),
            Ty::Int(width) => self.signed(width, depth - 1),
            Ty::Bool => self.truth(depth - 1),
            Ty::Enum(_) | Ty::Error => self.literal(ty),
        }
    }

    /// An expression whose width is independent of the context.
    fn wide(&mut self, ty: Ty, depth: usize) -> String {
        let value = self.expression(ty, depth);
        match ty {
            Ty::Bit(_) | Ty::Int(_) => format!("({ty}) ({value})"),
            _ => value,
        }
    }

    fn literal(&mut self, ty: Ty) -> String {
        match ty {
            // One bit has two values, and one of them is its sign in two's complement.
            Ty::Bit(width) => {
                let value = self.below(1 << width.min(20));
                match self.below(3) {
                    0 => format!("{width}w{value}"),
                    1 => format!("(bit<{width}>) {value:#x}"),
                    _ => format!("{width}w0b{value:b}"),
                }
            }
            Ty::Int(width) => {
                let value = self.below(1 << (width - 1).min(20));
                if self.one_in(2) {
                    format!("{width}s{value}")
                } else {
                    format!("(-{width}s{value})")
                }
            }
            Ty::Bool => self.pick(&["true", "false"]).to_owned(),
            Ty::Enum(number) => {
                let members = self.members(number);
                format!("e{number}_t.m{}", self.below(members))
            }
            Ty::Error => {
                let member = self.pick(&["NoError", "Drawn", "PacketTooShort", "NoMatch"]);
                format!("error.{member}")
            }
        }
    }

    fn bits(&mut self, width: u32, depth: usize) -> String {
        let ty = Ty::Bit(width);
        match self.below(8) {
            0 | 1 => {
                let operator = self.pick(&["+", "-", "*", "&", "|", "^", "|+|", "|-|"]);
                let (a, b) = (self.wide(ty, depth), self.wide(ty, depth));
                format!("({a} {operator} {b})")
            }
            2 => {
                let operator = self.pick(&["<<", ">>"]);
                let (a, b) = (self.wide(ty, depth), self.expression(Ty::Bit(8), 0));
                format!("({a} {operator} ({b}))")
            }
            3 => {
                let from = self.pick(&WIDTHS);
                let value = self.wide(Ty::Bit(from), depth);
                format!("(bit<{width}>) ({value})")
            }
            4 if width < 60 => {
                let value = self.wide(Ty::Bit(width + 4), depth);
                let low = self.below(5) as u32;
                format!("({value})[{}:{low}]", low + width - 1)
            }
            5 if width > 1 => {
                let left = 1 + self.below(width as usize - 1) as u32;
                let (a, b) =
                    (self.wide(Ty::Bit(left), depth), self.wide(Ty::Bit(width - left), depth));
                format!("({a} ++ {b})")
            }
            6 if width >= 2 => {
                let value = self.wide(Ty::Int(width), depth);
                format!("(bit<{width}>) ({value})")
            }
            _ => {
                let operator = self.pick(&["~", "-"]);
                let value = self.wide(ty, depth);
                format!("({operator}({value}))")
            }
        }
    }

    fn signed(&mut self, width: u32, depth: usize) -> String {
        let ty = Ty::Int(width);
        let (a, b) = (self.wide(ty, depth), self.wide(ty, depth));
        match self.below(3) {
            0 => format!("(int<{width}>) ({})", self.wide(Ty::Bit(width), depth)),
            1 => format!("(-({a}))"),
            _ => {
                let operator = self.pick(&["+", "-", "*", "|+|", "|-|", "&"]);
                format!("({a} {operator} {b})")
            }
        }
    }

    fn truth(&mut self, depth: usize) -> String {
        match self.below(5) {
            0 if self.scope.iter().any(|(name, ..)| name.starts_with("hdr.")) => {
                format!("{}.isValid()", self.header())
            }
            1 => format!("(!{})", self.expression(Ty::Bool, depth)),
            2 => {
                let operator = self.pick(&["&&", "||", "==", "!="]);
                let (a, b) = (self.expression(Ty::Bool, depth), self.expression(Ty::Bool, depth));
                format!("(({a}) {operator} ({b}))")
            }
            3 => {
                let ty = Ty::Bit(self.pick(&WIDTHS));
                let operator = self.pick(&["==", "!=", "<", "<=", ">", ">="]);
                let (a, b) = (self.wide(ty, depth), self.wide(ty, depth));
                format!("({a} {operator} {b})")
            }
            _ => {
                let ty = self.ty();
                let (a, b) = (self.wide(ty, depth), self.wide(ty, depth));
                format!("({a} == {b})")
            }
        }
    }
}
