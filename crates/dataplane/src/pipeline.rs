//! A loaded program: code, tables, registers, counters.

pub(crate) mod cores;
mod filters;
mod listing;
mod meters;
mod observed;
mod profiles;
mod times;
mod value_sets;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use tributary_p4::Architecture;
use tributary_p4::ir::{self, ExternId, TableId};

use crate::compiled::{EngineKind, MachineCode};
use crate::division::Undivided;
use crate::engine::Engine;
use crate::error::{LoadError, StateError, TableError};
use crate::externs::counter::CounterData;
use crate::externs::profile::Profile;
use crate::load::{self, Blocks, Loaded};
use crate::packet::{Packet, Shape};
use crate::pass::{Egress, EgressInput, Ingress, IngressInput, Instance};
use crate::replicas::Memo;
use crate::store::{Instance as ExternInstance, Store};
use crate::tables::{Action, KeyMatch, Owner, Table, TableEntry};
use crate::trace::Traced;
use crate::value::Value;
use crate::{psa, tna, v1model};

/// A loaded program: code, tables, registers, counters.
#[derive(Debug)]
pub struct Pipeline {
    /// Shared by all pipelines that run it.
    program: Arc<ir::Program>,
    shape: Arc<Shape>,
    instances: Vec<ExternInstance>,
    engine: Engine,
    passes: Passes,
    /// The field that names a packet's register row, once it is needed.
    key: OnceLock<Result<Option<u32>, Undivided>>,
    /// The code for observed packets, once there are any.
    traced: Option<Box<Traced>>,
}

/// A program that the engine has compiled, with its first state. Clones share the code.
#[derive(Clone, Debug)]
pub struct Ready {
    program: Arc<ir::Program>,
    loaded: Loaded,
}

impl Ready {
    /// Compiles a program.
    ///
    /// # Errors
    /// As [`Pipeline::load`].
    pub fn new(program: impl Into<Arc<ir::Program>>) -> Result<Self, LoadError> {
        let program = program.into();
        Ok(Self { loaded: load::load(&program)?, program })
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &ir::Program {
        &self.program
    }
}

/// The architecture-specific part.
#[derive(Debug)]
pub(crate) enum Passes {
    V1model(Box<v1model::Passes>),
    Tna(Box<tna::Passes>),
    Psa(Box<psa::Passes>),
}

impl Passes {
    fn new(blocks: Blocks) -> Self {
        match blocks {
            Blocks::V1model { entries, intrinsics, sharing } => {
                Self::V1model(Box::new(v1model::Passes::new(entries, intrinsics, sharing)))
            }
            Blocks::Tna { entries, intrinsics, handles_errors } => {
                Self::Tna(Box::new(tna::Passes::new(entries, intrinsics, handles_errors)))
            }
            Blocks::Psa { entries, intrinsics, bridges } => {
                Self::Psa(Box::new(psa::Passes::new(entries, intrinsics, *bridges)))
            }
        }
    }
}

impl Pipeline {
    /// Compiles a program and sets up its state. Uses [`EngineKind::Automatic`] until
    /// [`Self::use_engine`] is called.
    ///
    /// # Errors
    /// A program for an unknown architecture, or one that uses something that the engine does not
    /// implement.
    pub fn load(program: impl Into<Arc<ir::Program>>) -> Result<Self, LoadError> {
        Ready::new(program).map(Self::of)
    }

    /// As [`Self::load`], for many pipelines with one program.
    #[must_use]
    pub fn of(ready: Ready) -> Self {
        let Ready { program, loaded: Loaded { code, shape, instances, store, blocks } } = ready;
        Self {
            program,
            shape,
            instances,
            engine: Engine::new(code, store),
            passes: Passes::new(blocks),
            key: OnceLock::new(),
            traced: None,
        }
    }

    /// Selects the execution engine; all state is kept.
    pub fn use_engine(&mut self, kind: EngineKind) {
        self.engine.choose(kind);
    }

    /// Whether machine code currently runs the packets.
    #[must_use]
    pub fn is_compiled(&self) -> bool {
        self.engine.is_compiled()
    }

    /// What keeps the program's machine code for later pipelines; `None` with the interpreter.
    #[must_use]
    pub fn machine_code(&self) -> Option<MachineCode> {
        self.engine.machine_code()
    }

    /// The architecture that the program is written for.
    #[must_use]
    pub fn architecture(&self) -> Architecture {
        match self.passes {
            Passes::V1model(_) => Architecture::V1model,
            Passes::Tna(_) => Architecture::Tna,
            Passes::Psa(_) => Architecture::Psa,
        }
    }

    /// The program that was loaded.
    #[must_use]
    pub fn program(&self) -> &ir::Program {
        &self.program
    }

    /// The program's digests by name in P4Info, indexed as by [`Packet::digest`]. Names may repeat.
    pub fn digests(&self) -> impl Iterator<Item = &str> {
        self.shape.digests.iter().map(|digest| digest.name.as_str())
    }

    /// Storage for one packet's state.
    #[must_use]
    pub fn new_packet(&self) -> Packet {
        Packet::new(Arc::clone(&self.shape))
    }

    /// Runs the ingress half of the pipeline on a frame, up to the switch's decision about queues.
    pub fn ingress(&mut self, packet: &mut Packet, frame: &[u8], input: &IngressInput) -> Ingress {
        self.engine.packet();
        match &mut self.passes {
            Passes::V1model(passes) => passes.ingress(&mut self.engine, packet, frame, input),
            Passes::Tna(passes) => passes.ingress(&mut self.engine, packet, frame, input),
            Passes::Psa(passes) => passes.ingress(&mut self.engine, packet, frame, input),
        }
    }

    /// Runs the egress half on a packet that left a queue. `frame` is cleared, and filled unless
    /// the packet is dropped.
    pub fn egress(
        &mut self,
        packet: &mut Packet,
        input: &EgressInput,
        frame: &mut Vec<u8>,
    ) -> Egress {
        match &mut self.passes {
            Passes::V1model(passes) => passes.egress(&mut self.engine, packet, input, frame),
            Passes::Tna(passes) => passes.egress(&mut self.engine, packet, input, frame),
            Passes::Psa(passes) => passes.egress(&mut self.engine, packet, input, frame),
        }
    }

    /// Whether multicast replicas of a packet can share it: see [`Self::egress_shared`]. It depends
    /// on the program only.
    #[must_use]
    pub fn shares_egress(&self) -> bool {
        matches!(&self.passes, Passes::V1model(passes) if passes.sharing.is_some())
    }

    /// [`Self::egress`] for a replica on a packet that it shares with others
    /// ([`Packet::become_shared`]). The packet is as before afterwards; `memo` has the frame, unless the
    /// replica is dropped, and may save work for the next one: clear it for another packet. `None` if the
    /// replica needs storage of its own for what follows: then call [`Self::egress_apart`] next.
    pub fn egress_shared(
        &mut self,
        packet: &mut Packet,
        memo: &mut Memo,
        input: &EgressInput,
    ) -> Option<Egress> {
        match &mut self.passes {
            Passes::V1model(passes) => passes.egress_shared(&mut self.engine, packet, memo, input),
            Passes::Tna(_) | Passes::Psa(_) => None,
        }
    }

    /// Ends [`Self::egress_shared`] in the storage `own`, where the egress's requests are then.
    ///
    /// # Panics
    /// If replicas cannot share a packet of this program.
    pub fn egress_apart(
        &mut self,
        packet: &mut Packet,
        memo: &mut Memo,
        own: &mut Packet,
        frame: &mut Vec<u8>,
    ) -> Egress {
        let Passes::V1model(passes) = &mut self.passes else { panic!("nothing is shared") };
        passes.egress_apart(&mut self.engine, packet, memo, own, frame)
    }

    /// Makes `copy` the clone that the ingress pass of `original` with `input` requested: the
    /// received frame, parsed again, with the metadata of the field list; in PSA the received frame
    /// with the deparser's metadata. It then waits for egress.
    pub fn clone_of_ingress(
        &mut self,
        copy: &mut Packet,
        original: &Packet,
        frame: &[u8],
        input: &IngressInput,
    ) {
        match &mut self.passes {
            Passes::V1model(passes) => {
                passes.clone_of_ingress(&mut self.engine, copy, original, frame, input.port);
            }
            Passes::Psa(passes) => passes.clone_of_ingress(copy, original, frame),
            Passes::Tna(_) => {}
        }
    }

    /// Makes `copy` the clone that the egress pass of `original` requested: the packet as it was at
    /// the end, with the metadata of the field list; in PSA the deparsed frame with the deparser's
    /// metadata. It then waits for another egress pass.
    pub fn clone_of_egress(&self, copy: &mut Packet, original: &Packet) {
        match &self.passes {
            Passes::V1model(passes) => passes.clone_of_egress(copy, original),
            Passes::Psa(passes) => passes.clone_of_egress(copy, original),
            Passes::Tna(_) => {}
        }
    }

    /// The input of the next ingress pass, after `last`, of a packet that was resubmitted or
    /// recirculated.
    #[must_use]
    pub fn next_pass(&self, last: &IngressInput, instance: Instance) -> IngressInput {
        IngressInput { instance, ..*last }
    }

    /// Adds an entry to a table.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn insert(&mut self, table: TableId, entry: TableEntry) -> Result<(), TableError> {
        let (table, profile, now_us) = self.table_with_profile(table)?;
        table.insert(entry, profile, now_us)
    }

    /// Changes the action and timeout of the entry with the same matches and priority; its direct
    /// counter and direct meter keep their state.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn modify(&mut self, table: TableId, entry: TableEntry) -> Result<(), TableError> {
        let (table, profile, now_us) = self.table_with_profile(table)?;
        table.modify(entry, profile, now_us)
    }

    /// Removes the entry with these matches and this priority.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn delete(
        &mut self,
        table: TableId,
        matches: &[KeyMatch],
        priority: i32,
    ) -> Result<(), TableError> {
        let (table, profile, _) = self.table_with_profile(table)?;
        table.delete(matches, priority, profile)
    }

    /// The entries of a table, including the program's own, in an arbitrary but repeatable order;
    /// empty for an unknown table.
    pub fn entries(&self, table: TableId) -> impl Iterator<Item = &TableEntry> {
        self.engine.store.tables.get(table.index()).into_iter().flat_map(Table::entries)
    }

    /// The entries of a table from a position on, each with its position, to read a long table in
    /// parts. An entry keeps its position as long as it exists.
    pub fn entries_from(
        &self,
        table: TableId,
        place: usize,
    ) -> impl Iterator<Item = (usize, &TableEntry)> {
        let table = self.engine.store.tables.get(table.index());
        table.into_iter().flat_map(move |table| table.entries_from(place))
    }

    /// The entry with these matches and this priority.
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

    /// Sets the default action of a table; `None` restores the program's own.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn set_default(
        &mut self,
        table: TableId,
        action: Option<Action>,
    ) -> Result<(), TableError> {
        let (table, profile, _) = self.table_with_profile(table)?;
        table.set_default(action, profile)
    }

    /// The default action of a table; `None` for an unknown table.
    #[must_use]
    pub fn default_action(&self, table: TableId) -> Option<&Action> {
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

    /// Sets the bytes that follow the intrinsic header of packets from a port (TNA); zeros at first.
    /// v1model programs have none.
    pub fn set_port_metadata(&mut self, port: u16, bytes: [u8; 8]) {
        if let Passes::Tna(passes) = &mut self.passes {
            passes.set_port_metadata(port, bytes);
        }
    }

    /// Puts a port into loopback mode: what leaves it arrives on it again (TNA).
    pub fn set_loopback(&mut self, port: u16) {
        if let Passes::Tna(passes) = &mut self.passes {
            passes.set_loopback(port);
        }
    }

    /// Number of elements of a counter, register or meter array.
    #[must_use]
    pub fn array_size(&self, array: ExternId) -> Option<u64> {
        match *self.instances.get(array.index())? {
            ExternInstance::Register { first, .. } => Some(self.engine.store.registers.size(first)),
            ExternInstance::Counter(counter) => {
                Some(self.engine.store.counters[counter as usize].cells.len() as u64)
            }
            ExternInstance::Meter(meter) => {
                Some(self.engine.store.meters[meter as usize].cells.len() as u64)
            }
            ExternInstance::Filter(number) => {
                Some(self.engine.store.filters[number as usize].len() as u64)
            }
            ExternInstance::DirectCounter
            | ExternInstance::DirectMeter(_)
            | ExternInstance::DirectFilter
            | ExternInstance::DirectRegister(_)
            | ExternInstance::Profile(_)
            | ExternInstance::ValueSet(_)
            | ExternInstance::Checksum(_)
            | ExternInstance::Running { .. }
            | ExternInstance::Stateless => None,
        }
    }

    /// Reads the direct counter of a table's entry.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn direct_counter_read(
        &self,
        table: TableId,
        of: Owner<'_>,
    ) -> Result<CounterData, StateError> {
        let table = self.table(table)?;
        if !table.extras().counter {
            return Err(StateError::Unknown("direct counter"));
        }
        Ok(table.counter_value(of)?)
    }

    /// Sets the direct counter of a table's entry.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn direct_counter_write(
        &mut self,
        table: TableId,
        of: Owner<'_>,
        data: CounterData,
    ) -> Result<(), StateError> {
        let table = self.table_mut(table)?;
        if !table.extras().counter {
            return Err(StateError::Unknown("direct counter"));
        }
        *table.counter(of)? = data;
        Ok(())
    }

    /// Number of scalars of a register's element.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn register_scalars(&self, register: ExternId) -> Result<usize, StateError> {
        Ok(self.registers(register)?.len())
    }

    /// Reads an element of a register; its first scalar if it has several.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn register_read(&self, register: ExternId, index: u64) -> Result<Value, StateError> {
        self.register_read_scalar(register, index, 0)
    }

    /// Reads one scalar of an element of a register.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn register_read_scalar(
        &self,
        register: ExternId,
        index: u64,
        scalar: usize,
    ) -> Result<Value, StateError> {
        let number = self.register(register, scalar)?;
        let registers = &self.engine.store.registers;
        let mut limbs = vec![0; registers.registers[number as usize].width.div_ceil(64) as usize];
        if registers.read(number, index, &mut limbs) {
            Ok(Value::from_limbs(&limbs))
        } else {
            Err(StateError::Index { index, size: registers.size(number) })
        }
    }

    /// Sets an element of a register; its first scalar if it has several.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn register_write(
        &mut self,
        register: ExternId,
        index: u64,
        value: &Value,
    ) -> Result<(), StateError> {
        self.register_write_scalar(register, index, 0, value)
    }

    /// Sets one scalar of an element of a register.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn register_write_scalar(
        &mut self,
        register: ExternId,
        index: u64,
        scalar: usize,
        value: &Value,
    ) -> Result<(), StateError> {
        let number = self.register(register, scalar)?;
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

    /// A table, the action profile of its entries, and the time.
    fn table_with_profile(
        &mut self,
        table: TableId,
    ) -> Result<(&mut Table, Option<&mut Profile>, u64), TableError> {
        let Store { tables, profiles, now_us, .. } = &mut self.engine.store;
        let table = tables.get_mut(table.index()).ok_or(TableError::UnknownTable)?;
        let profile = table.extras().profile.map(|profile| &mut profiles[profile as usize]);
        Ok((table, profile, *now_us))
    }

    fn counter(&self, counter: ExternId) -> Result<usize, StateError> {
        match self.instances.get(counter.index()) {
            Some(ExternInstance::Counter(number)) => Ok(*number as usize),
            _ => Err(StateError::Unknown("counter")),
        }
    }

    /// The engine's registers for a register of the program.
    fn registers(&self, register: ExternId) -> Result<Range<u32>, StateError> {
        match self.instances.get(register.index()) {
            Some(&ExternInstance::Register { first, scalars }) => Ok(first..first + scalars),
            _ => Err(StateError::Unknown("register")),
        }
    }

    fn register(&self, register: ExternId, scalar: usize) -> Result<u32, StateError> {
        self.registers(register)?.nth(scalar).ok_or(StateError::Unknown("scalar of the register"))
    }
}
