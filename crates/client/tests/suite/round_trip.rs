//! What is printed can be read: any entry gives the same entry again.

use proptest::prelude::*;
use tributary_client::names::{Field, Match, Names, Object as _};
use tributary_client::value::Type;
use tributary_client::{entry, words};
use tributary_p4runtime::p4::config::v1::Table;

use crate::device::{FEATURES, NAMES, TABLES};

/// A value of a field from random bits.
fn value(field: &Field, bits: u64) -> String {
    match field.ty {
        Type::Name => words::quote(&format!("n {bits:x}")),
        Type::Bits(width) => (bits & (u64::MAX >> (64 - width.clamp(1, 64)))).to_string(),
    }
}

/// The text of a key from random bits.
fn key(field: &Field, bits: u64, more: u64) -> String {
    let (low, width) = (
        value(field, bits),
        match field.ty {
            Type::Bits(width) => width,
            Type::Name => 1,
        },
    );
    let text = match field.kind {
        Match::Exact | Match::Optional => low,
        _ if field.ty == Type::Name => "*".to_owned(),
        Match::Lpm => format!("{low}/{}", more % u64::from(width + 1)),
        Match::Ternary => format!("{low}&&&{}", value(field, more)),
        Match::Range => {
            let high = value(field, more);
            let (a, b): (u64, u64) = (low.parse().unwrap(), high.parse().unwrap());
            format!("{}..{}", a.min(b), a.max(b))
        }
    };
    format!("{}={text}", field.shown)
}

/// A command line for a table from random bits.
fn line(names: &Names, table: &Table, bits: &[u64]) -> String {
    let mut bits = bits.iter().copied().cycle();
    let mut next = || bits.next().unwrap_or_default();
    let fields = names.keys(table);
    let mut all = vec![table.name().to_owned()];
    all.extend(fields.iter().map(|field| key(field, next(), next())));
    if fields.iter().any(|field| field.kind.is_ranked()) {
        all.push(format!("priority={}", 1 + next() % 1000));
    }
    if next() % 3 == 0 {
        all.push(format!("timeout={}ms", next() % 10_000));
    }
    let actions: Vec<_> = names.actions(table, false).collect();
    let action = actions[next() as usize % actions.len()];
    all.push(action.name().to_owned());
    all.extend(names.params(action).iter().map(|param| value(param, next())));
    all.join(" ")
}

fn read(names: &Names, line: &str) -> tributary_p4runtime::p4::v1::TableEntry {
    let words = words::split(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    entry::parse(names, &words).unwrap_or_else(|error| panic!("{line}: {error}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_printed_entry_is_read_back(bits in prop::collection::vec(any::<u64>(), 24)) {
        for source in [TABLES, FEATURES, NAMES] {
            let names = compiled(source);
            for table in names.all::<Table>() {
                let first = read(names, &line(names, table, &bits));
                let shown = entry::show(names, &first);
                prop_assert_eq!(read(names, &shown), first, "{}", shown);
            }
        }
    }
}

/// The names of a program, compiled once.
fn compiled(source: &'static str) -> &'static Names {
    use std::collections::HashMap;
    use std::sync::Mutex;
    static ALL: Mutex<Option<HashMap<&'static str, &'static Names>>> = Mutex::new(None);
    let mut all = ALL.lock().unwrap();
    all.get_or_insert_default().entry(source).or_insert_with(|| {
        let compilation = tributary_p4::compile_text("program.p4", source, &[]).unwrap();
        Box::leak(Box::new(Names::new(compilation.p4info)))
    })
}
