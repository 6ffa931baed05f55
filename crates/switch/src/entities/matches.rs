//! Matches of table entries and of value sets' members.

use tributary_dataplane::{KeyMatch, Value};
use tributary_p4::ir::MatchKind;
use tributary_p4runtime::p4::v1::{FieldMatch, field_match};

use super::objects::{Key, Table};
use super::{Refusal, decode, encode};

pub(super) fn check_priority(table: &Table, priority: i32) -> Result<(), Refusal> {
    match (table.ranked(), priority) {
        (true, 1..) | (false, 0) => Ok(()),
        (true, _) => Err(Refusal::invalid(
            "it has a ternary, range or optional key: entries need a priority above zero",
        )),
        (false, _) => Err(Refusal::invalid(
            "it has no ternary, range or optional key: entries have no priority",
        )),
    }
}

/// Converts an entry's matches to the engine's form: one per key; omitted ones match anything.
pub(super) fn matches(keys: &[Key], fields: &[FieldMatch]) -> Result<Vec<KeyMatch>, Refusal> {
    for (i, field) in fields.iter().enumerate() {
        let id = field.field_id;
        if !keys.iter().any(|key| key.id == id) {
            return Err(Refusal::invalid(format!("there is no key with id {id}")));
        }
        if fields[..i].iter().any(|other| other.field_id == id) {
            return Err(Refusal::invalid(format!("the key with id {id} is matched twice")));
        }
    }
    let one = |key: &Key| {
        let what = || format!("key `{}`", key.name);
        match fields.iter().find(|field| field.field_id == key.id) {
            Some(field) => one_match(key, field).map_err(|r| r.of(&what())),
            None => anything(key)
                .ok_or_else(|| Refusal::invalid("an exact key cannot be left out").of(&what())),
        }
    };
    keys.iter().map(one).collect()
}

/// The match of anything; `None` for exact keys.
fn anything(key: &Key) -> Option<KeyMatch> {
    Some(match key.kind {
        MatchKind::Exact | MatchKind::Selector => return None,
        MatchKind::Lpm => KeyMatch::Lpm { value: Value::zero(), prefix_len: 0 },
        MatchKind::Ternary => KeyMatch::Ternary { value: Value::zero(), mask: Value::zero() },
        MatchKind::Range => KeyMatch::Range { low: Value::zero(), high: Value::ones(key.width) },
        MatchKind::Optional => KeyMatch::Optional(None),
    })
}

fn one_match(key: &Key, field: &FieldMatch) -> Result<KeyMatch, Refusal> {
    use field_match::FieldMatchType as F;
    let value = |bytes: &[u8], what: &str| decode(bytes, key.width, what);
    let found = field.field_match_type.as_ref();
    let found = found.ok_or_else(|| Refusal::invalid("the match has no kind"))?;
    let new = match (key.kind, found) {
        (MatchKind::Exact, F::Exact(m)) => KeyMatch::Exact(value(&m.value, "value")?),
        (MatchKind::Lpm, F::Lpm(m)) => KeyMatch::Lpm {
            value: value(&m.value, "value")?,
            prefix_len: u32::try_from(m.prefix_len)
                .ok()
                .filter(|&len| len <= key.width)
                .ok_or_else(|| {
                    let (len, width) = (m.prefix_len, key.width);
                    Refusal::invalid(format!("a prefix of {len} bits in a key of {width}"))
                })?,
        },
        (MatchKind::Ternary, F::Ternary(m)) => {
            KeyMatch::Ternary { value: value(&m.value, "value")?, mask: value(&m.mask, "mask")? }
        }
        (MatchKind::Range, F::Range(m)) => {
            KeyMatch::Range { low: value(&m.low, "low end")?, high: value(&m.high, "high end")? }
        }
        (MatchKind::Optional, F::Optional(m)) => {
            KeyMatch::Optional(Some(value(&m.value, "value")?))
        }
        (kind, _) => {
            return Err(Refusal::invalid(format!("the match is not {}", kind_name(kind))));
        }
    };
    let matches_anything = match &new {
        KeyMatch::Lpm { prefix_len, .. } => *prefix_len == 0,
        KeyMatch::Ternary { mask, .. } => *mask == Value::zero(),
        KeyMatch::Range { low, high } => *low == Value::zero() && *high == Value::ones(key.width),
        KeyMatch::Exact(_) | KeyMatch::Optional(_) => false,
    };
    if matches_anything {
        return Err(Refusal::invalid("a match of anything must be left out"));
    }
    Ok(new)
}

fn kind_name(kind: MatchKind) -> &'static str {
    match kind {
        MatchKind::Exact => "exact",
        MatchKind::Lpm => "lpm",
        MatchKind::Ternary => "ternary",
        MatchKind::Range => "range",
        MatchKind::Optional => "optional",
        MatchKind::Selector => "selector",
    }
}

/// Converts a match to the wire form; `None` if it matches anything.
pub(super) fn to_field(key: &Key, found: &KeyMatch) -> Option<FieldMatch> {
    use field_match::FieldMatchType as F;
    if anything(key).as_ref() == Some(found) {
        return None;
    }
    let found = match found {
        KeyMatch::Exact(value) => F::Exact(field_match::Exact { value: encode(value) }),
        KeyMatch::Lpm { value, prefix_len } => {
            F::Lpm(field_match::Lpm { value: encode(value), prefix_len: *prefix_len as i32 })
        }
        KeyMatch::Ternary { value, mask } => {
            F::Ternary(field_match::Ternary { value: encode(value), mask: encode(mask) })
        }
        KeyMatch::Range { low, high } => {
            F::Range(field_match::Range { low: encode(low), high: encode(high) })
        }
        KeyMatch::Optional(value) => {
            F::Optional(field_match::Optional { value: encode(value.as_ref()?) })
        }
    };
    Some(FieldMatch { field_id: key.id, field_match_type: Some(found) })
}
