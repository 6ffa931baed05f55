//! Protocols, and what distinguishes them.

/// The UDP source and destination port of all packets of aggregation.
pub const PORT: u16 = 29810;

/// An aggregation protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
pub enum Protocol {
    /// ATP: aggregators are allocated first come, first served.
    Atp = 1,
    /// ESA: aggregators are preemptive.
    Esa = 2,
    /// P4INC: aggregators are addressed by segment.
    P4inc = 3,
    /// SwitchML: aggregators are statically partitioned.
    SwitchMl = 4,
}

/// What code outside the protocols' own state machines and programs needs to know of a protocol. A new protocol is a
/// new row of [`Protocol::properties`].
struct Properties {
    name: &'static str,
    title: &'static str,
    pool: Pool,
    server: Server,
    server_beside_worker: bool,
    reminder_agent: bool,
    spans_switches: bool,
    services: bool,
    rounds: bool,
    moves: bool,
}

/// To which jobs aggregators belong.
enum Pool {
    Shared,
    Segments,
    Partitions,
}

/// Which jobs have a parameter server.
enum Server {
    All,
    Some,
    None,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Self; 4] = [Self::Atp, Self::Esa, Self::P4inc, Self::SwitchMl];

    const fn properties(self) -> &'static Properties {
        match self {
            Self::Atp => &Properties {
                name: "atp",
                title: "ATP",
                pool: Pool::Shared,
                server: Server::All,
                server_beside_worker: true,
                reminder_agent: false,
                spans_switches: true,
                services: false,
                rounds: false,
                moves: false,
            },
            Self::Esa => &Properties {
                name: "esa",
                title: "ESA",
                pool: Pool::Shared,
                server: Server::All,
                server_beside_worker: false,
                reminder_agent: true,
                spans_switches: true,
                services: false,
                rounds: false,
                moves: false,
            },
            Self::P4inc => &Properties {
                name: "p4inc",
                title: "P4INC",
                pool: Pool::Segments,
                server: Server::Some,
                server_beside_worker: false,
                reminder_agent: false,
                spans_switches: true,
                services: true,
                rounds: true,
                moves: true,
            },
            Self::SwitchMl => &Properties {
                name: "switchml",
                title: "SwitchML",
                pool: Pool::Partitions,
                server: Server::None,
                server_beside_worker: false,
                reminder_agent: false,
                spans_switches: false,
                services: true,
                rounds: true,
                moves: false,
            },
        }
    }

    /// Its name in job files, on command lines and in reports.
    pub const fn name(self) -> &'static str {
        self.properties().name
    }

    /// Its name in tables and charts, as its paper writes it.
    pub const fn title(self) -> &'static str {
        self.properties().title
    }

    /// Whether each job has aggregators of its own, a segment or a partition. Otherwise all jobs share the pool.
    pub const fn has_segments(self) -> bool {
        !matches!(self.properties().pool, Pool::Shared)
    }

    /// Whether the pool is divided into equal parts, each with two versions of a job's slots.
    pub const fn has_partitions(self) -> bool {
        matches!(self.properties().pool, Pool::Partitions)
    }

    /// Whether every job has a parameter server.
    pub const fn needs_server(self) -> bool {
        matches!(self.properties().server, Server::All)
    }

    /// Whether a job can have a parameter server.
    pub const fn may_have_server(self) -> bool {
        !matches!(self.properties().server, Server::None)
    }

    /// Whether a host can have a worker and the parameter server of the same job. Switches then distinguish them by the
    /// kind of the packet.
    pub const fn allows_server_beside_worker(self) -> bool {
        self.properties().server_beside_worker
    }

    /// Whether jobs have a reminder agent, and its reliable channel with a token.
    pub const fn has_reminder_agent(self) -> bool {
        self.properties().reminder_agent
    }

    /// Whether the workers of a job can be at several switches.
    pub const fn spans_switches(self) -> bool {
        self.properties().spans_switches
    }

    /// Whether its packets carry a [`Service`](crate::Service) in the priority byte.
    pub const fn has_services(self) -> bool {
        self.properties().services
    }

    /// Whether a fragment is summed in rounds, over a ladder of scales.
    pub const fn has_rounds(self) -> bool {
        self.properties().rounds
    }

    /// Whether the assignment of a job can change while it runs.
    pub const fn can_move(self) -> bool {
        self.properties().moves
    }

    /// Decodes the header's byte.
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

#[cfg(test)]
mod tests {
    use super::Protocol;

    #[test]
    fn each_protocol_is_in_the_list_once_and_its_byte_makes_the_round_trip() {
        for byte in 0..=u8::MAX {
            let listed = Protocol::ALL.into_iter().filter(|protocol| *protocol as u8 == byte);
            assert_eq!(Protocol::from_byte(byte), listed.clone().next());
            assert!(listed.count() <= 1);
        }
    }

    #[test]
    fn properties_fit_together() {
        for protocol in Protocol::ALL {
            assert!(protocol.has_segments() || !protocol.has_partitions());
            assert!(protocol.may_have_server() || !protocol.needs_server());
            assert!(protocol.may_have_server() || !protocol.spans_switches());
            assert!(protocol.may_have_server() || !protocol.has_reminder_agent());
        }
    }
}
