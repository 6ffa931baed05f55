//! A loaded program: code, tables, registers, counters.

use std::sync::Arc;

use tributary_p4::ir::{self, ExternId, TableId};

use crate::bits::mask;
use crate::error::{LoadError, StateError, TableError};
use crate::exec::{Engine, Flow, Io, MOST_TICKS};
use crate::externs::counter::CounterData;
use crate::layout::Item;
use crate::load::{self, Instance as ExternInstance};
use crate::packet::{Packet, Shape};
use crate::tables::{ActionCall, KeyMatch, Table, TableEntry};
use crate::v1model::{DROP_PORT, Egress, EgressInput, Ingress, IngressInput, Verdict};
use crate::value::Value;

/// Where the generator behind `random()` starts.
const SEED: u64 = 0;

/// A loaded program: code, tables, registers, counters.
#[derive(Debug)]
pub struct Pipeline {
    program: ir::Program,
    shape: Arc<Shape>,
    instances: Vec<ExternInstance>,
    engine: Engine,
    /// What blocks before the deparser write to: nothing, ever.
    nowhere: Vec<u8>,
}

impl Pipeline {
    /// Compiles a program and sets up its state.
    ///
    /// # Errors
    /// A program for another architecture than v1model, or one that uses an extern that the engine
    /// does not implement.
    pub fn load(program: ir::Program) -> Result<Self, LoadError> {
        let mut loaded = load::load(&program)?;
        let shape = Arc::new(std::mem::take(&mut loaded.shape));
        let instances = std::mem::take(&mut loaded.instances);
        let engine = Engine::new(loaded, SEED);
        Ok(Self { program, shape, instances, engine, nowhere: Vec::new() })
    }

    /// The program that was loaded.
    #[must_use]
    pub fn program(&self) -> &ir::Program {
        &self.program
    }

    /// Storage for one packet's state.
    #[must_use]
    pub fn new_packet(&self) -> Packet {
        Packet::new(Arc::clone(&self.shape))
    }

    /// Runs parser, checksum verification and ingress.
    ///
    /// A parser error does not stop the packet: ingress finds it in `parser_error`, and what the
    /// parser had not consumed is payload.
    pub fn ingress(&mut self, packet: &mut Packet, frame: &[u8], input: &IngressInput) -> Ingress {
        let entries = self.engine.code.entries;
        let meta = self.engine.code.intrinsics.clone();
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        packet.state[..self.shape.live].fill(0);
        set(packet, meta.ingress_port, u64::from(input.port));
        set(packet, meta.ingress_global_timestamp, input.time_us);
        if input.preserved {
            packet.restore();
        }
        set(packet, meta.instance_type, input.instance as u64);
        set(packet, meta.packet_length, u64::from(length));
        packet.ingress_length = length;

        let mut io = Io {
            frame,
            at: 0,
            payload: &[],
            out: &mut self.nowhere,
            length,
            ingress_length: length,
            ticks: MOST_TICKS,
        };
        if let Flow::Error(code) = self.engine.run(entries.parser, &mut packet.state, &mut io) {
            packet.state[meta.parser_error.slot as usize] = code;
        }
        io.payload = &frame[io.at..];
        self.engine.run(entries.verify, &mut packet.state, &mut io);
        self.engine.run(entries.ingress, &mut packet.state, &mut io);
        packet.length = io.length;

        let state = &packet.state;
        let at = |item: Item| state[item.slot as usize];
        let verdict = if state[meta.failed as usize] != 0 {
            return Ingress { verdict: Verdict::Drop, resubmit: None };
        } else if at(meta.mcast_grp) != 0 {
            Verdict::Multicast(at(meta.mcast_grp) as u16)
        } else if at(meta.egress_spec) == u64::from(DROP_PORT) {
            Verdict::Drop
        } else {
            Verdict::Unicast(at(meta.egress_spec) as u16)
        };
        let resubmit = request(state[meta.resubmit as usize]);
        packet.payload.clear();
        if verdict != Verdict::Drop {
            packet.payload.extend_from_slice(io.payload);
        }
        Ingress { verdict, resubmit }
    }

    /// Runs egress, checksum computation and deparser. `frame` is cleared, and filled unless the
    /// packet is dropped.
    pub fn egress(
        &mut self,
        packet: &mut Packet,
        input: &EgressInput,
        frame: &mut Vec<u8>,
    ) -> Egress {
        let entries = self.engine.code.entries;
        let meta = self.engine.code.intrinsics.clone();
        frame.clear();
        set(packet, meta.egress_global_timestamp, input.time_us);
        set(packet, meta.enq_timestamp, input.enq_time_us);
        set(packet, meta.enq_qdepth, u64::from(input.enq_qdepth));
        set(packet, meta.deq_qdepth, u64::from(input.deq_qdepth));
        set(packet, meta.deq_timedelta, u64::from(input.deq_timedelta));
        set(packet, meta.egress_port, u64::from(input.port));
        set(packet, meta.egress_rid, u64::from(input.rid));
        set(packet, meta.instance_type, input.instance as u64);
        // Anything but the drop port; BMv2 takes the next one, modulo the field's width.
        set(packet, meta.egress_spec, u64::from(DROP_PORT) + 1);
        let length = packet.length;
        set(packet, meta.packet_length, u64::from(length));

        let mut io = Io {
            frame: &[],
            at: 0,
            payload: &packet.payload,
            out: frame,
            length,
            ingress_length: packet.ingress_length,
            ticks: 0,
        };
        let state = &mut packet.state;
        self.engine.run(entries.egress, state, &mut io);
        let dropped = state[meta.egress_spec.slot as usize] == u64::from(DROP_PORT);
        if dropped || state[meta.failed as usize] != 0 {
            return Egress { drop: true, recirculate: None };
        }
        self.engine.run(entries.compute, state, &mut io);
        self.engine.run(entries.deparser, state, &mut io);
        packet.length = io.length;
        frame.extend_from_slice(&packet.payload);
        if state[meta.failed as usize] != 0 {
            frame.clear();
            return Egress { drop: true, recirculate: None };
        }
        if let Some(limit) = request(state[meta.truncate as usize]) {
            frame.truncate(limit as usize);
        }
        Egress { drop: false, recirculate: request(state[meta.recirculate as usize]) }
    }

    /// Adds an entry to a table.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn insert(&mut self, table: TableId, entry: TableEntry) -> Result<(), TableError> {
        self.table_mut(table)?.insert(entry)
    }

    /// Gives the entry with the same matches and priority another action; its direct counter goes
    /// on counting.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn modify(&mut self, table: TableId, entry: TableEntry) -> Result<(), TableError> {
        self.table_mut(table)?.modify(entry)
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
        self.table_mut(table)?.delete(matches, priority)
    }

    /// The entries of a table, the program's own included, in no particular (but repeatable) order;
    /// none for an unknown table.
    pub fn entries(&self, table: TableId) -> impl Iterator<Item = &TableEntry> {
        self.engine.store.tables.get(table.index()).into_iter().flat_map(Table::entries)
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
        self.table(table)?.entry(matches, priority)
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
        self.table_mut(table)?.set_default(call)
    }

    /// The default action of a table; none for an unknown table.
    #[must_use]
    pub fn default_action(&self, table: TableId) -> Option<&ActionCall> {
        self.table(table).ok().map(Table::default_action)
    }

    /// Reads a counter.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn counter_read(&self, counter: ExternId, index: u64) -> Result<CounterData, StateError> {
        let number = self.counter(counter)?;
        let cells = &self.engine.store.counters[number].cells;
        let cell = usize::try_from(index).ok().and_then(|i| cells.get(i));
        cell.copied().ok_or(StateError::Index { index, size: cells.len() as u64 })
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
        let number = self.counter(counter)?;
        let cells = &mut self.engine.store.counters[number].cells;
        let size = cells.len() as u64;
        let cell = usize::try_from(index).ok().and_then(|i| cells.get_mut(i));
        *cell.ok_or(StateError::Index { index, size })? = data;
        Ok(())
    }

    /// Number of elements of a counter array or a register array.
    #[must_use]
    pub fn array_size(&self, array: ExternId) -> Option<u64> {
        match *self.instances.get(array.index())? {
            ExternInstance::Register(register) => Some(self.engine.store.registers.size(register)),
            ExternInstance::Counter(counter) => {
                Some(self.engine.store.counters[counter as usize].cells.len() as u64)
            }
            ExternInstance::DirectCounter => None,
        }
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
        let table = self.table(table)?;
        if !table.has_counter {
            return Err(StateError::Unknown("direct counter"));
        }
        Ok(table.counter_value(matches, priority)?)
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
        let table = self.table_mut(table)?;
        if !table.has_counter {
            return Err(StateError::Unknown("direct counter"));
        }
        *table.counter(matches, priority)? = data;
        Ok(())
    }

    /// Reads an element of a register.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn register_read(&self, register: ExternId, index: u64) -> Result<Value, StateError> {
        let number = self.register(register)?;
        let registers = &self.engine.store.registers;
        let mut limbs = vec![0; registers.registers[number as usize].width.div_ceil(64) as usize];
        if registers.read(number, index, &mut limbs) {
            Ok(Value::from_limbs(&limbs))
        } else {
            Err(StateError::Index { index, size: registers.size(number) })
        }
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
        let number = self.register(register)?;
        let registers = &mut self.engine.store.registers;
        let width = registers.registers[number as usize].width;
        if !value.fits(width) {
            return Err(StateError::Width(width));
        }
        let limbs: Vec<u64> = value.limbs(width.div_ceil(64) as usize).collect();
        if registers.write(number, index, &limbs) {
            Ok(())
        } else {
            Err(StateError::Index { index, size: registers.size(number) })
        }
    }

    fn table(&self, table: TableId) -> Result<&Table, TableError> {
        self.engine.store.tables.get(table.index()).ok_or(TableError::UnknownTable)
    }

    fn table_mut(&mut self, table: TableId) -> Result<&mut Table, TableError> {
        self.engine.store.tables.get_mut(table.index()).ok_or(TableError::UnknownTable)
    }

    fn counter(&self, counter: ExternId) -> Result<usize, StateError> {
        match self.instances.get(counter.index()) {
            Some(ExternInstance::Counter(number)) => Ok(*number as usize),
            _ => Err(StateError::Unknown("counter")),
        }
    }

    fn register(&self, register: ExternId) -> Result<u32, StateError> {
        match self.instances.get(register.index()) {
            Some(ExternInstance::Register(number)) => Ok(*number),
            _ => Err(StateError::Unknown("register")),
        }
    }
}

/// Sets a word of metadata, cut to its width.
fn set(packet: &mut Packet, item: Item, value: u64) {
    packet.state[item.slot as usize] = value & mask(item.width);
}

/// A request of the program: a number plus one, or zero for none.
fn request(word: u64) -> Option<u32> {
    word.checked_sub(1).map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}
