//! `@entry_restriction` and `@action_restriction`: conditions that entries of a table, and arguments
//! of an action, must fulfil, in the language p4-constraints of p4lang.
//!
//! They constrain controllers only: packets never meet them. Values are those of the data plane, so
//! that a key with names is compared by its number.

mod parser;

use std::fmt;

use num_bigint::{BigInt, Sign};
use tributary_dataplane::{KeyMatch, Value};
use tributary_p4::ir::MatchKind;

/// The annotation of tables.
pub(crate) const ENTRIES: &str = "@entry_restriction";

/// The annotation of actions.
pub(crate) const ACTIONS: &str = "@action_restriction";

/// What a restriction is about: a key of a table, or a parameter of an action.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    name: String,
    ty: Type,
}

impl Subject {
    /// A key with this name; `None` for a key of a selector, which entries do not match.
    pub(crate) fn key(name: &str, kind: MatchKind, width: u32) -> Option<Self> {
        let ty = match kind {
            MatchKind::Exact => Type::Exact(width),
            MatchKind::Lpm => Type::Lpm(width),
            MatchKind::Ternary => Type::Ternary(width),
            MatchKind::Range => Type::Range(width),
            MatchKind::Optional => Type::Optional(width),
            MatchKind::Selector => return None,
        };
        Some(Self { name: name.to_owned(), ty })
    }

    /// A parameter with this name.
    pub(crate) fn param(name: &str, width: u32) -> Self {
        Self { name: name.to_owned(), ty: Type::Exact(width) }
    }
}

/// Types of expressions. Types of keys have the width of the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Type {
    Bool,
    Int,
    Bits(u32),
    Exact(u32),
    Ternary(u32),
    Optional(u32),
    Lpm(u32),
    Range(u32),
}

impl Type {
    const fn width(self) -> Option<u32> {
        match self {
            Self::Bool | Self::Int => None,
            Self::Bits(w)
            | Self::Exact(w)
            | Self::Ternary(w)
            | Self::Optional(w)
            | Self::Lpm(w)
            | Self::Range(w) => Some(w),
        }
    }

    /// Types that convert to later ones: a number is also a match of just that number.
    const fn rank(self) -> u8 {
        match self {
            Self::Bool => 0,
            Self::Int => 1,
            Self::Bits(_) => 2,
            Self::Exact(_) => 3,
            Self::Ternary(_) | Self::Optional(_) | Self::Lpm(_) | Self::Range(_) => 4,
        }
    }

    /// The type to which both convert.
    fn common(self, other: Self) -> Option<Self> {
        let (less, more) = if self.rank() <= other.rank() { (self, other) } else { (other, self) };
        let fits = match (less, more) {
            (Self::Bool, _) | (_, Self::Bool) => less == more,
            (Self::Int, _) => true,
            _ if less.rank() == more.rank() => less == more,
            _ => less.width() == more.width(),
        };
        fits.then_some(more)
    }

    const fn is_ordered(self) -> bool {
        matches!(self, Self::Int | Self::Bits(_) | Self::Exact(_))
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => write!(f, "a condition"),
            Self::Int => write!(f, "an integer"),
            Self::Bits(w) => write!(f, "a bit<{w}>"),
            Self::Exact(w) => write!(f, "an exact match of {w} bits"),
            Self::Ternary(w) => write!(f, "a ternary match of {w} bits"),
            Self::Optional(w) => write!(f, "an optional match of {w} bits"),
            Self::Lpm(w) => write!(f, "an lpm match of {w} bits"),
            Self::Range(w) => write!(f, "a range match of {w} bits"),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Field {
    /// `value` or `low`.
    First,
    /// `mask`, `prefix_length` or `high`.
    Second,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Compare {
    Equal,
    Different,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

/// An expression whose types fit. Subjects are numbered.
#[derive(Clone, Debug)]
enum Expr {
    Truth(bool),
    Number(BigInt),
    Subject(usize),
    Field(usize, Field),
    Priority,
    Not(Box<Expr>),
    Minus(Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Implies(Box<Expr>, Box<Expr>),
    /// Of two values of a type, or that convert to it.
    Compare(Compare, Type, Box<Expr>, Box<Expr>),
}

/// A match, or a number: both parts of it. A number has one.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Pair(BigInt, Option<BigInt>);

/// A restriction of a table's entries, or of an action's arguments.
#[derive(Clone, Debug)]
pub(crate) struct Restriction {
    subjects: Vec<Subject>,
    /// All must hold: the text and the condition.
    parts: Vec<(String, Expr)>,
}

impl Restriction {
    /// Reads the first annotation with a name, if there is one.
    ///
    /// # Errors
    /// What is wrong with its text.
    pub(crate) fn of(
        annotations: &[String],
        name: &str,
        subjects: impl FnOnce() -> Vec<Subject>,
    ) -> Result<Option<Self>, String> {
        let of = |annotation: &String| {
            let body = annotation.strip_prefix(name)?.trim();
            (body.is_empty() || body.starts_with('(')).then(|| body.to_owned())
        };
        let Some(body) = annotations.iter().find_map(of) else { return Ok(None) };
        let text = strings(&body).ok_or_else(|| format!("{name} needs a string"))?;
        let subjects = subjects();
        let ranked = name == ENTRIES;
        let parts =
            parser::parse(&text, &subjects, ranked).map_err(|error| format!("{name}: {error}"))?;
        Ok(Some(Self { subjects, parts }))
    }

    /// The part that an entry with these matches, in the order of the keys, violates.
    pub(crate) fn violated_by_entry(&self, matches: &[KeyMatch], priority: i32) -> Option<&str> {
        let ones = |at: usize| Value::ones(self.subjects[at].ty.width().unwrap_or_default());
        let pair = |at: usize| match &matches[at] {
            KeyMatch::Exact(value) => Pair(number(value), None),
            KeyMatch::Lpm { value, prefix_len } => Pair(number(value), Some((*prefix_len).into())),
            KeyMatch::Ternary { value, mask } => Pair(number(value), Some(number(mask))),
            KeyMatch::Range { low, high } => Pair(number(low), Some(number(high))),
            KeyMatch::Optional(Some(value)) => Pair(number(value), Some(number(&ones(at)))),
            KeyMatch::Optional(None) => Pair(BigInt::ZERO, Some(BigInt::ZERO)),
        };
        self.violated(&pair, priority)
    }

    /// The part that these arguments violate.
    pub(crate) fn violated_by_call(&self, args: &[Value]) -> Option<&str> {
        self.violated(&|at| Pair(number(&args[at]), None), 0)
    }

    fn violated(&self, subject: &dyn Fn(usize) -> Pair, priority: i32) -> Option<&str> {
        let scope = Scope { subject, priority };
        self.parts.iter().find(|(_, part)| !scope.holds(part)).map(|(text, _)| &**text)
    }
}

/// The contents of the string literals in an annotation's body, one after the other.
fn strings(body: &str) -> Option<String> {
    let inner = body.strip_prefix('(')?.strip_suffix(')')?.trim();
    let mut all = String::new();
    let mut rest = inner;
    while !rest.is_empty() {
        let (text, after) = rest.strip_prefix('"')?.split_once('"')?;
        all += text;
        rest = after.trim_start();
    }
    Some(all)
}

fn number(value: &Value) -> BigInt {
    BigInt::from_bytes_be(Sign::Plus, &value.to_be_bytes())
}

/// The values of an entry or a call.
struct Scope<'a> {
    subject: &'a dyn Fn(usize) -> Pair,
    priority: i32,
}

impl Scope<'_> {
    /// Whether a condition holds.
    fn holds(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Truth(truth) => *truth,
            Expr::Not(inner) => !self.holds(inner),
            Expr::And(a, b) => self.holds(a) && self.holds(b),
            Expr::Or(a, b) => self.holds(a) || self.holds(b),
            Expr::Implies(a, b) => !self.holds(a) || self.holds(b),
            Expr::Compare(how, Type::Bool, a, b) => {
                (self.holds(a) == self.holds(b)) == (*how == Compare::Equal)
            }
            Expr::Compare(how, ty, a, b) => {
                let (a, b) = (converted(self.value(a), *ty), converted(self.value(b), *ty));
                match how {
                    Compare::Equal => a == b,
                    Compare::Different => a != b,
                    Compare::Less => a.0 < b.0,
                    Compare::AtMost => a.0 <= b.0,
                    Compare::Greater => a.0 > b.0,
                    Compare::AtLeast => a.0 >= b.0,
                }
            }
            // The parser lets no other expression be a condition.
            Expr::Number(_)
            | Expr::Subject(_)
            | Expr::Field(..)
            | Expr::Priority
            | Expr::Minus(_) => false,
        }
    }

    /// The value of an expression that is no condition.
    fn value(&self, expr: &Expr) -> Pair {
        let one = |number: BigInt| Pair(number, None);
        match expr {
            Expr::Number(number) => one(number.clone()),
            Expr::Priority => one(self.priority.into()),
            Expr::Minus(inner) => one(-self.value(inner).0),
            Expr::Subject(at) => (self.subject)(*at),
            Expr::Field(at, Field::First) => one((self.subject)(*at).0),
            Expr::Field(at, Field::Second) => one((self.subject)(*at).1.unwrap_or_default()),
            Expr::Truth(_)
            | Expr::Not(_)
            | Expr::And(..)
            | Expr::Or(..)
            | Expr::Implies(..)
            | Expr::Compare(..) => one(BigInt::ZERO),
        }
    }
}

/// A value in a type that it converts to. Integers wrap around, as in a cast: `-1` has all bits.
fn converted(Pair(first, second): Pair, ty: Type) -> Pair {
    let Some(width) = ty.width() else { return Pair(first, second) };
    let ones = (BigInt::from(1) << width) - 1;
    let first = first & &ones;
    let second = second.or_else(|| match ty {
        Type::Ternary(_) | Type::Optional(_) => Some(ones),
        Type::Lpm(width) => Some(width.into()),
        Type::Range(_) => Some(first.clone()),
        Type::Bool | Type::Int | Type::Bits(_) | Type::Exact(_) => None,
    });
    Pair(first, second)
}

#[cfg(test)]
mod tests;
