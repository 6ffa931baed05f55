//! Several switches, each with its program, joined by links, in virtual time.
//!
//! Frames take no time on links and in switches. Those on links arrive one after the other, in the order in which
//! they were sent.

use std::collections::{BTreeMap, VecDeque};

use crate::stf::error::{Failure, Place};
use crate::stf::outputs::Outputs;
use crate::stf::runner::{
    COMMAND_US, MAX_TURNS, MOST_GENERATED, Memory, PACKET_US, Passed, START_US, command,
    configure_with, drain,
};
use crate::stf::script::{Script, Statement};
use crate::{Forwarding, Switch, SwitchConfig};

/// An end of a link: a host, or a port of a switch. Both are counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum End {
    /// A host, which has one link.
    Host(u16),
    /// A switch and its port.
    Switch(usize, u16),
}

/// A test of a network.
#[derive(Clone, Debug)]
pub struct NetworkTest {
    pub(crate) steps: Vec<(Place, Step)>,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A packet, an expectation or a pause. Its port is the number of a host.
    Traffic(Statement),
    /// A command on a switch.
    On(usize, Statement),
}

impl NetworkTest {
    /// Number of statements that check the outcome.
    #[must_use]
    pub fn expectations(&self) -> usize {
        let statements = self.steps.iter().map(|(_, step)| match step {
            Step::Traffic(statement) | Step::On(_, statement) => statement,
        });
        statements.filter(|statement| statement.expects()).count()
    }

    /// The hosts that the test mentions.
    fn hosts(&self) -> impl Iterator<Item = u16> {
        self.steps.iter().filter_map(|(_, step)| match step {
            Step::Traffic(Statement::Packet { port, .. } | Statement::Expect { port, .. }) => {
                Some(*port)
            }
            _ => None,
        })
    }
}

/// Hosts and switches. Hosts only send what a test sends.
pub struct Network {
    hosts: Vec<String>,
    nodes: Vec<Node>,
    links: BTreeMap<End, End>,
    now_us: u64,
}

struct Node {
    name: String,
    switch: Switch,
    memory: Memory,
}

impl Network {
    /// A network without switches yet. Hosts and switches of `links` are those at these places in the order of
    /// `hosts` and of calls of [`add_switch`](Self::add_switch).
    #[must_use]
    pub fn new(hosts: Vec<String>, links: &[[End; 2]]) -> Self {
        let both = links.iter().flat_map(|&[a, b]| [(a, b), (b, a)]);
        Self { hosts, nodes: Vec::new(), links: both.collect(), now_us: START_US }
    }

    /// Adds the next switch, with a program and the commands that fill its tables.
    ///
    /// # Errors
    ///
    /// The first command that failed.
    pub fn add_switch(
        &mut self,
        name: &str,
        forwarding: Forwarding,
        entries: Option<&Script>,
    ) -> Result<(), Failure> {
        let number = self.nodes.len();
        let port = |end: &End| match *end {
            End::Switch(switch, port) if switch == number => Some(port),
            _ => None,
        };
        let ports = self.links.keys().filter_map(port).collect();
        let mut switch = Switch::new(SwitchConfig { ports, ..SwitchConfig::default() });
        switch.commit(forwarding);
        let mut memory = Memory::default();
        if let Some(entries) = entries {
            configure_with(&mut memory, entries, &mut switch, self.now_us)?;
        }
        switch.check_ports().map_err(|refusal| Failure {
            place: None,
            reason: format!("switch {name}: {refusal}"),
        })?;
        self.nodes.push(Node { name: name.to_owned(), switch, memory });
        Ok(())
    }

    /// Runs a test.
    ///
    /// # Errors
    ///
    /// The first expectation that was not met, the first command that failed, or a packet that travels without end.
    pub fn run(&mut self, test: &NetworkTest) -> Result<Passed, Failure> {
        let hosts = self.hosts.clone();
        let outputs = Outputs::new(test.hosts().collect()).with_hosts(hosts);
        let mut run = Run { network: self, outputs, packets: 0, sent: 0 };
        for (place, step) in &test.steps {
            run.step(*place, step)?;
        }
        run.outputs.compare()?;
        Ok(Passed { packets: run.packets, expectations: test.expectations() })
    }
}

struct Run<'n> {
    network: &'n mut Network,
    outputs: Outputs,
    packets: usize,
    /// Frames that were put on links since the last step.
    sent: usize,
}

impl Run<'_> {
    fn step(&mut self, place: Place, step: &Step) -> Result<(), Failure> {
        self.sent = 0;
        let now_us = self.network.now_us;
        match step {
            Step::Traffic(Statement::Packet { port, data }) => {
                self.elapse(place, now_us + PACKET_US)?;
                self.packets += 1;
                self.outputs.next_packet();
                let far = self.network.links.get(&End::Host(*port)).copied();
                self.travel(place, far.map(|far| (far, data.clone())).into_iter().collect())?;
                // What the packet has triggered at once.
                self.elapse(place, self.network.now_us)
            }
            Step::Traffic(Statement::Expect { port, pattern }) => {
                self.outputs.expect(place, *port, pattern.clone());
                Ok(())
            }
            Step::Traffic(Statement::NoPacket) => self.outputs.expect_nothing(place),
            Step::Traffic(_) => self.elapse(place, now_us + COMMAND_US),
            Step::On(at, statement) => {
                self.elapse(place, now_us + COMMAND_US)?;
                let now_us = self.network.now_us;
                let Node { name, switch, memory } = &mut self.network.nodes[*at];
                command(memory, place, statement, switch, now_us).map_err(|failure| Failure {
                    reason: format!("switch {name}: {}", failure.reason),
                    ..failure
                })
            }
        }
    }

    /// Lets frames travel until all have arrived or were dropped.
    fn travel(
        &mut self,
        place: Place,
        mut under_way: VecDeque<(End, Vec<u8>)>,
    ) -> Result<(), Failure> {
        while let Some((end, frame)) = under_way.pop_front() {
            match end {
                End::Host(host) => self.outputs.sent(host, &frame),
                End::Switch(at, port) => {
                    let now_us = self.network.now_us;
                    self.network.nodes[at].switch.receive(now_us, port, &frame);
                    self.drain(place, at, &mut under_way)?;
                }
            }
        }
        Ok(())
    }

    /// Takes all frames from a switch, and puts them on its links.
    fn drain(
        &mut self,
        place: Place,
        at: usize,
        under_way: &mut VecDeque<(End, Vec<u8>)>,
    ) -> Result<(), Failure> {
        let Network { nodes, links, now_us, .. } = &mut *self.network;
        let Node { name, switch, .. } = &mut nodes[at];
        let sent = &mut self.sent;
        let put = &mut |port, frame: &[u8]| {
            *sent += 1;
            if let Some(&far) = links.get(&End::Switch(at, port))
                && *sent <= MAX_TURNS
            {
                under_way.push_back((far, frame.to_vec()));
            }
        };
        let drained = drain(switch, *now_us, put, &mut VecDeque::new());
        drained.map_err(|reason| place.failure(format!("switch {name}: {reason}")))?;
        if self.sent > MAX_TURNS {
            return Err(place.failure(format!(
                "switches have sent more than {MAX_TURNS} frames for this packet, last {name}: the \
                 packet, or copies of it, travel in a loop of links"
            )));
        }
        Ok(())
    }

    /// Lets time pass, and processes what packet generators make until then.
    fn elapse(&mut self, place: Place, until_us: u64) -> Result<(), Failure> {
        for _ in 0..MOST_GENERATED {
            let due = self.network.nodes.iter().enumerate();
            let due = due.filter_map(|(at, node)| Some((node.switch.generator_due_us()?, at)));
            let Some((due_us, at)) = due.filter(|(due_us, _)| *due_us <= until_us).min() else {
                self.network.now_us = until_us;
                self.network.nodes.iter_mut().for_each(|node| node.switch.advance(until_us));
                return Ok(());
            };
            self.network.now_us = self.network.now_us.max(due_us);
            let now_us = self.network.now_us;
            let switch = &mut self.network.nodes[at].switch;
            let before = switch.statistics().generated;
            switch.generate(now_us, 1);
            self.packets += (switch.statistics().generated - before) as usize;
            self.sent = 0;
            let mut under_way = VecDeque::new();
            self.drain(place, at, &mut under_way)?;
            self.travel(place, under_way)?;
        }
        Err(place
            .failure(format!("packet generators make more than {MOST_GENERATED} packets here")))
    }
}
