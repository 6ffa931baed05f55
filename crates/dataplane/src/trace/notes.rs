//! The code for observed packets, and what its notes stand for.

use std::collections::HashMap;

use tributary_p4::ir::{ActionId, ExternId, FieldId, ParserId, Program, StateId, Target};

use super::{Event, Request};
use crate::code::{Code, Pc};
use crate::slot::{Item, Slot};
use crate::store::Instance;

/// What an operation [`crate::code::Op::Note`] stands for.
#[derive(Clone, Debug)]
pub(crate) enum Note {
    /// An event that is known in advance.
    Event(Event),
    /// The parser goes on, after a `select` on these values.
    Transition {
        parser: ParserId,
        state: StateId,
        on: Vec<Item>,
        case: Option<usize>,
        target: Target,
    },
    /// The start of one of the two sides of a branch.
    Condition { branch: u32, text: String, reads: Vec<FieldId>, holds: bool },
    /// The start of a case.
    Switch { branch: u32, text: String, on: Item, case: Option<usize>, label: String },
    /// The start of an action.
    Action(ActionId),
}

/// The code for observed packets, and the names of what it works on.
#[derive(Debug)]
pub(crate) struct Traced {
    pub(crate) code: Code,
    pub(crate) notes: Vec<Note>,
    /// Slot and width of each field of the program.
    pub(crate) fields: Vec<Item>,
    /// The field that each live word belongs to.
    pub(crate) words: Vec<Option<FieldId>>,
    /// Words that hold requests of the program.
    pub(crate) requests: Vec<(Slot, Request)>,
    /// Role and name of each block, in the order of [`Code::blocks`].
    pub(crate) blocks: Vec<(String, String)>,
    /// The program's register, and the scalar of its cells, of each of the engine's registers.
    pub(crate) registers: Vec<(ExternId, u32)>,
    pub(crate) counters: Vec<ExternId>,
    pub(crate) meters: Vec<ExternId>,
    /// Widths of the parameters of each action of each table.
    pub(crate) params: Vec<Vec<Vec<u32>>>,
    /// Whether each action of each table is for entries.
    pub(crate) for_entries: Vec<Vec<bool>>,
}

impl Traced {
    pub(super) fn block(&self, code: &Code, entry: Pc) -> Option<usize> {
        code.blocks.iter().position(|known| *known == entry)
    }
}

/// What the loader knows about observed packets.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) notes: Vec<Note>,
    pub(crate) fields: Vec<Item>,
    pub(crate) requests: Vec<(Slot, Request)>,
    pub(crate) blocks: Vec<(String, String)>,
}

impl Traced {
    pub(crate) fn new(
        program: &Program,
        code: Code,
        names: Names,
        instances: &[Instance],
        live: usize,
    ) -> Self {
        let Names { notes, fields, requests, blocks } = names;
        let mut words = vec![None; live];
        for (item, id) in fields.iter().zip((0..).map(FieldId)) {
            let first = item.slot as usize;
            words[first..first + item.width.div_ceil(64) as usize].fill(Some(id));
        }
        let mut registers = HashMap::new();
        let (mut counters, mut meters) = (HashMap::new(), HashMap::new());
        for (instance, id) in instances.iter().zip((0..).map(ExternId)) {
            match *instance {
                Instance::Register { first, scalars } => {
                    registers.extend((0..scalars).map(|scalar| (first + scalar, (id, scalar))));
                }
                Instance::Counter(number) => drop(counters.insert(number, id)),
                Instance::Meter(number) => drop(meters.insert(number, id)),
                _ => {}
            }
        }
        let width = |field: &FieldId| program.fields[field.index()].ty.width;
        let widths = |action: ActionId| {
            program.actions[action.index()].params.iter().map(width).collect::<Vec<_>>()
        };
        let of_tables = program.tables.iter();
        Self {
            code,
            notes,
            fields,
            words,
            requests,
            blocks,
            registers: in_order(&registers),
            counters: in_order(&counters),
            meters: in_order(&meters),
            params: of_tables
                .clone()
                .map(|table| table.actions.iter().map(|offered| widths(offered.action)).collect())
                .collect(),
            for_entries: of_tables
                .map(|table| {
                    table.actions.iter().map(|offered| offered.scope.in_entries()).collect()
                })
                .collect(),
        }
    }
}

/// The values by their keys, which count from zero.
fn in_order<T: Copy>(map: &HashMap<u32, T>) -> Vec<T> {
    (0..).map_while(|number| map.get(&number).copied()).collect()
}
