//! Checks that a controller's P4Info belongs to the program that it sends.

use std::collections::{HashMap, HashSet};

use tributary_p4runtime::p4::config::v1::{self as info, P4Info};

/// Compares everything in two P4Infos that entities depend on: objects, ids, names, widths, kinds
/// and sizes. Annotations, documentation, type names, the package's description and the order of
/// objects may differ, because compilers do not agree on them.
///
/// # Errors
/// Describes the first difference.
pub(crate) fn check(sent: &P4Info, compiled: &P4Info) -> Result<(), String> {
    // The usual case: our own controller compiles as this switch does.
    if sent == compiled {
        return Ok(());
    }
    compare("table", &sent.tables, &compiled.tables, |t| &t.preamble, table)?;
    compare("action", &sent.actions, &compiled.actions, |a| &a.preamble, action)?;
    compare(
        "counter",
        &sent.counters,
        &compiled.counters,
        |c| &c.preamble,
        |c| vec![("size", c.size.to_string()), ("unit", unit(c.spec))],
    )?;
    let (sent_direct, ours) = (&sent.direct_counters, &compiled.direct_counters);
    compare(
        "direct counter",
        sent_direct,
        ours,
        |c| &c.preamble,
        |c| vec![("table", c.direct_table_id.to_string()), ("unit", unit(c.spec))],
    )?;
    compare(
        "register",
        &sent.registers,
        &compiled.registers,
        |r| &r.preamble,
        |r| vec![("size", r.size.to_string())],
    )?;
    let (sent_headers, ours) =
        (&sent.controller_packet_metadata, &compiled.controller_packet_metadata);
    compare(
        "controller header",
        sent_headers,
        ours,
        |h| &h.preamble,
        |h| {
            h.metadata
                .iter()
                .map(|m| ("field", format!("{} {} {}", m.id, m.name, m.bitwidth)))
                .collect()
        },
    )?;
    compare(
        "meter",
        &sent.meters,
        &compiled.meters,
        |m| &m.preamble,
        |m| vec![("size", m.size.to_string()), ("unit", meter_unit(m.spec))],
    )?;
    let (sent_direct, ours) = (&sent.direct_meters, &compiled.direct_meters);
    compare(
        "direct meter",
        sent_direct,
        ours,
        |m| &m.preamble,
        |m| vec![("table", m.direct_table_id.to_string()), ("unit", meter_unit(m.spec))],
    )?;
    let (sent_profiles, ours) = (&sent.action_profiles, &compiled.action_profiles);
    compare("action profile", sent_profiles, ours, |p| &p.preamble, profile)?;
    compare(
        "value set",
        &sent.value_sets,
        &compiled.value_sets,
        |v| &v.preamble,
        |v| std::iter::once(("size", v.size.to_string())).chain(fields(&v.r#match)).collect(),
    )?;
    let (sent_digests, ours) = (&sent.digests, &compiled.digests);
    compare("digest", sent_digests, ours, |d| &d.preamble, |_| vec![])
}

/// Facts about an object, each with its name.
type Facts = Vec<(&'static str, String)>;

fn unit(spec: Option<info::CounterSpec>) -> String {
    spec.unwrap_or_default().unit().as_str_name().to_lowercase()
}

fn table(table: &info::Table) -> Facts {
    let mut facts = vec![("size", table.size.to_string())];
    facts.push(("action profile", table.implementation_id.to_string()));
    facts.extend(fields(&table.match_fields));
    // p4c does not know `@groupaction`: its P4Info has such actions in the ordinary scope.
    let scope = |a: &info::ActionRef| match a.scope() {
        info::action_ref::Scope::GroupAction => info::action_ref::Scope::TableAndDefault,
        scope => scope,
    };
    let mut actions: Vec<_> = table.action_refs.iter().map(|a| (a.id, scope(a) as i32)).collect();
    actions.sort_unstable();
    facts.extend(actions.into_iter().map(|a| ("action", format!("{a:?}"))));
    facts.push(("constness", format!("{}", table.is_const_table)));
    facts
}

/// The match fields of a table, or of a value set's members.
fn fields(fields: &[info::MatchField]) -> impl Iterator<Item = (&'static str, String)> {
    fields.iter().map(|f| {
        let kind = match &f.r#match {
            Some(info::match_field::Match::MatchType(kind)) => kind.to_string(),
            Some(info::match_field::Match::OtherMatchType(kind)) => kind.clone(),
            None => String::new(),
        };
        ("key", format!("{} {} {} {kind}", f.id, f.name, f.bitwidth))
    })
}

fn meter_unit(spec: Option<info::MeterSpec>) -> String {
    spec.unwrap_or_default().unit().as_str_name().to_lowercase()
}

fn profile(profile: &info::ActionProfile) -> Facts {
    let mut tables = profile.table_ids.clone();
    tables.sort_unstable();
    vec![
        ("selector", profile.with_selector.to_string()),
        ("size", profile.size.to_string()),
        ("largest group", profile.max_group_size.to_string()),
        ("tables", format!("{tables:?}")),
    ]
}

fn action(action: &info::Action) -> Facts {
    let param =
        |p: &info::action::Param| ("parameter", format!("{} {} {}", p.id, p.name, p.bitwidth));
    action.params.iter().map(param).collect()
}

fn name(preamble: &Option<info::Preamble>) -> &str {
    preamble.as_ref().map_or("", |preamble| &preamble.name)
}

fn compare<T>(
    kind: &str,
    sent: &[T],
    compiled: &[T],
    preamble: impl for<'t> Fn(&'t T) -> &'t Option<info::Preamble>,
    facts: impl Fn(&T) -> Facts,
) -> Result<(), String> {
    let id = |object: &T| preamble(object).as_ref().map_or(0, |p| p.id);
    // A program can have thousands of registers.
    let compiled: Vec<_> = compiled.iter().map(|ours| (name(preamble(ours)), ours)).collect();
    let all_sent: HashSet<_> = sent.iter().map(|theirs| name(preamble(theirs))).collect();
    if let Some((lost, _)) = compiled.iter().find(|(name, _)| !all_sent.contains(name)) {
        return Err(format!("{kind} `{lost}` of the program is not in it"));
    }
    let (compiled, mut seen): (HashMap<_, _>, _) = (compiled.into_iter().collect(), HashSet::new());
    for theirs in sent {
        let name_of = name(preamble(theirs));
        if !seen.insert(name_of) {
            return Err(format!("{kind} `{name_of}` is in it twice"));
        }
        let Some(&ours) = compiled.get(name_of) else {
            return Err(format!("the program has no {kind} `{name_of}`"));
        };
        if id(ours) != id(theirs) {
            return Err(format!(
                "{kind} `{name_of}` has id {:#010x}, in the program {:#010x}",
                id(theirs),
                id(ours)
            ));
        }
        let (theirs, ours) = (facts(theirs), facts(ours));
        if theirs.len() != ours.len() {
            return Err(format!("{kind} `{name_of}` has other parts than in the program"));
        }
        for ((what, theirs), (_, ours)) in theirs.iter().zip(&ours) {
            if theirs != ours {
                return Err(format!(
                    "{kind} `{name_of}`: {what} is `{theirs}`, in the program `{ours}`"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> P4Info {
        let preamble =
            |id, name: &str| Some(info::Preamble { id, name: name.into(), ..Default::default() });
        let field = |id, name: &str| info::MatchField {
            id,
            name: name.into(),
            bitwidth: 9,
            r#match: Some(info::match_field::Match::MatchType(2)),
            ..Default::default()
        };
        P4Info {
            tables: vec![info::Table {
                preamble: preamble(1, "t"),
                match_fields: vec![field(1, "a"), field(2, "b")],
                size: 64,
                ..Default::default()
            }],
            actions: vec![
                info::Action { preamble: preamble(2, "x"), ..Default::default() },
                info::Action { preamble: preamble(3, "y"), ..Default::default() },
            ],
            counters: vec![info::Counter {
                preamble: preamble(4, "c"),
                size: 7,
                ..Default::default()
            }],
            ..Default::default()
        }
    }

    #[test]
    fn order_and_annotations_do_not_matter() {
        let mut sent = sample();
        sent.actions.reverse();
        sent.tables[0].preamble.as_mut().unwrap().annotations.push("@hidden".into());
        sent.pkg_info = Some(info::PkgInfo { arch: "v1model".into(), ..Default::default() });
        assert_eq!(check(&sent, &sample()), Ok(()));
    }

    #[test]
    fn every_relevant_difference_is_named() {
        type Change = fn(&mut P4Info);
        let changes: [(&str, Change); 7] = [
            ("`t`: size", |i| i.tables[0].size = 65),
            ("`t` has id", |i| i.tables[0].preamble.as_mut().unwrap().id = 9),
            ("`t`: key", |i| i.tables[0].match_fields[1].bitwidth = 10),
            ("`y` of the program is not in it", |i| drop(i.actions.pop())),
            ("no action `z`", |i| {
                let mut more = i.actions[0].clone();
                more.preamble.as_mut().unwrap().name = "z".into();
                i.actions.push(more);
            }),
            ("`c`: size", |i| i.counters[0].size = 8),
            ("`x` is in it twice", |i| i.actions.push(i.actions[0].clone())),
        ];
        for (expected, change) in changes {
            let mut sent = sample();
            change(&mut sent);
            let error = check(&sent, &sample()).unwrap_err();
            assert!(error.contains(expected), "{error}, not {expected}");
        }
    }
}
