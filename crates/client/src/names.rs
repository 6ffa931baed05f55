//! The names of a program: what its P4Info has, by name and by number.
//!
//! Names may be given in full (`MyIngress.ipv4_lpm`), as P4Info's alias, or by their last parts (`ipv4_lpm`), as long
//! as only one object has that name.

use std::collections::HashMap;
use std::sync::Arc;

use tributary_p4runtime::p4::config::v1::{
    self as config, Action, ActionProfile, ActionRef, Counter, Digest, DirectCounter, DirectMeter,
    MatchField, Meter, P4Info, P4NamedType, P4TypeInfo, Preamble, Register, Table, ValueSet,
    action_ref, match_field, p4_new_type_spec, p4_new_type_translation,
};

use crate::error::unknown;
use crate::value::{Format, Type};
use crate::{Error, value};

/// The names of a program.
#[derive(Clone, Debug, Default)]
pub struct Names {
    info: Arc<P4Info>,
    /// By the ids of the object and of the field: a key's shown name, or nothing for unknown ones.
    shown: Arc<HashMap<(u32, u32), String>>,
}

/// Something that has a preamble in P4Info.
pub trait Object {
    /// What it is, in messages.
    const KIND: &'static str;
    /// All of them in a program.
    fn all(info: &P4Info) -> &[Self]
    where
        Self: Sized;
    /// Its number and names.
    fn preamble(&self) -> Option<&Preamble>;

    /// Its number.
    fn id(&self) -> u32 {
        self.preamble().map_or(0, |preamble| preamble.id)
    }

    /// Its full name.
    fn name(&self) -> &str {
        self.preamble().map_or("?", |preamble| &preamble.name)
    }

    /// Its short name, which is unique among its kind.
    fn alias(&self) -> &str {
        match self.preamble() {
            Some(preamble) if !preamble.alias.is_empty() => &preamble.alias,
            _ => self.name(),
        }
    }
}

macro_rules! objects {
    ($($type:ident $field:ident $kind:literal),* $(,)?) => {$(
        impl Object for $type {
            const KIND: &'static str = $kind;
            fn all(info: &P4Info) -> &[Self] {
                &info.$field
            }
            fn preamble(&self) -> Option<&Preamble> {
                self.preamble.as_ref()
            }
        }
    )*};
}

objects! {
    Table tables "table",
    Action actions "action",
    ActionProfile action_profiles "action profile",
    Counter counters "counter",
    DirectCounter direct_counters "counter",
    Meter meters "meter",
    DirectMeter direct_meters "meter",
    ValueSet value_sets "value set",
    Register registers "register",
    Digest digests "digest",
}

/// A key, a parameter or a field of a packet's metadata.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// Its number.
    pub id: u32,
    /// Its full name.
    pub name: String,
    /// The shortest name by which it is known.
    pub shown: String,
    /// What its values are.
    pub ty: Type,
    /// How its values are written.
    pub format: Format,
    /// How a key matches; [`Match::Exact`] for others.
    pub kind: Match,
}

/// How a key matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Match {
    /// One value.
    Exact,
    /// A prefix.
    Lpm,
    /// A value and a mask.
    Ternary,
    /// A lowest and a highest value.
    Range,
    /// One value, or all.
    Optional,
}

impl Match {
    /// Its name in P4.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Lpm => "lpm",
            Self::Ternary => "ternary",
            Self::Range => "range",
            Self::Optional => "optional",
        }
    }

    /// Whether entries with such a key have priorities.
    #[must_use]
    pub const fn is_ranked(self) -> bool {
        matches!(self, Self::Ternary | Self::Range | Self::Optional)
    }
}

impl Names {
    /// The names of a program.
    #[must_use]
    pub fn new(info: P4Info) -> Self {
        let mut shown = HashMap::new();
        let tables = info.tables.iter().map(|table| (table.id(), &table.match_fields));
        let sets = info.value_sets.iter().map(|set| (set.id(), &set.r#match));
        for (object, fields) in tables.chain(sets) {
            let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
            let short =
                fields.iter().map(|field| ((object, field.id), shortest(&field.name, &names)));
            shown.extend(short);
        }
        Self { info: Arc::new(info), shown: Arc::new(shown) }
    }

    /// The P4Info.
    #[must_use]
    pub fn info(&self) -> &P4Info {
        &self.info
    }

    /// All objects of a kind.
    #[must_use]
    pub fn all<T: Object>(&self) -> &[T] {
        T::all(&self.info)
    }

    /// The object of a kind with that number.
    #[must_use]
    pub fn by_id<T: Object>(&self, id: u32) -> Option<&T> {
        self.all::<T>().iter().find(|object| object.id() == id)
    }

    /// The object of a kind with that name.
    ///
    /// # Errors
    /// If there is none, or several may be meant.
    pub fn find<T: Object>(&self, name: &str) -> Result<&T, Error> {
        match pick(T::KIND, name, self.all::<T>())? {
            Some(object) => Ok(object),
            None => Err(self.missing(T::KIND, name, self.all::<T>().iter().map(Object::alias))),
        }
    }

    /// The object with that name, if there is one.
    ///
    /// # Errors
    /// If several may be meant.
    pub fn look<T: Object>(&self, name: &str) -> Result<Option<&T>, Error> {
        pick(T::KIND, name, self.all::<T>())
    }

    /// An error for an unknown name.
    pub(crate) fn missing<'a>(
        &self,
        kind: &str,
        name: &str,
        known: impl Iterator<Item = &'a str> + Clone,
    ) -> Error {
        if self.info.tables.is_empty() && self.info.pkg_info.is_none() {
            return Error::input(
                "the switch runs no program; set one with `pipeline set PROGRAM.p4`",
            );
        }
        unknown(&format!("there is no {kind}"), name, known)
    }

    /// The actions that entries of a table may have, or its default entry.
    pub fn actions<'a>(
        &'a self,
        table: &'a Table,
        default: bool,
    ) -> impl Iterator<Item = &'a Action> + Clone + 'a {
        use action_ref::Scope;
        let allowed = move |action: &&ActionRef| match action.scope() {
            Scope::TableOnly | Scope::GroupAction => !default,
            Scope::DefaultOnly => default,
            Scope::TableAndDefault => true,
        };
        table.action_refs.iter().filter(allowed).filter_map(|action| self.by_id(action.id))
    }

    /// The action of a table with that name.
    ///
    /// # Errors
    /// If the table has no such action for such an entry.
    pub fn action<'a>(
        &'a self,
        table: &'a Table,
        name: &str,
        default: bool,
    ) -> Result<&'a Action, Error> {
        let actions: Vec<&Action> = self.actions(table, default).collect();
        let lacks = match default {
            true => format!("table `{}` has no default action", table.alias()),
            false => format!("table `{}` has no action", table.alias()),
        };
        let found = pick("action", name, actions.iter().copied())?;
        found.ok_or_else(|| unknown(&lacks, name, actions.iter().map(|action| action.alias())))
    }

    /// The keys of a table.
    #[must_use]
    pub fn keys(&self, table: &Table) -> Vec<Field> {
        self.fields(table.id(), &table.match_fields)
    }

    /// The keys of a value set.
    #[must_use]
    pub fn members(&self, set: &ValueSet) -> Vec<Field> {
        self.fields(set.id(), &set.r#match)
    }

    fn fields(&self, object: u32, fields: &[MatchField]) -> Vec<Field> {
        let field = |field: &MatchField| {
            let width = u32::try_from(field.bitwidth).unwrap_or(0);
            Field {
                id: field.id,
                name: field.name.clone(),
                shown: self.shown.get(&(object, field.id)).cloned().unwrap_or_default(),
                ty: self.value_type(width, field.type_name.as_ref()),
                format: Format::of(&field.name, width, &field.annotations),
                kind: match field.r#match {
                    Some(match_field::Match::MatchType(kind)) => match kind.try_into() {
                        Ok(match_field::MatchType::Lpm) => Match::Lpm,
                        Ok(match_field::MatchType::Ternary) => Match::Ternary,
                        Ok(match_field::MatchType::Range) => Match::Range,
                        Ok(match_field::MatchType::Optional) => Match::Optional,
                        _ => Match::Exact,
                    },
                    _ => Match::Exact,
                },
            }
        };
        fields.iter().map(field).collect()
    }

    /// The parameters of an action.
    #[must_use]
    pub fn params(&self, action: &Action) -> Vec<Field> {
        let params = action.params.iter();
        let field = |param: &config::action::Param| {
            let Preset { ty, format } = self.preset(
                &param.name,
                param.bitwidth,
                param.type_name.as_ref(),
                &param.annotations,
            );
            let (name, shown) = (param.name.clone(), param.name.clone());
            Field { id: param.id, name, shown, ty, format, kind: Match::Exact }
        };
        params.map(field).collect()
    }

    /// The metadata of packets: `packet_in` or `packet_out`.
    #[must_use]
    pub fn metadata(&self, header: &str) -> Vec<Field> {
        let headers = self.info.controller_packet_metadata.iter();
        let mut headers =
            headers.filter(|one| one.preamble.as_ref().is_some_and(|p| p.name == header));
        let fields = headers.next().map_or(&[][..], |header| &header.metadata);
        let field = |field: &config::controller_packet_metadata::Metadata| {
            let Preset { ty, format } = self.preset(
                &field.name,
                field.bitwidth,
                field.type_name.as_ref(),
                &field.annotations,
            );
            let (name, shown) = (field.name.clone(), field.name.clone());
            Field { id: field.id, name, shown, ty, format, kind: Match::Exact }
        };
        fields.iter().map(field).collect()
    }

    /// A port of the switch, in replicas and watched ports: of the type that the port has in packets for the
    /// controller.
    #[must_use]
    pub fn port(&self) -> Field {
        let known = [("packet_in", "ingress_port"), ("packet_out", "egress_port")];
        let name = |ty| ty == Type::Name;
        let mut found = known.iter().flat_map(|(header, port)| {
            self.metadata(header).into_iter().filter(move |field| field.name == *port)
        });
        let ty = if found.any(|field| name(field.ty)) { Type::Name } else { Type::Bits(32) };
        Field {
            id: 0,
            name: "port".to_owned(),
            shown: "port".to_owned(),
            ty,
            format: Format::Number,
            kind: Match::Exact,
        }
    }

    fn preset(
        &self,
        name: &str,
        width: i32,
        ty: Option<&P4NamedType>,
        annotations: &[String],
    ) -> Preset {
        let width = u32::try_from(width).unwrap_or(0);
        Preset { ty: self.value_type(width, ty), format: Format::of(name, width, annotations) }
    }

    fn value_type(&self, width: u32, name: Option<&P4NamedType>) -> Type {
        match name {
            Some(name) if self.is_string(&name.name) => Type::Name,
            _ => Type::Bits(width),
        }
    }

    /// Whether values of a type are strings for a controller.
    fn is_string(&self, name: &str) -> bool {
        use p4_new_type_spec::Representation;
        let types = self.types();
        let spec = types.and_then(|types| types.new_types.get(name));
        match spec.and_then(|spec| spec.representation.as_ref()) {
            Some(Representation::TranslatedType(translated)) => {
                matches!(translated.sdn_type, Some(p4_new_type_translation::SdnType::SdnString(_)))
            }
            _ => false,
        }
    }

    /// The types that registers and digests name.
    #[must_use]
    pub fn types(&self) -> Option<&P4TypeInfo> {
        self.info.type_info.as_ref()
    }

    /// The counter of a table's entries.
    #[must_use]
    pub fn counter_of(&self, table: &Table) -> Option<&DirectCounter> {
        table.direct_resource_ids.iter().find_map(|&id| self.by_id(id))
    }

    /// The meter of a table's entries.
    #[must_use]
    pub fn meter_of(&self, table: &Table) -> Option<&DirectMeter> {
        table.direct_resource_ids.iter().find_map(|&id| self.by_id(id))
    }

    /// The action profile of a table.
    #[must_use]
    pub fn profile_of(&self, table: &Table) -> Option<&ActionProfile> {
        self.by_id(table.implementation_id)
    }
}

struct Preset {
    ty: Type,
    format: Format,
}

impl Field {
    /// Reads one of its values.
    ///
    /// # Errors
    /// One line with its name.
    pub fn parse(&self, text: &str) -> Result<Vec<u8>, Error> {
        value::parse(text, self.ty).map_err(|reason| self.wrong(&reason))
    }

    /// An error about a value.
    pub(crate) fn wrong(&self, reason: &str) -> Error {
        Error::input(format!("`{}`: {reason}", self.shown))
    }

    /// Writes one of its values.
    #[must_use]
    pub fn show(&self, value: &[u8]) -> String {
        value::show(value, self.ty, self.format)
    }

    /// Its type: `bit<32>`.
    #[must_use]
    pub fn type_name(&self) -> String {
        match self.ty {
            Type::Bits(width) => format!("bit<{width}>"),
            Type::Name => "string".to_owned(),
        }
    }
}

/// The field that a word means. `lacks` begins the error if there is none, such as ``table `t` has no key``.
///
/// # Errors
/// If there is none, or several may be meant.
pub fn field<'f>(fields: &'f [Field], lacks: &str, name: &str) -> Result<&'f Field, Error> {
    let wanted = spelled(name);
    let whole = |field: &&Field| field.name == wanted || field.shown == name;
    if let Some(found) = fields.iter().find(whole) {
        return Ok(found);
    }
    let mut ends = fields.iter().filter(|field| is_end(&field.name, &wanted));
    match (ends.next(), ends.next()) {
        (Some(found), None) => Ok(found),
        (Some(one), Some(other)) => Err(Error::input(format!(
            "`{name}` may be `{}` or `{}`: write more of the name",
            one.shown, other.shown
        ))),
        (None, _) => {
            let known = fields.iter().map(|field| field.shown.as_str());
            Err(unknown(lacks, name, known))
        }
    }
}

/// P4Info's spelling of a validity: `hdr.ipv4.$valid$` for `hdr.ipv4.valid`.
fn spelled(name: &str) -> String {
    match name.strip_suffix(".valid") {
        Some(header) => format!("{header}.$valid$"),
        None => name.to_owned(),
    }
}

/// Whether a name ends in these parts.
fn is_end(name: &str, parts: &str) -> bool {
    name.strip_suffix(parts).is_some_and(|before| before.ends_with('.'))
}

/// The shortest end of a name that no other name has.
fn shortest(name: &str, all: &[&str]) -> String {
    let (plain, suffix) = match name.strip_suffix(".$valid$") {
        Some(header) => (header, ".valid"),
        None => (name, ""),
    };
    let ends = plain.rmatch_indices('.').map(|(at, _)| &plain[at + 1..]);
    let unique = |end: &&str| {
        let whole = spelled(&format!("{end}{suffix}"));
        all.iter().filter(|other| **other == whole || is_end(other, &whole)).count() == 1
    };
    format!("{}{suffix}", ends.chain([plain]).find(unique).unwrap_or(plain))
}

/// The one of these objects that a name means: in full, by its alias, or by its last parts.
fn pick<'a, T: Object + 'a>(
    kind: &str,
    name: &str,
    objects: impl IntoIterator<Item = &'a T> + Clone,
) -> Result<Option<&'a T>, Error> {
    let full = |object: &&T| object.name() == name;
    let alias = |object: &&T| object.alias() == name;
    let end = |object: &&T| is_end(object.name(), name);
    let rules: [&dyn Fn(&&T) -> bool; 3] = [&full, &alias, &end];
    for rule in rules {
        let mut found = objects.clone().into_iter().filter(|object| rule(object));
        match (found.next(), found.next()) {
            (Some(object), None) => return Ok(Some(object)),
            (Some(one), Some(other)) => {
                return Err(Error::input(format!(
                    "{kind} `{name}` may be `{}` or `{}`: write more of the name",
                    one.name(),
                    other.name()
                )));
            }
            (None, _) => {}
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_shortest_unique_names() {
        let all =
            ["hdr.ipv4.src", "hdr.ipv6.src", "hdr.ipv4.dst", "hdr.ipv4.$valid$", "port", "a.port"];
        let expected = ["ipv4.src", "ipv6.src", "dst", "ipv4.valid", "port", "a.port"];
        for (name, short) in all.iter().zip(expected) {
            let found = shortest(name, &all);
            assert!(found == short || *name == "port", "{name}: {found}");
        }
    }

    #[test]
    fn a_key_is_found_by_its_end() {
        let make = |name: &str| Field {
            id: 1,
            name: name.to_owned(),
            shown: shortest(name, &["hdr.ipv4.src", "hdr.ipv6.src", "hdr.ipv4.$valid$"]),
            ty: Type::Bits(8),
            format: Format::Number,
            kind: Match::Exact,
        };
        let fields = ["hdr.ipv4.src", "hdr.ipv6.src", "hdr.ipv4.$valid$"].map(make);
        let find =
            |name: &str| field(&fields, "table `t` has no key", name).map(|field| &*field.name);
        assert_eq!(find("ipv4.src").unwrap(), "hdr.ipv4.src");
        assert_eq!(find("hdr.ipv6.src").unwrap(), "hdr.ipv6.src");
        assert_eq!(find("ipv4.valid").unwrap(), "hdr.ipv4.$valid$");
        let line = find("src").unwrap_err().to_string();
        assert_eq!(line, "`src` may be `ipv4.src` or `ipv6.src`: write more of the name");
        let line = find("ipv4.srx").unwrap_err().to_string();
        assert!(line.ends_with("did you mean `ipv4.src`?"), "{line}");
    }
}
