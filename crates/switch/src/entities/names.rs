//! Names that controllers give to values of translated types
//! (`@p4runtime_translation("…", string)`).
//!
//! The engine, and all other parts of the control plane, have numbers only. Messages are translated
//! when they arrive and when they leave. A number is chosen for a name when it is first used, from
//! the largest one down. A name that is a decimal number stands for this number, so that
//! controllers can name what the program knows by number, ports above all.

use std::collections::{HashMap, HashSet};

use tributary_p4::ir;
use tributary_p4runtime::google::rpc::Code;
use tributary_p4runtime::p4::config::v1::{self as info, P4Info};
use tributary_p4runtime::p4::v1::{
    self as p4, Entity, FieldMatch, PacketMetadata, entity, field_match,
    packet_replication_engine_entry as engine, replica, table_action,
};

use super::Refusal;

/// Maximum bytes of a name.
const LENGTH: usize = 1024;

/// Names of a type that are kept before unused ones are forgotten.
const KEPT: usize = 1024;

/// The values of P4Info's objects that have names: for each, the index of its type.
#[derive(Debug, Default)]
pub(crate) struct Places {
    types: Vec<ir::Translated>,
    /// By the ids of table or value set and of the match field.
    keys: HashMap<(u32, u32), usize>,
    /// By the ids of action and parameter.
    params: HashMap<(u32, u32), usize>,
    packet_in: HashMap<u32, usize>,
    packet_out: HashMap<u32, usize>,
    /// The type of ports: that of the port in a controller header.
    port: Option<usize>,
}

impl Places {
    pub(crate) fn new(program: &ir::Program, p4info: &P4Info) -> Self {
        let mut places = Self { types: program.translated.clone(), ..Self::default() };
        if places.types.is_empty() {
            return places;
        }
        let types = &program.translated;
        let of = |name: &Option<info::P4NamedType>| {
            let name = &name.as_ref()?.name;
            types.iter().position(|ty| ty.name == *name)
        };
        let id = |preamble: &Option<info::Preamble>| preamble.as_ref().map_or(0, |p| p.id);
        let tables = p4info.tables.iter().map(|t| (id(&t.preamble), &t.match_fields));
        let sets = p4info.value_sets.iter().map(|v| (id(&v.preamble), &v.r#match));
        for (object, fields) in tables.chain(sets) {
            let named = fields.iter().filter_map(|f| Some(((object, f.id), of(&f.type_name)?)));
            places.keys.extend(named);
        }
        for action in &p4info.actions {
            let action_id = id(&action.preamble);
            let params = action.params.iter();
            let named = params.filter_map(|p| Some(((action_id, p.id), of(&p.type_name)?)));
            places.params.extend(named);
        }
        for header in &p4info.controller_packet_metadata {
            let (name, port) = match header.preamble.as_ref().map_or("", |p| &p.name) {
                "packet_in" => (&mut places.packet_in, "ingress_port"),
                "packet_out" => (&mut places.packet_out, "egress_port"),
                _ => continue,
            };
            for field in &header.metadata {
                let Some(ty) = of(&field.type_name) else { continue };
                name.insert(field.id, ty);
                if field.name == port {
                    places.port = Some(ty);
                }
            }
        }
        places
    }

    /// Calls `f` for every value in an entity that has a name, with its type.
    fn visit(&self, entity: &mut Entity, f: &mut Visit<'_>) -> Result<(), Refusal> {
        use entity::Entity as E;
        let Some(entity) = &mut entity.entity else { return Ok(()) };
        match entity {
            E::TableEntry(entry) => self.entry(entry, f),
            E::DirectCounterEntry(entry) => {
                entry.table_entry.as_mut().map_or(Ok(()), |entry| self.entry(entry, f))
            }
            E::DirectMeterEntry(entry) => {
                entry.table_entry.as_mut().map_or(Ok(()), |entry| self.entry(entry, f))
            }
            E::ActionProfileMember(member) => {
                member.action.as_mut().map_or(Ok(()), |action| self.call(action, f))
            }
            E::ActionProfileGroup(group) => group.members.iter_mut().try_for_each(|member| {
                use p4::action_profile_group::member::WatchKind;
                match &mut member.watch_kind {
                    Some(WatchKind::WatchPort(port)) => self.port(port, f),
                    _ => Ok(()),
                }
            }),
            E::ValueSetEntry(set) => {
                let id = set.value_set_id;
                let fields = set.members.iter_mut().flat_map(|member| &mut member.r#match);
                self.fields(id, fields, f)
            }
            E::PacketReplicationEngineEntry(entry) => {
                let replicas = match &mut entry.r#type {
                    Some(engine::Type::MulticastGroupEntry(group)) => &mut group.replicas,
                    Some(engine::Type::CloneSessionEntry(session)) => &mut session.replicas,
                    None => return Ok(()),
                };
                replicas.iter_mut().try_for_each(|replica| match &mut replica.port_kind {
                    Some(replica::PortKind::Port(port)) => self.port(port, f),
                    _ => Ok(()),
                })
            }
            _ => Ok(()),
        }
    }

    /// The numbers of names in entities, by type.
    pub(super) fn numbers(&self, entities: impl Iterator<Item = Entity>) -> HashSet<(usize, u64)> {
        let mut numbers = HashSet::new();
        for mut entity in entities {
            // What cannot be translated is refused, and has no numbers.
            let _ = self.visit(&mut entity, &mut |ty, value| {
                numbers.insert((ty, number(value)));
                Ok(())
            });
        }
        numbers
    }

    fn port(&self, port: &mut Vec<u8>, f: &mut Visit<'_>) -> Result<(), Refusal> {
        match self.port {
            Some(ty) if !port.is_empty() => f(ty, port),
            _ => Ok(()),
        }
    }

    fn entry(&self, entry: &mut p4::TableEntry, f: &mut Visit<'_>) -> Result<(), Refusal> {
        self.fields(entry.table_id, entry.r#match.iter_mut(), f)?;
        let action = entry.action.as_mut().and_then(|action| action.r#type.as_mut());
        match action {
            Some(table_action::Type::Action(action)) => self.call(action, f),
            Some(table_action::Type::ActionProfileActionSet(set)) => {
                set.action_profile_actions.iter_mut().try_for_each(|one| {
                    use p4::action_profile_action::WatchKind;
                    if let Some(WatchKind::WatchPort(port)) = &mut one.watch_kind {
                        self.port(port, f)?;
                    }
                    one.action.as_mut().map_or(Ok(()), |action| self.call(action, f))
                })
            }
            _ => Ok(()),
        }
    }

    fn fields<'m>(
        &self,
        object: u32,
        mut fields: impl Iterator<Item = &'m mut FieldMatch>,
        f: &mut Visit<'_>,
    ) -> Result<(), Refusal> {
        use field_match::FieldMatchType as M;
        fields.try_for_each(|field| {
            let Some(&ty) = self.keys.get(&(object, field.field_id)) else { return Ok(()) };
            match &mut field.field_match_type {
                Some(M::Exact(m)) => f(ty, &mut m.value),
                Some(M::Optional(m)) => f(ty, &mut m.value),
                None => Ok(()),
                Some(_) => {
                    let name = &self.types[ty].name;
                    Err(Refusal::unimplemented(format!(
                        "the key with id {}: values of type `{name}` are names here, which only \
                         exact and optional matches can have",
                        field.field_id
                    )))
                }
            }
        })
    }

    fn call(&self, action: &mut p4::Action, f: &mut Visit<'_>) -> Result<(), Refusal> {
        action.params.iter_mut().try_for_each(|param| {
            match self.params.get(&(action.action_id, param.param_id)) {
                Some(&ty) => f(ty, &mut param.value),
                None => Ok(()),
            }
        })
    }
}

/// Called with a type and a value.
type Visit<'a> = dyn FnMut(usize, &mut Vec<u8>) -> Result<(), Refusal> + 'a;

/// The names in use.
#[derive(Debug, Default)]
pub(crate) struct Names {
    types: Vec<OfType>,
}

/// The names of one type. Names and numbers belong together one to one.
#[derive(Clone, Debug)]
struct OfType {
    name: String,
    /// The largest number.
    most: u64,
    /// Whether names other than numbers are refused.
    decimal: bool,
    numbers: HashMap<Box<str>, u64>,
    names: HashMap<u64, Box<str>>,
    /// Those that the program declares or uses in its own entries.
    fixed: HashSet<u64>,
    /// The number to try next.
    next: u64,
    /// Number of names at which unused ones are forgotten.
    limit: usize,
}

impl Names {
    /// The names that a program declares, and the numbers in its initial entries.
    pub(crate) fn of(places: &Places, entries: impl Iterator<Item = Entity>) -> Self {
        let mut names = Self::new(places);
        if places.types.is_empty() {
            return names;
        }
        for mut entity in entries {
            let noted = places.visit(&mut entity, &mut |ty, value| {
                let (ty, number) = (&mut names.types[ty], number(value));
                if ty.fixed.insert(number) {
                    ty.join(&number.to_string(), number);
                }
                Ok(())
            });
            debug_assert!(noted.is_ok());
        }
        names
    }

    fn new(places: &Places) -> Self {
        let of_type = |(index, ty): (usize, &ir::Translated)| {
            let most = u64::MAX >> 64u32.saturating_sub(ty.width).min(63);
            let fixed = ty.fixed.iter().filter(|(_, number)| *number <= most);
            let mut of = OfType {
                name: ty.name.clone(),
                most,
                decimal: places.port == Some(index),
                numbers: HashMap::new(),
                names: HashMap::new(),
                fixed: fixed.clone().map(|(_, number)| *number).collect(),
                next: most,
                limit: KEPT,
            };
            fixed.for_each(|(name, number)| of.join(name, *number));
            of
        };
        Self { types: places.types.iter().enumerate().map(of_type).collect() }
    }

    /// Continues with the names of another program, for the types that both have. `used` has the
    /// numbers in the other program's entities, by type.
    ///
    /// # Errors
    /// If a name that is used cannot keep its number here.
    pub(crate) fn take_over(
        &mut self,
        from: &Self,
        used: &HashSet<(usize, u64)>,
    ) -> Result<(), String> {
        for ty in &mut self.types {
            let known = from.types.iter().enumerate().find(|(_, old)| old.name == ty.name);
            let Some((index, old)) = known else { continue };
            for (&number, name) in &old.names {
                let has = ty.names.get(&number);
                if has == Some(name) {
                    continue;
                }
                let free = has.is_none() && number <= ty.most && !ty.numbers.contains_key(&**name);
                if free {
                    ty.join(name, number);
                } else if used.contains(&(index, number)) {
                    let what = &ty.name;
                    return Err(format!("the name `{name}` of type `{what}` has another number"));
                }
            }
        }
        Ok(())
    }

    /// Replaces the names in an entity by numbers, and chooses numbers for new names.
    pub(crate) fn inward(&mut self, places: &Places, entity: &mut Entity) -> Result<(), Refusal> {
        if self.types.is_empty() {
            return Ok(());
        }
        places.visit(entity, &mut |ty, value| {
            let number = self.types[ty].number(value)?;
            *value = bytes(number);
            Ok(())
        })
    }

    /// The same in a query. False if it contains an unknown name, so that it selects nothing.
    pub(crate) fn query(&self, places: &Places, entity: &mut Entity) -> Result<bool, Refusal> {
        let mut known = true;
        if self.types.is_empty() {
            return Ok(known);
        }
        places.visit(entity, &mut |ty, value| {
            match self.types[ty].known(value)? {
                Some(number) => *value = bytes(number),
                None => known = false,
            }
            Ok(())
        })?;
        Ok(known)
    }

    /// Replaces the numbers in an entity by names.
    pub(crate) fn outward(&self, places: &Places, entity: &mut Entity) {
        if self.types.is_empty() {
            return;
        }
        let named = places.visit(entity, &mut |ty, value| {
            *value = self.types[ty].named(number(value));
            Ok(())
        });
        debug_assert!(named.is_ok(), "entries with names have exact and optional keys only");
    }

    /// The same for a table entry.
    pub(crate) fn entry(&self, places: &Places, entry: p4::TableEntry) -> p4::TableEntry {
        let mut entity = Entity { entity: Some(entity::Entity::TableEntry(entry)) };
        self.outward(places, &mut entity);
        match entity.entity {
            Some(entity::Entity::TableEntry(entry)) => entry,
            _ => p4::TableEntry::default(),
        }
    }

    /// Replaces the numbers in a packet's metadata by names.
    pub(crate) fn packet_in(&self, places: &Places, metadata: &mut [PacketMetadata]) {
        for field in metadata {
            if let Some(&ty) = places.packet_in.get(&field.metadata_id) {
                field.value = self.types[ty].named(number(&field.value));
            }
        }
    }

    /// Replaces the names in a packet's metadata by numbers.
    pub(crate) fn packet_out(
        &mut self,
        places: &Places,
        metadata: &mut [PacketMetadata],
    ) -> Result<(), Refusal> {
        metadata.iter_mut().try_for_each(|field| {
            if let Some(&ty) = places.packet_out.get(&field.metadata_id) {
                field.value = bytes(self.types[ty].number(&field.value)?);
            }
            Ok(())
        })
    }

    /// Whether there are so many names that unused ones should be [forgotten](Self::forget).
    pub(crate) fn many(&self) -> bool {
        self.types.iter().any(|ty| ty.numbers.len() >= ty.limit)
    }

    /// Forgets all names but those of these numbers.
    pub(crate) fn forget(&mut self, used: &HashSet<(usize, u64)>) {
        for (index, ty) in self.types.iter_mut().enumerate() {
            let OfType { names, fixed, .. } = ty;
            names.retain(|number, _| fixed.contains(number) || used.contains(&(index, *number)));
            ty.numbers.retain(|_, number| names.contains_key(number));
            ty.limit = KEPT.max(2 * names.len());
            ty.next = ty.most;
        }
    }
}

impl OfType {
    fn join(&mut self, name: &str, number: u64) {
        self.numbers.insert(name.into(), number);
        self.names.insert(number, name.into());
    }

    fn text<'b>(&self, value: &'b [u8]) -> Result<&'b str, Refusal> {
        let what = &self.name;
        if value.len() > LENGTH {
            let message = format!("a name of type `{what}` has more than {LENGTH} bytes");
            return Err(Refusal::invalid(message));
        }
        std::str::from_utf8(value)
            .map_err(|_| Refusal::invalid(format!("a name of type `{what}` is not UTF-8 text")))
    }

    /// The number of a name that is one, in the usual form.
    fn decimal(&self, name: &str) -> Option<u64> {
        let number: u64 = name.parse().ok()?;
        (number <= self.most && number.to_string() == name).then_some(number)
    }

    /// The number of a name that has one.
    fn known(&self, value: &[u8]) -> Result<Option<u64>, Refusal> {
        let name = self.text(value)?;
        let own = || self.decimal(name).filter(|number| !self.names.contains_key(number));
        Ok(self.numbers.get(name).copied().or_else(own))
    }

    /// The number of a name; a new one if need be.
    fn number(&mut self, value: &[u8]) -> Result<u64, Refusal> {
        if let Some(number) = self.known(value)? {
            let name = self.text(value)?;
            // An entry may use it from now on, so no other name may get this number.
            if !self.numbers.contains_key(name) {
                self.join(name, number);
            }
            return Ok(number);
        }
        let (name, what) = (self.text(value)?.to_owned(), &self.name);
        if let Some(number) = self.decimal(&name)
            && let Some(other) = self.names.get(&number)
        {
            return Err(Refusal::new(
                Code::AlreadyExists,
                format!("`{name}`: the number of this name of type `{what}` belongs to `{other}`"),
            ));
        }
        if self.decimal {
            return Err(Refusal::invalid(format!(
                "`{name}` is not a port: this switch calls ports by their numbers, such as `1`"
            )));
        }
        let full = || {
            let message =
                format!("type `{what}` has {} names: no number is left", self.names.len());
            Refusal::new(Code::ResourceExhausted, message)
        };
        if self.names.len() as u64 > self.most {
            return Err(full());
        }
        while self.names.contains_key(&self.next) {
            self.next = self.next.checked_sub(1).unwrap_or(self.most);
        }
        let number = self.next;
        self.join(&name, number);
        Ok(number)
    }

    /// The name of a number.
    fn named(&self, number: u64) -> Vec<u8> {
        match self.names.get(&number) {
            Some(name) => name.as_bytes().to_vec(),
            None => number.to_string().into_bytes(),
        }
    }
}

/// The number in a byte string that the switch itself has written.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A number as a byte string.
fn bytes(number: u64) -> Vec<u8> {
    super::encode(&number.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(width: u32, fixed: &[(&str, u64)]) -> OfType {
        let fixed = fixed.iter().map(|&(name, number)| (name.to_owned(), number)).collect();
        let ty = ir::Translated { name: "id_t".into(), width, fixed };
        let places = Places { types: vec![ty], ..Places::default() };
        Names::new(&places).types.remove(0)
    }

    #[test]
    fn decimal_names_are_their_numbers_and_others_come_from_the_top() {
        let mut ty = of(10, &[("", 0)]);
        for (name, number) in [
            ("", 0),
            ("7", 7),
            ("a", 1023),
            ("07", 1022),
            ("a", 1023),
            ("1024", 1021),
            ("1020", 1020),
        ] {
            assert_eq!(ty.number(name.as_bytes()).unwrap(), number, "{name:?}");
            assert_eq!(ty.named(number), name.as_bytes());
        }
        assert_eq!(ty.number(b"b").unwrap(), 1019);
        assert_eq!(ty.named(8), b"8");
        assert_eq!(ty.number(b"1023").unwrap_err().code, Code::AlreadyExists);
        assert_eq!(ty.number(b"0").unwrap_err().code, Code::AlreadyExists);
        assert_eq!(ty.number(&[0xff]).unwrap_err().code, Code::InvalidArgument);
        assert_eq!(ty.number(&[b'x'; 2000]).unwrap_err().code, Code::InvalidArgument);
    }

    #[test]
    fn numbers_run_out_and_come_back() {
        let ty = ir::Translated { name: "id_t".into(), width: 2, fixed: Vec::new() };
        let places = Places { types: vec![ty], ..Places::default() };
        let mut names = Names::new(&places);
        for name in ["a", "b", "c", "d"] {
            names.types[0].number(name.as_bytes()).unwrap();
        }
        assert_eq!(names.types[0].number(b"e").unwrap_err().code, Code::ResourceExhausted);
        names.forget(&HashSet::from([(0, 2)]));
        assert_eq!(names.types[0].known(b"b").unwrap(), Some(2));
        assert_eq!(names.types[0].known(b"a").unwrap(), None);
        assert_eq!(names.types[0].number(b"e").unwrap(), 3);
    }

    proptest! {
        #[test]
        fn names_and_numbers_belong_together(
            width in 1u32..8,
            names in proptest::collection::vec("[0-9a-c]{0,3}", 0..200),
        ) {
            let mut ty = of(width, &[("", 1)]);
            let mut seen: HashMap<u64, String> = HashMap::new();
            for name in names {
                let Ok(number) = ty.number(name.as_bytes()) else { continue };
                prop_assert!(number <= ty.most);
                prop_assert_eq!(ty.named(number), name.as_bytes());
                let first = seen.entry(number).or_insert_with(|| name.clone());
                prop_assert_eq!(first, &name);
            }
        }
    }
}
