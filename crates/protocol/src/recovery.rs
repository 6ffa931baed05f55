//! Rules that distinguish lost packets from late ones.

/// How a worker detects that a fragment was lost.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, Default, serde::Serialize, serde::Deserialize,
)]
pub enum Recovery {
    /// RACK (RFC 8985): by later packets that were answered, with an adaptive reordering window,
    /// and by probes when no answers arrive. A loss alone is not treated as congestion.
    #[default]
    Rack,
    /// The rules of ATP and ESA: three later results, or one timeout for the whole worker (RFC
    /// 6298). A timeout halves the window. Whether three later results do, is a
    /// [reading](crate::LaterResults).
    Papers,
}

impl Recovery {
    /// All rules.
    pub const ALL: [Self; 2] = [Self::Rack, Self::Papers];

    /// The name in job files and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rack => "rack",
            Self::Papers => "papers",
        }
    }
}
