//! Architectures: P4 declaration texts that programs include.
//!
//! They are data. The compiler treats a few externs of `core.p4` specially (`packet_in`,
//! `packet_out`, `verify`); everything of `v1model.p4` reaches the IR by name.

/// The text of a built-in include file.
pub(crate) fn builtin(name: &str) -> Option<&'static str> {
    match name {
        "core.p4" => Some(include_str!("core.p4")),
        "v1model.p4" => Some(include_str!("v1model.p4")),
        _ => None,
    }
}
