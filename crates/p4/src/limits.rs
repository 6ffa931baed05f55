//! What a program may cost: every bound of the compiler, with its reason.
//!
//! Programs come over the network as well, so that text of a few kilobytes must not take minutes or
//! gigabytes. Bounds on depth and size are checked where something grows. Everything else is counted:
//! [`Reporter::step`](crate::source::Reporter::step) charges each token, each expression and each
//! statement of every phase, and loops that look at much charge that too. A program that goes beyond
//! a bound ends with one error, at the place that was being compiled.

use num_bigint::BigInt;

use crate::diagnostics::{Diagnostic, Diagnostics, Severity};

/// Bytes of the main file and of all files that it includes, each as often as it is included: as
/// many as a P4Runtime message may carry.
pub(crate) const SOURCE_BYTES: usize = 16 << 20;

/// Bytes after preprocessing. The programs in `p4src` have up to 0.07 MB.
pub(crate) const TEXT_BYTES: usize = 4 << 20;

/// Files that are included, one after another or inside one another.
pub(crate) const INCLUDES: usize = 4096;

/// Files that include one another: more is a file that includes itself.
pub(crate) const INCLUDE_DEPTH: usize = 64;

/// `#if`s inside one another.
pub(crate) const CONDITIONAL_DEPTH: usize = 256;

/// Macros inside the arguments or the bodies of one another. Each level looks at all tokens again.
pub(crate) const MACRO_DEPTH: usize = 200;

/// Tokens that all macros of a program produce, those in between included.
pub(crate) const MACRO_TOKENS: usize = 1_000_000;

/// Bytes of a name: names are put together to longer ones.
pub(crate) const NAME_BYTES: usize = 1024;

/// Levels of expressions, statements and types that the parser enters.
pub(crate) const NESTING: u32 = 120;

/// Levels of an expression as a tree: a chain such as `a + b + c` is as deep as it is long. The
/// phases recurse over the tree.
pub(crate) const HEIGHT: u32 = 5200;

/// Functions, actions, parsers and controls inside one another, and generic types as well.
pub(crate) const CALL_DEPTH: u32 = 128;

/// Bits of a type, and elements of an array.
pub(crate) const WIDTH: u32 = 1 << 16;

/// Bits of an integer known at compile time: a product of two of the widest type.
pub(crate) const INTEGER_BITS: u64 = 2 * WIDTH as u64;

/// Digits of a number: decimal ones take time that grows with the square.
pub(crate) const DIGITS: usize = 20_000;

/// Bytes of a string.
pub(crate) const STRING_BYTES: usize = 1 << 16;

/// Values in a variable of one type: a struct of structs has as many as its leaves.
pub(crate) const TYPE_VALUES: u64 = 1 << 16;

/// Values in a list as it is written, with those of all variables in it.
pub(crate) const LIST_VALUES: u64 = 1 << 20;

/// Types inside one another.
pub(crate) const TYPE_DEPTH: u32 = 64;

/// Fields of all variables and headers of a program together. Each packet in the switch has them.
pub(crate) const FIELDS: usize = 1 << 19;

/// Bits of all fields.
pub(crate) const FIELD_BITS: u64 = 1 << 27;

/// Steps of compilation. P4INC with 2048 values per packet takes 0.2 million. A step takes up to a
/// microsecond in a development build, and some 100 bytes.
pub(crate) const STEPS: u64 = 4_000_000;

/// Errors that are reported; the first ones are the cause of most that follow.
pub(crate) const ERRORS: usize = 100;

/// Warnings that are kept.
pub(crate) const WARNINGS: usize = 100;

/// Bytes of a message, or of anything else that a diagnostic says.
pub(crate) const MESSAGE_BYTES: usize = 1000;

/// Names that are compared with one that is not known, to find what was meant.
pub(crate) const SUGGESTIONS: usize = 2000;

/// Names longer than this are compared with no others to find what was meant.
pub(crate) const SUGGESTED_BYTES: usize = 40;

/// Unwinds from the depth of a phase when a bound is reached, with what was reported until then. The
/// compiler's thread ends with it.
pub(crate) struct Stop(pub(crate) Diagnostics);

impl Stop {
    /// Ends the compilation. No panic is reported: this is the ordinary end of a hostile program.
    pub(crate) fn unwind(list: Diagnostics) -> ! {
        std::panic::resume_unwind(Box::new(Self(list)))
    }
}

/// Adds an error to the list; with the last one that is reported, compilation ends.
pub(crate) fn report(list: &mut Diagnostics, error: Diagnostic) {
    let last = (list.count(Severity::Error) + 1 >= ERRORS).then(|| Diagnostic {
        message: format!("there are more than {ERRORS} errors: what follows is not compiled"),
        help: Some("correct the first ones: they are the cause of most others".to_owned()),
        notes: Vec::new(),
        ..error.clone()
    });
    list.push(error);
    if let Some(last) = last {
        list.push(last);
        Stop::unwind(std::mem::take(list));
    }
}

/// Whether further warnings are dropped.
pub(crate) fn warned_enough(list: &Diagnostics) -> bool {
    list.count(Severity::Warning) >= WARNINGS
}

/// A number for a message: the digits of a long one take long, and say nothing.
pub(crate) fn shown(value: &BigInt) -> String {
    match value.bits() {
        bits @ 257.. => format!("a number of {bits} bits"),
        _ => value.to_string(),
    }
}

/// A text for a message, its middle left out if it is long.
pub(crate) fn shortened(text: &str, most: usize) -> std::borrow::Cow<'_, str> {
    if text.len() <= most {
        return text.into();
    }
    let head = text.floor_char_boundary(most * 2 / 3);
    let tail = text.ceil_char_boundary(text.len() - most / 4);
    format!("{}…{}", &text[..head], &text[tail..]).into()
}
