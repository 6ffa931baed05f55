//! Packet kinds.

/// The kind of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Worker or switch → PS: the sum of the contributions of the workers in the bitmap.
    Gradient = 1,
    /// PS, or in ESA, P4INC and SwitchML a switch → all workers of the job: the sum over all
    /// workers.
    Parameter = 2,
    /// PS, or in P4INC and SwitchML a switch → one worker: a Parameter, repeated.
    Reply = 3,
    /// PS → one worker: asks for this fragment. It carries no values.
    Query = 4,
    /// Controller → switch and back: frees the cells of a job. It carries no values.
    Sweep = 5,
    /// ESA, reminder agent → switch: frees this task's aggregator and fetches its partial sum. Its
    /// values are zeros, which the switch replaces with the sums.
    Reminder = 6,
    /// ESA, switch → reminder agent: a Reminder that found no aggregator of its task.
    Absent = 7,
    /// P4INC, switch → sending worker: a Gradient that the switch returned because its aggregator
    /// is still busy with an earlier round.
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

    /// Decodes the header's byte.
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

    /// Whether values follow the header, unless they are of no use to the receiver.
    pub const fn has_values(self) -> bool {
        !matches!(self, Self::Query | Self::Sweep)
    }

    /// Whether it is about a result that may be for some workers only.
    pub const fn may_have_audience(self) -> bool {
        matches!(self, Self::Gradient | Self::Parameter | Self::Reply | Self::Asynchronous)
    }

    /// Whether the values can be left out, if the result is not for [all](crate::Audience::ALL).
    pub const fn may_lack_values(self) -> bool {
        matches!(self, Self::Gradient | Self::Parameter)
    }
}
