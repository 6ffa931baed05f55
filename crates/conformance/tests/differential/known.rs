//! Public programs of p4c whose packets, digests or counters differ, with the reason.

/// A program with a known difference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    program: &'static str,
    /// Whether each run shows the difference. Others depend on BMv2's timing.
    pub(crate) always: bool,
    #[expect(dead_code, reason = "for readers")]
    reason: &'static str,
}

const ALL: [Known; 0] = [];

pub(crate) fn known(program: &str) -> Option<Known> {
    ALL.into_iter().find(|known| known.program == program)
}
