//! The state of a program that outlives a packet.

use crate::code::Code;
use crate::externs::checksum::most_bytes;
use crate::externs::counter::Counter;
use crate::externs::filter::Filter;
use crate::externs::hash::Algorithm;
use crate::externs::meter::{Meters, Unit};
use crate::externs::profile::Profile;
use crate::externs::random::Random;
use crate::externs::register::Registers;
use crate::externs::value_set::ValueSet;
use crate::packet::Requests;
use crate::slot::Slot;
use crate::tables::{Match, Table};
use crate::wide::scratch_words;

/// Seed of `random()` and `Random`.
const SEED: u64 = 0;

/// State that outlives a packet.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) registers: Registers,
    pub(crate) counters: Vec<Counter>,
    pub(crate) meters: Vec<Meters>,
    pub(crate) filters: Vec<Vec<Filter>>,
    pub(crate) profiles: Vec<Profile>,
    pub(crate) value_sets: Vec<ValueSet>,
    pub(crate) tables: Vec<Table>,
    /// The latest known time, for meters and timeouts.
    pub(crate) now_us: u64,
    pub(crate) random: Random,
    /// What a set's group action ran for: the match, and the hash or number that picks the action.
    pub(crate) picked: Option<(Match, u64)>,
    /// Requests of the deparser besides the frame (TNA).
    pub(crate) requests: Requests,
    /// Buffer for lists of values.
    pub(crate) buffer: Vec<u8>,
    /// Buffer for arithmetic on wide values and for keys of tables.
    pub(crate) scratch: Vec<u64>,
}

impl Store {
    /// Registers and tables, and no other state yet.
    pub(crate) fn new(registers: Registers, tables: Vec<Table>) -> Self {
        Self {
            registers,
            counters: Vec::new(),
            meters: Vec::new(),
            filters: Vec::new(),
            profiles: Vec::new(),
            value_sets: Vec::new(),
            tables,
            now_us: 0,
            random: Random::new(SEED),
            picked: None,
            requests: Requests::default(),
            buffer: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Makes room for what the code works on: lists, keys, and values of at most `widest` words.
    pub(crate) fn make_room(&mut self, code: &Code, widest: usize) {
        let longest = code.lists.iter().map(most_bytes).max().unwrap_or(0);
        let keys = self.tables.iter().map(Table::scratch_words).max().unwrap_or(0);
        self.buffer = Vec::with_capacity(longest);
        self.scratch = vec![0; keys.max(scratch_words(widest))];
    }

    /// Notes the time of a packet. Time does not run backwards.
    #[inline]
    pub(crate) fn advance(&mut self, now_us: u64) {
        self.now_us = self.now_us.max(now_us);
    }
}

/// The kind of an extern instance, and where its state is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Instance {
    /// Neighbouring registers, one for each scalar of a cell.
    Register {
        /// Index of the first register.
        first: u32,
        /// Scalars per cell.
        scalars: u32,
    },
    /// Index into the counters.
    Counter(u32),
    /// Counts at the entries of its table.
    DirectCounter,
    /// Index into the meters.
    Meter(u32),
    /// Meters at the entries of its table.
    DirectMeter(Unit),
    /// Index into the filters.
    Filter(u32),
    /// A filter at each entry of its table.
    DirectFilter,
    /// A register cell of this many scalars at each entry of its table.
    DirectRegister(u32),
    /// Index into the action profiles and selectors.
    Profile(u32),
    /// Index into the parser value sets.
    ValueSet(u32),
    /// A one's complement sum, in a slot.
    Checksum(Slot),
    /// A digest that grows with the data, in a slot.
    Running { digest: Slot, algorithm: Algorithm },
    /// Has no state: its calls determine the behaviour.
    Stateless,
}
