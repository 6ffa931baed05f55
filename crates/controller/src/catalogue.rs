//! The numbers that P4Runtime uses for the names of a P4 program.

use tributary_p4runtime::p4::config::v1::{Action, P4Info, Preamble, Table};
use tributary_wire::Protocol;

use crate::Error;

const REBUILD: &str = "use a program built from the blocks in p4src/include";

/// What the controller uses of a program: looked up once by name, then used by number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Catalogue {
    pub(crate) memberships: TableIds<5>,
    pub(crate) contribute: ActionIds<5>,
    /// The parameter of `contribute` that bounds priorities; `None` if packets have none.
    pub(crate) ceiling: Option<u32>,
    pub(crate) distribute: ActionIds<2>,
    pub(crate) remind: ActionIds<2>,
    pub(crate) answer: ActionIds<1>,
    pub(crate) pass: ActionIds<1>,
    /// `None` if the program does not evict partial sums.
    pub(crate) servers: Option<Servers>,
    /// `None` if the program does not give jobs aggregators of their own.
    pub(crate) services: Option<Services>,
    /// Whether the program cuts off the values of results by mirror sessions: with segments, on Tofino.
    pub(crate) mirrors: bool,
    /// `None` if the program's packets take one circuit between two units.
    pub(crate) circuits: Option<Circuits>,
    pub(crate) hosts: TableIds<1>,
    pub(crate) to_port: ActionIds<1>,
    pub(crate) limits: TableIds<2>,
    pub(crate) limit: ActionIds<0>,
    pub(crate) outcomes: u32,
    /// Number of counter slots for jobs, without slot 0.
    pub(crate) slots: usize,
}

/// The table that names the destination of evicted sums.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Servers {
    pub(crate) table: TableIds<1>,
    pub(crate) to_server: ActionIds<4>,
}

/// The table that says how a switch serves each job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Services {
    pub(crate) table: TableIds<2>,
    pub(crate) aggregate: ActionIds<4>,
    pub(crate) forward: ActionIds<0>,
    /// Whether an aggregator keeps a copy of its last result while it computes the next one.
    copies: bool,
    /// Number of aggregators of a switch.
    pub(crate) pool: u32,
}

/// The table that has the circuits of flows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Circuits {
    pub(crate) table: TableIds<2>,
    pub(crate) take: ActionIds<1>,
}

impl Circuits {
    /// `None` if the program has no such table.
    fn new(info: &P4Info) -> Result<Option<Self>, Error> {
        let Ok(circuits) = table(info, "circuits") else { return Ok(None) };
        Ok(Some(Self {
            table: fields(circuits, ["job", "port"])?,
            take: action(info, circuits, "take", ["circuit"])?,
        }))
    }
}

impl Services {
    /// `None` if the program has no services.
    fn new(info: &P4Info) -> Result<Option<Self>, Error> {
        let Ok(services) = table(info, "services") else { return Ok(None) };
        let register = |name: &str| {
            let registers = info.registers.iter();
            registers.clone().find(|register| is_named(register.preamble.as_ref(), name))
        };
        let rounds = register("rounds").ok_or_else(|| missing("register `rounds`"))?;
        Ok(Some(Self {
            table: fields(services, ["job", "service"])?,
            aggregate: action(
                info,
                services,
                "aggregate",
                ["offset", "size", "everyone", "total"],
            )?,
            forward: action(info, services, "forward", [])?,
            copies: register("copied").is_some(),
            pool: u32::try_from(rounds.size).unwrap_or(0),
        }))
    }
}

/// A table and its key fields, in the order of the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TableIds<const N: usize> {
    pub(crate) id: u32,
    pub(crate) fields: [u32; N],
}

/// An action and its parameters, in the order of the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ActionIds<const N: usize> {
    pub(crate) id: u32,
    pub(crate) params: [u32; N],
}

/// Counters per slot: enough for the outcomes of any program.
pub(crate) const SLOT_COUNTERS: usize = 32;

impl Catalogue {
    /// Looks up what the controller needs.
    ///
    /// # Errors
    /// [`Error::Program`] names the first thing that the program lacks.
    pub fn new(info: &P4Info) -> Result<Self, Error> {
        let membership = table(info, "memberships")?;
        let hosts = table(info, "hosts")?;
        let outcomes = info
            .counters
            .iter()
            .find(|counter| is_named(counter.preamble.as_ref(), "outcomes"))
            .ok_or_else(|| missing("counter `outcomes`"))?;
        let counters = usize::try_from(outcomes.size).unwrap_or(0);
        let servers = match table(info, "servers") {
            Ok(servers) => Some(Servers {
                table: fields(servers, ["epoch"])?,
                to_server: action(info, servers, "to_server", ["job", "rack", "mac", "ipv4"])?,
            }),
            Err(_) => None,
        };
        let limits = table(info, "limits")?;
        let services = Services::new(info)?;
        let (contribute, ceiling) = contribute(info, membership)?;
        Ok(Self {
            memberships: fields(membership, ["job", "epoch", "port", "kind", "rack"])?,
            contribute,
            ceiling,
            distribute: action(info, membership, "distribute", ["group", "slot"])?,
            remind: action(info, membership, "remind", ["members", "slot"])?,
            answer: action(info, membership, "answer", ["slot"])?,
            pass: action(info, membership, "pass", ["slot"])?,
            servers,
            mirrors: services.is_some()
                && info.pkg_info.as_ref().is_some_and(|package| package.arch == "tna"),
            services,
            circuits: Circuits::new(info)?,
            hosts: fields(hosts, ["hdr.ethernet.destination"])?,
            to_port: action(info, hosts, "to_port", ["port"])?,
            limits: fields(limits, ["job", "port"])?,
            limit: action(info, limits, "limit", [])?,
            outcomes: id(outcomes.preamble.as_ref()),
            slots: (counters / SLOT_COUNTERS).saturating_sub(1).min(usize::from(u8::MAX)),
        })
    }

    /// The protocol that the program implements, recognised by what only that protocol has.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        match &self.services {
            Some(services) if services.copies => Protocol::P4inc,
            Some(_) => Protocol::SwitchMl,
            None if self.servers.is_some() => Protocol::Esa,
            None => Protocol::Atp,
        }
    }

    /// How many jobs the program counts separately.
    #[must_use]
    pub fn job_slots(&self) -> usize {
        self.slots
    }

    /// Number of aggregators of a switch, if jobs have aggregators of their own.
    #[must_use]
    pub fn pool(&self) -> Option<u32> {
        self.services.as_ref().map(|services| services.pool)
    }

    /// Whether the entries of a table have meters.
    pub(crate) fn is_metered(&self, table: u32) -> bool {
        table == self.limits.id
    }

    /// Tables whose entries belong to the controller.
    pub(crate) fn tables(&self) -> impl Iterator<Item = u32> {
        let servers = self.servers.as_ref().map(|servers| servers.table.id);
        let services = self.services.as_ref().map(|services| services.table.id);
        let circuits = self.circuits.as_ref().map(|circuits| circuits.table.id);
        let all = [self.hosts.id, self.limits.id, self.memberships.id];
        all.into_iter().chain(servers).chain(services).chain(circuits)
    }
}

fn missing(what: impl Into<String>) -> Error {
    Error::Program { what: what.into(), fix: REBUILD }
}

fn id(preamble: Option<&Preamble>) -> u32 {
    preamble.map_or(0, |preamble| preamble.id)
}

/// Whether `name` is the last part of a hierarchical name: programs differ in the other parts.
pub(crate) fn is_named(preamble: Option<&Preamble>, name: &str) -> bool {
    preamble.is_some_and(|preamble| preamble.name.rsplit('.').next() == Some(name))
}

fn table<'i>(info: &'i P4Info, name: &str) -> Result<&'i Table, Error> {
    let found = info.tables.iter().find(|table| is_named(table.preamble.as_ref(), name));
    found.ok_or_else(|| missing(format!("table `{name}`")))
}

fn fields<const N: usize>(table: &Table, names: [&str; N]) -> Result<TableIds<N>, Error> {
    let mut fields = [0; N];
    for (field, name) in fields.iter_mut().zip(names) {
        let found = table.match_fields.iter().find(|field| field.name == name);
        let own = || table.preamble.as_ref().map_or("", |preamble| preamble.name.as_str());
        *field = found.ok_or_else(|| missing(format!("key `{name}` of table `{}`", own())))?.id;
    }
    if table.match_fields.len() != N {
        let own = table.preamble.as_ref().map_or("", |preamble| preamble.name.as_str());
        return Err(missing(format!("table `{own}` with {N} keys")));
    }
    Ok(TableIds { id: id(table.preamble.as_ref()), fields })
}

/// The action `contribute`, and its parameter `ceiling` if it has that.
fn contribute(info: &P4Info, table: &Table) -> Result<(ActionIds<5>, Option<u32>), Error> {
    let names = ["unit", "members", "upward", "group", "slot"];
    let [unit, members, upward, group, slot] = names;
    let bounded = [unit, members, upward, group, slot, "ceiling"];
    match action(info, table, "contribute", bounded) {
        Ok(ActionIds { id, params: [unit, members, upward, group, slot, ceiling] }) => {
            Ok((ActionIds { id, params: [unit, members, upward, group, slot] }, Some(ceiling)))
        }
        Err(_) => Ok((action(info, table, "contribute", names)?, None)),
    }
}

/// An action of a table: other tables may have actions of the same name.
fn action<const N: usize>(
    info: &P4Info,
    table: &Table,
    name: &str,
    names: [&str; N],
) -> Result<ActionIds<N>, Error> {
    let refers = |action: &&Action| {
        let id = id(action.preamble.as_ref());
        table.action_refs.iter().any(|reference| reference.id == id)
    };
    let action = info
        .actions
        .iter()
        .filter(refers)
        .find(|action| is_named(action.preamble.as_ref(), name))
        .ok_or_else(|| missing(format!("action `{name}`")))?;
    let mut params = [0; N];
    for (param, name) in params.iter_mut().zip(names) {
        let found = action.params.iter().find(|param| param.name == name);
        *param = found.ok_or_else(|| missing(format!("action parameter `{name}`")))?.id;
    }
    if action.params.len() != N {
        return Err(missing(format!("action `{name}` with {N} parameters")));
    }
    Ok(ActionIds { id: id(action.preamble.as_ref()), params })
}
