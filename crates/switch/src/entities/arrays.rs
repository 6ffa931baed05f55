//! Indexed state: the common part of counters, meters and registers.

use std::ops::Range;

use tributary_p4runtime::p4::v1::{Entity, Index};

use super::objects::Array;
use super::{Change, Refusal};
use crate::forwarding::Forwarding;

/// One kind of array.
pub(super) trait Cells {
    /// All arrays of the kind.
    fn arrays(from: &Forwarding) -> impl Iterator<Item = &Array>;

    /// The array with an id.
    fn array(from: &Forwarding, id: u32) -> Result<&Array, Refusal>;

    /// One element.
    fn cell(from: &Forwarding, array: &Array, index: u64) -> Result<Entity, Refusal>;

    /// The elements selected by an id and an index, each of which is optional.
    fn chosen(
        from: &Forwarding,
        id: u32,
        index: Option<&Index>,
    ) -> Result<Vec<(u32, Range<u64>)>, Refusal> {
        if id != 0 {
            return Ok(vec![(id, range(Self::array(from, id)?, index)?)]);
        }
        if index.is_some() {
            return Err(Refusal::invalid("an index needs the id of an array"));
        }
        Ok(Self::arrays(from).map(|array| (array.id, 0..array.size)).collect())
    }

    /// Appends elements of the array with an id.
    fn read(
        from: &Forwarding,
        id: u32,
        cells: Range<u64>,
        out: &mut Vec<Entity>,
    ) -> Result<(), Refusal> {
        let array = Self::array(from, id)?;
        cells.into_iter().try_for_each(|index| {
            out.push(Self::cell(from, array, index)?);
            Ok(())
        })
    }
}

pub(super) fn only_modify(change: Change, what: &str) -> Result<(), Refusal> {
    match change {
        Change::Modify => Ok(()),
        _ => Err(Refusal::invalid(format!("{what} can only be modified"))),
    }
}

/// The range selected by an index: one element, or all without an index.
pub(super) fn range(array: &Array, index: Option<&Index>) -> Result<Range<u64>, Refusal> {
    let Some(&Index { index }) = index else { return Ok(0..array.size) };
    let name = &array.name;
    let index = u64::try_from(index)
        .map_err(|_| Refusal::invalid(format!("`{name}`: index {index} is negative")))?;
    if index < array.size {
        Ok(index..index + 1)
    } else {
        let size = array.size;
        Err(Refusal::out_of_range(format!("`{name}`: index {index} is beyond its {size} elements")))
    }
}

/// Converts an index to the wire form.
pub(super) fn index_of(index: u64) -> Option<Index> {
    Some(Index { index: index as i64 })
}
