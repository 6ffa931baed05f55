//! Compiles the tree-shaped IR into the flat form of [`crate::code`].

mod calls;
mod control;
mod expr;
mod fuse;
mod headers;
mod parser;
mod slots;

use std::collections::HashMap;

use tributary_p4::ir::{
    ActionId, Block, CtorArg, Extern, FieldId, HeaderId, Program, StackId, Stmt,
};

use self::slots::Slots;
use crate::code::{
    ActionCode, Code, Element, Entries, Errors, ExternOp, HeaderCode, Intrinsics, List, Op, Pc,
    RegisterRun, Slot, TableCode,
};
use crate::error::LoadError;
use crate::externs::counter::Counter;
use crate::externs::register::Registers;
use crate::layout::{Item, Layout};
use crate::packet::{FieldList, Shape};
use crate::tables::Table;
use crate::wide::WideOp;

/// What an extern instance is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Instance {
    /// Index into the registers.
    Register(u32),
    /// Index into the counters.
    Counter(u32),
    /// Counts at the entries of the table it is attached to.
    DirectCounter,
}

/// A program, ready to run.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) code: Code,
    pub(crate) shape: Shape,
    pub(crate) instances: Vec<Instance>,
    pub(crate) registers: Registers,
    pub(crate) counters: Vec<Counter>,
    pub(crate) tables: Vec<Table>,
    /// Words of the widest value.
    pub(crate) widest: usize,
}

/// The kind of block that is being compiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Context {
    Parser,
    Control,
    Deparser,
}

/// Actions that call actions may nest so deep.
pub(crate) const DEEPEST_CALL: usize = 14;

/// The compiler's state.
struct Loader<'p> {
    program: &'p Program,
    slots: Slots,
    ops: Vec<Op>,
    /// No jump leads behind this operation: what follows may be rewritten.
    barrier: usize,
    context: Context,
    /// Jumps to the end of the enclosing scopes, one list a scope.
    returns: Vec<Vec<usize>>,
    /// Calls whose targets are not known yet.
    calls: Vec<(usize, ActionId)>,
    instances: Vec<Instance>,
    registers: Registers,
    headers: Vec<HeaderCode>,
    lookaheads: Vec<Layout>,
    lists: Vec<List>,
    elements: Vec<Element>,
    element_numbers: HashMap<(StackId, Option<u32>), u32>,
    runs: Vec<RegisterRun>,
    wides: Vec<WideOp>,
    externs: Vec<ExternOp>,
    tables: Vec<TableCode>,
    intrinsics: Intrinsics,
    errors: Errors,
}

/// Compiles a program and sets up what outlives its packets.
pub(crate) fn load(program: &Program) -> Result<Loaded, LoadError> {
    if program.package != "V1Switch" {
        return Err(LoadError::Package(program.package.clone()));
    }
    let (instances, register_shapes, counter_sizes) = instances(program)?;
    let mut tables = program
        .tables
        .iter()
        .map(|table| Table::new(program, table))
        .collect::<Result<Vec<_>, _>>()?;
    for (table, ir) in tables.iter_mut().zip(&program.tables) {
        for attached in &ir.attached {
            table.has_counter |= instances[attached.index()] == Instance::DirectCounter;
        }
    }
    check_depth(program)?;

    let mut slots = Slots::new(program);
    let intrinsics = intrinsics(program, &mut slots);
    let headers = headers::headers(program, &slots)?;
    slots.end_live();
    let mut loader = Loader {
        program,
        slots,
        ops: Vec::new(),
        barrier: 0,
        context: Context::Control,
        returns: Vec::new(),
        calls: Vec::new(),
        instances,
        registers: Registers::new(&register_shapes),
        headers,
        lookaheads: Vec::new(),
        lists: Vec::new(),
        elements: Vec::new(),
        element_numbers: HashMap::new(),
        runs: Vec::new(),
        wides: Vec::new(),
        externs: Vec::new(),
        tables: Vec::new(),
        intrinsics,
        errors: Errors {
            packet_too_short: error_code(program, "PacketTooShort", 1),
            header_too_short: error_code(program, "HeaderTooShort", 4),
            timeout: error_code(program, "ParserTimeout", 5),
            invalid_argument: error_code(program, "ParserInvalidArgument", 6),
        },
    };
    loader.table_keys();
    let actions = loader.actions()?;
    let entries = loader.blocks()?;
    loader.table_actions(&actions)?;
    for (at, action) in std::mem::take(&mut loader.calls) {
        loader.patch(at, actions[action.index()]);
    }
    loader.thread_jumps();
    loader.finish(entries, tables, &counter_sizes)
}

impl<'p> Loader<'p> {
    fn finish(
        self,
        entries: Entries,
        tables: Vec<Table>,
        counter_sizes: &[usize],
    ) -> Result<Loaded, LoadError> {
        let lists = self
            .program
            .field_lists
            .iter()
            .map(|(id, fields)| FieldList {
                id: *id,
                items: fields.iter().map(|&field| self.item(field)).collect(),
            })
            .collect();
        let widest = self.slots.widest();
        let (template, live) = self.slots.finish();
        if template.len() >= Slot::MAX as usize / 2 || self.ops.len() >= Pc::MAX as usize / 2 {
            return Err(LoadError::Limit("the program's size".to_owned()));
        }
        Ok(Loaded {
            code: Code {
                ops: self.ops,
                entries,
                headers: self.headers,
                lookaheads: self.lookaheads,
                lists: self.lists,
                elements: self.elements,
                runs: self.runs,
                wides: self.wides,
                externs: self.externs,
                tables: self.tables,
                intrinsics: self.intrinsics,
                errors: self.errors,
            },
            shape: Shape { template, live, lists },
            instances: self.instances,
            registers: self.registers,
            counters: counter_sizes.iter().map(|&size| Counter::new(size)).collect(),
            tables,
            widest,
        })
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

    /// Appends a jump, to be patched; gives its place.
    fn jump(&mut self, op: Op) -> usize {
        self.flush();
        self.ops.push(op);
        self.barrier = self.ops.len();
        self.ops.len() - 1
    }

    /// The place of the next operation, as a jump's target.
    fn here(&mut self) -> Pc {
        self.flush();
        self.ops.len() as Pc
    }

    /// Ends a straight line of operations: joins what can be done at once.
    fn flush(&mut self) {
        fuse::fuse(&mut self.ops, self.barrier, &self.registers, &mut self.runs);
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

    /// Makes jumps that lead to jumps lead to where those lead, and those that lead to a return be
    /// that return.
    fn thread_jumps(&mut self) {
        for at in 0..self.ops.len() {
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

    /// Places the keys of all tables: those that are fields are matched where they are.
    fn table_keys(&mut self) {
        for table in &self.program.tables {
            let keys = table
                .keys
                .iter()
                .map(|key| match key.value.kind {
                    tributary_p4::ir::ExprKind::Field(field) => self.item(field),
                    _ => Item {
                        slot: self.slots.words(key.value.ty.limbs()),
                        width: key.value.ty.width,
                    },
                })
                .collect();
            self.tables.push(TableCode { keys, actions: Vec::new() });
        }
    }

    /// Compiles all actions; gives their places.
    fn actions(&mut self) -> Result<Vec<Pc>, LoadError> {
        let mut places = Vec::new();
        for action in &self.program.actions {
            places.push(self.here());
            self.statements(&action.body)?;
            self.jump(Op::Return);
        }
        Ok(places)
    }

    /// Compiles what tables do before an action's body.
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
                let params = self.program.actions[offered.action.index()]
                    .params
                    .first()
                    .map_or(0, |&param| self.slots.field(param));
                self.tables[number].actions.push(ActionCode { entry, params });
            }
        }
        Ok(())
    }

    /// Compiles the blocks of the package.
    fn blocks(&mut self) -> Result<Entries, LoadError> {
        let parser = match self.program.block("p") {
            Some(Block::Parser(parser)) => parser,
            _ => return Err(LoadError::Block { role: "p", kind: "parser" }),
        };
        self.context = Context::Parser;
        let parser = self.parser(&self.program.parsers[parser.index()])?;
        self.context = Context::Control;
        let verify = self.control("vr")?;
        let ingress = self.control("ig")?;
        let egress = self.control("eg")?;
        let compute = self.control("ck")?;
        self.context = Context::Deparser;
        let deparser = self.control("dep")?;
        Ok(Entries { parser, verify, ingress, egress, compute, deparser })
    }

    fn control(&mut self, role: &'static str) -> Result<Pc, LoadError> {
        let Some(Block::Control(control)) = self.program.block(role) else {
            return Err(LoadError::Block { role, kind: "control" });
        };
        let entry = self.here();
        self.statements(&self.program.controls[control.index()].body)?;
        self.jump(Op::Return);
        Ok(entry)
    }
}

/// Where a jump leads.
fn target(op: &Op) -> Option<Pc> {
    match *op {
        Op::Jump(to)
        | Op::JumpIf { to, .. }
        | Op::JumpUnless { to, .. }
        | Op::JumpEq { to, .. }
        | Op::JumpNe { to, .. }
        | Op::JumpMaskedNe { to, .. }
        | Op::JumpOutside { to, .. } => Some(to),
        _ => None,
    }
}

fn error_code(program: &Program, name: &str, otherwise: u64) -> u64 {
    program.error_code(name).unwrap_or(otherwise)
}

/// Most bytes that the registers or a counter of a program may take.
const LARGEST_STATE: u128 = 1 << 33;

type Instances = (Vec<Instance>, Vec<(u64, u32)>, Vec<usize>);

/// Sorts out the extern instances: what they are, the shapes of registers, the sizes of counters.
fn instances(program: &Program) -> Result<Instances, LoadError> {
    let mut instances = Vec::new();
    let mut registers = Vec::new();
    let mut counters = Vec::new();
    let mut bytes = 0u128;
    for instance in &program.externs {
        instances.push(match instance.type_name.as_str() {
            "register" => {
                let Some(element) = instance.type_args.first() else {
                    return Err(LoadError::ExternUse {
                        name: instance.name.clone(),
                        reason: "the type of its elements is not a scalar".to_owned(),
                    });
                };
                let size = size(instance)?;
                bytes = bytes.saturating_add(size.saturating_mul(element.limbs() as u128 * 8));
                registers.push((size as u64, element.width));
                Instance::Register(registers.len() as u32 - 1)
            }
            "counter" => {
                let size = size(instance)?;
                bytes = bytes.saturating_add(size.saturating_mul(16));
                counters.push(size as usize);
                Instance::Counter(counters.len() as u32 - 1)
            }
            "direct_counter" => Instance::DirectCounter,
            other => {
                return Err(LoadError::Extern(format!("{other} {}", instance.name)));
            }
        });
        if bytes > LARGEST_STATE {
            return Err(LoadError::Limit(format!("the size of `{}`", instance.name)));
        }
    }
    Ok((instances, registers, counters))
}

fn size(instance: &Extern) -> Result<u128, LoadError> {
    match instance.args.first() {
        Some(CtorArg::Int(size)) => Ok(*size),
        _ => Err(LoadError::ExternUse {
            name: instance.name.clone(),
            reason: "its size is not an integer".to_owned(),
        }),
    }
}

/// Finds the standard metadata.
fn intrinsics(program: &Program, slots: &mut Slots) -> Intrinsics {
    let mut item = |name: &str| match program.intrinsic_field(name) {
        Some(field) => {
            Item { slot: slots.field(field), width: program.fields[field.index()].ty.width.min(64) }
        }
        None => Item { slot: slots.words(1), width: 64 },
    };
    Intrinsics {
        ingress_port: item("ingress_port"),
        egress_spec: item("egress_spec"),
        egress_port: item("egress_port"),
        instance_type: item("instance_type"),
        packet_length: item("packet_length"),
        enq_timestamp: item("enq_timestamp"),
        enq_qdepth: item("enq_qdepth"),
        deq_timedelta: item("deq_timedelta"),
        deq_qdepth: item("deq_qdepth"),
        ingress_global_timestamp: item("ingress_global_timestamp"),
        egress_global_timestamp: item("egress_global_timestamp"),
        mcast_grp: item("mcast_grp"),
        egress_rid: item("egress_rid"),
        checksum_error: item("checksum_error"),
        parser_error: item("parser_error"),
        resubmit: slots.words(1),
        recirculate: slots.words(1),
        truncate: slots.words(1),
        failed: slots.words(1),
    }
}

/// Refuses actions that call each other too deep or for ever.
fn check_depth(program: &Program) -> Result<(), LoadError> {
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
            Stmt::Block(body) => deepest(program, body, level),
            _ => Ok(()),
        })
    }
    program.actions.iter().try_for_each(|action| deepest(program, &action.body, 2))
}
