//! Protocols, and kinds of packets.

/// An aggregation protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Protocol {
    /// First come, first served.
    Atp = 1,
    /// Preemptive.
    Esa = 2,
    /// Segment-addressed.
    P4inc = 3,
    /// Statically partitioned.
    SwitchMl = 4,
}

impl Protocol {
    /// Whether its packets name a [`Service`](crate::Service) where others have a priority.
    pub const fn has_services(self) -> bool {
        matches!(self, Self::P4inc | Self::SwitchMl)
    }

    /// From the header's byte.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Atp),
            2 => Some(Self::Esa),
            3 => Some(Self::P4inc),
            4 => Some(Self::SwitchMl),
            _ => None,
        }
    }
}

/// What a packet is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Worker or switch → PS: contributions of the workers in the bitmap, summed up.
    Gradient = 1,
    /// PS, or in ESA, P4INC and SwitchML a switch → all workers of the job: the sum over all of them.
    Parameter = 2,
    /// PS, or in P4INC and SwitchML a switch → one worker: a Parameter again.
    Reply = 3,
    /// PS → one worker: send this fragment. It carries no values.
    Query = 4,
    /// Controller → switch and back: free the cells of a job. It carries no values.
    Sweep = 5,
    /// ESA, reminder agent → switch: free this task's aggregator and give me what it holds. Its
    /// values are zeros, in whose place the switch puts the sums.
    Reminder = 6,
    /// ESA, switch → reminder agent: a Reminder that found no aggregator of its task.
    Absent = 7,
    /// P4INC, switch → the worker that sent it: a Gradient turned back, because its aggregator is
    /// still busy with an earlier round.
    Asynchronous = 8,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Gradient,
        Self::Parameter,
        Self::Reply,
        Self::Query,
        Self::Sweep,
        Self::Reminder,
        Self::Absent,
        Self::Asynchronous,
    ];

    /// From the header's byte.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Gradient),
            2 => Some(Self::Parameter),
            3 => Some(Self::Reply),
            4 => Some(Self::Query),
            5 => Some(Self::Sweep),
            6 => Some(Self::Reminder),
            7 => Some(Self::Absent),
            8 => Some(Self::Asynchronous),
            _ => None,
        }
    }

    /// Whether values follow the header.
    pub const fn has_values(self) -> bool {
        !matches!(self, Self::Query | Self::Sweep)
    }
}
