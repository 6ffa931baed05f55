//! Conversion of a list of values to bytes for an algorithm.

use crate::bits::put_bits;
use crate::code::List;
use crate::slot::NO_SLOT;

/// Concatenates the values of a list; the last byte is padded with zeros. Fields of invalid headers
/// are omitted, as in BMv2.
pub(crate) fn gather<'a>(list: &List, state: &[u64], buffer: &'a mut Vec<u8>) -> &'a [u8] {
    buffer.clear();
    let mut bits = 0;
    for group in &list.groups {
        if group.valid != NO_SLOT && state[group.valid as usize] == 0 {
            continue;
        }
        let width = match group.length {
            NO_SLOT => group.layout.bits(),
            length => group.layout.bits().min(state[length as usize] as u32),
        };
        let end = bits + width as usize;
        buffer.resize(end.div_ceil(8), 0);
        if group.length != NO_SLOT {
            group.items.iter().for_each(|item| {
                put_bits(buffer, bits, width as usize, &state[item.slot as usize..]);
            });
        } else if list.ragged {
            for item in &group.items {
                put_bits(buffer, bits, item.width as usize, &state[item.slot as usize..]);
                bits += item.width as usize;
            }
        } else {
            group.layout.emit(state, &mut buffer[bits / 8..]);
        }
        bits = end;
    }
    buffer
}

/// Maximum number of bytes of a list.
pub(crate) fn most_bytes(list: &List) -> usize {
    list.groups.iter().map(|group| group.layout.bits() as usize).sum::<usize>().div_ceil(8)
}
