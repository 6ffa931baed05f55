//! Sends a packet through a switch of its own, and records what happens.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::stf::{Failure, Script};
use crate::trace::{Assumptions, Budget, Filter, Recording, Tracing};
use crate::{Forwarding, Switch};
use tributary_dataplane::trace::ChoiceOf;
use tributary_p4::Compilation;
use tributary_p4::ir::{Program, TableId};
use tributary_p4runtime::p4::v1::ForwardingPipelineConfig;

use crate::explained::forks::merge;
use crate::explained::node::Node;
use crate::explained::tree::tree;

/// Turns of the switch until all copies of the packet must have left.
const MOST_TURNS: usize = 1000;

/// Frames that the switch sends until then.
const MOST_FRAMES: usize = 10_000;

/// Ways that are followed by default.
const MOST_WAYS: usize = 64;

/// Why a packet cannot be explained.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The engine does not run the program.
    #[error("{0}")]
    Program(String),
    /// A command of the entries cannot be executed.
    #[error("{0}")]
    Entries(Failure),
    /// The switch has no such port.
    #[error("port {0}: the switch has the ports 0 to 510")]
    Port(u16),
    /// The program has no such table.
    #[error("the program has no table `{0}`{1}")]
    Table(String, String),
    /// The entries of the table are part of the program.
    #[error("the entries of table `{0}` are constant: nothing about them is unknown")]
    Constant(String),
    /// The packet went around without end.
    #[error(
        "the packet, or copies of it, did not leave the switch within {MOST_TURNS} turns: the \
         program recirculates or copies it without end"
    )]
    Endless,
}

/// A packet with what is known about the switch.
#[derive(Debug)]
pub struct Explainer {
    program: Arc<Program>,
    config: ForwardingPipelineConfig,
    script: Script,
    unknown: BTreeSet<TableId>,
    /// Whether members of groups are all of interest.
    members: bool,
    most: usize,
}

/// An explained packet.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The tree.
    pub tree: Node,
    /// Number of ways that are shown.
    pub ways: usize,
    /// Whether there are more ways, or more steps, than are shown.
    pub cut: bool,
}

impl Explainer {
    /// For a program that was compiled with marks, after the commands and packets of a script.
    #[must_use]
    pub fn new(compiled: Compilation, script: Script) -> Self {
        let Compilation { program, p4info, .. } = compiled;
        let program = Arc::new(program);
        let config = ForwardingPipelineConfig { p4info: Some(p4info), ..Default::default() };
        let unknown = BTreeSet::new();
        Self { program, config, script, unknown, members: false, most: MOST_WAYS }
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Follows all members of groups.
    pub fn follow_members(&mut self) {
        self.members = true;
    }

    /// Follows at most this number of ways; 64 by default.
    pub fn limit(&mut self, most: usize) {
        self.most = most;
    }

    /// Treats the entries of a table as unknown.
    ///
    /// # Errors
    /// If there is no such table, or its entries are constant.
    pub fn forget(&mut self, name: &str) -> Result<(), Refused> {
        let tables = &self.program.tables;
        let ends = |known: &str| {
            known
                .strip_suffix(name)
                .is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        let exact = tables.iter().position(|table| table.name == name);
        let mut alike = (0..tables.len()).filter(|&at| ends(&tables[at].name));
        let found = exact.or_else(|| match (alike.next(), alike.next()) {
            (Some(only), None) => Some(only),
            _ => None,
        });
        let Some(found) = found else {
            let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
            let hint = match names.is_empty() {
                true => ": it has no tables".to_owned(),
                false => format!(": it has {}", names.join(", ")),
            };
            return Err(Refused::Table(name.to_owned(), hint));
        };
        if tables[found].const_entries {
            return Err(Refused::Constant(tables[found].name.clone()));
        }
        self.unknown.insert(TableId(found as u32));
        Ok(())
    }

    /// Treats the entries of all tables as unknown that the control plane may fill, except those
    /// that have entries in the program.
    pub fn forget_all(&mut self) {
        let tables = (0..).map(TableId).zip(&self.program.tables);
        let open = tables.filter(|(_, table)| {
            !table.const_entries && table.entries.is_empty() && !table.keys.is_empty()
        });
        self.unknown.extend(open.map(|(id, _)| id));
    }

    /// Sends a packet.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn explain(&self, port: u16, frame: &[u8]) -> Result<Explained, Refused> {
        let mut runs = Vec::new();
        let (mut open, mut cut) = (vec![Vec::new()], false);
        while let Some(path) = open.pop() {
            if runs.len() >= self.most {
                cut = true;
                break;
            }
            let decided = path.len();
            let recording = self.run(port, frame, path)?;
            cut |= recording.cut;
            let choices: Vec<_> = recording.choices().collect();
            // Later choices first, and later outcomes last: ways come in order.
            for (at, (choice, taken)) in choices.iter().enumerate().skip(decided) {
                if choice.of == ChoiceOf::Members && !self.members {
                    continue;
                }
                for outcome in (0..choice.outcomes.len()).rev().filter(|it| it != taken) {
                    let before = choices[..at].iter().map(|&(_, taken)| taken);
                    open.push(before.chain([outcome]).collect());
                }
            }
            runs.push(recording.steps);
        }
        let steps = merge(runs);
        let ways = steps.ways();
        Ok(Explained { tree: tree(&self.program, port, frame, &steps), ways, cut })
    }

    /// One way through the switch.
    fn run(&self, port: u16, frame: &[u8], path: Vec<usize>) -> Result<Recording, Refused> {
        let loaded = Forwarding::load(Arc::clone(&self.program), self.config.clone());
        let forwarding = loaded.map_err(|refusal| Refused::Program(refusal.to_string()))?;
        let (mut switch, now_us) =
            crate::stf::prepare(&self.script, forwarding).map_err(Refused::Entries)?;
        let cpu = switch.cpu_port();
        if !switch.config().ports.contains(&port) && port != cpu {
            return Err(Refused::Port(port));
        }
        let (unknown, first) = (self.unknown.clone(), self.members);
        let tracing = Tracing::new(Filter::all(), Arc::new(Budget::one()));
        let tracing = tracing.assuming(Assumptions { unknown, path, first });
        switch.set_tracing(Some(tracing));
        switch.receive(now_us, port, frame);
        follow(&mut switch, now_us).ok_or(Refused::Endless)
    }
}

/// Moves packets until the trace is complete.
fn follow(switch: &mut Switch, now_us: u64) -> Option<Recording> {
    let mut frame = Vec::new();
    let mut frames = 0;
    for _ in 0..MOST_TURNS {
        if let Some(recording) = switch.poll_trace() {
            return Some(recording);
        }
        // Bounded: egress may drop each packet, and clone it to the same port.
        for _ in 0..MOST_TURNS {
            let Some(port) = switch.poll_waiting() else { break };
            while frames < MOST_FRAMES && switch.transmit(now_us, port, &mut frame) {
                frames += 1;
            }
            if frames == MOST_FRAMES {
                return switch.poll_trace();
            }
        }
        switch.run_pending(now_us, 1);
        while switch.poll_packet_in().is_some() {}
    }
    None
}
