//! The text of a restriction, to an expression whose types fit.

use num_bigint::BigInt;

use super::{Compare, Expr, Field, Subject, Type};

/// Nesting of parentheses and negations.
const DEEPEST: usize = 100;

/// Operators that join conditions, which also nest.
const MOST_JOINED: usize = 1000;

/// Bytes of a restriction.
const LONGEST: usize = 1 << 16;

/// Reads a restriction: its parts, which all must hold, each with its text. `ranked` means that
/// `::priority` exists.
///
/// # Errors
/// What is wrong, and at which line and column of the text.
pub(super) fn parse(
    text: &str,
    subjects: &[Subject],
    ranked: bool,
) -> Result<Vec<(String, Expr)>, String> {
    if text.len() > LONGEST {
        return Err(format!("it has more than {LONGEST} bytes"));
    }
    let tokens = tokens(text)?;
    let mut parser = Parser { text, tokens, at: 0, depth: 0, joined: 0, subjects, ranked };
    let mut parts = Vec::new();
    while parser.token() != Token::End {
        let (begin, _) = parser.here();
        let (expr, ty) = parser.implication()?;
        if ty != Type::Bool {
            return Err(parser.wrong_at(begin, format!("a condition is needed, not {ty}")));
        }
        let (_, end) = parser.before();
        let shown = text[begin..end].split_whitespace().collect::<Vec<_>>().join(" ");
        parts.push((shown, expr));
        match parser.token() {
            Token::End => {}
            Token::Sign(";") => parser.at += 1,
            other => return Err(parser.wrong(format!("expected `;`, not {}", other.shown()))),
        }
    }
    if parts.is_empty() {
        return Err("it has no condition".to_owned());
    }
    Ok(parts)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Token<'t> {
    Word(&'t str),
    Number(&'t str),
    /// Between single quotes.
    Quoted(&'t str),
    Sign(&'static str),
    End,
}

impl Token<'_> {
    fn shown(self) -> String {
        match self {
            Self::Word(text) | Self::Number(text) => format!("`{text}`"),
            Self::Quoted(text) => format!("'{text}'"),
            Self::Sign(text) => format!("`{text}`"),
            Self::End => "the end".to_owned(),
        }
    }
}

/// Longer signs come before their beginnings.
const SIGNS: [&str; 16] =
    ["::", "->", "==", "!=", ">=", "<=", "&&", "||", ">", "<", "!", "-", "(", ")", ";", "."];

/// The tokens, each with where it begins and ends.
fn tokens(text: &str) -> Result<Vec<(Token<'_>, usize, usize)>, String> {
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = |rest: &str, until: &dyn Fn(char) -> bool| rest.find(until);
        let (token, taken) = if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        } else if rest.starts_with("//") {
            at += length(rest, &|c| c == '\n').unwrap_or(rest.len());
            continue;
        } else if rest.starts_with("/*") {
            let end = rest.find("*/").ok_or_else(|| wrong(text, at, "a comment without an end"))?;
            at += end + 2;
            continue;
        } else if first.is_ascii_digit() || word(first) {
            let taken = length(rest, &|c| !word(c)).unwrap_or(rest.len());
            let part = &rest[..taken];
            (if first.is_ascii_digit() { Token::Number(part) } else { Token::Word(part) }, taken)
        } else if first == '\'' {
            let end =
                rest[1..].find('\'').ok_or_else(|| wrong(text, at, "a `'` without another"))?;
            (Token::Quoted(&rest[1..=end]), end + 2)
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            (Token::Sign(sign), sign.len())
        } else {
            return Err(wrong(text, at, &format!("`{first}` has no meaning here")));
        };
        all.push((token, at, at + taken));
        at += taken;
    }
    all.push((Token::End, text.len(), text.len()));
    Ok(all)
}

fn wrong(text: &str, at: usize, message: &str) -> String {
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    format!("{line}:{column}: {message}")
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<(Token<'t>, usize, usize)>,
    at: usize,
    depth: usize,
    joined: usize,
    subjects: &'t [Subject],
    /// Whether there is a priority.
    ranked: bool,
}

type Typed = (Expr, Type);

impl<'t> Parser<'t> {
    fn token(&self) -> Token<'t> {
        self.tokens[self.at].0
    }

    /// Where the next token begins and ends.
    fn here(&self) -> (usize, usize) {
        let (_, begin, end) = self.tokens[self.at];
        (begin, end)
    }

    /// The same of the token before.
    fn before(&self) -> (usize, usize) {
        let (_, begin, end) = self.tokens[self.at.saturating_sub(1)];
        (begin, end)
    }

    fn wrong(&self, message: impl AsRef<str>) -> String {
        self.wrong_at(self.here().0, message)
    }

    fn wrong_at(&self, at: usize, message: impl AsRef<str>) -> String {
        wrong(self.text, at, message.as_ref())
    }

    /// Takes a sign if it is next.
    fn takes(&mut self, sign: &str) -> bool {
        let found = matches!(self.token(), Token::Sign(next) if next == sign);
        self.at += usize::from(found);
        found
    }

    fn implication(&mut self) -> Result<Typed, String> {
        let left = self.either()?;
        let place = self.here().0;
        if !self.takes("->") {
            return Ok(left);
        }
        let right = self.either()?;
        if self.takes("->") {
            return Err(self.wrong_at(place, "`->` twice: use parentheses"));
        }
        self.logic(place, left, right, Expr::Implies)
    }

    fn either(&mut self) -> Result<Typed, String> {
        let mut left = self.both()?;
        loop {
            let place = self.here().0;
            if !self.takes("||") {
                return Ok(left);
            }
            let right = self.both()?;
            left = self.logic(place, left, right, Expr::Or)?;
        }
    }

    fn both(&mut self) -> Result<Typed, String> {
        let mut left = self.comparison()?;
        loop {
            let place = self.here().0;
            if !self.takes("&&") {
                return Ok(left);
            }
            let right = self.comparison()?;
            left = self.logic(place, left, right, Expr::And)?;
        }
    }

    fn logic(
        &mut self,
        place: usize,
        (left, of_left): Typed,
        (right, of_right): Typed,
        make: fn(Box<Expr>, Box<Expr>) -> Expr,
    ) -> Result<Typed, String> {
        self.joined += 1;
        if self.joined > MOST_JOINED {
            return Err(self.wrong_at(place, format!("more than {MOST_JOINED} joined conditions")));
        }
        match [of_left, of_right].into_iter().find(|ty| *ty != Type::Bool) {
            Some(ty) => Err(self.wrong_at(place, format!("conditions are needed, not {ty}"))),
            None => Ok((make(Box::new(left), Box::new(right)), Type::Bool)),
        }
    }

    fn comparison(&mut self) -> Result<Typed, String> {
        let left = self.unary()?;
        let place = self.here().0;
        let Some(how) = self.compares() else { return Ok(left) };
        let right = self.unary()?;
        if self.compares().is_some() {
            return Err(self.wrong_at(place, "two comparisons in a row: use parentheses"));
        }
        let ((left, of_left), (right, of_right)) = (left, right);
        let Some(ty) = of_left.common(of_right) else {
            let message = format!("{of_left} and {of_right} cannot be compared");
            return Err(self.wrong_at(place, message));
        };
        if !matches!(how, Compare::Equal | Compare::Different) && !ty.is_ordered() {
            return Err(self.wrong_at(place, format!("{ty} has no order")));
        }
        Ok((Expr::Compare(how, ty, Box::new(left), Box::new(right)), Type::Bool))
    }

    fn compares(&mut self) -> Option<Compare> {
        let Token::Sign(sign) = self.token() else { return None };
        let how = match sign {
            "==" => Compare::Equal,
            "!=" => Compare::Different,
            "<" => Compare::Less,
            "<=" => Compare::AtMost,
            ">" => Compare::Greater,
            ">=" => Compare::AtLeast,
            _ => return None,
        };
        self.at += 1;
        Some(how)
    }

    fn unary(&mut self) -> Result<Typed, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.wrong(format!("nested more than {DEEPEST} deep")));
        }
        let place = self.here().0;
        let found = if self.takes("!") {
            match self.unary()? {
                (expr, Type::Bool) => (Expr::Not(Box::new(expr)), Type::Bool),
                (_, ty) => {
                    return Err(self.wrong_at(place, format!("a condition is needed, not {ty}")));
                }
            }
        } else if self.takes("-") {
            match self.unary()? {
                (expr, Type::Int) => (Expr::Minus(Box::new(expr)), Type::Int),
                (_, ty) => {
                    return Err(self.wrong_at(place, format!("a number is needed, not {ty}")));
                }
            }
        } else {
            self.primary()?
        };
        self.depth -= 1;
        Ok(found)
    }

    fn primary(&mut self) -> Result<Typed, String> {
        let token = self.token();
        self.at += usize::from(token != Token::End);
        match token {
            Token::Word("true") => Ok((Expr::Truth(true), Type::Bool)),
            Token::Word("false") => Ok((Expr::Truth(false), Type::Bool)),
            Token::Word(kind @ ("ipv4" | "ipv6" | "mac")) if self.takes("(") => self.address(kind),
            Token::Word(first) => self.key(first),
            Token::Number(digits) => match number(digits) {
                Some(number) => Ok((Expr::Number(number), Type::Int)),
                None => Err(self.wrong_at(self.before().0, format!("`{digits}` is not a number"))),
            },
            Token::Sign("::") => match self.token() {
                Token::Word("priority") if self.ranked => {
                    self.at += 1;
                    Ok((Expr::Priority, Type::Int))
                }
                other => {
                    let message = match self.ranked {
                        true => format!("expected `priority`, not {}", other.shown()),
                        false => "calls of an action have no attributes".to_owned(),
                    };
                    Err(self.wrong(message))
                }
            },
            Token::Sign("(") => {
                let mut inner = self.implication()?;
                loop {
                    let place = self.here().0;
                    if !self.takes(";") || self.token() == Token::Sign(")") {
                        break;
                    }
                    let next = self.implication()?;
                    inner = self.logic(place, inner, next, Expr::And)?;
                }
                match self.takes(")") {
                    true => Ok(inner),
                    false => Err(self.wrong(format!("expected `)`, not {}", self.token().shown()))),
                }
            }
            other => {
                let place = if other == Token::End { self.here().0 } else { self.before().0 };
                Err(self.wrong_at(place, format!("expected a value, not {}", other.shown())))
            }
        }
    }

    /// A key or a parameter, perhaps with a field.
    fn key(&mut self, first: &str) -> Result<Typed, String> {
        let place = self.before().0;
        let mut name = first.to_owned();
        while self.takes(".") {
            let Token::Word(part) = self.token() else {
                return Err(self.wrong(format!("expected a name, not {}", self.token().shown())));
            };
            self.at += 1;
            name = format!("{name}.{part}");
        }
        let Some(at) = self.subjects.iter().position(|subject| subject.name == name) else {
            return Err(self.wrong_at(place, format!("there is no `{name}`")));
        };
        let ty = self.subjects[at].ty;
        if !self.takes("::") {
            return Ok((Expr::Subject(at), ty));
        }
        let Token::Word(wanted) = self.token() else {
            return Err(self.wrong(format!("expected a field, not {}", self.token().shown())));
        };
        let found = match (wanted, ty) {
            ("value", Type::Exact(w) | Type::Ternary(w) | Type::Optional(w) | Type::Lpm(w)) => {
                (Field::First, Type::Bits(w))
            }
            ("low", Type::Range(w)) => (Field::First, Type::Bits(w)),
            ("mask", Type::Ternary(w) | Type::Optional(w)) => (Field::Second, Type::Bits(w)),
            ("high", Type::Range(w)) => (Field::Second, Type::Bits(w)),
            ("prefix_length", Type::Lpm(_)) => (Field::Second, Type::Int),
            _ => return Err(self.wrong(format!("`{name}` is {ty}: it has no `{wanted}`"))),
        };
        self.at += 1;
        Ok((Expr::Field(at, found.0), found.1))
    }

    /// An address: its kind and the parenthesis are taken.
    fn address(&mut self, kind: &str) -> Result<Typed, String> {
        let Token::Quoted(text) = self.token() else {
            let message = format!("expected an address, not {}", self.token().shown());
            return Err(self.wrong(message));
        };
        let number = match kind {
            "ipv4" => text.parse::<std::net::Ipv4Addr>().ok().map(|a| BigInt::from(a.to_bits())),
            "ipv6" => text.parse::<std::net::Ipv6Addr>().ok().map(|a| BigInt::from(a.to_bits())),
            _ => mac(text),
        };
        let Some(number) = number else {
            return Err(self.wrong(format!("'{text}' is not an address of this kind")));
        };
        self.at += 1;
        match self.takes(")") {
            true => Ok((Expr::Number(number), Type::Int)),
            false => Err(self.wrong(format!("expected `)`, not {}", self.token().shown()))),
        }
    }
}

fn mac(text: &str) -> Option<BigInt> {
    let parts: Vec<_> = text.split(':').collect();
    let whole = parts.len() == 6 && parts.iter().all(|part| part.len() == 2);
    let digits = parts.concat();
    (whole && digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
        .then(|| BigInt::parse_bytes(digits.as_bytes(), 16))?
}

fn number(digits: &str) -> Option<BigInt> {
    let (radix, digits) = match digits.get(..2) {
        Some("0x" | "0X") => (16, &digits[2..]),
        Some("0b" | "0B") => (2, &digits[2..]),
        Some("0o" | "0O") => (8, &digits[2..]),
        Some("0d" | "0D") => (10, &digits[2..]),
        _ => (10, digits),
    };
    // `parse_bytes` also takes signs and underscores.
    let plain = digits.chars().all(|digit| digit.is_digit(radix));
    plain.then(|| BigInt::parse_bytes(digits.as_bytes(), radix))?
}
