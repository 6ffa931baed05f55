//! Conditions of `#if` and `#elif`.

use super::token::{Kind, Token};

/// Evaluates a condition after macro expansion, in which `defined(…)` has been replaced by numbers.
/// Unknown names are zero.
pub(crate) fn evaluate(tokens: &[Token]) -> Result<i128, String> {
    let mut parser = Parser { tokens, at: 0, depth: 0 };
    let value = parser.ternary()?;
    match parser.peek() {
        None => Ok(value),
        Some(t) => Err(format!("unexpected `{t}` in the condition")),
    }
}

/// Maximum nesting of operators.
const DEPTH: u32 = 400;

struct Parser<'t> {
    tokens: &'t [Token],
    at: usize,
    depth: u32,
}

/// Binary operators by precedence, loosest first.
const LEVELS: [&[&str]; 10] = [
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<=", ">=", "<", ">"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl Parser<'_> {
    fn peek(&self) -> Option<&str> {
        self.tokens.get(self.at).map(|t| &*t.text)
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.peek() == Some(text);
        if found {
            self.at += 1;
        }
        found
    }

    fn ternary(&mut self) -> Result<i128, String> {
        self.deeper(Self::ternary_here)
    }

    fn deeper(&mut self, f: fn(&mut Self) -> Result<i128, String>) -> Result<i128, String> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err("the condition is nested too deeply".to_owned());
        }
        let value = f(self);
        self.depth -= 1;
        value
    }

    fn ternary_here(&mut self) -> Result<i128, String> {
        let condition = self.binary(0)?;
        if !self.eat("?") {
            return Ok(condition);
        }
        let then = self.ternary()?;
        if !self.eat(":") {
            return Err("`?` without `:` in the condition".to_owned());
        }
        let otherwise = self.ternary()?;
        Ok(if condition != 0 { then } else { otherwise })
    }

    fn binary(&mut self, level: usize) -> Result<i128, String> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        loop {
            // `>` `>` are two preprocessor tokens.
            let operator = match self.peek() {
                Some(">")
                    if self.tokens.get(self.at + 1).is_some_and(|t| t.is(">") && !t.space) =>
                {
                    ">>"
                }
                Some(text) => text,
                None => return Ok(left),
            };
            let Some(&operator) = operators.iter().find(|o| **o == operator) else {
                return Ok(left);
            };
            self.at += if operator == ">>" { 2 } else { 1 };
            let right = self.binary(level + 1)?;
            left = apply(operator, left, right)?;
        }
    }

    fn unary(&mut self) -> Result<i128, String> {
        self.deeper(Self::operand)
    }

    fn operand(&mut self) -> Result<i128, String> {
        if self.eat("!") {
            return Ok(i128::from(self.unary()? == 0));
        }
        if self.eat("-") {
            return Ok(self.unary()?.wrapping_neg());
        }
        if self.eat("+") {
            return self.unary();
        }
        if self.eat("~") {
            return Ok(!self.unary()?);
        }
        if self.eat("(") {
            let value = self.ternary()?;
            return if self.eat(")") {
                Ok(value)
            } else {
                Err("`(` without `)` in the condition".to_owned())
            };
        }
        let Some(token) = self.tokens.get(self.at) else {
            return Err("the condition ends too early".to_owned());
        };
        self.at += 1;
        match token.kind {
            Kind::Ident => Ok(i128::from(&*token.text == "true")),
            Kind::Number => number(&token.text)
                .ok_or_else(|| format!("`{}` is not an integer that fits a condition", token.text)),
            _ => Err(format!("unexpected `{}` in the condition", token.text)),
        }
    }
}

fn apply(operator: &str, a: i128, b: i128) -> Result<i128, String> {
    let divide =
        |value: Option<i128>| value.ok_or_else(|| "division by zero in the condition".to_owned());
    Ok(match operator {
        "||" => i128::from(a != 0 || b != 0),
        "&&" => i128::from(a != 0 && b != 0),
        "|" => a | b,
        "^" => a ^ b,
        "&" => a & b,
        "==" => i128::from(a == b),
        "!=" => i128::from(a != b),
        "<=" => i128::from(a <= b),
        ">=" => i128::from(a >= b),
        "<" => i128::from(a < b),
        ">" => i128::from(a > b),
        "<<" => a.wrapping_shl(b as u32),
        ">>" => a.wrapping_shr(b as u32),
        "+" => a.wrapping_add(b),
        "-" => a.wrapping_sub(b),
        "*" => a.wrapping_mul(b),
        "/" => divide(a.checked_div(b))?,
        _ => divide(a.checked_rem(b))?,
    })
}

/// A number in C or P4 syntax; a width prefix is ignored.
fn number(text: &str) -> Option<i128> {
    let text = text.replace('_', "");
    let digits = match text.find(['w', 's']) {
        Some(i) => &text[i + 1..],
        None => &text,
    };
    let digits = digits.trim_end_matches(['u', 'U', 'l', 'L']);
    let (radix, digits) = match digits.get(..2) {
        Some("0x" | "0X") => (16, &digits[2..]),
        Some("0b" | "0B") => (2, &digits[2..]),
        Some("0o" | "0O") => (8, &digits[2..]),
        Some("0d" | "0D") => (10, &digits[2..]),
        _ => (10, digits),
    };
    i128::from_str_radix(digits, radix).ok()
}
