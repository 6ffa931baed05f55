//! Completion of a command that is being written, from the names of the program.

use tributary_p4runtime::p4::config::v1::{
    ActionProfile, Counter, Digest, DirectCounter, DirectMeter, Meter, Register, Table, ValueSet,
};

use crate::commands::COMMANDS;
use crate::entry::{OPTIONS, SET_OPTIONS};
use crate::names::{Field, Names, Object};
use crate::run::KINDS;

/// The words that may stand at the end of `line`: where the unfinished word begins, in bytes, and its completions.
#[must_use]
pub fn complete(names: &Names, line: &str) -> (usize, Vec<String>) {
    let separates = |c: char| c.is_whitespace() || "(),".contains(c);
    let begin = line.rfind(separates).map_or(0, |at| at + 1);
    let (before, word) = line.split_at(begin);
    let before = before.split(separates);
    let words: Vec<&str> =
        before.filter(|word| !word.is_empty() && !matches!(*word, "->" | "=>" | "→")).collect();
    let mut found = candidates(names, &words);
    // The last part of a name may be the part that is being written.
    found.retain(|candidate| candidate.starts_with(word));
    found.dedup();
    (begin, found)
}

fn aliases<T: Object>(names: &Names) -> Vec<String> {
    names.all::<T>().iter().map(|object| object.alias().to_owned()).collect()
}

fn owned<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    words.into_iter().map(str::to_owned).collect()
}

fn assignments(fields: &[Field], given: &[&str]) -> Vec<String> {
    let unset = |field: &&Field| {
        !given.iter().any(|word| word.split('=').next() == Some(field.shown.as_str()))
    };
    fields.iter().filter(unset).map(|field| format!("{}=", field.shown)).collect()
}

/// All that may follow these words.
fn candidates(names: &Names, words: &[&str]) -> Vec<String> {
    let Some((command, rest)) = words.split_first() else {
        return owned(COMMANDS.iter().map(|command| command.name));
    };
    match (*command, rest) {
        ("help", []) => owned(COMMANDS.iter().map(|command| command.name)),
        ("list", []) => owned(KINDS),
        ("describe", []) => {
            let tables = aliases::<Table>(names).into_iter();
            let tables = tables.chain(actions(names));
            let counters = aliases::<Counter>(names).into_iter().chain(aliases::<Meter>(names));
            tables.chain(counters).chain(aliases::<Register>(names)).collect()
        }
        ("dump" | "clear", []) => [aliases::<Table>(names), owned(["all"])].concat(),
        ("clear" | "save", _) | ("default" | "add" | "change" | "delete", []) => {
            aliases::<Table>(names)
        }
        ("dump", [table, given @ ..]) => keys(names, table, given),
        ("add" | "change", [table, given @ ..]) => entry(names, table, given),
        ("delete", [table, given @ ..]) => {
            let mut all = keys(names, table, given);
            all.push("priority=".to_owned());
            all
        }
        ("default", [table, given @ ..]) => default(names, table, given),
        ("counter", []) => [aliases::<Counter>(names), aliases::<DirectCounter>(names)].concat(),
        ("counter", [name, given @ ..]) => {
            [owned(["reset", "packets=", "bytes="]), keys(names, name, given)].concat()
        }
        ("meter", []) => [aliases::<Meter>(names), aliases::<DirectMeter>(names)].concat(),
        ("meter", [name, given @ ..]) => {
            let rates = owned(["reset", "cir=", "cburst=", "pir=", "pburst="]);
            [rates, keys(names, name, given)].concat()
        }
        ("register", []) => aliases::<Register>(names),
        ("register", [_, ..]) => owned(["reset"]),
        ("multicast" | "clone", []) => owned(["add", "change", "delete"]),
        ("clone", ["add" | "change", _, ..]) => owned(["bytes=", "class="]),
        ("member" | "group", []) => {
            [owned(["add", "change", "delete"]), aliases::<ActionProfile>(names)].concat()
        }
        ("member" | "group", ["add" | "change" | "delete"]) => aliases::<ActionProfile>(names),
        ("member", ["add" | "change", profile, _, given @ ..]) => member(names, profile, given),
        ("valueset", []) => {
            [owned(["add", "delete", "clear"]), aliases::<ValueSet>(names)].concat()
        }
        ("valueset", [_]) => aliases::<ValueSet>(names),
        ("valueset", ["add" | "delete", set, given @ ..]) => match names.look::<ValueSet>(set) {
            Ok(Some(set)) => assignments(&names.members(set), given),
            _ => Vec::new(),
        },
        ("packet-out", [_, given @ ..]) => assignments(&names.metadata("packet_out"), given),
        ("packets", _) => owned(["seconds="]),
        ("digests", _) => [aliases::<Digest>(names), owned(["seconds="])].concat(),
        ("pipeline", []) => owned(["get", "set"]),
        _ => Vec::new(),
    }
}

fn actions(names: &Names) -> Vec<String> {
    aliases::<tributary_p4runtime::p4::config::v1::Action>(names)
}

fn table<'n>(names: &'n Names, name: &str) -> Option<&'n Table> {
    names.look::<Table>(name).ok().flatten()
}

fn keys(names: &Names, name: &str, given: &[&str]) -> Vec<String> {
    table(names, name).map_or_else(Vec::new, |table| assignments(&names.keys(table), given))
}

/// What follows the action of a table: its parameters.
fn params(
    names: &Names,
    table: &Table,
    default: bool,
    action: &str,
    given: &[&str],
) -> Vec<String> {
    match names.action(table, action, default) {
        Ok(action) => assignments(&names.params(action), given),
        Err(_) => Vec::new(),
    }
}

/// Keys, options and actions; then the parameters of the action.
fn entry(names: &Names, name: &str, given: &[&str]) -> Vec<String> {
    let Some(table) = table(names, name) else { return Vec::new() };
    // In an action set, the last action counts.
    let begin = given.iter().rposition(|word| *word == "and").map_or(0, |at| at + 1);
    let in_set = begin > 0;
    let given = &given[begin..];
    let profile = names.profile_of(table).is_some();
    if let Some(at) = given.iter().position(|word| !word.contains('=')) {
        let mut all = params(names, table, false, given[at], &given[at + 1..]);
        if profile {
            all.extend(SET_OPTIONS.iter().map(|option| format!("{option}=")));
            all.push("and".to_owned());
        }
        return all;
    }
    let mut all = Vec::new();
    let fields = names.keys(table);
    if !in_set {
        all.extend(assignments(&fields, given));
    }
    all.extend(names.actions(table, false).map(|action| action.alias().to_owned()));
    if profile && !in_set {
        all.extend(owned(["member=", "group="]));
    }
    if !in_set {
        let ranked = fields.iter().any(|field| field.kind.is_ranked());
        let ages = table.idle_timeout_behavior != 0;
        let options = OPTIONS.iter().filter(|option| match **option {
            "priority" => ranked,
            "timeout" => ages,
            _ => true,
        });
        all.extend(options.map(|option| format!("{option}=")));
    }
    all
}

fn default(names: &Names, name: &str, given: &[&str]) -> Vec<String> {
    let Some(table) = table(names, name) else { return Vec::new() };
    match given {
        [] => {
            let actions = names.actions(table, true).map(|action| action.alias().to_owned());
            actions.chain(["reset".to_owned()]).collect()
        }
        [action, given @ ..] => params(names, table, true, action, given),
    }
}

fn member(names: &Names, profile: &str, given: &[&str]) -> Vec<String> {
    let Ok(Some(profile)) = names.look::<ActionProfile>(profile) else { return Vec::new() };
    let tables = profile.table_ids.iter().filter_map(|&id| names.by_id::<Table>(id));
    let mut all: Vec<String> = match given {
        [] => tables
            .flat_map(|table| names.actions(table, false))
            .map(|action| action.alias().to_owned())
            .collect(),
        [action, given @ ..] => {
            tables.flat_map(|table| params(names, table, false, action, given)).collect()
        }
    };
    all.sort();
    all
}
