//! Identifiers and aliases, as p4c's control plane assigns them.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::ir::Annotation;

/// First byte of an identifier (P4Runtime specification, "ID Allocation for P4Info Objects").
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Kind {
    Action = 0x01,
    Table = 0x02,
    ValueSet = 0x03,
    ControllerHeader = 0x04,
    ActionProfile = 0x11,
    Counter = 0x12,
    DirectCounter = 0x13,
    Meter = 0x14,
    DirectMeter = 0x15,
    Register = 0x16,
    Digest = 0x17,
}

/// All named objects of a program.
///
/// For TNA, p4c hashes the names of tables and externs with the pipeline's name as a prefix, but
/// the names in P4Info do not include it.
#[derive(Default)]
pub(super) struct Symbols {
    pipeline: Option<String>,
    /// The names of each kind, with the identifier if `@id` gives it.
    names: HashMap<Kind, BTreeMap<String, Option<u32>>>,
    ids: HashMap<Kind, HashMap<String, u32>>,
    /// Set by [`Self::assign`].
    aliases: HashMap<String, String>,
}

impl Symbols {
    /// Creates an empty set for a program with this pipeline.
    pub(super) fn new(pipeline: Option<&str>) -> Self {
        Self { pipeline: pipeline.map(str::to_owned), ..Self::default() }
    }

    /// The name from which an identifier is computed.
    fn hashed(&self, kind: Kind, name: &str) -> String {
        match (&self.pipeline, kind) {
            (None, _) | (_, Kind::Action | Kind::ControllerHeader) => name.to_owned(),
            (Some(pipeline), _) => format!("{pipeline}.{name}"),
        }
    }

    /// Adds an object. The same name may be added twice.
    pub(super) fn add(&mut self, kind: Kind, name: &str, annotations: &[Annotation]) {
        let id = given_id(annotations).map(|id| (id & 0x00ff_ffff) | (kind as u32) << 24);
        self.names.entry(kind).or_default().entry(name.to_owned()).or_insert(id);
    }

    /// Assigns aliases to all objects, and identifiers to objects without one: the hash of the
    /// name, or the next free identifier. Names are processed in alphabetical order, so that the
    /// result depends on nothing else.
    pub(super) fn assign(&mut self) {
        self.aliases = aliases(self.names.values().flat_map(BTreeMap::keys));
        let given: HashSet<u32> =
            self.names.values().flat_map(BTreeMap::values).filter_map(|id| *id).collect();
        let mut taken = given;
        for (kind, names) in &self.names {
            for (name, id) in names {
                let id = id.unwrap_or_else(|| {
                    let mut hash = one_at_a_time(self.hashed(*kind, name).as_bytes());
                    let make = |hash: u32| (*kind as u32) << 24 | (hash & 0x00ff_ffff);
                    while taken.contains(&make(hash)) {
                        hash = hash.wrapping_add(1);
                    }
                    make(hash)
                });
                taken.insert(id);
                self.ids.entry(*kind).or_default().insert(name.clone(), id);
            }
        }
    }

    /// The identifier of an object; zero if there is no such object.
    pub(super) fn id(&self, kind: Kind, name: &str) -> u32 {
        self.ids.get(&kind).and_then(|ids| ids.get(name)).copied().unwrap_or(0)
    }

    /// The shortest suffix of the name that no other name has.
    pub(super) fn alias(&self, name: &str) -> String {
        self.aliases.get(name).map_or(name, String::as_str).to_owned()
    }
}

/// The shortest suffix of each name that no other name has.
///
/// If names are sorted by their components from last to first, names with common suffixes are
/// adjacent. So comparing neighbours finds the longest suffix that each name shares with any other.
fn aliases<'n>(names: impl Iterator<Item = &'n String>) -> HashMap<String, String> {
    // The components are copied in that order once, because programs have thousands of names.
    let mut names: Vec<(Vec<&str>, &str)> =
        names.map(|name| (name.rsplit('.').collect(), name.as_str())).collect();
    names.sort_unstable();
    names.dedup();
    let mut before = 0;
    let mut aliases = HashMap::with_capacity(names.len());
    for (i, (parts, name)) in names.iter().enumerate() {
        let after = names
            .get(i + 1)
            .map_or(0, |(next, _)| parts.iter().zip(next).take_while(|(a, b)| a == b).count());
        // The components up to the first one that is shared with no other name.
        let length: usize =
            parts.iter().take(before.max(after) + 1).map(|part| part.len() + 1).sum();
        let alias = &name[(name.len() + 1).saturating_sub(length)..];
        aliases.insert((*name).to_owned(), alias.to_owned());
        before = after;
    }
    aliases
}

/// The number of an `@id` annotation.
pub(super) fn given_id(annotations: &[Annotation]) -> Option<u32> {
    let body = annotations.iter().find(|a| a.name == "id")?.body.trim().replace('_', "");
    match body.strip_prefix("0x").or_else(|| body.strip_prefix("0X")) {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => body.parse().ok(),
    }
}

/// Identifiers of match fields or action parameters: `@id`, or 1, 2, 3, …, skipping those in use.
pub(super) fn part_ids<'a>(parts: impl Iterator<Item = &'a [Annotation]>) -> Vec<u32> {
    let given: Vec<Option<u32>> = parts.map(given_id).collect();
    let mut taken: HashSet<u32> = given.iter().flatten().copied().collect();
    let mut next = 1;
    given
        .into_iter()
        .map(|id| match id {
            Some(id) => {
                next += 1;
                id
            }
            None => {
                while taken.contains(&next) {
                    next += 1;
                }
                taken.insert(next);
                next
            }
        })
        .collect()
}

/// Bob Jenkins's one-at-a-time hash.
fn one_at_a_time(bytes: &[u8]) -> u32 {
    let mut hash = 0u32;
    for byte in bytes {
        hash = hash.wrapping_add(u32::from(*byte));
        hash = hash.wrapping_add(hash << 10);
        hash ^= hash >> 6;
    }
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 11;
    hash.wrapping_add(hash << 15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::AnnotationForm;

    #[test]
    fn ids_are_those_of_p4c() {
        let mut symbols = Symbols::default();
        symbols.add(Kind::Action, "NoAction", &[]);
        symbols.assign();
        // p4c prints this for every program with a table.
        assert_eq!(symbols.id(Kind::Action, "NoAction"), 21_257_015);
    }

    #[test]
    fn an_id_annotation_gets_the_kind_as_first_byte() {
        let mut symbols = Symbols::default();
        let id = |n: &str| {
            [Annotation { name: "id".into(), body: n.into(), form: AnnotationForm::Words }]
        };
        symbols.add(Kind::Table, "a.t", &id("7"));
        symbols.add(Kind::Table, "a.u", &id("0x0200_0008"));
        symbols.assign();
        assert_eq!(symbols.id(Kind::Table, "a.t"), 0x0200_0007);
        assert_eq!(symbols.id(Kind::Table, "a.u"), 0x0200_0008);
    }

    #[test]
    fn aliases_are_unique_suffixes() {
        let mut symbols = Symbols::default();
        for name in ["d.a.c", "e.b.c", "x.y", "y"] {
            symbols.add(Kind::Table, name, &[]);
        }
        symbols.assign();
        assert_eq!(symbols.alias("d.a.c"), "a.c");
        assert_eq!(symbols.alias("e.b.c"), "b.c");
        assert_eq!(symbols.alias("x.y"), "x.y");
        assert_eq!(symbols.alias("y"), "y");
    }

    #[test]
    fn parts_count_past_given_ids() {
        let id = [Annotation { name: "id".into(), body: "1".into(), form: AnnotationForm::Words }];
        let none: [Annotation; 0] = [];
        assert_eq!(part_ids([&none[..], &id[..], &none[..]].into_iter()), [2, 1, 3]);
    }
}
