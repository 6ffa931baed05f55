//! A loaded program: code, tables, registers, counters.

use tributary_p4::ir::{self, ExternId, TableId};

use crate::error::{LoadError, StateError, TableError};
use crate::packet::Packet;
use crate::tables::{ActionCall, KeyMatch, TableEntry};
use crate::v1model::{Egress, EgressInput, Ingress, IngressInput, Verdict};
use crate::value::Value;

/// What a counter counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CounterData {
    /// Packets.
    pub packets: u64,
    /// Their bytes, each packet as long as it was when it came in.
    pub bytes: u64,
}

/// A loaded program: code, tables, registers, counters.
#[derive(Debug)]
pub struct Pipeline {
    program: ir::Program,
}

impl Pipeline {
    /// Compiles a program and sets up its state.
    ///
    /// # Errors
    /// A program for another architecture than v1model, or one that uses an extern that the engine
    /// does not implement.
    pub fn load(program: ir::Program) -> Result<Self, LoadError> {
        Ok(Self { program })
    }

    /// The program that was loaded.
    #[must_use]
    pub fn program(&self) -> &ir::Program {
        &self.program
    }

    /// Storage for one packet's state.
    #[must_use]
    pub fn new_packet(&self) -> Packet {
        Packet {}
    }

    /// Runs parser, checksum verification and ingress.
    pub fn ingress(&mut self, packet: &mut Packet, frame: &[u8], input: &IngressInput) -> Ingress {
        let _ = (packet, frame, input);
        Ingress { verdict: Verdict::Drop, resubmit: None }
    }

    /// Runs egress, checksum computation and deparser. `frame` is cleared, and filled unless the
    /// packet is dropped.
    pub fn egress(
        &mut self,
        packet: &mut Packet,
        input: &EgressInput,
        frame: &mut Vec<u8>,
    ) -> Egress {
        let _ = (packet, input);
        frame.clear();
        Egress { drop: true, recirculate: None }
    }

    /// Adds an entry to a table.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn insert(&mut self, table: TableId, entry: TableEntry) -> Result<(), TableError> {
        let _ = (table, entry);
        Err(TableError::UnknownTable)
    }

    /// Gives the entry with the same matches and priority another action; its direct counter goes
    /// on counting.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn modify(&mut self, table: TableId, entry: TableEntry) -> Result<(), TableError> {
        let _ = (table, entry);
        Err(TableError::UnknownTable)
    }

    /// Removes the entry with these matches and that priority.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn delete(
        &mut self,
        table: TableId,
        matches: &[KeyMatch],
        priority: i32,
    ) -> Result<(), TableError> {
        let _ = (table, matches, priority);
        Err(TableError::UnknownTable)
    }

    /// The entries of a table, in the order in which they were added; none for an unknown table.
    pub fn entries(&self, table: TableId) -> impl Iterator<Item = &TableEntry> {
        let _ = table;
        std::iter::empty()
    }

    /// The entry with these matches and that priority.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn entry(
        &self,
        table: TableId,
        matches: &[KeyMatch],
        priority: i32,
    ) -> Result<&TableEntry, TableError> {
        let _ = (table, matches, priority);
        Err(TableError::UnknownTable)
    }

    /// Sets the default action of a table; `None` brings back the program's own.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn set_default(
        &mut self,
        table: TableId,
        call: Option<ActionCall>,
    ) -> Result<(), TableError> {
        let _ = (table, call);
        Err(TableError::UnknownTable)
    }

    /// The default action of a table.
    #[must_use]
    pub fn default_action(&self, table: TableId) -> Option<&ActionCall> {
        let _ = table;
        None
    }

    /// Reads a counter.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn counter_read(&self, counter: ExternId, index: u64) -> Result<CounterData, StateError> {
        let _ = (counter, index);
        Err(StateError::Unknown("counter"))
    }

    /// Sets a counter.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn counter_write(
        &mut self,
        counter: ExternId,
        index: u64,
        data: CounterData,
    ) -> Result<(), StateError> {
        let _ = (counter, index, data);
        Err(StateError::Unknown("counter"))
    }

    /// Number of elements of a counter array or a register array.
    #[must_use]
    pub fn array_size(&self, array: ExternId) -> Option<u64> {
        let _ = array;
        None
    }

    /// Reads the direct counter of a table's entry.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn direct_counter_read(
        &self,
        table: TableId,
        matches: &[KeyMatch],
        priority: i32,
    ) -> Result<CounterData, StateError> {
        let _ = (table, matches, priority);
        Err(StateError::Unknown("direct counter"))
    }

    /// Sets the direct counter of a table's entry.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn direct_counter_write(
        &mut self,
        table: TableId,
        matches: &[KeyMatch],
        priority: i32,
        data: CounterData,
    ) -> Result<(), StateError> {
        let _ = (table, matches, priority, data);
        Err(StateError::Unknown("direct counter"))
    }

    /// Reads an element of a register.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn register_read(&self, register: ExternId, index: u64) -> Result<Value, StateError> {
        let _ = (register, index);
        Err(StateError::Unknown("register"))
    }

    /// Sets an element of a register.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn register_write(
        &mut self,
        register: ExternId,
        index: u64,
        value: &Value,
    ) -> Result<(), StateError> {
        let _ = (register, index, value);
        Err(StateError::Unknown("register"))
    }
}
