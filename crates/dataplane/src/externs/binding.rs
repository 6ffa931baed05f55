//! The behaviour of externs by name and architecture.

use tributary_p4::Architecture;

/// The behaviour of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Behaviour {
    RegisterRead,
    RegisterWrite,
    Count,
    DirectCount,
    Meter,
    DirectMeter,
    MarkToDrop,
    /// `list`: how the call names what the clone keeps.
    Clone {
        list: Kept,
    },
    Resubmit {
        list: Kept,
    },
    Recirculate {
        list: Kept,
    },
    Truncate,
    Random,
    Hash,
    VerifyChecksum {
        payload: bool,
    },
    UpdateChecksum {
        payload: bool,
    },
    Assert {
        what: &'static str,
    },
    Log,
    Digest,
    /// An extern of TNA without a counterpart in v1model. PSA has some of them, too.
    Tna(TnaBehaviour),
    /// An extern of PSA without a counterpart in both.
    Psa(PsaBehaviour),
}

/// How a call names the metadata to keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kept {
    /// None is kept.
    Nothing,
    /// By the number of an `@field_list`.
    Number,
    /// By its fields, as in older programs.
    Fields,
}

/// The behaviour of TNA's own externs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TnaBehaviour {
    Execute,
    /// A stateful action on the register of the entry that matched.
    ExecuteDirect,
    /// The value of a register action's parameter.
    Parameter,
    MathUnit,
    Count,
    DirectCount,
    Meter,
    DirectMeter,
    /// A low-pass filter, or a random early drop.
    Filter {
        drops: bool,
    },
    DirectFilter {
        drops: bool,
    },
    /// The lower, or the higher, of two numbers.
    Bound {
        lower: bool,
    },
    Random,
    Hash,
    ChecksumAdd {
        subtract: bool,
    },
    ChecksumVerify,
    ChecksumGet,
    /// The sum without all that the parser consumes after the call.
    ChecksumRest,
    ChecksumUpdate,
    Resubmit,
    Mirror,
    Message,
}

/// The behaviour of PSA's own externs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PsaBehaviour {
    RegisterRead,
    Hash,
    Random,
    Meter,
    DirectMeter,
    /// Clears a checksum of either kind.
    Clear,
    /// Adds to a checksum by an algorithm of choice.
    Update,
    /// The result of such a checksum.
    Get,
    State,
    SetState,
}

/// The method by which a parser of TNA leaves a checksum behind.
pub(crate) const DEPOSIT: &str = "subtract_all_and_deposit";

/// Extern type (`None` for a function), method, behaviour. Loading refuses all others.
type Bindings = &'static [(Option<&'static str>, &'static str, Behaviour)];

const V1MODEL: Bindings = &[
    (Some("register"), "read", Behaviour::RegisterRead),
    (Some("register"), "write", Behaviour::RegisterWrite),
    (Some("counter"), "count", Behaviour::Count),
    (Some("direct_counter"), "count", Behaviour::DirectCount),
    (Some("meter"), "execute_meter", Behaviour::Meter),
    (Some("direct_meter"), "read", Behaviour::DirectMeter),
    (None, "mark_to_drop", Behaviour::MarkToDrop),
    (None, "clone", Behaviour::Clone { list: Kept::Nothing }),
    (None, "clone3", Behaviour::Clone { list: Kept::Fields }),
    (None, "clone_preserving_field_list", Behaviour::Clone { list: Kept::Number }),
    (None, "resubmit", Behaviour::Resubmit { list: Kept::Fields }),
    (None, "resubmit_preserving_field_list", Behaviour::Resubmit { list: Kept::Number }),
    (None, "recirculate", Behaviour::Recirculate { list: Kept::Fields }),
    (None, "recirculate_preserving_field_list", Behaviour::Recirculate { list: Kept::Number }),
    (None, "truncate", Behaviour::Truncate),
    (None, "random", Behaviour::Random),
    (None, "digest", Behaviour::Digest),
    (None, "hash", Behaviour::Hash),
    (None, "verify_checksum", Behaviour::VerifyChecksum { payload: false }),
    (None, "verify_checksum_with_payload", Behaviour::VerifyChecksum { payload: true }),
    (None, "update_checksum", Behaviour::UpdateChecksum { payload: false }),
    (None, "update_checksum_with_payload", Behaviour::UpdateChecksum { payload: true }),
    (None, "assert", Behaviour::Assert { what: "assertion" }),
    (None, "assume", Behaviour::Assert { what: "assumption" }),
    (None, "log_msg", Behaviour::Log),
];

const TNA: Bindings = &[
    (Some("RegisterAction"), "execute", Behaviour::Tna(TnaBehaviour::Execute)),
    (Some("DirectRegisterAction"), "execute", Behaviour::Tna(TnaBehaviour::ExecuteDirect)),
    (Some("RegisterParam"), "read", Behaviour::Tna(TnaBehaviour::Parameter)),
    (Some("MathUnit"), "execute", Behaviour::Tna(TnaBehaviour::MathUnit)),
    (Some("Counter"), "count", Behaviour::Tna(TnaBehaviour::Count)),
    (Some("DirectCounter"), "count", Behaviour::Tna(TnaBehaviour::DirectCount)),
    (Some("Meter"), "execute", Behaviour::Tna(TnaBehaviour::Meter)),
    (Some("Lpf"), "execute", Behaviour::Tna(TnaBehaviour::Filter { drops: false })),
    (Some("Wred"), "execute", Behaviour::Tna(TnaBehaviour::Filter { drops: true })),
    (Some("DirectLpf"), "execute", Behaviour::Tna(TnaBehaviour::DirectFilter { drops: false })),
    (Some("DirectWred"), "execute", Behaviour::Tna(TnaBehaviour::DirectFilter { drops: true })),
    (Some("DirectMeter"), "execute", Behaviour::Tna(TnaBehaviour::DirectMeter)),
    (None, "min", Behaviour::Tna(TnaBehaviour::Bound { lower: true })),
    (None, "max", Behaviour::Tna(TnaBehaviour::Bound { lower: false })),
    (Some("Random"), "get", Behaviour::Tna(TnaBehaviour::Random)),
    (Some("Hash"), "get", Behaviour::Tna(TnaBehaviour::Hash)),
    (Some("Checksum"), "add", Behaviour::Tna(TnaBehaviour::ChecksumAdd { subtract: false })),
    (Some("Checksum"), "subtract", Behaviour::Tna(TnaBehaviour::ChecksumAdd { subtract: true })),
    (Some("Checksum"), "verify", Behaviour::Tna(TnaBehaviour::ChecksumVerify)),
    (Some("Checksum"), "get", Behaviour::Tna(TnaBehaviour::ChecksumGet)),
    (Some("Checksum"), DEPOSIT, Behaviour::Tna(TnaBehaviour::ChecksumRest)),
    (Some("Checksum"), "update", Behaviour::Tna(TnaBehaviour::ChecksumUpdate)),
    (Some("Resubmit"), "emit", Behaviour::Tna(TnaBehaviour::Resubmit)),
    (Some("Mirror"), "emit", Behaviour::Tna(TnaBehaviour::Mirror)),
    (Some("Digest"), "pack", Behaviour::Tna(TnaBehaviour::Message)),
];

const PSA: Bindings = &[
    (Some("Register"), "read", Behaviour::Psa(PsaBehaviour::RegisterRead)),
    (Some("Register"), "write", Behaviour::RegisterWrite),
    (Some("Counter"), "count", Behaviour::Count),
    (Some("DirectCounter"), "count", Behaviour::Tna(TnaBehaviour::DirectCount)),
    (Some("Meter"), "execute", Behaviour::Psa(PsaBehaviour::Meter)),
    (Some("DirectMeter"), "execute", Behaviour::Psa(PsaBehaviour::DirectMeter)),
    (Some("Random"), "read", Behaviour::Psa(PsaBehaviour::Random)),
    (Some("Hash"), "get_hash", Behaviour::Psa(PsaBehaviour::Hash)),
    (Some("Checksum"), "clear", Behaviour::Psa(PsaBehaviour::Clear)),
    (Some("Checksum"), "update", Behaviour::Psa(PsaBehaviour::Update)),
    (Some("Checksum"), "get", Behaviour::Psa(PsaBehaviour::Get)),
    (Some("InternetChecksum"), "clear", Behaviour::Psa(PsaBehaviour::Clear)),
    (
        Some("InternetChecksum"),
        "add",
        Behaviour::Tna(TnaBehaviour::ChecksumAdd { subtract: false }),
    ),
    (
        Some("InternetChecksum"),
        "subtract",
        Behaviour::Tna(TnaBehaviour::ChecksumAdd { subtract: true }),
    ),
    (Some("InternetChecksum"), "get", Behaviour::Psa(PsaBehaviour::Get)),
    (Some("InternetChecksum"), "get_state", Behaviour::Psa(PsaBehaviour::State)),
    (Some("InternetChecksum"), "set_state", Behaviour::Psa(PsaBehaviour::SetState)),
    (Some("Digest"), "pack", Behaviour::Tna(TnaBehaviour::Message)),
    (None, "assert", Behaviour::Assert { what: "assertion" }),
    (None, "assume", Behaviour::Assert { what: "assumption" }),
];

/// The behaviour of a method of an extern type, or of a function.
pub(crate) fn bind(
    architecture: Architecture,
    type_name: Option<&str>,
    method: &str,
) -> Option<Behaviour> {
    let bindings = match architecture {
        Architecture::V1model => V1MODEL,
        Architecture::Tna => TNA,
        Architecture::Psa => PSA,
    };
    bindings
        .iter()
        .find(|(of, name, _)| *of == type_name && *name == method)
        .map(|&(_, _, behaviour)| behaviour)
}
