//! The limits of the compiler, with reasons.
//!
//! Programs also arrive over the network, so a text of a few kilobytes must not take minutes or
//! gigabytes. Limits of depth and size are checked where something grows. Everything else is
//! counted: [`Reporter::step`](crate::source::Reporter::step) charges each token, each expression
//! and each statement of every phase, and long loops charge additional steps. A program that
//! exceeds a limit ends with one error, at the position that is being compiled.

use num_bigint::BigInt;

/// Maximum bytes of the main file and all files that it includes, each counted as often as it is
/// included: the maximum size of a P4Runtime message.
pub(crate) const SOURCE_BYTES: usize = 16 << 20;

/// Maximum bytes after preprocessing. The programs in `p4src` have up to 0.07 MB.
pub(crate) const TEXT_BYTES: usize = 4 << 20;

/// Maximum number of included files in total.
pub(crate) const INCLUDES: usize = 4096;

/// Maximum nesting of included files. Deeper nesting means that a file includes itself.
pub(crate) const INCLUDE_DEPTH: usize = 64;

/// Maximum nesting of `#if`.
pub(crate) const CONDITIONAL_DEPTH: usize = 256;

/// Maximum nesting of macros in arguments or bodies. Each level scans all tokens again.
pub(crate) const MACRO_DEPTH: usize = 200;

/// Maximum number of tokens that all macros of a program produce, including intermediate ones.
pub(crate) const MACRO_TOKENS: usize = 1_000_000;

/// Maximum bytes of a name: hierarchical names are concatenations.
pub(crate) const NAME_BYTES: usize = 1024;

/// Maximum nesting of expressions, statements and types in the parser.
pub(crate) const NESTING: u32 = 120;

/// Maximum height of an expression tree: a chain such as `a + b + c` is as high as it is long. The
/// phases recurse over the tree.
pub(crate) const HEIGHT: u32 = 5200;

/// Maximum nesting of functions, actions, parsers, controls and generic types.
pub(crate) const CALL_DEPTH: u32 = 128;

/// Maximum bits of a type, and elements of an array.
pub(crate) const WIDTH: u32 = 1 << 16;

/// Maximum bits of an integer known at compile time: a product of two integers of the widest type.
pub(crate) const INTEGER_BITS: u64 = 2 * WIDTH as u64;

/// Maximum digits of a number: the time to convert decimal digits is quadratic.
pub(crate) const DIGITS: usize = 20_000;

/// Maximum bytes of a string.
pub(crate) const STRING_BYTES: usize = 1 << 16;

/// Maximum number of values in a variable of one type: a nested struct has as many as its leaves.
pub(crate) const TYPE_VALUES: u64 = 1 << 16;

/// Maximum number of values in a list expression, including those of all variables in it.
pub(crate) const LIST_VALUES: u64 = 1 << 20;

/// Maximum nesting of types.
pub(crate) const TYPE_DEPTH: u32 = 64;

/// Maximum total number of fields of all variables and headers of a program. Each packet in the
/// switch has all of them.
pub(crate) const FIELDS: usize = 1 << 19;

/// Maximum total bits of all fields.
pub(crate) const FIELD_BITS: u64 = 1 << 27;

/// Maximum number of steps of a compilation. P4INC with 2048 values per packet takes 0.2 million. A
/// step takes up to a microsecond in a development build, and about 100 bytes.
pub(crate) const STEPS: u64 = 4_000_000;

/// Maximum number of reported errors. The first ones cause most of the later ones.
pub(crate) const ERRORS: usize = 100;

/// Maximum number of warnings.
pub(crate) const WARNINGS: usize = 100;

/// Maximum bytes of a message or another text in a diagnostic.
pub(crate) const MESSAGE_BYTES: usize = 1000;

/// Maximum number of names that are compared with an unknown name to suggest a similar one.
pub(crate) const SUGGESTIONS: usize = 2000;

/// Longer names get no suggestion.
pub(crate) const SUGGESTED_BYTES: usize = 40;

/// Formats an integer for a message. The digits of a large one are omitted, because they take long
/// to compute.
pub(crate) fn shown(value: &BigInt) -> String {
    match value.bits() {
        bits @ 257.. => format!("a number of {bits} bits"),
        _ => value.to_string(),
    }
}

/// Shortens a text for a message by omitting its middle.
pub(crate) fn shortened(text: &str, most: usize) -> std::borrow::Cow<'_, str> {
    if text.len() <= most {
        return text.into();
    }
    let head = text.floor_char_boundary(most * 2 / 3);
    let tail = text.ceil_char_boundary(text.len() - most / 4);
    format!("{}…{}", &text[..head], &text[tail..]).into()
}
