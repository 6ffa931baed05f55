//! Which behaviour stands behind the names of v1model's externs.

/// What a call does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Behaviour {
    RegisterRead,
    RegisterWrite,
    Count,
    DirectCount,
    MarkToDrop,
    Resubmit,
    Recirculate,
    Truncate,
    Random,
    Hash,
    VerifyChecksum { payload: bool },
    UpdateChecksum { payload: bool },
    Assert { what: &'static str },
    Log,
}

/// Extern type (none for a function), method, behaviour. Whatever is not here is refused when a
/// program is loaded.
const BINDINGS: &[(Option<&str>, &str, Behaviour)] = &[
    (Some("register"), "read", Behaviour::RegisterRead),
    (Some("register"), "write", Behaviour::RegisterWrite),
    (Some("counter"), "count", Behaviour::Count),
    (Some("direct_counter"), "count", Behaviour::DirectCount),
    (None, "mark_to_drop", Behaviour::MarkToDrop),
    (None, "resubmit_preserving_field_list", Behaviour::Resubmit),
    (None, "recirculate_preserving_field_list", Behaviour::Recirculate),
    (None, "truncate", Behaviour::Truncate),
    (None, "random", Behaviour::Random),
    (None, "hash", Behaviour::Hash),
    (None, "verify_checksum", Behaviour::VerifyChecksum { payload: false }),
    (None, "verify_checksum_with_payload", Behaviour::VerifyChecksum { payload: true }),
    (None, "update_checksum", Behaviour::UpdateChecksum { payload: false }),
    (None, "update_checksum_with_payload", Behaviour::UpdateChecksum { payload: true }),
    (None, "assert", Behaviour::Assert { what: "assertion" }),
    (None, "assume", Behaviour::Assert { what: "assumption" }),
    (None, "log_msg", Behaviour::Log),
];

/// The behaviour of a method of an extern type, or of a function.
pub(crate) fn bind(type_name: Option<&str>, method: &str) -> Option<Behaviour> {
    BINDINGS
        .iter()
        .find(|(of, name, _)| *of == type_name && *name == method)
        .map(|&(_, _, behaviour)| behaviour)
}
