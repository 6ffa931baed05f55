//! Parser value sets: written by the control plane, compared by `select`.

use crate::error::{StateError, TableError};
use crate::slot::Item;
use crate::tables::{KeyMatch, KeyShape, check_match, prefix_mask};
use crate::value::Value;

/// A set of values, or of tuples of values.
#[derive(Clone, Debug)]
pub(crate) struct ValueSet {
    /// Bits of each scalar.
    widths: Vec<u32>,
    /// Maximum number of members.
    size: u64,
    members: Vec<Vec<KeyMatch>>,
    /// The members in the form that packets are compared with.
    rows: Vec<Box<[Test]>>,
}

/// A test of one scalar: `low <= value & mask <= high`.
#[derive(Clone, Debug)]
struct Test {
    mask: Box<[u64]>,
    low: Box<[u64]>,
    high: Box<[u64]>,
}

impl Test {
    fn new(found: &KeyMatch, width: u32) -> Self {
        let ones = Value::ones(width);
        let zero = Value::zero();
        let (mask, low, high) = match found {
            KeyMatch::Exact(value) | KeyMatch::Optional(Some(value)) => (ones, value, value),
            KeyMatch::Lpm { value, prefix_len } => (prefix_mask(width, *prefix_len), value, value),
            KeyMatch::Ternary { value, mask } => (mask.clone(), value, value),
            KeyMatch::Range { low, high } => (ones, low, high),
            KeyMatch::Optional(None) => (zero.clone(), &zero, &zero),
        };
        let limbs = |value: &Value| value.limbs(width.div_ceil(64) as usize).collect();
        Self { mask: limbs(&mask), low: limbs(low), high: limbs(high) }
    }

    fn holds(&self, value: &[u64]) -> bool {
        let masked = || value.iter().zip(&self.mask).map(|(v, m)| v & m).rev();
        masked().ge(self.low.iter().rev().copied()) && masked().le(self.high.iter().rev().copied())
    }
}

impl ValueSet {
    /// An empty set of tuples of these scalars.
    pub(crate) fn new(widths: Vec<u32>, size: u64) -> Self {
        Self { widths, size, members: Vec::new(), rows: Vec::new() }
    }

    /// Maximum number of members.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Adds a member.
    pub(crate) fn insert(&mut self, member: Vec<KeyMatch>) -> Result<(), StateError> {
        self.check(&member)?;
        if self.members.contains(&member) {
            return Err(StateError::AlreadyExists);
        }
        if self.members.len() as u64 >= self.size {
            return Err(StateError::Full(self.size));
        }
        let row = member.iter().zip(&self.widths).map(|(found, &width)| Test::new(found, width));
        self.rows.push(row.collect());
        self.members.push(member);
        Ok(())
    }

    /// Removes a member.
    pub(crate) fn delete(&mut self, member: &[KeyMatch]) -> Result<(), StateError> {
        self.check(member)?;
        let at = self.members.iter().position(|known| known == member);
        let at = at.ok_or(StateError::NotFound)?;
        self.members.remove(at);
        self.rows.remove(at);
        Ok(())
    }

    /// All members in the order of insertion.
    pub(crate) fn members(&self) -> &[Vec<KeyMatch>] {
        &self.members
    }

    /// Whether the scalars are in the set.
    pub(crate) fn contains(&self, keys: &[Item], state: &[u64]) -> bool {
        self.rows.iter().any(|row| {
            row.iter().zip(keys).all(|(test, key)| {
                let slot = key.slot as usize;
                test.holds(&state[slot..slot + key.width.div_ceil(64) as usize])
            })
        })
    }

    fn check(&self, member: &[KeyMatch]) -> Result<(), StateError> {
        if member.len() != self.widths.len() {
            let (expected, got) = (self.widths.len(), member.len());
            return Err(TableError::KeyCount { expected, got }.into());
        }
        for (at, (found, &width)) in member.iter().zip(&self.widths).enumerate() {
            // The control plane checks the kinds of matches against P4Info.
            check_match(at, found, KeyShape { width, kind: found.kind() })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_match_by_the_kind_of_each_scalar() {
        let mut set = ValueSet::new(vec![16, 128], 2);
        let high = Value::from(5u128 << 64);
        let member = |port: u64| {
            let ternary = KeyMatch::Ternary { value: high.clone(), mask: Value::from(7u128 << 64) };
            vec![KeyMatch::Exact(port.into()), ternary]
        };
        set.insert(member(80)).unwrap();
        assert_eq!(set.insert(member(80)), Err(StateError::AlreadyExists));
        let items = [Item { slot: 0, width: 16 }, Item { slot: 1, width: 128 }];
        assert!(set.contains(&items, &[80, 99, 0xd]));
        assert!(!set.contains(&items, &[80, 99, 0xc]));
        assert!(!set.contains(&items, &[81, 99, 0xd]));
        set.insert(member(81)).unwrap();
        assert_eq!(set.insert(member(82)), Err(StateError::Full(2)));
        set.delete(&member(80)).unwrap();
        assert_eq!(set.delete(&member(80)), Err(StateError::NotFound));
        assert!(!set.contains(&items, &[80, 99, 0xd]));
        assert!(set.contains(&items, &[81, 99, 0xd]));
        let short = vec![KeyMatch::Exact(1u64.into())];
        let refused = TableError::KeyCount { expected: 2, got: 1 };
        assert_eq!(set.insert(short), Err(refused.into()));
    }
}
