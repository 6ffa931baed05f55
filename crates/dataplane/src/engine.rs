//! The engine: a program with its state, run by the interpreter or by machine code.

use std::sync::Arc;

use crate::code::{Code, MOST_TURNS, MOST_WORK, Pc};
use crate::compiled::{EngineKind, Machine, MachineCode};
use crate::division::Share;
use crate::exec::watch::Unwatched;
use crate::exec::{Flow, Io};
use crate::slot::Slot;
use crate::store::Store;

/// Code and state that outlive a packet.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) code: Arc<Code>,
    pub(crate) store: Store,
    /// The packets that it runs to the end.
    pub(crate) share: Share,
    machine: Machine,
}

impl Engine {
    pub(crate) fn new(code: Arc<Code>, mut store: Store) -> Self {
        store.registers.allocate();
        let machine = Machine::new(EngineKind::default(), &code, &mut store);
        Self { code, store, share: Share::ALL, machine }
    }

    /// Changes the execution engine.
    pub(crate) fn choose(&mut self, kind: EngineKind) {
        self.machine = Machine::new(kind, &self.code, &mut self.store);
    }

    /// Called per packet: switches to machine code when it is ready.
    #[inline]
    pub(crate) fn packet(&mut self) {
        self.machine.packet();
    }

    /// Whether machine code currently runs the blocks.
    pub(crate) fn is_compiled(&self) -> bool {
        self.machine.ready().is_some()
    }

    /// What keeps the program's machine code.
    pub(crate) fn machine_code(&self) -> Option<MachineCode> {
        self.machine.code()
    }

    /// Runs a block.
    #[inline]
    pub(crate) fn run(&mut self, entry: Pc, state: &mut [u64], io: &mut Io<'_>) -> Flow {
        // Borrowed separately: the code's address stays in a register while the store changes.
        let Self { code, store, machine, .. } = self;
        match machine.ready() {
            Some((compiled, bases)) => compiled.run(entry, code, bases, store, state, io),
            None => store.interpret::<false, _>(code, entry, state, io, &mut Unwatched),
        }
    }
}

/// Runs the blocks of packets: an engine, or an engine that is observed ([`crate::trace`]).
pub(crate) trait Runner {
    /// The engine.
    fn engine(&mut self) -> &mut Engine;

    /// Runs the block with this entry in the engine's code.
    fn run(&mut self, entry: Pc, state: &mut [u64], io: &mut Io<'_>) -> Flow;
}

impl Runner for Engine {
    #[inline]
    fn engine(&mut self) -> &mut Engine {
        self
    }

    #[inline]
    fn run(&mut self, entry: Pc, state: &mut [u64], io: &mut Io<'_>) -> Flow {
        Self::run(self, entry, state, io)
    }
}

/// Runs a control. A control whose loops do not end drops the packet, as a failed assertion does.
pub(crate) fn control(
    engine: &mut impl Runner,
    entry: Pc,
    failed: Slot,
    state: &mut [u64],
    io: &mut Io<'_>,
) {
    io.work = MOST_WORK;
    if let Flow::Error(_) = engine.run(entry, state, io) {
        tracing::error!(
            "loops of the program take more than {MOST_TURNS} turns, or too much work: packet dropped"
        );
        state[failed as usize] = 1;
    }
}
