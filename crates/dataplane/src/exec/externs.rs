//! Calls of extern functions.

use tracing::Level;

use super::Io;
use crate::bits::mask;
use crate::code::{Cell, Code, ExternOp};
use crate::externs::checksum::gather;
use crate::externs::filter::Filter;
use crate::externs::hash::{fold, sum_words};
use crate::externs::meter::Color;
use crate::slot::{NO_SLOT, Slot};
use crate::store::Store;
use crate::tables::Arrival;
use crate::value::Value;

impl Store {
    /// Calls an extern function. Returns false if that ends the block.
    #[expect(clippy::too_many_lines, reason = "one arm for each kind of call")]
    pub(super) fn call_extern(
        &mut self,
        code: &Code,
        number: u32,
        state: &mut [u64],
        io: &Io<'_>,
    ) -> bool {
        match &code.externs[number as usize] {
            ExternOp::Hash { dst, width, algorithm, base, max, list } => {
                let data = gather(&code.lists[*list as usize], state, &mut self.buffer);
                let hash = algorithm.digest(data, &[]);
                let hash = match *max {
                    NO_SLOT => hash,
                    // BMv2 treats an empty range as one of one value.
                    max => hash % state[max as usize].max(1),
                };
                state[*dst as usize] = hash.wrapping_add(state[*base as usize]) & mask(*width);
            }
            ExternOp::VerifyChecksum {
                condition,
                valid,
                checksum,
                algorithm,
                list,
                payload,
                error,
            } => {
                let present = *valid == NO_SLOT || state[*valid as usize] != 0;
                if present && state[*condition as usize] != 0 {
                    let data = gather(&code.lists[*list as usize], state, &mut self.buffer);
                    let tail = if *payload { io.payload } else { &[] };
                    if algorithm.digest(data, tail) != state[*checksum as usize] {
                        state[*error as usize] = 1;
                    }
                }
            }
            ExternOp::UpdateChecksum { condition, checksum, width, algorithm, list, payload } => {
                if state[*condition as usize] != 0 {
                    let data = gather(&code.lists[*list as usize], state, &mut self.buffer);
                    let tail = if *payload { io.payload } else { &[] };
                    state[*checksum as usize] = algorithm.digest(data, tail) & mask(*width);
                }
            }
            ExternOp::Random { dst, width, low, high } => {
                let (low, high) = (state[*low as usize], state[*high as usize]);
                if let Some(number) = self.random.within(low, high) {
                    state[*dst as usize] = number & mask(*width);
                }
            }
            ExternOp::MathUnit { dst, width, unit, operand } => {
                state[*dst as usize] = unit.value(state[*operand as usize], *width);
            }
            ExternOp::Truncate { length, limit } => {
                let asked = state[*length as usize].saturating_add(1);
                let limit = &mut state[*limit as usize];
                *limit = if *limit == 0 { asked } else { asked.min(*limit) };
            }
            ExternOp::Assert { condition, failed, what } => {
                if state[*condition as usize] == 0 {
                    tracing::error!("{what} {number} of the program failed: packet dropped");
                    state[*failed as usize] = 1;
                    return false;
                }
            }
            ExternOp::Log { message, values } => {
                if tracing::enabled!(Level::INFO) {
                    let mut text = String::new();
                    let mut pieces = message.split("{}");
                    text.push_str(pieces.next().unwrap_or_default());
                    for (i, piece) in pieces.enumerate() {
                        if let Some(item) = values.get(i) {
                            let words = item.width.div_ceil(64) as usize;
                            let limbs = &state[item.slot as usize..item.slot as usize + words];
                            text.push_str(&Value::from_limbs(limbs).to_string());
                        }
                        text.push_str(piece);
                    }
                    tracing::info!("{text}");
                }
            }
            ExternOp::Meter { dst, width, meter, index } => {
                let (meters, index) = (&mut self.meters[*meter as usize], state[*index as usize]);
                // Out of range, the colour is unchanged.
                if let Some(color) = meters.execute(index, io.ingress_length, self.now_us) {
                    state[*dst as usize] = color as u64 & mask(*width);
                }
            }
            ExternOp::Contains { dst, set, keys } => {
                let found = self.value_sets[*set as usize].contains(keys, state);
                state[*dst as usize] = u64::from(found);
            }
            ExternOp::Digest { dst, width, algorithm, list } => {
                let data = gather(&code.lists[*list as usize], state, &mut self.buffer);
                state[*dst as usize] = algorithm.digest(data, *width);
            }
            ExternOp::ChecksumAdd { sum, list, subtract } => {
                let data = gather(&code.lists[*list as usize], state, &mut self.buffer);
                let words = u64::from(fold(sum_words(data, &[])));
                // In one's complement, subtracting is adding the complement.
                let words = if *subtract { !words & 0xffff } else { words };
                state[*sum as usize] = u64::from(fold(state[*sum as usize] + words));
            }
            ExternOp::ChecksumGet { dst, sum, complement } => {
                let sum = state[*sum as usize];
                state[*dst as usize] = if *complement { !sum & 0xffff } else { sum };
            }
            ExternOp::Consumed { dst } => state[*dst as usize] = io.at as u64 + 1,
            ExternOp::ChecksumRest { dst, sum, since } => {
                let start = (state[*since as usize] as usize).saturating_sub(1);
                let later = io.frame.get(start..io.at).unwrap_or_default();
                let words = u64::from(fold(sum_words(later, &[])));
                // Both zeros of one's complement change nothing.
                let complement = (0xffff - words) % 0xffff;
                state[*dst as usize] = u64::from(fold(state[*sum as usize] + complement));
            }
            ExternOp::DigestAdd { digest, algorithm, list } => {
                let data = gather(&code.lists[*list as usize], state, &mut self.buffer);
                let digest = &mut state[*digest as usize];
                *digest = algorithm.resume(*digest, data).unwrap_or(*digest);
            }
            ExternOp::CountAt { at, less } => {
                let bytes = fewer(io.ingress_length, *less, state);
                match *at {
                    Cell::Array { number, index } => {
                        self.counters[number as usize].count(state[index as usize], bytes);
                    }
                    Cell::Entry { table } => self.tables[table as usize].count_last(bytes),
                }
            }
            ExternOp::MeterAt { dst, at, before, less, colors, given } => {
                let bytes = fewer(io.ingress_length, *less, state);
                let before = match *before {
                    NO_SLOT => Color::Green,
                    slot => Color::of(state[slot as usize], given),
                };
                let now_us = self.now_us;
                let color = match *at {
                    Cell::Array { number, index } => {
                        let meters = &mut self.meters[number as usize];
                        let unit = meters.unit;
                        let meter = meters.cell(state[index as usize]);
                        meter.map_or(before, |it| it.execute_after(before, unit, bytes, now_us))
                    }
                    Cell::Entry { table } => {
                        self.tables[table as usize].meter_last(before, Arrival { bytes, now_us })
                    }
                };
                state[*dst as usize] = u64::from(colors[color as usize]);
            }
            ExternOp::Filter { dst, width, at, value, drops } => {
                let (value, now_us) = (state[*value as usize], self.now_us);
                let filter = match *at {
                    Cell::Array { number, index } => {
                        let index = usize::try_from(state[index as usize]);
                        let filters = &mut self.filters[number as usize];
                        index.ok().and_then(|index| filters.get_mut(index))
                    }
                    Cell::Entry { table } => Some(self.tables[table as usize].filter_last()),
                };
                // Beyond the end there is no configuration.
                let mut none = Filter::default();
                let filter = filter.unwrap_or(&mut none);
                state[*dst as usize] = match drops {
                    Some([drop, keep]) => {
                        let drops = filter.drops(value, now_us, &mut self.random);
                        u64::from(if drops { *drop } else { *keep })
                    }
                    None => filter.pass(value, now_us) & mask(*width),
                };
            }
            ExternOp::CellLoad { table, cells } => {
                let mut words = self.tables[*table as usize].cell_last();
                for cell in cells {
                    let (slot, limbs) = (cell.slot as usize, cell.width.div_ceil(64) as usize);
                    let (value, rest) = words.split_at_mut(limbs.min(words.len()));
                    state[slot..slot + value.len()].copy_from_slice(value);
                    words = rest;
                }
            }
            ExternOp::CellStore { table, cells } => {
                let mut words = self.tables[*table as usize].cell_last();
                for cell in cells {
                    let (slot, limbs) = (cell.slot as usize, cell.width.div_ceil(64) as usize);
                    let (value, rest) = words.split_at_mut(limbs.min(words.len()));
                    value.copy_from_slice(&state[slot..slot + value.len()]);
                    words = rest;
                }
            }
            ExternOp::Resubmit { flag, data, list } => {
                state[*flag as usize] = 1;
                state[*data as usize] = match list {
                    Some(list) => {
                        let bytes = gather(&code.lists[*list as usize], state, &mut self.buffer);
                        let mut all = [0; 8];
                        all[..bytes.len()].copy_from_slice(bytes);
                        u64::from_be_bytes(all)
                    }
                    None => 0,
                };
            }
            ExternOp::Mirror { session, list } => {
                let requests = &mut self.requests;
                requests.mirror = Some(state[*session as usize] as u16);
                requests.mirror_data.clear();
                if let Some(list) = list {
                    gather(&code.lists[*list as usize], state, &mut requests.mirror_data);
                }
            }
            ExternOp::Pack { digest } => self.requests.pack(code, *digest, state),
            ExternOp::Learn { digest, request } => {
                state[*request as usize] = u64::from(*digest) + 1;
            }
        }
        true
    }
}

/// A packet's bytes less an adjustment, which is negative in two's complement.
fn fewer(bytes: u32, less: Slot, state: &[u64]) -> u32 {
    if less == NO_SLOT {
        return bytes;
    }
    let less = i64::from(state[less as usize] as u32 as i32);
    u32::try_from((i64::from(bytes) - less).max(0)).unwrap_or(u32::MAX)
}
