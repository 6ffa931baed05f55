//! Compiles the tree-shaped IR into the flat form of [`crate::code`].

mod calls;
mod control;
mod expr;
mod fuse;
mod headers;
mod instances;
mod late;
mod notes;
mod parser;
mod psa;
mod psa_calls;
mod slots;
mod tna;
mod tna_calls;
mod tna_state;
mod v1model;
mod v1model_calls;
mod work;

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use tributary_p4::Architecture;
use tributary_p4::ir::{
    ActionId, Block, ExternId, FieldId, FieldRole, HeaderId, LabelId, Mark, MatchKind, Origin,
    Program, StackId, Stmt, TableId,
};

use self::calls::Presence;
use self::slots::Slots;
use crate::code::{
    ActionCode, Code, DEEPEST_CALL, Element, Errors, ExternOp, HeaderCode, List, Op, Pc,
    RegisterRun, TableCode,
};
use crate::control_flow::target;
use crate::effects::Sharing;
use crate::error::LoadError;
use crate::externs::profile::Profile;
use crate::layout::Layout;
use crate::packet::{CELL_BYTES, DigestShape, FieldList, Shape};
use crate::pass::Entries;
use crate::slot::{Item, NO_SLOT, Slot};
use crate::store::{Instance, Store};
use crate::tables::{ActionShapes, DirectMeter, Extras, Table};
use crate::trace::{Event, Names, Note, Traced};
use crate::wide::WideOp;

/// A program, ready to run.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) code: Arc<Code>,
    pub(crate) shape: Arc<Shape>,
    pub(crate) instances: Vec<Instance>,
    pub(crate) store: Store,
    pub(crate) blocks: Blocks,
}

/// The blocks of the program's package, and what else the passes of its architecture need.
#[derive(Clone, Debug)]
pub(crate) enum Blocks {
    V1model {
        entries: crate::v1model::metadata::Entries,
        intrinsics: crate::v1model::metadata::Intrinsics,
        /// How replicas can share a packet, if they can.
        sharing: Option<Sharing>,
    },
    Tna {
        entries: Entries,
        intrinsics: crate::tna::metadata::Intrinsics,
        /// Whether the program reads ingress parser errors.
        handles_errors: bool,
    },
    Psa {
        entries: Entries,
        intrinsics: crate::psa::metadata::Intrinsics,
        bridges: Box<crate::psa::metadata::Bridges>,
    },
}

/// The kind of the block being compiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Context {
    Parser,
    Control,
    Deparser,
}

/// The compiler's state.
struct Loader<'p> {
    program: &'p Program,
    /// The origin of what is being compiled, for errors.
    at: &'p Place,
    slots: Slots,
    ops: Vec<Op>,
    /// No jump targets an operation after this one, so those may be rewritten.
    barrier: usize,
    context: Context,
    /// Jumps to the end of the enclosing scopes, one list per scope.
    returns: Vec<Vec<usize>>,
    /// Jumps to the end of the enclosing labelled scopes and loops, innermost last.
    labels: Vec<(LabelId, Vec<usize>)>,
    /// Calls with unknown targets so far.
    calls: Vec<(usize, ActionId)>,
    instances: Vec<Instance>,
    store: Store,
    headers: Vec<HeaderCode>,
    lookaheads: Vec<Layout>,
    lists: Vec<List>,
    elements: Vec<Element>,
    element_numbers: HashMap<(StackId, Option<u32>), u32>,
    runs: Vec<RegisterRun>,
    wides: Vec<WideOp>,
    externs: Vec<ExternOp>,
    tables: Vec<TableCode>,
    /// The key slots of each table, including those of selectors.
    key_slots: Vec<Vec<Slot>>,
    digests: Vec<(DigestShape, Vec<Item>)>,
    /// Field lists in calls, in addition to declared ones.
    field_lists: Vec<FieldList>,
    /// The field for the colour of each direct meter.
    meter_targets: HashMap<ExternId, Item>,
    /// For the next call after which the parser deposits a sum: where the parser was then.
    since: Slot,
    /// Sums to deposit where the parser that is being compiled accepts the packet.
    deposits: Vec<tna_calls::Deposit>,
    /// The returns of that parser.
    accepts: Vec<usize>,
    intrinsics: Intrinsics,
    errors: Errors,
    /// Start of each block.
    blocks: Vec<Pc>,
    /// Their roles in the package.
    roles: Vec<&'static str>,
    /// What the code tells an observer, if it is for observed packets.
    notes: Option<notes::Notes>,
}

/// The origin of the part of the program that is being loaded, if it is known.
type Place = Cell<Option<Origin>>;

/// Slots that the engine writes or reads, by architecture.
#[derive(Clone, Debug)]
enum Intrinsics {
    V1model(crate::v1model::metadata::Intrinsics),
    Tna(crate::tna::metadata::Intrinsics),
    Psa(crate::psa::metadata::Intrinsics),
}

impl Intrinsics {
    fn architecture(&self) -> Architecture {
        match self {
            Self::V1model(_) => Architecture::V1model,
            Self::Tna(_) => Architecture::Tna,
            Self::Psa(_) => Architecture::Psa,
        }
    }
}

/// Compiles a program and sets up its state.
pub(crate) fn load(program: &Program) -> Result<Loaded, LoadError> {
    let (loaded, _) = compile(program, None)?;
    Ok(loaded)
}

/// Compiles a program for observed packets, next to what [`load`] made for all others.
pub(crate) fn observed(
    program: &Program,
    code: &Code,
    instances: &[Instance],
) -> Result<Traced, LoadError> {
    let ticks = code.ops.iter().filter_map(|op| match op {
        Op::Tick(work) => Some(*work),
        _ => None,
    });
    let ticks: Vec<u32> = ticks.collect();
    let (loaded, names) = compile(program, Some(&ticks))?;
    let names = names.ok_or_else(|| LoadError::Malformed("there are no notes".to_owned()))?;
    // Packets go from one code to the other.
    if loaded.code.words != code.words || loaded.code.constants != code.constants {
        return Err(LoadError::Malformed("code for observed packets has other slots".to_owned()));
    }
    Ok(Traced::new(program, Arc::unwrap_or_clone(loaded.code), names, instances, loaded.shape.live))
}

/// Compiles a program. With `ticks`, the work of each iteration, the code has notes.
fn compile(program: &Program, ticks: Option<&[u32]>) -> Result<(Loaded, Option<Names>), LoadError> {
    let at = Place::new(Some(program.origins.main()));
    compile_parts(program, ticks, &at).map_err(|error| error.at(program, at.get()))
}

fn compile_parts(
    program: &Program,
    ticks: Option<&[u32]>,
    at: &Place,
) -> Result<(Loaded, Option<Names>), LoadError> {
    let main = at.get();
    let mut loader = Loader::new(program, ticks.is_some(), at)?;
    at.set(main);
    loader.table_keys();
    let nothing = loader.here();
    loader.jump(Op::Return);
    let actions = loader.actions()?;
    let blocks = loader.package()?;
    loader.table_actions(&actions)?;
    for (at, action) in std::mem::take(&mut loader.calls) {
        loader.patch(at, actions[action.index()]);
    }
    loader.thread_jumps();
    at.set(main);
    let names = loader.names();
    Ok((loader.finish(blocks, nothing, ticks)?, names))
}

impl<'p> Loader<'p> {
    /// Places the program's fields and state. `observed` is whether the code will have notes.
    fn new(program: &'p Program, observed: bool, at: &'p Place) -> Result<Self, LoadError> {
        let Some(architecture) = program.architecture() else {
            if program.package.is_empty() {
                return Err(LoadError::NoMain);
            }
            return Err(LoadError::Package(program.package.clone()));
        };
        let mut slots = Slots::new(program);
        let intrinsics = match architecture {
            Architecture::V1model => Intrinsics::V1model(v1model::intrinsics(program, &mut slots)),
            Architecture::Tna => {
                tna::check(program, at)?;
                Intrinsics::Tna(tna::intrinsics(program, &mut slots))
            }
            Architecture::Psa => Intrinsics::Psa(psa::intrinsics(program, &mut slots)),
        };
        let mut externs = instances::instances(program, architecture, &mut slots, at)?;
        let tables = tables(program, architecture, &mut externs, at)?;
        check_depth(program, at)?;
        let headers = headers::headers(program, &slots, at)?;
        let since = slots.words(tna_calls::deposits(program));
        slots.end_live();
        Ok(Self {
            program,
            at,
            slots,
            ops: Vec::new(),
            barrier: 0,
            context: Context::Control,
            returns: Vec::new(),
            labels: Vec::new(),
            calls: Vec::new(),
            instances: std::mem::take(&mut externs.instances),
            store: externs.into_store(tables),
            headers,
            lookaheads: Vec::new(),
            lists: Vec::new(),
            elements: Vec::new(),
            element_numbers: HashMap::new(),
            runs: Vec::new(),
            wides: Vec::new(),
            externs: Vec::new(),
            tables: Vec::new(),
            key_slots: Vec::new(),
            digests: Vec::new(),
            field_lists: Vec::new(),
            meter_targets: HashMap::new(),
            since,
            deposits: Vec::new(),
            accepts: Vec::new(),
            blocks: Vec::new(),
            roles: Vec::new(),
            notes: observed.then(notes::Notes::default),
            intrinsics,
            errors: errors(program),
        })
    }

    /// Compiles the blocks of the package.
    fn package(&mut self) -> Result<Blocks, LoadError> {
        Ok(match self.intrinsics.clone() {
            Intrinsics::V1model(intrinsics) => {
                Blocks::V1model { entries: self.v1model_blocks()?, intrinsics, sharing: None }
            }
            Intrinsics::Tna(intrinsics) => {
                let handles_errors = tna::handles_errors(self.program);
                Blocks::Tna { entries: self.tna_blocks()?, intrinsics, handles_errors }
            }
            Intrinsics::Psa(intrinsics) => {
                let (entries, bridges) = (self.psa_blocks()?, Box::new(self.psa_bridges()));
                Blocks::Psa { entries, intrinsics, bridges }
            }
        })
    }

    /// Puts the program together. `nothing` is the action that does nothing.
    fn finish(
        mut self,
        mut blocks: Blocks,
        nothing: Pc,
        ticks: Option<&[u32]>,
    ) -> Result<Loaded, LoadError> {
        for (table, ir) in self.store.tables.iter_mut().zip(&self.program.tables) {
            for target in ir.attached.iter().filter_map(|meter| self.meter_targets.get(meter)) {
                table.set_meter_target(*target);
            }
        }
        let declared = self.program.field_lists.iter().map(|(id, fields)| FieldList {
            id: *id,
            items: fields.iter().map(|&field| self.item(field)).collect(),
        });
        let mut lists: Vec<FieldList> = declared.collect();
        lists.append(&mut self.field_lists);
        let (digests, digest_items) = std::mem::take(&mut self.digests).into_iter().unzip();
        let metadata = self.metadata();
        let widest = self.slots.widest();
        let constants = self.slots.constant_words();
        let (template, live) = self.slots.finish();
        if template.len() >= Slot::MAX as usize / 2 || self.ops.len() >= Pc::MAX as usize / 2 {
            return Err(LoadError::Limit("the program's size".to_owned()));
        }
        let mut code = Code {
            ops: self.ops,
            headers: self.headers,
            lookaheads: self.lookaheads,
            lists: self.lists,
            elements: self.elements,
            runs: self.runs,
            wides: self.wides,
            externs: self.externs,
            tables: self.tables,
            digests: digest_items,
            nothing,
            errors: self.errors,
            blocks: self.blocks,
            words: template.len(),
            constants,
        };
        work::set_ticks(&mut code, &self.store, ticks)?;
        self.store.make_room(&code, widest);
        let mut shape = Shape { template, live, metadata, lists, digests, ..Shape::default() };
        match &mut blocks {
            Blocks::V1model { entries, intrinsics, sharing } => {
                let registers = &self.store.registers;
                *sharing = v1model::sharing(&code, registers, entries, intrinsics, live);
                shape.late = late::late(&code, entries.parser, &shape.lists);
                shape.requests = intrinsics.requests().to_vec();
                shape.travelling = live;
            }
            // No late headers: each of the two parsers would have to clear the other's.
            Blocks::Tna { .. } => shape.cell_bytes = CELL_BYTES,
            Blocks::Psa { .. } => {}
        }
        shape.early = late::others(&shape.late, live);
        let (code, shape) = (Arc::new(code), Arc::new(shape));
        Ok(Loaded { code, shape, instances: self.instances, store: self.store, blocks })
    }

    /// The live words outside headers.
    fn metadata(&self) -> Vec<Range<usize>> {
        let mut is_header = vec![false; self.slots.live()];
        let stacks = self.program.stacks.iter().map(|stack| stack.next_index);
        let fields = (0..).map(FieldId).zip(&self.program.fields);
        let of_headers = fields.filter(|(_, field)| {
            matches!(field.role, FieldRole::Header(_) | FieldRole::Validity(_))
        });
        for field in of_headers.map(|(id, _)| id).chain(stacks) {
            let first = self.slots.field(field) as usize;
            is_header[first..first + self.program.fields[field.index()].ty.limbs()].fill(true);
        }
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for at in (0..is_header.len()).filter(|&at| !is_header[at]) {
            match ranges.last_mut() {
                Some(last) if last.end == at => last.end += 1,
                _ => ranges.push(at..at + 1),
            }
        }
        ranges
    }

    /// Slot and width of a field.
    fn item(&self, field: FieldId) -> Item {
        Item { slot: self.slots.field(field), width: self.program.fields[field.index()].ty.width }
    }

    fn header(&self, header: HeaderId) -> &HeaderCode {
        &self.headers[header.index()]
    }

    /// Appends an operation.
    fn op(&mut self, op: Op) {
        self.ops.push(op);
    }

    /// Appends a jump, to be patched. Returns its position.
    fn jump(&mut self, op: Op) -> usize {
        self.flush();
        self.ops.push(op);
        self.barrier = self.ops.len();
        self.ops.len() - 1
    }

    /// The position of the next operation, as a jump's target.
    fn here(&mut self) -> Pc {
        self.flush();
        self.ops.len() as Pc
    }

    /// Ends straight-line code: fuses operations.
    fn flush(&mut self) {
        if self.notes.is_some() {
            // Each statement has operations of its own.
            self.barrier = self.ops.len();
            return;
        }
        fuse::fuse(&mut self.ops, self.barrier, &self.store.registers, &mut self.runs);
        self.barrier = self.ops.len();
    }

    /// Sets a jump's target.
    fn patch(&mut self, at: usize, target: Pc) {
        match &mut self.ops[at] {
            Op::Jump(to) | Op::Call(to) => *to = target,
            Op::JumpIf { to, .. }
            | Op::JumpUnless { to, .. }
            | Op::JumpEq { to, .. }
            | Op::JumpNe { to, .. }
            | Op::JumpMaskedNe { to, .. }
            | Op::JumpOutside { to, .. } => *to = target,
            _ => {}
        }
    }

    /// Makes all these jumps lead to the next operation.
    fn patch_here(&mut self, jumps: &[usize]) {
        let here = self.here();
        for &jump in jumps {
            self.patch(jump, here);
        }
    }

    /// Redirects jumps to jumps to their final target, and replaces jumps to a return.
    fn thread_jumps(&mut self) {
        // In reverse order: most jumps lead forward, to jumps that are already redirected.
        for at in (0..self.ops.len()).rev() {
            let Some(mut target) = target(&self.ops[at]) else { continue };
            // A loop of jumps alone is a parser that consumes nothing: its tick ends the chain.
            for _ in 0..self.ops.len() {
                match self.ops[target as usize] {
                    Op::Jump(next) if next != target => target = next,
                    _ => break,
                }
            }
            self.patch(at, target);
            if matches!(self.ops[at], Op::Jump(_)) && self.ops[target as usize] == Op::Return {
                self.ops[at] = Op::Return;
            }
        }
    }

    /// Places the keys of all tables: keys that are fields stay where they are.
    fn table_keys(&mut self) {
        for table in &self.program.tables {
            let (mut keys, mut selected) = (Vec::new(), Vec::new());
            let mut slots = Vec::new();
            for key in &table.keys {
                let item = match key.value.kind {
                    tributary_p4::ir::ExprKind::Field(field) => self.item(field),
                    _ => Item {
                        slot: self.slots.words(key.value.ty.limbs()),
                        width: key.value.ty.width,
                    },
                };
                slots.push(item.slot);
                if key.kind == MatchKind::Selector {
                    let valid = self.validity(&key.value);
                    selected.push((Presence { valid, length: NO_SLOT }, item));
                } else {
                    keys.push(item);
                }
            }
            let profile =
                table.attached.iter().find_map(|attached| match self.instances[attached.index()] {
                    Instance::Profile(profile) => Some(profile),
                    _ => None,
                });
            let selected = (!selected.is_empty()).then(|| self.list_of(&selected));
            self.key_slots.push(slots);
            self.tables.push(TableCode { keys, selected, profile, actions: Vec::new() });
        }
    }

    /// Compiles all actions. Returns their entries.
    fn actions(&mut self) -> Result<Vec<Pc>, LoadError> {
        let mut places = Vec::new();
        for action in &self.program.actions {
            places.push(self.here());
            self.at.set(None);
            self.note(|| Note::Action(ActionId(places.len() as u32 - 1)));
            if self.notes.is_some() {
                self.scope(&action.body)?;
                self.note(|| Note::Event(Event::ActionEnd));
            } else {
                self.statements(&action.body)?;
            }
            self.jump(Op::Return);
        }
        Ok(places)
    }

    /// Compiles the start of actions by tables.
    fn table_actions(&mut self, actions: &[Pc]) -> Result<(), LoadError> {
        self.context = Context::Control;
        for (number, table) in self.program.tables.iter().enumerate() {
            for offered in &table.actions {
                let body = actions[offered.action.index()];
                let entry = if offered.prologue.is_empty() {
                    body
                } else {
                    let entry = self.here();
                    self.statements(&offered.prologue)?;
                    self.jump(Op::Jump(body));
                    entry
                };
                let params = &self.program.actions[offered.action.index()].params;
                let limbs = |param: &FieldId| self.program.fields[param.index()].ty.limbs() as u32;
                self.tables[number].actions.push(ActionCode {
                    entry,
                    params: params.first().map_or(0, |&param| self.slots.field(param)),
                    words: params.iter().map(limbs).sum(),
                });
            }
        }
        Ok(())
    }

    fn parser_block(&mut self, role: &'static str) -> Result<Pc, LoadError> {
        let Some(Block::Parser(parser)) = self.program.block(role) else {
            return Err(self.no_block(role, "parser"));
        };
        self.at.set(None);
        self.context = Context::Parser;
        let entry = self.parser(parser)?;
        self.blocks.push(entry);
        self.roles.push(role);
        Ok(entry)
    }

    fn control(&mut self, role: &'static str) -> Result<Pc, LoadError> {
        let Some(Block::Control(control)) = self.program.block(role) else {
            return Err(self.no_block(role, "control"));
        };
        self.at.set(None);
        let entry = self.here();
        self.blocks.push(entry);
        self.roles.push(role);
        self.statements(&self.program.controls[control.index()].body)?;
        self.jump(Op::Return);
        Ok(entry)
    }

    fn no_block(&self, role: &'static str, kind: &'static str) -> LoadError {
        let error = LoadError::Block { package: self.program.package.clone(), role, kind };
        error.at(self.program, Some(self.program.origins.main()))
    }
}

fn error_code(program: &Program, name: &str, otherwise: u64) -> u64 {
    program.error_code(name).unwrap_or(otherwise)
}

/// The codes of the engine's parser errors: the program's, or those of `core.p4`.
fn errors(program: &Program) -> Errors {
    let code = |name: &str, otherwise: u64| error_code(program, name, otherwise);
    Errors {
        packet_too_short: code("PacketTooShort", 1),
        stack_out_of_bounds: code("StackOutOfBounds", 3),
        header_too_short: code("HeaderTooShort", 4),
        timeout: code("ParserTimeout", 5),
        invalid_argument: code("ParserInvalidArgument", 6),
        counter_range: code("CounterRange", u64::MAX),
    }
}

/// Sets up all tables, and the allowed actions of their action profiles.
fn tables(
    program: &Program,
    architecture: Architecture,
    externs: &mut instances::Instances,
    at: &Place,
) -> Result<Vec<Table>, LoadError> {
    // The first table of each profile.
    let mut first: HashMap<u32, usize> = HashMap::new();
    let mut tables = Vec::new();
    for (number, table) in program.tables.iter().enumerate() {
        at.set(program.origins.table(TableId(number as u32)));
        let refuse = |reason: String| Err(LoadError::Table { name: table.name.clone(), reason });
        let mut cell = Vec::new();
        let mut extras = Extras { ages: table.idle_timeout, ..Extras::default() };
        for attached in &table.attached {
            match externs.instances[attached.index()] {
                Instance::DirectCounter => {
                    extras.counter = true;
                    extras.counts_itself = architecture == Architecture::V1model;
                }
                Instance::DirectMeter(unit) => {
                    let meters_itself = architecture == Architecture::V1model;
                    extras.meter = Some(DirectMeter { unit, target: None, meters_itself });
                }
                Instance::Profile(profile) => extras.profile = Some(profile),
                Instance::DirectFilter => extras.filter = true,
                Instance::DirectRegister(_) => {
                    cell = tna_state::initial_cell(&program.externs[attached.index()])?;
                }
                _ => {}
            }
        }
        // Without an action selector, selector keys are ignored, as p4c does.
        if let Some(profile) = extras.profile.map(|profile| profile as usize) {
            let leader = *first.entry(profile as u32).or_insert(number);
            let actions = |table: usize| program.tables[table].actions.iter().map(|a| a.action);
            let alike = actions(leader).eq(actions(number));
            if !alike && architecture != Architecture::Psa {
                let other = &program.tables[leader].name;
                return refuse(format!(
                    "it shares an action profile with `{other}`, but lists other actions"
                ));
            }
            // PSA allows it. Members have actions of the first table, so this one finds none of
            // them: it has a profile of its own, which stays empty.
            let profile = if alike {
                profile
            } else {
                let selector = externs.profiles[profile].selector.clone();
                externs.profiles.push(Profile::new(0, selector));
                extras.profile = Some(externs.profiles.len() as u32 - 1);
                externs.profiles.len() - 1
            };
            externs.profiles[profile].set_actions(ActionShapes::new(program, table));
        }
        let mut table = Table::new(program, table, extras)?;
        table.set_cell(cell);
        tables.push(table);
    }
    Ok(tables)
}

/// The slot of an architecture's field; an unused one if the program lacks the field.
fn intrinsic(program: &Program, slots: &mut Slots, name: &str) -> Item {
    match program.intrinsic_field(name) {
        Some(field) => {
            Item { slot: slots.field(field), width: program.fields[field.index()].ty.width.min(64) }
        }
        None => Item { slot: slots.words(1), width: 64 },
    }
}

/// Refuses actions whose calls are recursive or nested too deeply.
fn check_depth(program: &Program, at: &Place) -> Result<(), LoadError> {
    fn deepest(program: &Program, body: &[Stmt], level: usize) -> Result<(), LoadError> {
        if level > DEEPEST_CALL {
            return Err(LoadError::Limit("the nesting of action calls".to_owned()));
        }
        body.iter().try_for_each(|stmt| match stmt {
            Stmt::Action(action) => {
                deepest(program, &program.actions[action.index()].body, level + 1)
            }
            Stmt::If { then, otherwise, .. } => {
                deepest(program, then, level)?;
                deepest(program, otherwise, level)
            }
            Stmt::Switch { cases, default, .. } => {
                cases.iter().try_for_each(|(_, body)| deepest(program, body, level))?;
                deepest(program, default, level)
            }
            Stmt::Block(body) | Stmt::Loop(_, body) | Stmt::Labelled(_, body) => {
                deepest(program, body, level)
            }
            _ => Ok(()),
        })
    }
    program.actions.iter().try_for_each(|action| {
        let mark = action.body.iter().find_map(|stmt| origin_of(program, stmt));
        at.set(mark);
        deepest(program, &action.body, 2)
    })
}

/// The origin of the statements that follow a mark.
fn origin_of(program: &Program, statement: &Stmt) -> Option<Origin> {
    match statement {
        Stmt::Mark(Mark::At(_, number)) => program.origins.statement(*number),
        _ => None,
    }
}
