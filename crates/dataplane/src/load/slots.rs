//! Slots of values in a packet's state.
//!
//! Header fields, metadata, locals and the engine's own words come first: they are zero at the
//! start of each packet. Temporaries and constants follow.

use std::collections::HashMap;

use tributary_p4::ir::{FieldId, FieldRole, Program, Scalar};

use crate::slot::Slot;

/// No slot assigned yet.
const UNPLACED: Slot = Slot::MAX;

/// Allocates the words of a packet's state.
#[derive(Debug)]
pub(crate) struct Slots {
    /// First word of each field of the program.
    fields: Vec<Slot>,
    /// The state of a fresh packet: zeros and constants.
    template: Vec<u64>,
    /// Number of words that are reset for each packet; set once all fields are placed.
    live: usize,
    constants: HashMap<Box<[u64]>, Slot>,
    /// Temporaries by number of words.
    temporaries: HashMap<usize, Temporaries>,
    /// Number of words of the widest value.
    widest: usize,
}

#[derive(Debug, Default)]
struct Temporaries {
    all: Vec<Slot>,
    used: usize,
}

impl Slots {
    /// Places all fields of a program.
    pub(crate) fn new(program: &Program) -> Self {
        let mut slots = Self {
            fields: vec![UNPLACED; program.fields.len()],
            template: Vec::new(),
            live: 0,
            constants: HashMap::new(),
            temporaries: HashMap::new(),
            widest: 1,
        };
        // Parameters of an action must be contiguous, because an entry's data is copied at once.
        for action in &program.actions {
            for &param in &action.params {
                slots.place(program, param);
            }
        }
        for (i, field) in program.fields.iter().enumerate() {
            if !matches!(field.role, FieldRole::Header(_)) {
                slots.place(program, FieldId(i as u32));
            }
        }
        // Fields of a header must be contiguous, because they are copied and cleared at once.
        for header in &program.headers {
            for &field in &header.fields {
                slots.place(program, field);
            }
            if let Some((_, length)) = header.varbit {
                slots.place(program, length);
            }
        }
        for i in 0..program.fields.len() {
            slots.place(program, FieldId(i as u32));
        }
        slots
    }

    fn place(&mut self, program: &Program, field: FieldId) {
        if self.fields[field.index()] == UNPLACED {
            self.fields[field.index()] = self.words(program.fields[field.index()].ty.limbs());
        }
    }

    /// Allocates words permanently.
    pub(crate) fn words(&mut self, count: usize) -> Slot {
        let slot = self.template.len() as Slot;
        self.template.resize(self.template.len() + count, 0);
        self.widest = self.widest.max(count);
        slot
    }

    /// Words allocated later are not reset for each packet.
    pub(crate) fn end_live(&mut self) {
        self.live = self.template.len();
    }

    /// Number of words that are reset for each packet.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// First word of a field.
    pub(crate) fn field(&self, field: FieldId) -> Slot {
        self.fields[field.index()]
    }

    /// A word that holds this constant in every packet.
    pub(crate) fn constant(&mut self, value: u64) -> Slot {
        self.wide_constant(&[value], 1)
    }

    /// Words with this constant in every packet, truncated or extended to `count` limbs.
    pub(crate) fn wide_constant(&mut self, limbs: &[u64], count: usize) -> Slot {
        let mut key = limbs.to_vec();
        key.resize(count, 0);
        let key = key.into_boxed_slice();
        if let Some(&slot) = self.constants.get(&key) {
            return slot;
        }
        let slot = self.words(count);
        self.template[slot as usize..slot as usize + count].copy_from_slice(&key);
        self.constants.insert(key, slot);
        slot
    }

    /// All words of all constants.
    pub(crate) fn constant_words(&self) -> HashMap<Slot, u64> {
        let mut words = HashMap::new();
        for (limbs, &first) in &self.constants {
            words.extend((first..).zip(limbs.iter().copied()));
        }
        words
    }

    /// Allocates temporary words until [`Self::release`].
    pub(crate) fn temporary(&mut self, ty: Scalar) -> Slot {
        let limbs = ty.limbs();
        let pool = self.temporaries.entry(limbs).or_default();
        pool.used += 1;
        if let Some(&slot) = pool.all.get(pool.used - 1) {
            return slot;
        }
        let slot = self.words(limbs);
        if let Some(pool) = self.temporaries.get_mut(&limbs) {
            pool.all.push(slot);
        }
        slot
    }

    /// Records which temporaries are in use.
    pub(crate) fn mark(&self) -> Vec<(usize, usize)> {
        self.temporaries.iter().map(|(&limbs, pool)| (limbs, pool.used)).collect()
    }

    /// Frees the temporaries allocated since a mark.
    pub(crate) fn release(&mut self, mark: &[(usize, usize)]) {
        for (limbs, pool) in &mut self.temporaries {
            pool.used = mark.iter().find(|(of, _)| of == limbs).map_or(0, |&(_, used)| used);
        }
    }

    /// Number of words of the widest value.
    pub(crate) fn widest(&self) -> usize {
        self.widest
    }

    /// The state of a fresh packet, and how many of its words are reset for each packet.
    pub(crate) fn finish(self) -> (Vec<u64>, usize) {
        (self.template, self.live)
    }
}
