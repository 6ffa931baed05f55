//! The P4Info of each object, and its place in the engine.

use std::collections::{BTreeMap, HashMap, HashSet};

use tributary_dataplane::{KeyMatch, Pipeline};
use tributary_p4::ir::{self, ExternId, TableId};
use tributary_p4runtime::p4::config::v1::{self as info, P4Info, meter_spec};

use super::Refusal;
use super::data::Form;
use super::names::Places;
use crate::restrictions::{ACTIONS, ENTRIES, Restriction, Subject};

/// The objects of a program by id.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    tables: BTreeMap<u32, Table>,
    counters: BTreeMap<u32, Array>,
    meters: BTreeMap<u32, Meter>,
    registers: BTreeMap<u32, Register>,
    profiles: BTreeMap<u32, Profile>,
    value_sets: BTreeMap<u32, ValueSet>,
    digests: BTreeMap<u32, Digest>,
    places: Places,
    /// Fields of the header of packets to the controller.
    pub(crate) packet_in: Vec<MetadataField>,
    /// Fields of the header of packets from the controller.
    pub(crate) packet_out: Vec<MetadataField>,
}

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) at: TableId,
    /// In the engine's order, which may differ from the order of ids.
    pub(crate) keys: Vec<Key>,
    pub(crate) actions: Vec<Action>,
    pub(crate) is_const: bool,
    /// Keys and priorities of single entries that the program declares constant.
    fixed: HashSet<(Vec<KeyMatch>, i32)>,
    pub(crate) const_default: bool,
    pub(crate) has_direct_counter: bool,
    /// The type of its direct meter, if it has one.
    pub(crate) direct_meter: Option<meter_spec::Type>,
    /// Its action profile, if its entries share actions.
    pub(crate) profile: Option<u32>,
    pub(crate) idle_timeout: bool,
    /// What its entries must fulfil.
    pub(crate) restriction: Option<Restriction>,
}

#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) width: u32,
    pub(crate) kind: ir::MatchKind,
}

#[derive(Clone, Debug)]
pub(crate) struct Action {
    pub(crate) id: u32,
    pub(crate) name: String,
    /// Index in the engine's table.
    pub(crate) index: u32,
    pub(crate) params: Vec<Param>,
    /// What arguments must fulfil.
    pub(crate) restriction: Option<Restriction>,
}

#[derive(Clone, Debug)]
pub(crate) struct Param {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) width: u32,
}

/// An array of counters, meters or registers.
#[derive(Debug)]
pub(crate) struct Array {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) at: ExternId,
    pub(crate) size: u64,
}

#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) array: Array,
    pub(crate) kind: meter_spec::Type,
}

/// An action profile or an action selector.
#[derive(Debug)]
pub(crate) struct Profile {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) at: ExternId,
    /// Actions of its members: those of the first table with the profile.
    pub(crate) actions: Vec<Action>,
    pub(crate) tables: Vec<TableId>,
    pub(crate) with_selector: bool,
    /// 0 means no limit.
    pub(crate) max_group_size: i32,
    /// Whether a group's size is the number of its members instead of the sum of their weights.
    pub(crate) counts_members: bool,
    /// 0 means no limit.
    pub(crate) max_member_weight: i32,
    pub(crate) weights_disallowed: bool,
}

#[derive(Debug)]
pub(crate) struct ValueSet {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) at: ExternId,
    /// The keys of a member, in the engine's order.
    pub(crate) keys: Vec<Key>,
}

#[derive(Debug)]
pub(crate) struct Digest {
    pub(crate) id: u32,
    pub(crate) name: String,
    /// `None` if the data are neither numbers nor structs of them.
    pub(crate) form: Option<Form>,
}

#[derive(Debug)]
pub(crate) struct Register {
    pub(crate) array: Array,
    /// `None` if elements are neither numbers nor structs of them.
    pub(crate) form: Option<Form>,
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
        let mut objects = Self { places: Places::new(program, p4info), ..Self::default() };
        let externs = externs_by_name(program);
        for table in &p4info.tables {
            let table = find_table(program, p4info, table).map_err(|refusal| {
                let name = table.preamble.as_ref().map(|preamble| &preamble.name);
                let at = program.tables.iter().position(|known| Some(&known.name) == name);
                let at = at.and_then(|at| program.origins.table(TableId(at as u32)));
                refusal.at(program, at)
            })?;
            objects.tables.insert(table.id, table);
        }
        for counter in &p4info.counters {
            let types = ["counter", "Counter"];
            let array = find_array(&externs, counter.preamble.as_ref(), counter.size, types)?;
            objects.counters.insert(array.id, array);
        }
        for meter in &p4info.meters {
            let types = ["meter", "Meter"];
            let array = find_array(&externs, meter.preamble.as_ref(), meter.size, types)?;
            let kind = meter_type(meter.spec.as_ref());
            objects.meters.insert(array.id, Meter { array, kind });
        }
        for profile in &p4info.action_profiles {
            let profile = find_profile(&externs, &objects.tables, profile)?;
            objects.profiles.insert(profile.id, profile);
        }
        for set in &p4info.value_sets {
            let set = find_value_set(program, &externs, set)?;
            objects.value_sets.insert(set.id, set);
        }
        for digest in &p4info.digests {
            let info::Preamble { id, name, .. } = preamble(digest.preamble.as_ref())?;
            let form = digest.type_spec.as_ref().and_then(|spec| Form::of(spec, p4info));
            objects.digests.insert(*id, Digest { id: *id, name: name.clone(), form });
        }
        for register in &p4info.registers {
            let size = i64::from(register.size);
            let types = ["register", "Register"];
            let array = find_array(&externs, register.preamble.as_ref(), size, types)?;
            let form = register.type_spec.as_ref().and_then(|spec| Form::of(spec, p4info));
            objects.registers.insert(array.id, Register { array, form });
        }
        for header in &p4info.controller_packet_metadata {
            let name = &preamble(header.preamble.as_ref())?.name;
            let fields = header.metadata.iter().map(|field| metadata_field(program, field));
            let fields = fields.collect::<Result<_, _>>()?;
            match name.as_str() {
                // Packets have no bytes for it.
                _ if !program.controller_headers.contains(name) => {}
                "packet_in" => objects.packet_in = fields,
                "packet_out" => objects.packet_out = fields,
                _ => {}
            }
        }
        Ok(objects)
    }

    /// Records which initial entries are constant although their tables are not. `constant` has a
    /// flag per entry in the program's order, by table.
    pub(crate) fn fix_entries(&mut self, constant: &[Vec<bool>], pipeline: &Pipeline) {
        for table in self.tables.values_mut().filter(|table| !table.is_const) {
            let constant = constant.get(table.at.index()).map_or(&[][..], Vec::as_slice);
            let entries = pipeline.entries(table.at).zip(constant);
            let fixed = entries.filter(|(_, constant)| **constant);
            table.fixed = fixed.map(|(e, _)| (e.matches.clone(), e.priority)).collect();
        }
    }

    /// The values that have names in the control plane.
    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// Refuses a program whose own entries violate its restrictions: it could not restore them.
    pub(crate) fn check_restrictions(&self, pipeline: &Pipeline) -> Result<(), Refusal> {
        for table in self.tables.values() {
            let of_action = |index: u32| {
                let action = table.actions.iter().find(|action| action.index == index)?;
                action.restriction.as_ref()
            };
            for entry in pipeline.entries(table.at) {
                let restriction = table.restriction.as_ref();
                let by_key =
                    restriction.and_then(|r| r.violated_by_entry(&entry.matches, entry.priority));
                let by_call = entry.action.direct().and_then(|call| {
                    of_action(call.action).and_then(|r| r.violated_by_call(&call.args))
                });
                if let Some(part) = by_key.or(by_call) {
                    let message = format!("an entry of the program violates `{part}`");
                    let refusal = Refusal::invalid(message).of(&format!("table `{}`", table.name));
                    let program = pipeline.program();
                    return Err(refusal.at(program, program.origins.table(table.at)));
                }
            }
        }
        Ok(())
    }

    pub(crate) fn table(&self, id: u32) -> Result<&Table, Refusal> {
        known(&self.tables, "table", id)
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.values()
    }

    pub(crate) fn counter(&self, id: u32) -> Result<&Array, Refusal> {
        known(&self.counters, "counter", id)
    }

    pub(crate) fn counters(&self) -> impl Iterator<Item = &Array> {
        self.counters.values()
    }

    pub(crate) fn meter(&self, id: u32) -> Result<&Meter, Refusal> {
        known(&self.meters, "meter", id)
    }

    pub(crate) fn meters(&self) -> impl Iterator<Item = &Meter> {
        self.meters.values()
    }

    pub(crate) fn profile(&self, id: u32) -> Result<&Profile, Refusal> {
        known(&self.profiles, "action profile", id)
    }

    pub(crate) fn profiles(&self) -> impl Iterator<Item = &Profile> {
        self.profiles.values()
    }

    pub(crate) fn value_set(&self, id: u32) -> Result<&ValueSet, Refusal> {
        known(&self.value_sets, "value set", id)
    }

    pub(crate) fn value_sets(&self) -> impl Iterator<Item = &ValueSet> {
        self.value_sets.values()
    }

    pub(crate) fn digest(&self, id: u32) -> Result<&Digest, Refusal> {
        known(&self.digests, "digest", id)
    }

    /// The digest with this name, if the P4Info has it.
    pub(crate) fn digest_named(&self, name: &str) -> Option<&Digest> {
        self.digests.values().find(|digest| digest.name == name)
    }

    /// Whether entries of any table have idle timeouts.
    pub(crate) fn age(&self) -> bool {
        self.tables.values().any(|table| table.idle_timeout)
    }

    pub(crate) fn register(&self, id: u32) -> Result<&Register, Refusal> {
        known(&self.registers, "register", id)
    }

    pub(crate) fn registers(&self) -> impl Iterator<Item = &Register> {
        self.registers.values()
    }

    /// The tables whose entries can change: names and places.
    pub(crate) fn table_places(&self) -> impl Iterator<Item = (&str, TableId)> {
        let changing = self.tables.values().filter(|table| !table.is_const);
        changing.map(|table| (table.name.as_str(), table.at))
    }
}

impl Profile {
    /// Converts a weight from the wire form. Weights that the switch chooses are equal.
    pub(super) fn weight_from(&self, weight: i32) -> Result<u32, Refusal> {
        match (self.weights_disallowed, u32::try_from(weight)) {
            (true, Ok(0)) => Ok(1),
            (true, _) => Err(Refusal::invalid("the selector takes no weights")),
            (false, Ok(1..)) if self.max_member_weight == 0 => Ok(weight as u32),
            (false, Ok(1..)) if weight <= self.max_member_weight => Ok(weight as u32),
            (false, Ok(1..)) => {
                let most = self.max_member_weight;
                Err(Refusal::invalid(format!("a weight of {weight} is above {most}")))
            }
            (false, _) => Err(Refusal::invalid("a weight must be at least 1")),
        }
    }

    /// Converts a weight to the wire form.
    pub(super) fn weight_to(&self, weight: u32) -> i32 {
        if self.weights_disallowed { 0 } else { weight as i32 }
    }
}

impl Table {
    /// Whether the controller sets priorities of entries.
    pub(crate) fn ranked(&self) -> bool {
        use ir::MatchKind::{Optional, Range, Ternary};
        self.keys.iter().any(|key| matches!(key.kind, Ternary | Range | Optional))
    }

    /// Whether the program declares the entry with that key and priority constant.
    pub(crate) fn fixes(&self, matches: &[KeyMatch], priority: i32) -> bool {
        let one = || self.fixed.contains(&(matches.to_vec(), priority));
        self.is_const || (!self.fixed.is_empty() && one())
    }

    pub(crate) fn action(&self, id: u32) -> Result<&Action, Refusal> {
        self.actions.iter().find(|a| a.id == id).ok_or_else(|| {
            Refusal::invalid(format!("table `{}` has no action with id {id}", self.name))
        })
    }
}

/// The object of a kind with this id.
fn known<'a, T>(objects: &'a BTreeMap<u32, T>, kind: &str, id: u32) -> Result<&'a T, Refusal> {
    let found = objects.get(&id);
    found.ok_or_else(|| Refusal::not_found(format!("no {kind} has id {id} ({id:#010x})")))
}

fn mismatch(what: String) -> Refusal {
    Refusal::invalid(format!("the P4Info does not belong to the program: {what}"))
}

fn annotations_of(preamble: Option<&info::Preamble>) -> &[String] {
    preamble.map_or(&[], |preamble| &preamble.annotations)
}

fn preamble(preamble: Option<&info::Preamble>) -> Result<&info::Preamble, Refusal> {
    preamble.ok_or_else(|| mismatch("an object has no preamble".into()))
}

/// The width of a value in the program, from its width in P4Info, or from its type if it has a name
/// instead of a number there.
fn width(
    program: &ir::Program,
    bits: i32,
    type_name: Option<&info::P4NamedType>,
    what: &str,
) -> Result<u32, Refusal> {
    let named =
        |named: &info::P4NamedType| program.translated.iter().find(|ty| ty.name == named.name);
    if let Some(translated) = type_name.and_then(named) {
        return Ok(translated.width);
    }
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
        // A type such as `error` has no width in P4Info, but the engine's values have one.
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

    let subjects =
        || keys.iter().filter_map(|key| Subject::key(&key.name, key.kind, key.width)).collect();
    let annotations = annotations_of(table.preamble.as_ref());
    let restriction = Restriction::of(annotations, ENTRIES, subjects)
        .map_err(|error| Refusal::invalid(format!("table `{name}`: {error}")))?;

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
        fixed: HashSet::new(),
        const_default: known.const_default,
        has_direct_counter: p4info.direct_counters.iter().any(|c| c.direct_table_id == *id),
        direct_meter: p4info
            .direct_meters
            .iter()
            .find(|meter| meter.direct_table_id == *id)
            .map(|meter| meter_type(meter.spec.as_ref())),
        profile: Some(table.implementation_id).filter(|&id| id != 0),
        idle_timeout: known.idle_timeout,
        restriction,
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
        let what = format!("action `{name}`, parameter `{}`", param.name);
        let width = width(program, param.bitwidth, param.type_name.as_ref(), &what)?;
        Ok(Param { id: param.id, name: param.name.clone(), width })
    });
    let params = params.collect::<Result<Vec<_>, Refusal>>()?;
    let subjects = || params.iter().map(|p| Subject::param(&p.name, p.width)).collect();
    let annotations = annotations_of(action.preamble.as_ref());
    let restriction = Restriction::of(annotations, ACTIONS, subjects)
        .map_err(|error| Refusal::invalid(format!("action `{name}`: {error}")))?;
    Ok(Action { id: *id, name: name.clone(), index: index as u32, params, restriction })
}

/// The extern instances by name and type. Programs have thousands of them.
type Externs<'p> = HashMap<(&'p str, &'p str), u32>;

fn externs_by_name(program: &ir::Program) -> Externs<'_> {
    let mut externs = HashMap::with_capacity(program.externs.len());
    for (e, at) in program.externs.iter().zip(0..) {
        externs.entry((e.name.as_str(), e.type_name.as_str())).or_insert(at);
    }
    externs
}

fn find_array<const N: usize>(
    externs: &Externs<'_>,
    object: Option<&info::Preamble>,
    size: i64,
    types: [&str; N],
) -> Result<Array, Refusal> {
    let info::Preamble { id, name, .. } = preamble(object)?;
    let type_name = types[0];
    let at = types.iter().find_map(|of| externs.get(&(name.as_str(), *of)).copied());
    let at = at.ok_or_else(|| mismatch(format!("there is no {type_name} `{name}`")))?;
    let size = u64::try_from(size)
        .map_err(|_| mismatch(format!("{type_name} `{name}` has a negative size")))?;
    Ok(Array { id: *id, name: name.clone(), at: ExternId(at), size })
}

fn meter_type(spec: Option<&info::MeterSpec>) -> meter_spec::Type {
    spec.copied().unwrap_or_default().r#type()
}

fn find_profile(
    externs: &Externs<'_>,
    tables: &BTreeMap<u32, Table>,
    profile: &info::ActionProfile,
) -> Result<Profile, Refusal> {
    use info::action_profile::SelectorSizeSemantics;
    let types = match profile.with_selector {
        // In TNA, a selector is separate from its profile.
        true => ["action_selector", "ActionSelector", "ActionProfile"],
        false => ["action_profile", "ActionProfile", "ActionProfile"],
    };
    let Array { id, name, at, .. } =
        find_array(externs, profile.preamble.as_ref(), profile.size, types)?;
    let mut users: Vec<&Table> =
        tables.values().filter(|table| table.profile == Some(id)).collect();
    users.sort_by_key(|table| table.at);
    let (counts_members, max_member_weight) = match &profile.selector_size_semantics {
        Some(SelectorSizeSemantics::SumOfMembers(sum)) => (true, sum.max_member_weight),
        Some(SelectorSizeSemantics::SumOfWeights(_)) | None => (false, 0),
    };
    Ok(Profile {
        id,
        name,
        at,
        actions: users.first().map(|table| table.actions.clone()).unwrap_or_default(),
        tables: users.iter().map(|table| table.at).collect(),
        with_selector: profile.with_selector,
        max_group_size: profile.max_group_size,
        counts_members,
        max_member_weight,
        weights_disallowed: profile.weights_disallowed,
    })
}

fn find_value_set(
    program: &ir::Program,
    externs: &Externs<'_>,
    set: &info::ValueSet,
) -> Result<ValueSet, Refusal> {
    use info::match_field::{Match, MatchType};
    let size = i64::from(set.size);
    let types = ["value_set", "ValueSet"];
    let Array { id, name, at, .. } = find_array(externs, set.preamble.as_ref(), size, types)?;
    let key = |field: &info::MatchField| {
        let what = format!("value set `{name}`, field `{}`", field.name);
        let kind = match &field.r#match {
            Some(Match::MatchType(kind)) => MatchType::try_from(*kind).unwrap_or_default(),
            _ => MatchType::Unspecified,
        };
        let kind = match kind {
            MatchType::Exact => ir::MatchKind::Exact,
            MatchType::Lpm => ir::MatchKind::Lpm,
            MatchType::Ternary => ir::MatchKind::Ternary,
            MatchType::Range => ir::MatchKind::Range,
            MatchType::Optional => ir::MatchKind::Optional,
            MatchType::Unspecified => return Err(mismatch(format!("{what}: unknown match kind"))),
        };
        let width = width(program, field.bitwidth, field.type_name.as_ref(), &what)?;
        Ok(Key { id: field.id, name: field.name.clone(), width, kind })
    };
    let keys = set.r#match.iter().map(key).collect::<Result<_, Refusal>>()?;
    Ok(ValueSet { id, name, at, keys })
}

fn metadata_field(
    program: &ir::Program,
    field: &info::controller_packet_metadata::Metadata,
) -> Result<MetadataField, Refusal> {
    let what = format!("controller metadata `{}`", field.name);
    let width = width(program, field.bitwidth, field.type_name.as_ref(), &what)?;
    Ok(MetadataField { id: field.id, name: field.name.clone(), width })
}
