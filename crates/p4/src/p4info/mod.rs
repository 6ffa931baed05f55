//! P4Info: the control-plane interface of a program, in P4Runtime's format.
//!
//! Names, identifiers and aliases equal those that p4c assigns to the same program, so a controller
//! works with either compiler.

mod annotations;
mod ids;
mod types;
mod value_sets;

use std::collections::HashMap;

use tributary_p4runtime::p4::config::v1 as proto;

use crate::Architecture;
use crate::ir::{self, Annotation, CtorArg, ExternId, MatchKind, TableId};
use crate::lower::{Info, TableInfo};
use crate::types::{FieldType, StructType, Type};
use annotations::{documentation, external_name, hidden};
use ids::{Kind, Symbols, part_ids};

/// Generates the P4Info of a lowered program.
pub(crate) fn generate(program: &ir::Program, info: &Info) -> proto::P4Info {
    let arch = match program.architecture() {
        Some(known) => known.to_string(),
        None => program.package.to_lowercase(),
    };
    let mut generator = Generator {
        program,
        info,
        symbols: Symbols::new(program.pipeline.as_deref()),
        users: users(program),
        selectors: selectors(program),
        types: proto::P4TypeInfo::default(),
        out: proto::P4Info {
            pkg_info: Some(annotations::package(arch, &info.package)),
            ..Default::default()
        },
    };
    generator.collect();
    generator.tables();
    generator.actions();
    generator.externs();
    generator.headers();
    generator.digests();
    if generator.types != proto::P4TypeInfo::default() {
        generator.out.type_info = Some(generator.types);
    }
    generator.out
}

/// The types of the control plane's values that are strings there.
pub(crate) fn translated(info: &Info) -> Vec<ir::Translated> {
    let keys = info.tables.iter().flat_map(|table| &table.key_types);
    let params = info.action_params.iter().flatten().map(|(_, ty, _)| ty);
    let structs = info.headers.iter().filter_map(|ty| match ty {
        Type::Struct(s) => Some(s),
        _ => None,
    });
    let fields = structs.flat_map(|s| {
        let mut fields = Vec::new();
        flatten(s, "", &mut fields);
        fields.into_iter().map(|(_, field)| &field.ty)
    });
    let elements = info.extern_types.iter().flatten();
    types::translated(keys.chain(params).chain(fields).chain(elements))
}

/// The names of the controller headers that are the type of a header.
pub(crate) fn controller_headers(program: &ir::Program, info: &Info) -> Vec<String> {
    let name = |ty: &Type| match ty {
        Type::Struct(s) if program.headers.iter().any(|h| *h.type_name == *s.name) => {
            s.annotations.iter().find(|a| a.name == "controller_header").map(|a| a.body.clone())
        }
        _ => None,
    };
    info.headers.iter().filter_map(name).collect()
}

struct Generator<'p> {
    program: &'p ir::Program,
    info: &'p Info,
    symbols: Symbols,
    /// For each extern: the tables to which it is attached.
    users: Vec<Vec<TableId>>,
    /// The `ActionSelector` of TNA that selects from an action profile, by the profile.
    selectors: HashMap<ExternId, &'p ir::Extern>,
    types: proto::P4TypeInfo,
    out: proto::P4Info,
}

/// For each extern: the tables to which it is attached, without duplicates.
fn users(program: &ir::Program) -> Vec<Vec<TableId>> {
    let mut users = vec![Vec::new(); program.externs.len()];
    for (table, id) in program.tables.iter().zip(0..).map(|(table, id)| (table, TableId(id))) {
        for attached in &table.attached {
            let users: &mut Vec<TableId> = &mut users[attached.index()];
            if users.last() != Some(&id) {
                users.push(id);
            }
        }
    }
    users
}

fn selectors(program: &ir::Program) -> HashMap<ExternId, &ir::Extern> {
    let selectors = program.externs.iter().filter(|e| e.type_name == "ActionSelector");
    let of = |selector: &'_ ir::Extern| match selector.args.first() {
        Some(&CtorArg::Instance(profile)) => Some(profile),
        _ => None,
    };
    selectors.filter_map(|selector| Some((of(selector)?, selector))).collect()
}

/// A header's fields by full name, including those of nested structs.
fn flatten<'t>(s: &'t StructType, prefix: &str, out: &mut Vec<(String, &'t FieldType)>) {
    for field in &s.fields {
        let name = format!("{prefix}{}", field.name);
        match &field.ty {
            Type::Struct(inner) => flatten(inner, &format!("{name}."), out),
            _ => out.push((name, field)),
        }
    }
}

/// The kind of P4Info object of an extern.
fn extern_kind(e: &ir::Extern) -> Option<Kind> {
    Some(match e.type_name.as_str() {
        "counter" => Kind::Counter,
        "direct_counter" => Kind::DirectCounter,
        "meter" => Kind::Meter,
        "direct_meter" => Kind::DirectMeter,
        "register" => Kind::Register,
        "action_profile" | "action_selector" => Kind::ActionProfile,
        "Counter" => Kind::Counter,
        "DirectCounter" => Kind::DirectCounter,
        "Meter" => Kind::Meter,
        "DirectMeter" => Kind::DirectMeter,
        "Register" => Kind::Register,
        // With a profile of its own; otherwise the profile is the object.
        "ActionSelector" if !matches!(e.args.first(), Some(CtorArg::Instance(_))) => {
            Kind::ActionProfile
        }
        "ActionProfile" => Kind::ActionProfile,
        "value_set" => Kind::ValueSet,
        _ => return None,
    })
}

/// The member of an enum with which an extern is constructed.
fn symbol(e: &ir::Extern) -> Option<&str> {
    e.args.iter().find_map(|a| match a {
        CtorArg::Symbol(_, member) => Some(member.as_str()),
        _ => None,
    })
}

fn counter_spec(e: &ir::Extern) -> proto::CounterSpec {
    use proto::counter_spec::Unit;
    let unit = match symbol(e) {
        Some("bytes" | "BYTES") => Unit::Bytes,
        Some("packets" | "PACKETS") => Unit::Packets,
        _ => Unit::Both,
    };
    proto::CounterSpec { unit: unit.into() }
}

fn meter_spec(e: &ir::Extern) -> proto::MeterSpec {
    use proto::meter_spec::Unit;
    let unit = match symbol(e) {
        Some("bytes" | "BYTES") => Unit::Bytes,
        _ => Unit::Packets,
    };
    proto::MeterSpec { unit: unit.into(), ..Default::default() }
}

impl Generator<'_> {
    fn collect(&mut self) {
        for table in &self.program.tables {
            self.symbols.add(Kind::Table, &table.name, &table.annotations);
        }
        for (action, _) in
            self.program.actions.iter().zip(&self.info.exposed).filter(|(_, at)| **at)
        {
            self.symbols.add(Kind::Action, &action.name, &action.annotations);
        }
        for action in &self.info.inlined_actions {
            self.symbols.add(Kind::Action, &action.name, &action.annotations);
        }
        for e in &self.program.externs {
            if let Some(kind) = extern_kind(e) {
                self.symbols.add(kind, &e.name, &e.annotations);
            }
        }
        for (name, _) in &self.info.digests {
            self.symbols.add(Kind::Digest, name, &[]);
        }
        for header in &self.info.headers {
            if let Type::Struct(s) = header {
                self.symbols.add(Kind::ControllerHeader, &s.name, &s.annotations);
            }
        }
        self.symbols.assign();
    }

    fn preamble(&self, kind: Kind, name: &str, list: &[Annotation]) -> proto::Preamble {
        proto::Preamble {
            id: self.symbols.id(kind, name),
            name: name.to_owned(),
            alias: self.symbols.alias(name),
            annotations: annotations::texts(list, annotations::OF_PROFILES),
            structured_annotations: annotations::structured(list, annotations::OF_PROFILES),
            doc: documentation(list),
            ..Default::default()
        }
    }

    /// Records a user-defined type.
    fn note(&mut self, ty: &Type) {
        if matches!(ty, Type::New(_) | Type::SerEnum(_) | Type::Enum(_) | Type::ErrorCode) {
            types::describe(ty, &self.program.errors, &mut self.types);
        }
    }

    fn tables(&mut self) {
        for (table, details) in self.program.tables.iter().zip(&self.info.tables) {
            if hidden(&table.annotations) {
                continue;
            }
            let ids = part_ids(table.keys.iter().map(|k| k.annotations.as_slice()));
            let mut match_fields = Vec::new();
            for ((key, ty), id) in table.keys.iter().zip(&details.key_types).zip(ids) {
                use proto::match_field::{Match, MatchType};
                let match_type = match key.kind {
                    MatchKind::Exact => MatchType::Exact,
                    MatchKind::Lpm => MatchType::Lpm,
                    MatchKind::Ternary => MatchType::Ternary,
                    MatchKind::Range => MatchType::Range,
                    MatchKind::Optional => MatchType::Optional,
                    MatchKind::Selector => continue,
                };
                self.note(ty);
                match_fields.push(proto::MatchField {
                    id,
                    name: key.name.clone(),
                    annotations: annotations::texts(&key.annotations, &[]),
                    structured_annotations: annotations::structured(&key.annotations, &[]),
                    bitwidth: types::width(ty),
                    doc: documentation(&key.annotations),
                    type_name: types::type_name(ty),
                    r#match: Some(Match::MatchType(match_type.into())),
                    ..Default::default()
                });
            }
            let message = self.table(table, details, match_fields);
            self.out.tables.push(message);
        }
    }

    fn table(
        &self,
        table: &ir::Table,
        details: &TableInfo,
        match_fields: Vec<proto::MatchField>,
    ) -> proto::Table {
        use proto::action_ref::Scope;
        let action_id = |a: &ir::TableAction| {
            self.symbols.id(Kind::Action, &self.program.actions[a.action.index()].name)
        };
        let action_refs = table.actions.iter().enumerate().map(|(i, a)| {
            let scope = match a.scope {
                ir::Scope::TableAndDefault => Scope::TableAndDefault,
                ir::Scope::TableOnly => Scope::TableOnly,
                ir::Scope::DefaultOnly => Scope::DefaultOnly,
                ir::Scope::GroupAction => Scope::GroupAction,
            };
            let id = action_id(a);
            let mut reference = proto::ActionRef { id, scope: scope.into(), ..Default::default() };
            match details.action_annotations.get(i) {
                Some(list) => {
                    reference.annotations = annotations::texts(list, &[]);
                    reference.structured_annotations = annotations::structured(list, &[]);
                }
                // `NoAction`, which the front end added.
                None => reference.annotations.push("@defaultonly".to_owned()),
            }
            reference
        });
        let default = &table.actions[table.default_action.action as usize];
        let default_id = action_id(default);
        let params = self.info.action_params.get(default.action.index());
        let param_ids = part_ids(params.into_iter().flatten().map(|p| p.2.as_slice()));
        let fields = &self.program.actions[default.action.index()].params;
        let widths = fields.iter().map(|f| self.program.fields[f.index()].ty.width);
        let arguments = table.default_action.args.iter().zip(widths).zip(param_ids).map(
            |((value, width), param_id)| {
                let value = crate::check::fold::from_limbs(value, width, false);
                proto::table_action_call::Argument { param_id, value: types::bytes(&value, width) }
            },
        );
        let arguments = arguments.collect();
        let (mut implementation_id, mut direct_resource_ids) = (0, Vec::new());
        for id in &table.attached {
            let e = &self.program.externs[id.index()];
            match extern_kind(e) {
                Some(Kind::ActionProfile) => {
                    implementation_id = self.symbols.id(Kind::ActionProfile, &e.name)
                }
                Some(kind) => direct_resource_ids.push(self.symbols.id(kind, &e.name)),
                None => {}
            }
        }
        let idle = if table.idle_timeout {
            proto::table::IdleTimeoutBehavior::NotifyControl
        } else {
            proto::table::IdleTimeoutBehavior::NoTimeout
        };
        proto::Table {
            preamble: Some(self.preamble(Kind::Table, &table.name, &table.annotations)),
            match_fields,
            action_refs: action_refs.collect(),
            const_default_action_id: if table.const_default { default_id } else { 0 },
            initial_default_action: Some(proto::TableActionCall {
                action_id: default_id,
                arguments,
            }),
            implementation_id,
            direct_resource_ids,
            size: table.size as i64,
            idle_timeout_behavior: idle.into(),
            is_const_table: table.const_entries,
            has_initial_entries: !table.entries.is_empty(),
            ..Default::default()
        }
    }

    fn actions(&mut self) {
        let info = self.info;
        let lowered = self.program.actions.iter().zip(&info.action_params).zip(&info.exposed);
        let lowered = lowered.filter(|(_, exposed)| **exposed);
        let lowered = lowered.map(|((a, params), _)| (&a.name, &a.annotations, params));
        let inlined = info.inlined_actions.iter().map(|a| (&a.name, &a.annotations, &a.params));
        let mut seen = std::collections::HashSet::new();
        for (name, annotations, params) in lowered.chain(inlined) {
            if hidden(annotations) || !seen.insert(name) {
                continue;
            }
            let ids = part_ids(params.iter().map(|p| p.2.as_slice()));
            let mut list = Vec::with_capacity(params.len());
            for ((name, ty, annotations), id) in params.iter().zip(ids) {
                self.note(ty);
                list.push(proto::action::Param {
                    id,
                    name: external_name(name, annotations),
                    annotations: self::annotations::texts(annotations, &[]),
                    structured_annotations: self::annotations::structured(annotations, &[]),
                    bitwidth: types::width(ty),
                    doc: documentation(annotations),
                    type_name: types::type_name(ty),
                    ..Default::default()
                });
            }
            let preamble = Some(self.preamble(Kind::Action, name, annotations));
            self.out.actions.push(proto::Action { preamble, params: list });
        }
    }

    fn externs(&mut self) {
        for (i, (e, type_args)) in
            self.program.externs.iter().zip(&self.info.extern_types).enumerate()
        {
            let Some(kind) = extern_kind(e) else { continue };
            let preamble = Some(self.preamble(kind, &e.name, &e.annotations));
            let size = e.args.iter().find_map(|a| match a {
                CtorArg::Int(v) => Some(*v as i64),
                _ => None,
            });
            let size = size.unwrap_or(0);
            let (counter_spec, meter_spec) = (Some(counter_spec(e)), Some(meter_spec(e)));
            // The index type is the last type argument, if any. p4c has none for TNA.
            let index = match (self.program.architecture(), kind) {
                (Some(Architecture::Tna), _) => None,
                (Some(Architecture::Psa), Kind::DirectCounter) => None,
                (Some(Architecture::Psa), Kind::Counter) | (_, Kind::Register) => type_args.get(1),
                _ => type_args.first(),
            };
            let index_type_name = index.and_then(types::type_name);
            if let Some(index) = index.filter(|_| kind != Kind::DirectMeter) {
                self.note(&index.clone());
            }
            let table = self.users[i].first().map(|id| &self.program.tables[id.index()]);
            let table_id = table.map_or(0, |t| self.symbols.id(Kind::Table, &t.name));
            match kind {
                Kind::Counter => self.out.counters.push(proto::Counter {
                    preamble,
                    spec: counter_spec,
                    size,
                    index_type_name,
                }),
                Kind::DirectCounter if table.is_some() => {
                    self.out.direct_counters.push(proto::DirectCounter {
                        preamble,
                        spec: counter_spec,
                        direct_table_id: table_id,
                    })
                }
                Kind::Meter => self.out.meters.push(proto::Meter {
                    preamble,
                    spec: meter_spec,
                    size,
                    index_type_name,
                }),
                Kind::DirectMeter if table.is_some() => {
                    self.out.direct_meters.push(proto::DirectMeter {
                        preamble,
                        spec: meter_spec,
                        direct_table_id: table_id,
                    })
                }
                Kind::Register => {
                    let element = type_args.first().cloned().unwrap_or(Type::Unknown);
                    let spec = types::describe(&element, &self.program.errors, &mut self.types);
                    self.out.registers.push(proto::Register {
                        preamble,
                        type_spec: Some(spec),
                        size: size as i32,
                        index_type_name,
                    });
                }
                Kind::ActionProfile => self.action_profile(e, i, preamble, size),
                Kind::ValueSet => {
                    let element = type_args.first().cloned().unwrap_or(Type::Unknown);
                    self.value_set(preamble, &element, size);
                }
                _ => {}
            }
        }
    }

    fn action_profile(
        &mut self,
        e: &ir::Extern,
        index: usize,
        preamble: Option<proto::Preamble>,
        size: i64,
    ) {
        let selector = self.selectors.get(&ExternId(index as u32));
        let with_selector = matches!(e.type_name.as_str(), "action_selector" | "ActionSelector")
            || selector.is_some();
        let users = self.users[index].iter().map(|id| &self.program.tables[id.index()]);
        let table_ids = users.map(|t| self.symbols.id(Kind::Table, &t.name)).collect();
        let (max_group_size, selector_size_semantics) = match selector {
            Some(selector) => {
                let size = selector.args.iter().find_map(|a| match a {
                    CtorArg::Int(size) => i32::try_from(*size).ok(),
                    _ => None,
                });
                (size.unwrap_or(0), None)
            }
            None if with_selector => annotations::group_size(&e.annotations),
            None => (0, None),
        };
        self.out.action_profiles.push(proto::ActionProfile {
            preamble,
            table_ids,
            with_selector,
            size,
            max_group_size,
            selector_size_semantics,
            ..Default::default()
        });
    }

    /// `@controller_header`: the metadata of packet-in and packet-out.
    fn headers(&mut self) {
        let info = self.info;
        for header in &info.headers {
            let Type::Struct(s) = header else { continue };
            let Some(annotation) = s.annotations.iter().find(|a| a.name == "controller_header")
            else {
                continue;
            };
            let mut fields = Vec::new();
            flatten(s, "", &mut fields);
            let ids = part_ids(fields.iter().map(|(_, f)| f.annotations.as_slice()));
            let mut metadata = Vec::with_capacity(fields.len());
            for ((name, field), id) in fields.into_iter().zip(ids) {
                if hidden(&field.annotations) {
                    continue;
                }
                self.note(&field.ty);
                metadata.push(proto::controller_packet_metadata::Metadata {
                    id,
                    name,
                    annotations: annotations::texts(&field.annotations, &[]),
                    structured_annotations: annotations::structured(&field.annotations, &[]),
                    bitwidth: types::width(&field.ty),
                    type_name: types::type_name(&field.ty),
                    ..Default::default()
                });
            }
            let preamble = proto::Preamble {
                id: self.symbols.id(Kind::ControllerHeader, &s.name),
                name: annotation.body.clone(),
                alias: annotation.body.clone(),
                annotations: annotations::texts(&s.annotations, &[]),
                structured_annotations: annotations::structured(&s.annotations, &[]),
                doc: documentation(&s.annotations),
                ..Default::default()
            };
            let message = proto::ControllerPacketMetadata { preamble: Some(preamble), metadata };
            self.out.controller_packet_metadata.push(message);
        }
    }

    fn digests(&mut self) {
        let info = self.info;
        for (name, ty) in &info.digests {
            let spec = types::describe(ty, &self.program.errors, &mut self.types);
            let preamble = Some(self.preamble(Kind::Digest, name, &[]));
            self.out.digests.push(proto::Digest { preamble, type_spec: Some(spec) });
        }
    }
}
