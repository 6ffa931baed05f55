//! Tables.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use num_bigint::BigInt;
use num_traits::{ToPrimitive, Zero};

use super::{Binding, LoweredTable, Lowerer, TableInfo, Value};
use crate::check::fold::limbs;
use crate::hir;
use crate::ir::{self, ActionCall, ExternId, FieldId, Keyset, MatchKind, Scalar, Stmt, TableId};

/// Default number of entries of a table on BMv2 and on Tofino.
const DEFAULT_SIZE: u64 = 1024;
const TOFINO_DEFAULT_SIZE: u64 = 512;

impl Lowerer<'_, '_> {
    /// `table.apply()`; `hit` and `action` receive the outcome.
    pub(super) fn apply_table(
        &mut self,
        table: &Rc<hir::Table>,
        hit: Option<FieldId>,
        action: Option<FieldId>,
    ) {
        let lowered = match self.tables.get(&table.id) {
            Some(known) => known.clone(),
            None => {
                let lowered = self.table(table);
                self.tables.insert(table.id, lowered.clone());
                lowered
            }
        };
        self.reporter.work(lowered.steps);
        self.out.extend(lowered.pre.iter().cloned());
        self.emit(Stmt::Apply { table: lowered.id, hit, action });
    }

    fn table(&mut self, table: &Rc<hir::Table>) -> LoweredTable {
        let name = self.qualify(&table.name, &table.annotations);
        let mut keys = Vec::with_capacity(table.keys.len());
        let mut key_types = Vec::with_capacity(table.keys.len());
        let before = self.reporter.steps();
        let pre = self.buffered(|l| {
            for key in &table.keys {
                let value = l.scalar(&key.value);
                keys.push(ir::Key {
                    name: key.name.to_string(),
                    value,
                    kind: key.kind,
                    annotations: key.annotations.clone(),
                });
                key_types.push(key.value.ty.clone());
            }
        });
        let steps = self.reporter.steps() - before;
        let mut actions = Vec::with_capacity(table.actions.len() + 1);
        for offered in &table.actions {
            actions.push(ir::TableAction {
                action: self.action(&offered.action, &offered.args),
                prologue: Vec::new(),
                scope: offered.scope,
            });
        }
        self.distinct_actions(table, &actions);
        let default_action = match &table.default {
            Some((position, args)) => self.action_call_data(&actions, *position, args),
            None => ActionCall { action: self.no_action(table, &mut actions), args: Vec::new() },
        };
        let empty_group = table.empty_group.as_ref();
        let empty_group =
            empty_group.map(|(position, args)| self.action_call_data(&actions, *position, args));
        let entries = self.entries(table, &keys, &actions);
        let default_size = match self.program.architecture() {
            Some(crate::Architecture::Tna) => TOFINO_DEFAULT_SIZE,
            _ => DEFAULT_SIZE,
        };
        let size = match &table.size {
            Some(size) => self.constant(size).and_then(|v| v.to_u64()).unwrap_or(default_size),
            None => default_size,
        };
        let attached = table.attached.iter().filter_map(|a| self.attached(table, a)).collect();
        let id = TableId(self.program.tables.len() as u32);
        if !self.table_names.insert(name.clone()) {
            let message = format!("two tables have the name `{name}`");
            self.reporter.error_help(table.span, message, "give one another @name");
        }
        self.program.origins.tables.push(table.span);
        self.program.tables.push(ir::Table {
            name,
            keys,
            actions,
            default_action,
            const_default: table.const_default,
            entries,
            const_entries: table.const_entries,
            size,
            attached,
            idle_timeout: table.idle_timeout,
            empty_group,
            annotations: table.annotations.clone(),
        });
        let action_annotations = table.actions.iter().map(|a| a.annotations.clone()).collect();
        self.info.tables.push(TableInfo { key_types, action_annotations });
        LoweredTable { id, pre: pre.into(), steps }
    }

    /// The extern instance that is attached to a table.
    fn attached(&mut self, table: &hir::Table, property: &hir::Attached) -> Option<ExternId> {
        let value = match &property.value.kind {
            hir::ExprKind::Construct(construct) => {
                // Constructed in place: the property's name is the control-plane name, without a
                // prefix.
                let given = property.annotations.iter().find(|a| a.name == "name");
                let name = match given {
                    Some(name) => name.body.clone(),
                    None => format!("{}.{}", table.name, property.name),
                };
                let prefix = match given {
                    Some(_) => std::mem::take(&mut self.prefix),
                    None => self.prefix.clone(),
                };
                let binding = self.instance(&hir::Instance {
                    id: 0,
                    name: name.into(),
                    annotations: property.annotations.clone(),
                    construct: construct.clone(),
                    methods: Vec::new(),
                    span: property.value.span,
                });
                self.prefix = prefix;
                Value::Object(Box::new(binding))
            }
            _ => self.value(&property.value),
        };
        if let Value::Object(binding) = value
            && let Binding::Extern(id) = *binding
        {
            return Some(self.program.profile_of(id));
        }
        self.error(property.value.span, "this is not an extern instance");
        None
    }

    /// Reports two actions of a table that the control plane cannot tell apart.
    fn distinct_actions(&mut self, table: &hir::Table, actions: &[ir::TableAction]) {
        let mut seen = HashSet::new();
        let name = |a: &ir::TableAction| self.program.actions[a.action.index()].name.clone();
        let names: Vec<String> = actions.iter().map(name).collect();
        for name in names {
            if let Some(name) = seen.replace(name) {
                let message =
                    format!("table `{}` has two actions with the name `{name}`", table.name);
                self.reporter.error_help(table.span, message, "give one another @name");
            }
        }
    }

    /// Position of `NoAction`, the default of a table that names no default action.
    fn no_action(&mut self, table: &hir::Table, actions: &mut Vec<ir::TableAction>) -> u32 {
        let listed =
            table.actions.iter().position(|a| a.action.top_level && &*a.action.name == "NoAction");
        if let Some(position) = listed {
            return position as u32;
        }
        let id = match self.no_action.clone() {
            Some(declared) => self.action(&declared, &[]),
            // The architecture does not include `core.p4`.
            None => {
                let name = "NoAction".to_owned();
                let (params, annotations, body) = Default::default();
                self.push_action(ir::Action { name, params, annotations, body }, Vec::new())
            }
        };
        let scope = ir::Scope::DefaultOnly;
        actions.push(ir::TableAction { action: id, prologue: Vec::new(), scope });
        actions.len() as u32 - 1
    }

    fn action_call_data(
        &mut self,
        actions: &[ir::TableAction],
        position: usize,
        args: &[hir::Expr],
    ) -> ActionCall {
        let params = self.program.actions[actions[position].action.index()].params.clone();
        self.reporter.work(params.len() as u64);
        let widths: Vec<u32> =
            params.iter().map(|p| self.program.fields[p.index()].ty.width).collect();
        let args = args
            .iter()
            .zip(widths)
            .map(|(arg, width)| limbs(&self.constant(arg).unwrap_or_default(), width))
            .collect();
        ActionCall { action: position as u32, args }
    }

    /// The program's entries, in order of precedence.
    fn entries(
        &mut self,
        table: &hir::Table,
        keys: &[ir::Key],
        actions: &[ir::TableAction],
    ) -> Vec<ir::Entry> {
        let delta = match &table.priority_delta {
            Some(delta) => self.constant(delta).and_then(|d| d.to_i64()).unwrap_or(1),
            None => 1,
        };
        let stated = table.entries.iter().any(|e| e.priority.is_some());
        // Specification, "Entry priority assignment": implicit priorities follow from the preceding
        // one.
        let step = if table.largest_priority_wins { -delta } else { delta };
        let mut next = match table.largest_priority_wins {
            true => (table.entries.len() as i64 - 1).saturating_mul(delta).saturating_add(1),
            false => 1,
        };
        let exact = keys.iter().all(|key| key.kind == MatchKind::Exact);
        let mut seen = HashMap::new();
        let mut list: Vec<(i64, ir::Entry)> = Vec::with_capacity(table.entries.len());
        for (index, entry) in table.entries.iter().enumerate() {
            let Some(mut lowered) = self.entry(entry, keys, actions) else { continue };
            if exact && let Some(first) = seen.insert(lowered.keys.clone(), entry.span) {
                let message = "an earlier entry has the same key";
                self.reporter.error_at(entry.span, message, "the earlier one is", first);
            }
            let annotation = entry.annotations.iter().find(|a| a.name == "priority");
            // Smaller ranks come first.
            let rank = if stated {
                if let Some(given) = &entry.priority {
                    next = self.constant(given).and_then(|p| p.to_i64()).unwrap_or(next);
                }
                let this = next;
                if !(0..=i64::from(i32::MAX)).contains(&this) {
                    let message = format!("the priority of this entry is {this}");
                    let help = format!("priorities are from 0 to {}", i32::MAX);
                    self.reporter.error_help(entry.span, message, help);
                    return Vec::new();
                }
                next = next.saturating_add(step);
                lowered.priority = u32::try_from(this).ok();
                if table.largest_priority_wins { this.saturating_neg() } else { this }
            } else {
                // BMv2's annotation. Without it, the priority of an entry is its position, from 1.
                let given = annotation.and_then(|a| a.body.trim().parse().ok());
                lowered.priority = given.and_then(|p: i64| u32::try_from(p).ok());
                given.unwrap_or(index as i64 + 1)
            };
            list.push((rank, lowered));
        }
        list.sort_by_key(|(rank, _)| *rank);
        list.into_iter().map(|(_, entry)| entry).collect()
    }

    fn entry(
        &mut self,
        entry: &hir::Entry,
        keys: &[ir::Key],
        actions: &[ir::TableAction],
    ) -> Option<ir::Entry> {
        let mut sets = Vec::with_capacity(keys.len());
        for (set, key) in entry.keys.iter().zip(keys) {
            let mut set = self.keyset(set, key.value.ty)?;
            if key.kind == MatchKind::Lpm {
                set = self.prefix(set, key.value.ty, entry)?;
            }
            sets.push(set);
        }
        let call = self.action_call_data(actions, entry.action, &entry.args);
        Some(ir::Entry { keys: sets, call, priority: None, is_const: entry.is_const })
    }

    /// Converts a keyset of an lpm key to a prefix.
    fn prefix(&mut self, set: Keyset, ty: Scalar, entry: &hir::Entry) -> Option<Keyset> {
        match set {
            Keyset::Value(value) => Some(Keyset::Prefix { value, len: ty.width }),
            Keyset::Masked { value, mask } => {
                let bits = crate::check::fold::from_limbs(&mask, ty.width, false);
                let zeros = if bits.is_zero() {
                    u64::from(ty.width)
                } else {
                    bits.trailing_zeros().unwrap_or(0)
                };
                let prefix = ((BigInt::from(1) << ty.width) - 1) >> zeros << zeros;
                if bits != prefix {
                    self.error(
                        entry.span,
                        "the mask is not a prefix: its ones do not all come first",
                    );
                    return None;
                }
                Some(Keyset::Prefix { value, len: ty.width - zeros as u32 })
            }
            other => Some(other),
        }
    }

    /// A keyset with constants.
    pub(super) fn keyset(&mut self, set: &hir::Keyset, ty: Scalar) -> Option<Keyset> {
        if let hir::Keyset::Set(id) = set {
            return match self.vars.get(id) {
                Some(Binding::Extern(id)) => Some(Keyset::ValueSet(*id)),
                _ => None,
            };
        }
        let mut bits = |e: &hir::Expr| self.constant(e).map(|v| limbs(&v, ty.width));
        Some(match set {
            hir::Keyset::Any | hir::Keyset::Set(_) => Keyset::Any,
            hir::Keyset::Value(v) => Keyset::Value(bits(v)?),
            hir::Keyset::Mask(v, m) => {
                let (v, mask) = (bits(v)?, bits(m)?);
                let value = v.iter().zip(mask.iter()).map(|(v, m)| v & m).collect();
                Keyset::Masked { value, mask }
            }
            hir::Keyset::Range(a, b) => Keyset::Range { low: bits(a)?, high: bits(b)? },
        })
    }
}
