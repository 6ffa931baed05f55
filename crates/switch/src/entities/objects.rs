//! What the P4Info says about each object, and where the engine keeps it.

use std::collections::BTreeMap;

use tributary_p4::ir::{self, ExternId, TableId};
use tributary_p4runtime_proto::p4::config::v1::{self as info, P4Info};

use super::Refusal;

/// The objects of a program by id.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    tables: BTreeMap<u32, Table>,
    counters: BTreeMap<u32, Array>,
    registers: BTreeMap<u32, Register>,
    /// Fields of the header that packets to the controller start with.
    pub(crate) packet_in: Vec<MetadataField>,
    /// Fields of the header that packets from the controller start with.
    pub(crate) packet_out: Vec<MetadataField>,
}

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) at: TableId,
    /// In the engine's order, which need not be that of the ids.
    pub(crate) keys: Vec<Key>,
    pub(crate) actions: Vec<Action>,
    pub(crate) is_const: bool,
    pub(crate) const_default: bool,
    pub(crate) has_direct_counter: bool,
    pub(crate) has_direct_meter: bool,
    pub(crate) has_implementation: bool,
    pub(crate) idle_timeout: bool,
}

#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) width: u32,
    pub(crate) kind: ir::MatchKind,
}

#[derive(Debug)]
pub(crate) struct Action {
    pub(crate) id: u32,
    pub(crate) name: String,
    /// Position in the engine's table.
    pub(crate) index: u32,
    pub(crate) params: Vec<Param>,
}

#[derive(Clone, Debug)]
pub(crate) struct Param {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) width: u32,
}

/// A counter array.
#[derive(Debug)]
pub(crate) struct Array {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) at: ExternId,
    pub(crate) size: u64,
}

#[derive(Debug)]
pub(crate) struct Register {
    pub(crate) array: Array,
    /// None where elements are neither plain bit strings nor structs of them.
    pub(crate) element: Option<Element>,
}

/// How a register's element is written in P4Runtime.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Element {
    Bits(u32),
    Bool,
    /// The widths of the members: a register of pairs.
    Struct(Vec<u32>),
}

/// A field of a controller header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MetadataField {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) width: u32,
}

impl Objects {
    /// Finds every object of a P4Info in a program, by name.
    pub(crate) fn new(program: &ir::Program, p4info: &P4Info) -> Result<Self, Refusal> {
        let mut objects = Self::default();
        for table in &p4info.tables {
            let table = find_table(program, p4info, table)?;
            objects.tables.insert(table.id, table);
        }
        for counter in &p4info.counters {
            let types = ["counter", "Counter"];
            let array = find_array(program, counter.preamble.as_ref(), counter.size, types)?;
            objects.counters.insert(array.id, array);
        }
        for register in &p4info.registers {
            let size = i64::from(register.size);
            let types = ["register", "Register"];
            let array = find_array(program, register.preamble.as_ref(), size, types)?;
            let element = register.type_spec.as_ref().and_then(|spec| element(spec, p4info));
            objects.registers.insert(array.id, Register { array, element });
        }
        for header in &p4info.controller_packet_metadata {
            let name = &preamble(header.preamble.as_ref())?.name;
            let fields = header.metadata.iter().map(metadata_field).collect::<Result<_, _>>()?;
            match name.as_str() {
                "packet_in" => objects.packet_in = fields,
                "packet_out" => objects.packet_out = fields,
                _ => {}
            }
        }
        Ok(objects)
    }

    pub(crate) fn table(&self, id: u32) -> Result<&Table, Refusal> {
        self.tables.get(&id).ok_or_else(|| unknown("table", id))
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.values()
    }

    pub(crate) fn counter(&self, id: u32) -> Result<&Array, Refusal> {
        self.counters.get(&id).ok_or_else(|| unknown("counter", id))
    }

    pub(crate) fn counters(&self) -> impl Iterator<Item = &Array> {
        self.counters.values()
    }

    pub(crate) fn register(&self, id: u32) -> Result<&Register, Refusal> {
        self.registers.get(&id).ok_or_else(|| unknown("register", id))
    }

    pub(crate) fn registers(&self) -> impl Iterator<Item = &Register> {
        self.registers.values()
    }
}

impl Table {
    /// Whether entries are ranked by the controller.
    pub(crate) fn ranked(&self) -> bool {
        use ir::MatchKind::{Optional, Range, Ternary};
        self.keys.iter().any(|key| matches!(key.kind, Ternary | Range | Optional))
    }

    pub(crate) fn action(&self, id: u32) -> Result<&Action, Refusal> {
        self.actions.iter().find(|a| a.id == id).ok_or_else(|| {
            Refusal::invalid(format!("table `{}` has no action with id {id}", self.name))
        })
    }
}

fn unknown(kind: &str, id: u32) -> Refusal {
    Refusal::not_found(format!("no {kind} has id {id} ({id:#010x})"))
}

fn mismatch(what: String) -> Refusal {
    Refusal::invalid(format!("the P4Info does not belong to the program: {what}"))
}

fn preamble(preamble: Option<&info::Preamble>) -> Result<&info::Preamble, Refusal> {
    preamble.ok_or_else(|| mismatch("an object has no preamble".into()))
}

fn width(bits: i32, what: &str) -> Result<u32, Refusal> {
    u32::try_from(bits).ok().filter(|&bits| bits > 0).ok_or_else(|| {
        Refusal::unimplemented(format!("{what}: only types with a width in bits are supported"))
    })
}

fn find_table(
    program: &ir::Program,
    p4info: &P4Info,
    table: &info::Table,
) -> Result<Table, Refusal> {
    let info::Preamble { id, name, .. } = preamble(table.preamble.as_ref())?;
    let at = program.tables.iter().position(|t| t.name == *name);
    let at = at.ok_or_else(|| mismatch(format!("there is no table `{name}`")))?;
    let known = &program.tables[at];

    let keys = known.keys.iter().filter(|key| key.kind != ir::MatchKind::Selector);
    let keys = keys.map(|key| {
        let field = table.match_fields.iter().find(|f| f.name == key.name);
        let field = field.ok_or_else(|| {
            mismatch(format!("table `{name}` has a key `{}`, the P4Info has not", key.name))
        })?;
        // A type such as `error` has no width in P4Info; the engine's values have one.
        let width = u32::try_from(field.bitwidth).ok().filter(|&bits| bits > 0);
        let width = width.unwrap_or(key.value.ty.width);
        Ok(Key { id: field.id, name: key.name.clone(), width, kind: key.kind })
    });
    let keys = keys.collect::<Result<Vec<_>, Refusal>>()?;
    if let Some(extra) =
        table.match_fields.iter().find(|f| !known.keys.iter().any(|k| k.name == f.name))
    {
        return Err(mismatch(format!("table `{name}` has no key `{}`", extra.name)));
    }

    let actions = table.action_refs.iter().map(|reference| {
        let action = p4info
            .actions
            .iter()
            .find(|a| a.preamble.as_ref().is_some_and(|preamble| preamble.id == reference.id));
        let action = action.ok_or_else(|| {
            mismatch(format!(
                "table `{name}` refers to an action with the unknown id {}",
                reference.id
            ))
        })?;
        find_action(program, known, action)
    });
    Ok(Table {
        id: *id,
        name: name.clone(),
        at: TableId(at as u32),
        keys,
        actions: actions.collect::<Result<_, _>>()?,
        is_const: known.const_entries,
        const_default: known.const_default,
        has_direct_counter: p4info.direct_counters.iter().any(|c| c.direct_table_id == *id),
        has_direct_meter: p4info.direct_meters.iter().any(|m| m.direct_table_id == *id),
        has_implementation: table.implementation_id != 0,
        idle_timeout: known.idle_timeout,
    })
}

fn find_action(
    program: &ir::Program,
    table: &ir::Table,
    action: &info::Action,
) -> Result<Action, Refusal> {
    let info::Preamble { id, name, .. } = preamble(action.preamble.as_ref())?;
    let index = table.actions.iter().position(|a| program.actions[a.action.index()].name == *name);
    let index =
        index.ok_or_else(|| mismatch(format!("table `{}` has no action `{name}`", table.name)))?;
    let known = &program.actions[table.actions[index].action.index()];
    if known.params.len() != action.params.len() {
        return Err(mismatch(format!(
            "action `{name}` has {} parameters for the control plane, not {}",
            known.params.len(),
            action.params.len(),
        )));
    }
    let params = action.params.iter().map(|param| {
        let width = width(param.bitwidth, &format!("action `{name}`, parameter `{}`", param.name))?;
        Ok(Param { id: param.id, name: param.name.clone(), width })
    });
    let params = params.collect::<Result<_, Refusal>>()?;
    Ok(Action { id: *id, name: name.clone(), index: index as u32, params })
}

fn find_array(
    program: &ir::Program,
    object: Option<&info::Preamble>,
    size: i64,
    [type_name, in_tna]: [&str; 2],
) -> Result<Array, Refusal> {
    let info::Preamble { id, name, .. } = preamble(object)?;
    let is_it =
        |e: &ir::Extern| e.name == *name && (e.type_name == type_name || e.type_name == in_tna);
    let at = program.externs.iter().position(is_it);
    let at = at.ok_or_else(|| mismatch(format!("there is no {type_name} `{name}`")))?;
    let size = u64::try_from(size)
        .map_err(|_| mismatch(format!("{type_name} `{name}` has a negative size")))?;
    Ok(Array { id: *id, name: name.clone(), at: ExternId(at as u32), size })
}

fn element(spec: &info::P4DataTypeSpec, p4info: &P4Info) -> Option<Element> {
    use info::p4_data_type_spec::TypeSpec;
    match spec.type_spec.as_ref()? {
        TypeSpec::Bool(_) => Some(Element::Bool),
        TypeSpec::Bitstring(bits) => Some(Element::Bits(bit_width(bits)?)),
        TypeSpec::Struct(named) => {
            let known = p4info.type_info.as_ref()?.structs.get(&named.name)?;
            let width = |member: &info::p4_struct_type_spec::Member| match member
                .type_spec
                .as_ref()?
                .type_spec
                .as_ref()?
            {
                TypeSpec::Bitstring(bits) => bit_width(bits),
                _ => None,
            };
            Some(Element::Struct(known.members.iter().map(width).collect::<Option<_>>()?))
        }
        _ => None,
    }
}

fn bit_width(bits: &info::P4BitstringLikeTypeSpec) -> Option<u32> {
    use info::p4_bitstring_like_type_spec::TypeSpec;
    let width = match bits.type_spec.as_ref()? {
        TypeSpec::Bit(bit) => bit.bitwidth,
        TypeSpec::Int(int) => int.bitwidth,
        TypeSpec::Varbit(_) => return None,
    };
    u32::try_from(width).ok()
}

fn metadata_field(
    field: &info::controller_packet_metadata::Metadata,
) -> Result<MetadataField, Refusal> {
    let width = width(field.bitwidth, &format!("controller metadata `{}`", field.name))?;
    Ok(MetadataField { id: field.id, name: field.name.clone(), width })
}
