//! Which rules tell a lost packet from a late one.

/// How a worker finds out that a fragment was lost.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Recovery {
    /// By what was sent later and answered (RFC 8985), with a reordering window that adapts, and probes
    /// when nothing is answered at all. Loss alone is no congestion.
    #[default]
    Rack,
    /// As ATP and ESA have it: three later results, or one timeout for the whole worker after RFC 6298.
    /// Every loss halves the window.
    Papers,
}

impl Recovery {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Rack, Self::Papers];

    /// The word for it in job files and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rack => "rack",
            Self::Papers => "papers",
        }
    }
}
