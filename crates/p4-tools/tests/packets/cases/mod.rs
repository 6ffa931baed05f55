//! The cases, by name.

mod compilers;
mod disguised;
mod esa;
mod forwarding;
mod golden;
mod gradients;
mod idle;
mod limits;
mod malformed;
mod marks;
mod p4inc;
mod random;
mod rejected;
mod resends;
mod results;
mod sums;
mod sweep;
mod switchml;
mod two_levels;

/// A case: name and function.
pub(crate) type Case = (&'static str, fn());

/// The cases of a module: its functions, each named `MODULE::FUNCTION`.
macro_rules! cases {
    ($module:literal: $($function:ident),* $(,)?) => {
        /// The cases of this module.
        pub(in crate::cases) const CASES: &[crate::cases::Case] =
            &[$((concat!($module, "::", stringify!($function)), $function)),*];
    };
}
use cases;

/// Cases for every machine.
pub(crate) const EVERYWHERE: &[&[Case]] = &[
    gradients::CASES,
    resends::CASES,
    results::CASES,
    marks::CASES,
    idle::CASES,
    limits::CASES,
    sums::CASES,
    malformed::CASES,
    rejected::CASES,
    disguised::CASES,
    forwarding::CASES,
    sweep::CASES,
    golden::CASES,
    two_levels::CASES,
    random::CASES,
    esa::ceiling::CASES,
    esa::fresh::CASES,
    esa::preemption::CASES,
    esa::reminders::CASES,
    esa::repairs::CASES,
    esa::refused::CASES,
    esa::levels::CASES,
    esa::variants::CASES,
    esa::passes::CASES,
    p4inc::local::CASES,
    p4inc::copies::CASES,
    p4inc::partial::CASES,
    p4inc::parts::CASES,
    p4inc::results::CASES,
    p4inc::flags::CASES,
    p4inc::segments::CASES,
    p4inc::refused::CASES,
    p4inc::forwarded::CASES,
    p4inc::sweep::CASES,
    p4inc::two_units::CASES,
    switchml::CASES,
];

/// Cases that need BMv2.
pub(crate) const WITH_BMV2: &[&[Case]] = &[compilers::CASES];

/// Cases that need p4c's Tofino back end.
pub(crate) const FOR_TOFINO: &[&[Case]] = &[compilers::FOR_TOFINO];
