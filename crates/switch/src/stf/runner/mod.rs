//! Executes a script on a switch.

mod configure;
mod meters;
mod names;
mod profiles;
mod replication;
mod state;
mod tables;
mod tofino;
mod value_sets;

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::{Digest, Forwarding, Switch, SwitchConfig};
use tributary_dataplane::{KeyMatch, Pipeline};
use tributary_p4::ir::{Program, TableId};

use crate::stf::error::{Failure, Place};
use crate::stf::outputs::Outputs;
use crate::stf::script::{Replication, Script, Statement};
use replication::Engine;

pub use configure::configure;
pub(super) use configure::{command, configure_with};

/// Virtual start time: not zero, so that programs can distinguish a time from no time.
pub(super) const START_US: u64 = 1_000_000;
/// Time between two packets.
pub(super) const PACKET_US: u64 = 10;
/// Duration of a control-plane command and of `wait`.
pub(super) const COMMAND_US: u64 = 1_000_000;
/// Number of ports of the switch: all but the highest number, which means "drop".
const PORTS: u16 = 511;
/// Maximum number of passes through the switch that one input packet may cause, by recirculation
/// and copies.
pub(super) const MAX_TURNS: usize = 10_000;

/// Maximum number of packets of the packet generator that one command may cause.
pub(super) const MOST_GENERATED: usize = 1 << 16;

/// Statistics of a passed test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passed {
    /// Number of packets sent, and of those that the packet generator of a TNA program made.
    pub packets: usize,
    /// Number of statements that check the outcome. Without any, every program passes.
    pub expectations: usize,
}

/// Runs a test on a program.
///
/// # Errors
///
/// The first expectation that was not met, or the first command that failed.
pub fn run(script: &Script, forwarding: Forwarding) -> Result<Passed, Failure> {
    run_with(script, forwarding, &mut |_| {})
}

/// Runs a test as [`run`] does, and calls `each` for the switch at the start, and after each command
/// and each packet, for instance to trace packets.
///
/// # Errors
///
/// As [`run`].
pub fn run_with(
    script: &Script,
    forwarding: Forwarding,
    each: &mut dyn FnMut(&mut Switch),
) -> Result<Passed, Failure> {
    let mut switch = switch_for(script, forwarding);
    let mut run = Run::new(script, &mut switch);
    each(run.switch);
    for (place, statement) in &script.statements {
        run.execute(*place, statement)?;
        each(run.switch);
    }
    run.outputs.compare()?;
    Ok(Passed { packets: run.packets, expectations: script.expectations() })
}

/// Executes a script's commands, and processes its packets, without its expectations. Returns the
/// switch as it is then, and the time for its next packet.
///
/// # Errors
///
/// The first command that failed.
pub fn prepare(script: &Script, forwarding: Forwarding) -> Result<(Switch, u64), Failure> {
    let mut switch = switch_for(script, forwarding);
    let mut run = Run::new(script, &mut switch);
    run.execute_all(script, |_| {})?;
    let next_us = run.now_us + PACKET_US;
    Ok((switch, next_us))
}

/// What a program did with the packets of a script.
#[derive(Debug)]
pub struct Recording {
    /// For each packet that the script sends: the packets that left, with their ports.
    pub outputs: Vec<Vec<(u16, Vec<u8>)>>,
    switch: Switch,
}

impl Recording {
    /// The pipeline at the end.
    #[must_use]
    pub fn pipeline(&self) -> &Pipeline {
        self.switch.forwarding().expect("a program was committed before the script ran").pipeline()
    }
}

/// Executes a script like [`prepare`], and returns the output.
///
/// # Errors
///
/// The first command that failed.
pub fn record(script: &Script, forwarding: Forwarding) -> Result<Recording, Failure> {
    let mut switch = switch_for(script, forwarding);
    let mut outputs = Vec::new();
    Run::new(script, &mut switch).execute_all(script, |sent| outputs.push(sent.to_vec()))?;
    Ok(Recording { outputs, switch })
}

/// Identifies an entry of a table.
#[derive(Clone)]
struct EntryId {
    table: TableId,
    matches: Vec<KeyMatch>,
    priority: i32,
}

/// A switch with a program, for the ports of a script.
fn switch_for(script: &Script, forwarding: Forwarding) -> Switch {
    let spoken_of: BTreeSet<u16> = script.ports().collect();
    // No packet comes from a controller here. Its port gets a number that the test does not use.
    let cpu_port = (0..PORTS).rev().find(|port| !spoken_of.contains(port)).unwrap_or(PORTS - 1);
    let config = SwitchConfig {
        ports: (0..PORTS).filter(|&port| port != cpu_port).collect(),
        cpu_port,
        ..SwitchConfig::default()
    };
    let mut switch = Switch::new(config);
    switch.commit(forwarding);
    switch
}

/// What earlier commands have left that later ones refer to.
#[derive(Default)]
pub(in crate::stf) struct Memory {
    replication: Engine,
    /// Entries with a label.
    labels: HashMap<String, EntryId>,
}

struct Run<'s> {
    switch: &'s mut Switch,
    now_us: u64,
    outputs: Outputs,
    memory: Memory,
    /// Packets that were sent or generated.
    packets: usize,
    /// Digests that no command has expected yet.
    digests: VecDeque<Digest>,
}

impl<'s> Run<'s> {
    fn new(script: &Script, switch: &'s mut Switch) -> Self {
        Self {
            switch,
            now_us: START_US,
            outputs: Outputs::new(script.ports().collect()),
            memory: Memory::default(),
            packets: 0,
            digests: VecDeque::new(),
        }
    }

    /// Executes all statements but expectations, and passes on what left after each packet.
    fn execute_all(
        &mut self,
        script: &Script,
        mut after_packet: impl FnMut(&[(u16, Vec<u8>)]),
    ) -> Result<(), Failure> {
        for (place, statement) in &script.statements {
            if !matches!(statement, Statement::Expect { .. } | Statement::NoPacket) {
                self.execute(*place, statement)?;
            }
            if matches!(statement, Statement::Packet { .. }) {
                after_packet(self.outputs.of_packet());
            }
        }
        Ok(())
    }

    fn execute(&mut self, place: Place, statement: &Statement) -> Result<(), Failure> {
        match statement {
            Statement::Packet { port, data } => return self.packet(place, *port, data),
            Statement::Expect { port, pattern } => {
                self.outputs.expect(place, *port, pattern.clone());
                return Ok(());
            }
            Statement::NoPacket => return self.outputs.expect_nothing(place),
            Statement::ExpectDigest { digest, values } => {
                return self.expect_digest(digest, values);
            }
            _ => self.elapse(place, self.now_us + COMMAND_US)?,
        }
        self.command(place, statement)
    }

    /// Executes a command to the control plane. It takes no time.
    fn command(&mut self, place: Place, statement: &Statement) -> Result<(), Failure> {
        match statement {
            Statement::Add { entry, target, label } => {
                let id = self.add(entry, target)?;
                self.memory.labels.extend(label.iter().map(|label| (label.clone(), id.clone())));
                Ok(())
            }
            Statement::AddIndirect { entry, to } => self.add_indirect(entry, *to),
            Statement::SetDefaultIndirect { table, to } => self.set_default_indirect(table, *to),
            Statement::SetDefault { table, target } => self.set_default(table, target),
            Statement::Remove(entry) => self.remove(entry),
            Statement::RemoveAll => self.remove_all(place),
            Statement::Replication(command) => self.replicate(place, command),
            Statement::Driver(command) => self.driver(place, command),
            Statement::Filter { filter, at, config } => self.filter(filter, at, *config),
            other => self.state(place, other),
        }
    }

    fn replicate(&mut self, place: Place, command: &Replication) -> Result<(), Failure> {
        let executed = self.memory.replication.execute(self.switch, command);
        executed.map_err(|reason| place.failure(reason))
    }

    /// Sends a packet and processes everything that results from it.
    fn packet(&mut self, place: Place, port: u16, data: &[u8]) -> Result<(), Failure> {
        self.elapse(place, self.now_us + PACKET_US)?;
        self.packets += 1;
        self.outputs.next_packet();
        self.switch.receive(self.now_us, port, data);
        self.drain(place)?;
        // What the packet has triggered at once.
        self.elapse(place, self.now_us)
    }

    /// Lets time pass, and processes what the packet generator makes until then.
    fn elapse(&mut self, place: Place, until_us: u64) -> Result<(), Failure> {
        for _ in 0..MOST_GENERATED {
            let due = self.switch.generator_due_us().filter(|&at| at <= until_us);
            let Some(at) = due else {
                self.now_us = until_us;
                self.switch.advance(until_us);
                return Ok(());
            };
            self.now_us = self.now_us.max(at);
            let before = self.switch.statistics().generated;
            self.switch.generate(self.now_us, 1);
            self.packets += (self.switch.statistics().generated - before) as usize;
            self.drain(place)?;
        }
        Err(place
            .failure(format!("the packet generator makes more than {MOST_GENERATED} packets here")))
    }

    /// Processes everything that is under way.
    fn drain(&mut self, place: Place) -> Result<(), Failure> {
        let outputs = &mut self.outputs;
        let sent = &mut |port, frame: &[u8]| outputs.sent(port, frame);
        drain(self.switch, self.now_us, sent, &mut self.digests)
            .map_err(|reason| place.failure(reason))
    }

    fn program(&self) -> &Program {
        self.pipeline().program()
    }

    fn forwarding(&self) -> &Forwarding {
        self.switch.forwarding().expect("a program was committed when the run was made")
    }

    fn pipeline(&self) -> &Pipeline {
        self.forwarding().pipeline()
    }

    fn pipeline_mut(&mut self) -> &mut Pipeline {
        let forwarding = self.switch.forwarding_mut();
        forwarding.expect("a program was committed when the run was made").pipeline_mut()
    }
}

/// Processes everything that is under way in a switch. `sent` gets each packet that leaves, with its port.
pub(super) fn drain(
    switch: &mut Switch,
    now_us: u64,
    sent: &mut dyn FnMut(u16, &[u8]),
    digests: &mut VecDeque<Digest>,
) -> Result<(), String> {
    let mut frame = Vec::new();
    for _ in 0..MAX_TURNS {
        let mut count = 0;
        for port in 0..PORTS {
            while count < MAX_TURNS && switch.transmit(now_us, port, &mut frame) {
                sent(port, &frame);
                count += 1;
            }
        }
        let more = switch.run_pending(now_us, 1);
        while switch.poll_packet_in().is_some() {}
        digests.extend(std::iter::from_fn(|| switch.poll_digest()));
        if !more && (0..PORTS).all(|port| switch.queue_depth(port) == 0) {
            return Ok(());
        }
    }
    Err(format!(
        "the packet, or copies of it, did not leave the switch within {MAX_TURNS} turns: the \
         program recirculates or copies it without end"
    ))
}
