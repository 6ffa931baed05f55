//! Tables.

use std::rc::Rc;

use num_traits::Signed;

use super::{Checker, Entry, Place};
use crate::ast::{self, Decl, Direction, ExprKind as A, Ident, PropertyKind};
use crate::hir::{self, CallArg, Expr};
use crate::ir::{BinaryOp, MatchKind, Scope};
use crate::types::{ParamType, Type};

impl Checker<'_, '_> {
    pub(super) fn table(&mut self, decl: &Decl, table: &ast::TableDecl) -> hir::Table {
        let mut out = hir::Table {
            id: self.fresh(),
            name: decl.name.name.clone(),
            span: decl.name.span,
            keys: Vec::new(),
            actions: Vec::new(),
            default: None,
            const_default: false,
            entries: Vec::new(),
            const_entries: false,
            largest_priority_wins: true,
            priority_delta: None,
            size: None,
            attached: Vec::new(),
            idle_timeout: false,
            empty_group: None,
            annotations: self.annotations(&decl.annotations),
        };
        // Keys and actions come first, because entries and the default action refer to them in any
        // order.
        let mut seen: Vec<&Ident> = Vec::new();
        for property in &table.properties {
            self.reporter.work(seen.len() as u64 / 16);
            if let Some(first) = seen.iter().find(|n| n.name == property.name.name) {
                let other = first.span;
                let message = format!("property `{}` is given twice", property.name.name);
                self.reporter.error_at(property.name.span, message, "given first", other);
            }
            seen.push(&property.name);
            match &property.kind {
                PropertyKind::Key(keys) => {
                    for key in keys {
                        if matches!(&key.value.kind, A::Name(n) if n.name == decl.name.name) {
                            let message = format!("table `{}` is its own key", decl.name.name);
                            self.error(key.value.span, message);
                            continue;
                        }
                        out.keys.extend(self.key(key));
                    }
                }
                PropertyKind::Actions(actions) => self.action_list(actions, &mut out),
                _ => {}
            }
        }
        if self.complete && !seen.iter().any(|n| &*n.name == "actions") {
            self.error(decl.name.span, format!("table `{}` has no `actions`", decl.name.name));
        }
        for property in &table.properties {
            if matches!(&*property.name.name, "entries" | "default_action") {
                self.comes_after(table, property);
            }
            match &property.kind {
                PropertyKind::Entries(entries) => {
                    let keyless = !seen.iter().any(|n| &*n.name == "key") || table.has_no_keys();
                    if keyless && self.complete && !entries.is_empty() {
                        let message = "a table without keys has no entries";
                        self.error(property.name.span, message);
                    }
                    out.const_entries = property.is_const;
                    self.priorities(entries, &out);
                    for entry in entries {
                        out.entries.extend(self.entry(entry, &out));
                    }
                }
                PropertyKind::Value(value) => self.property(property, value, &mut out),
                _ => {}
            }
        }
        if !seen.iter().any(|n| &*n.name == "default_action") && self.complete {
            self.implicit_default(decl);
        }
        out
    }

    /// Reports a property that precedes the keys or actions to which it refers.
    fn comes_after(&mut self, table: &ast::TableDecl, property: &ast::Property) {
        let wanted: &[&str] = match &*property.name.name {
            "entries" => &["key", "actions"],
            _ => &["actions"],
        };
        let later = table.properties.iter().skip_while(|p| p.name.span != property.name.span);
        for other in later.filter(|p| wanted.contains(&&*p.name.name)) {
            let message = format!("`{}` stands before `{}`", property.name.name, other.name.name);
            self.reporter.error_at(property.name.span, message, "that one is", other.name.span);
        }
    }

    /// Only entries of tables in which several entries can match may have a priority. If any entry
    /// has one, the first must, because entries without a priority follow the preceding one.
    fn priorities(&mut self, entries: &[ast::EntryDecl], table: &hir::Table) {
        let Some(given) = entries.iter().find_map(|entry| entry.priority.as_ref()) else { return };
        let wild = |key: &hir::Key| {
            matches!(key.kind, MatchKind::Ternary | MatchKind::Range | MatchKind::Optional)
        };
        if self.complete && !table.keys.is_empty() && !table.keys.iter().any(wild) {
            let message = "entries of a table with exact and lpm keys only have no priority";
            self.error(given.span, message);
        } else if entries.first().is_some_and(|first| first.priority.is_none()) {
            let message = "the first entry has no priority, but a later one has";
            self.error(given.span, message);
        }
    }

    /// A table without a default action uses `NoAction` of `core.p4`.
    fn implicit_default(&mut self, table: &Decl) {
        let fits = match self.lookup_global("NoAction") {
            Some(Entry::Action(action)) => action.params.is_empty(),
            Some(Entry::Broken) => true,
            _ => false,
        };
        if !fits {
            let message = format!(
                "table `{}` has no default action, and there is no action `NoAction()`",
                table.name.name
            );
            self.error_help(table.name.span, message, "include core.p4, which declares it");
        }
    }

    fn key(&mut self, key: &ast::KeyElement) -> Option<hir::Key> {
        let value = self.placed(Place::Control, |c| c.expr(&key.value));
        let declared = self.match_kinds.contains(&key.kind.name);
        let kind = match &*key.kind.name {
            "exact" => Some(MatchKind::Exact),
            "lpm" => Some(MatchKind::Lpm),
            "ternary" => Some(MatchKind::Ternary),
            "range" => Some(MatchKind::Range),
            "optional" => Some(MatchKind::Optional),
            "selector" => Some(MatchKind::Selector),
            // The partition of an ATCAM table is named in full.
            "atcam_partition_index" => Some(MatchKind::Exact),
            _ => None,
        };
        let Some(kind) = kind.filter(|_| declared) else {
            let message = format!("there is no match kind `{}`", key.kind.name);
            match super::closest(&key.kind.name, self.match_kinds.clone().iter()) {
                Some(other) => {
                    self.error_help(key.kind.span, message, format!("did you mean `{other}`?"))
                }
                None if declared => self
                    .unsupported(key.kind.span, &format!("the match kind `{}` is", key.kind.name)),
                None => self.error(key.kind.span, message),
            }
            return None;
        };
        let fits = matches!(
            value.ty.repr(),
            Type::Bit(1..) | Type::Signed(_) | Type::Bool | Type::Enum(_) | Type::ErrorCode
        );
        if !fits {
            if !matches!(value.ty, Type::Unknown) {
                self.error(value.span, format!("{} cannot be a table's key", value.ty));
            }
            return None;
        }
        if kind == MatchKind::Lpm && !matches!(value.ty.repr(), Type::Bit(_)) {
            self.error(value.span, format!("{} cannot be matched by its longest prefix", value.ty));
        }
        let annotations = self.annotations(&key.annotations);
        let named = annotations.iter().find(|a| a.name == "name").map(|a| a.body.clone());
        let name = named.or_else(|| self.key_name(&key.value)).unwrap_or_else(|| {
            self.error_help(
                value.span,
                "this key has no name for the control plane",
                "write @name(\"…\") after the kind of match",
            );
            String::new()
        });
        Some(hir::Key { name: name.into(), value, kind, annotations })
    }

    fn action_list(&mut self, actions: &[ast::ActionRef], table: &mut hir::Table) {
        for reference in actions {
            self.reporter.work(table.actions.len() as u64 / 16);
            let Some((action, name, args)) = self.action_named(&reference.value) else { continue };
            if table.actions.iter().any(|a| a.action.id == action.id) {
                self.error(name.span, format!("action `{}` is listed twice", name.name));
                continue;
            }
            // Arguments are for the parameters with a direction; the others are action data.
            let bound: Vec<ParamType> = action
                .params
                .iter()
                .filter(|p| p.direction != Direction::None)
                .map(super::calls::param_type)
                .collect();
            let args: Vec<CallArg> =
                match self.arguments(&name.name, &bound, &[], args, reference.value.span) {
                    Some(args) => args,
                    None => continue,
                };
            let scopes = reference.annotations.iter().filter_map(|a| match &*a.name.name {
                "tableonly" => Some(Scope::TableOnly),
                "defaultonly" => Some(Scope::DefaultOnly),
                "groupaction" => Some(Scope::GroupAction),
                _ => None,
            });
            let scopes: Vec<Scope> = scopes.collect();
            if scopes.len() > 1 {
                let message = "an action has at most one of @tableonly, @defaultonly, @groupaction";
                self.error(reference.value.span, message);
            }
            table.actions.push(hir::TableAction {
                action,
                args,
                scope: scopes.first().copied().unwrap_or_default(),
                annotations: self.annotations(&reference.annotations),
            });
        }
    }

    /// The action that a name or call refers to, with its arguments.
    fn action_named<'a>(
        &mut self,
        e: &'a ast::Expr,
    ) -> Option<(Rc<hir::Action>, &'a Ident, &'a [ast::Arg])> {
        let (callee, args): (&ast::Expr, &[ast::Arg]) = match &e.kind {
            A::Call { callee, args, .. } => (callee, args),
            _ => (e, &[]),
        };
        let (name, entry) = match &callee.kind {
            A::Name(name) => (name, self.lookup(&name.name).cloned()),
            A::Global(name) => (name, self.lookup_global(&name.name).cloned()),
            _ => {
                self.error(callee.span, "this is not an action");
                return None;
            }
        };
        match entry {
            Some(Entry::Action(action)) => Some((action, name, args)),
            Some(Entry::Broken) => None,
            None if !self.complete => None,
            _ => {
                let message = format!("there is no action `{}`", name.name);
                let similar = self.similar(&name.name);
                let action = similar.filter(|s| matches!(self.lookup(s), Some(Entry::Action(_))));
                self.suggest(name.span, message, action);
                None
            }
        }
    }

    /// An action of the table with values for its run-time parameters.
    fn bound_action(&mut self, e: &ast::Expr, table: &hir::Table) -> Option<(usize, Vec<Expr>)> {
        let (action, name, args) = self.action_named(e)?;
        self.reporter.work(table.actions.len() as u64 / 16);
        let Some(position) = table.actions.iter().position(|a| a.action.id == action.id) else {
            if !self.complete {
                return None;
            }
            let help = format!("add it to the `actions` of table `{}`", table.name);
            self.error_help(
                name.span,
                format!("`{}` is not among the table's actions", name.name),
                help,
            );
            return None;
        };
        let data: Vec<ParamType> = action
            .params
            .iter()
            .filter(|p| p.direction == Direction::None)
            .map(super::calls::param_type)
            .collect();
        // Arguments of parameters with a direction may be repeated, but must equal those in the
        // action list.
        let extra = args.len().checked_sub(data.len()).unwrap_or(usize::MAX);
        let (bound, args) = match extra == table.actions[position].args.len() {
            true => args.split_at(extra),
            false => args.split_at(0),
        };
        for (given, listed) in bound.iter().zip(&table.actions[position].args) {
            let value = self.expr(&given.value);
            let value = self.try_coerce(value, &listed.ty);
            let same = match (&value, &listed.value) {
                (Ok(value), Some(listed)) => same_argument(value, listed),
                (value, _) => value.is_ok(),
            };
            if !same {
                let message = "the argument is another one in the table's list of actions";
                self.error(given.value.span, message);
            }
        }
        let defaults: Vec<Option<Expr>> = action
            .params
            .iter()
            .filter(|p| p.direction == Direction::None)
            .map(|p| p.default.clone())
            .collect();
        let args = self.arguments(&name.name, &data, &defaults, args, e.span)?;
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            let value = arg.value.unwrap_or_else(|| Expr::error(e.span));
            values.push(value);
        }
        Some((position, values))
    }

    fn entry(&mut self, entry: &ast::EntryDecl, table: &hir::Table) -> Option<hir::Entry> {
        let types: Vec<Type> = table.keys.iter().map(|k| k.value.ty.clone()).collect();
        let keys = self.keysets(&entry.keyset, &types)?;
        for (set, key) in keys.iter().zip(&table.keys) {
            let fits = match (set, key.kind) {
                (hir::Keyset::Any, MatchKind::Exact) => false,
                (hir::Keyset::Mask(..), kind) => {
                    matches!(kind, MatchKind::Ternary | MatchKind::Lpm)
                }
                (hir::Keyset::Range(..), kind) => kind == MatchKind::Range,
                (hir::Keyset::Set(_), _) => false,
                _ => true,
            };
            if !fits {
                self.error(
                    entry.keyset.span,
                    format!("key `{}` is not matched that way", key.name),
                );
                return None;
            }
        }
        let (action, args) = self.bound_action(&entry.action, table)?;
        match table.actions[action].scope {
            Scope::TableAndDefault | Scope::TableOnly => {}
            Scope::DefaultOnly => {
                self.error(entry.action.span, "this action is @defaultonly: no entry can have it");
            }
            Scope::GroupAction => {
                self.error(
                    entry.action.span,
                    "this action is a @groupaction: no entry can have it",
                );
            }
        }
        let priority = entry.priority.as_ref().map(|p| self.expect(p, &Type::Int));
        let is_const = entry.is_const || table.const_entries;
        let annotations = self.annotations(&entry.annotations);
        let span = entry.keyset.span;
        Some(hir::Entry { span, keys, action, args, priority, is_const, annotations })
    }

    fn property(&mut self, property: &ast::Property, value: &ast::Expr, table: &mut hir::Table) {
        match &*property.name.name {
            "default_action" => self.default_action(property, value, table),
            "size" => table.size = Some(self.size_of_store("table", value)),
            "counters" | "meters" | "implementation" | "registers" | "filters" | "proxy_hash"
            | "atcam" | "alpm" | "psa_direct_counter" | "psa_direct_meter"
            | "psa_implementation" => self.attach(property, value, table),
            // TNA calls it `idle_timeout`.
            "support_timeout" | "idle_timeout" => {
                if let Some(on) = self.flag(property, value) {
                    table.idle_timeout = on;
                }
            }
            "psa_idle_timeout" => self.psa_idle_timeout(value, table),
            "psa_empty_group_action" => table.empty_group = self.bound_action(value, table),
            "priority_delta" => {
                let delta = self.expect(value, &Type::Int);
                if delta.int().is_some_and(|delta| !delta.is_positive()) {
                    self.error(value.span, "`priority_delta` must be positive");
                }
                table.priority_delta = Some(delta);
            }
            "largest_priority_wins" => {
                if let Some(largest) = self.flag(property, value) {
                    table.largest_priority_wins = largest;
                }
            }
            _ => self.unknown_property(&property.name),
        }
    }

    fn default_action(
        &mut self,
        property: &ast::Property,
        value: &ast::Expr,
        table: &mut hir::Table,
    ) {
        table.default = self.bound_action(value, table);
        table.const_default = property.is_const;
        if let Some((action, _)) = table.default
            && !table.actions[action].scope.as_default()
        {
            let message = match table.actions[action].scope {
                Scope::GroupAction => "this action is a @groupaction: it cannot be the default",
                _ => "this action is @tableonly: it cannot be the default",
            };
            self.error(value.span, message);
        }
    }

    /// Attaches an extern instance to a table.
    fn attach(&mut self, property: &ast::Property, value: &ast::Expr, table: &mut hir::Table) {
        let instance = self.expr(value);
        if matches!(instance.ty, Type::Extern(..)) {
            table.attached.push(hir::Attached {
                name: property.name.name.clone(),
                annotations: self.annotations(&property.annotations),
                value: instance,
            });
        } else if !matches!(instance.ty, Type::Unknown) {
            let name = &property.name.name;
            let message = format!("`{name}` is an extern instance, not {}", instance.ty);
            self.error(value.span, message);
        }
    }

    /// A Boolean value that is known at compile time. `None` after an error.
    fn flag(&mut self, property: &ast::Property, value: &ast::Expr) -> Option<bool> {
        match self.expect(value, &Type::Bool).kind {
            hir::ExprKind::Bool(on) => Some(on),
            hir::ExprKind::Error => None,
            _ => {
                let message = format!("`{}` must be known at compile time", property.name.name);
                self.error(value.span, message);
                None
            }
        }
    }

    fn psa_idle_timeout(&mut self, value: &ast::Expr, table: &mut hir::Table) {
        let behaviour = self.expr(value);
        match (&behaviour.ty, &behaviour.kind) {
            (Type::Unknown, _) => {}
            (Type::Enum(e), hir::ExprKind::Member(at)) if &*e.name == "PSA_IdleTimeout_t" => {
                table.idle_timeout = &*e.members[*at] == "NOTIFY_CONTROL";
            }
            (ty, _) => self.error(
                value.span,
                format!("`psa_idle_timeout` is a member of PSA_IdleTimeout_t, not {ty}"),
            ),
        }
    }

    fn unknown_property(&mut self, name: &Ident) {
        let known = [
            "key",
            "actions",
            "entries",
            "default_action",
            "size",
            "counters",
            "meters",
            "implementation",
            "registers",
            "filters",
            "proxy_hash",
        ];
        let known: Vec<ast::Str> = known.iter().map(|s| (*s).into()).collect();
        match super::closest(&name.name, known.iter()) {
            Some(s) => {
                let message = format!("tables have no property `{}`", name.name);
                self.error_help(name.span, message, format!("did you mean `{s}`?"));
            }
            // Architectures may define their own properties. Warn that this one has no effect.
            None => self
                .reporter
                .warning(name.span, format!("the table property `{}` is ignored", name.name)),
        }
    }

    /// The size of a table or value set.
    pub(super) fn size_of_store(&mut self, what: &str, value: &ast::Expr) -> Expr {
        let size = self.expr(value);
        match size.ty.operand() {
            Type::Int | Type::Bit(_) | Type::Signed(_) | Type::Unknown => size,
            other => {
                self.error(value.span, format!("a {what}'s size is an integer, not {other}"));
                Expr::error(value.span)
            }
        }
    }

    /// The control-plane name of a key without `@name`: the expression as written, with the
    /// `@name`s of fields.
    fn key_name(&mut self, e: &ast::Expr) -> Option<String> {
        Some(match &e.kind {
            A::Name(name) | A::Global(name) => name.name.to_string(),
            A::Member(base, member) => {
                let prefix = self.key_name(base)?;
                let given = match self.expr(base).ty {
                    Type::Struct(s) => s.position(&member.name).and_then(|i| {
                        s.fields[i]
                            .annotations
                            .iter()
                            .find(|a| a.name == "name")
                            .map(|a| a.body.clone())
                    }),
                    _ => None,
                };
                match given {
                    Some(absolute) if absolute.starts_with('.') => absolute[1..].to_owned(),
                    Some(name) => format!("{prefix}.{name}"),
                    None => format!("{prefix}.{}", member.name),
                }
            }
            A::Index(base, index) => format!("{}[{}]", self.key_name(base)?, self.key_name(index)?),
            A::Slice(base, hi, lo) => {
                format!("{}[{}:{}]", self.key_name(base)?, self.key_name(hi)?, self.key_name(lo)?)
            }
            A::Int(value, _) => {
                let written = self.reporter.text.slice(e.span);
                let digits = written.rfind(['w', 's']).map_or(written, |i| &written[i + 1..]);
                match digits.get(..2) {
                    Some("0x" | "0X") => format!("{value:#x}"),
                    Some("0b" | "0B") => format!("{value:#b}"),
                    Some("0o" | "0O") => format!("{value:#o}"),
                    _ => value.to_string(),
                }
            }
            A::Binary(BinaryOp::BitAnd, a, b) => {
                format!("{} & {}", self.key_name(a)?, self.key_name(b)?)
            }
            A::Call { callee, args, .. } if args.is_empty() => match &callee.kind {
                A::Member(base, method) if &*method.name == "isValid" => {
                    format!("{}.$valid$", self.key_name(base)?)
                }
                _ => return None,
            },
            _ => return None,
        })
    }
}

/// Whether a repeated argument is the same. Its integers may have been typed in the meantime.
fn same_argument(given: &Expr, listed: &Expr) -> bool {
    use hir::ExprKind as K;
    match (&given.kind, &listed.kind) {
        (K::Var(a), K::Var(b)) => a == b,
        (K::Int(a), K::Int(b)) => a == b,
        (K::Bool(a), K::Bool(b)) => a == b,
        (K::Member(a), K::Member(b)) => a == b,
        (K::Field(a, i), K::Field(b, j)) => i == j && same_argument(a, b),
        (K::Cast(a), K::Cast(b)) => same_argument(a, b),
        (K::List(a), K::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_argument(a, b))
        }
        // Values are evaluated in the order in which they are written.
        (K::Record(a), K::Record(b)) => {
            a.len() == b.len()
                && a.iter().zip(b).all(|((m, a), (n, b))| m == n && same_argument(a, b))
        }
        (K::Var(_) | K::Int(_) | K::Bool(_) | K::Field(..) | K::Cast(_), _) => false,
        (_, K::Var(_) | K::Int(_) | K::Bool(_) | K::Field(..) | K::Cast(_)) => false,
        _ => true,
    }
}
