//! Fuses operations on neighbours: those of in-network aggregation on each value of a packet become
//! one operation on all values.

use crate::code::{Op, RegisterRun, RunKind};
use crate::externs::register::Registers;
use crate::slot::Slot;

/// Shorter runs are not fused.
const SHORTEST: u32 = 2;

/// Rewrites the straight-line operations from `start` on.
pub(super) fn fuse(
    ops: &mut Vec<Op>,
    start: usize,
    registers: &Registers,
    runs: &mut Vec<RegisterRun>,
) {
    let (mut from, mut to) = (start, start);
    while from < ops.len() {
        let (op, taken) = match register_run(&ops[from..], registers) {
            Some((run, taken)) => {
                runs.push(run);
                (Op::RegisterRun(runs.len() as u32 - 1), taken)
            }
            None => moves(&ops[from..]).unwrap_or((ops[from], 1)),
        };
        ops[to] = op;
        from += taken;
        to += 1;
    }
    ops.truncate(to);
}

/// Fuses moves between neighbours.
fn moves(ops: &[Op]) -> Option<(Op, usize)> {
    let Op::Move { dst, src } = ops[0] else { return None };
    let words = ops
        .iter()
        .zip(0..)
        .take_while(|&(op, i)| *op == Op::Move { dst: dst + i, src: src + i })
        .count() as u32;
    // An overlapping run would copy words set by an earlier move of the run.
    let apart = dst + words <= src || src + words <= dst;
    (words >= SHORTEST && apart).then_some((Op::Copy { dst, src, words }, words as usize))
}

/// One value's share of a run.
#[derive(Clone, Copy)]
struct Lane {
    kind: RunKind,
    register: u32,
    index: Slot,
    slot: Slot,
    /// Number of operations.
    taken: usize,
}

/// The longest register run at the start of the operations.
fn register_run(ops: &[Op], registers: &Registers) -> Option<(RegisterRun, usize)> {
    let first = lane(ops, registers)?;
    let of = |register: u32| &registers.registers[register as usize];
    let width = of(first.register).width;
    let mut count = 1;
    while let Some(next) = lane(ops.get(first.taken * count as usize..)?, registers) {
        let neighbour = next.kind == first.kind
            && next.index == first.index
            && next.slot == first.slot + count
            && next.register == first.register + count
            && of(next.register).bank == of(first.register).bank
            && of(next.register).column == of(first.register).column + count
            && of(next.register).width == width;
        if !neighbour {
            break;
        }
        count += 1;
    }
    let slots = first.slot..first.slot + count;
    let apart = match first.kind {
        // Written slots must not include the index of later lanes.
        RunKind::Read => !slots.contains(&first.index),
        RunKind::Write => true,
        RunKind::Add { sum } => {
            !slots.contains(&first.index) && !slots.contains(&sum) && sum != first.index
        }
    };
    (count >= SHORTEST && apart).then_some((
        RegisterRun {
            kind: first.kind,
            register: first.register,
            index: first.index,
            slot: first.slot,
            count,
            width: width as u8,
        },
        first.taken * count as usize,
    ))
}

/// The lane at the start of the operations. Elements have one word.
fn lane(ops: &[Op], registers: &Registers) -> Option<Lane> {
    let narrow = |register: u32| registers.registers[register as usize].words == 1;
    match *ops {
        [
            Op::RegisterRead { dst: sum, register, index },
            Op::Add { dst, a, b, width },
            Op::RegisterWrite { src, register: written, index: at },
            Op::Move { dst: slot, src: moved },
            ..,
        ] if narrow(register)
            && written == register
            && at == index
            && [dst, src, moved] == [sum; 3]
            && ((a, b) == (sum, slot) || (a, b) == (slot, sum))
            && u32::from(width) == registers.registers[register as usize].width =>
        {
            Some(Lane { kind: RunKind::Add { sum }, register, index, slot, taken: 4 })
        }
        [Op::RegisterRead { dst, register, index }, ..] if narrow(register) => {
            Some(Lane { kind: RunKind::Read, register, index, slot: dst, taken: 1 })
        }
        [Op::RegisterWrite { src, register, index }, ..] if narrow(register) => {
            Some(Lane { kind: RunKind::Write, register, index, slot: src, taken: 1 })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::externs::register::RegisterShape;

    const INDEX: Slot = 0;
    const SUM: Slot = 1;

    /// The operations of lanes `0..count`: lane i's value is in slot `first + i`.
    fn lanes(count: u32, first: Slot) -> Vec<Op> {
        (0..count)
            .flat_map(|i| {
                [
                    Op::RegisterRead { dst: SUM, register: i, index: INDEX },
                    Op::Add { dst: SUM, a: SUM, b: first + i, width: 32 },
                    Op::RegisterWrite { src: SUM, register: i, index: INDEX },
                    Op::Move { dst: first + i, src: SUM },
                ]
            })
            .collect()
    }

    fn fused(mut ops: Vec<Op>, shapes: &[(u64, u32)]) -> (Vec<Op>, Vec<RegisterRun>) {
        let mut runs = Vec::new();
        let shape = |&(size, width)| RegisterShape { size, width, initial: 0 };
        let registers = Registers::new(&shapes.iter().map(shape).collect::<Vec<_>>());
        fuse(&mut ops, 0, &registers, &mut runs);
        (ops, runs)
    }

    #[test]
    fn sums_of_neighbours_become_one_operation() {
        let (ops, runs) = fused(lanes(32, 10), &[(8, 32); 32]);
        assert_eq!(ops, [Op::RegisterRun(0)]);
        assert_eq!(
            (runs[0].kind, runs[0].slot, runs[0].count),
            (RunKind::Add { sum: SUM }, 10, 32)
        );
    }

    #[test]
    fn a_register_of_another_size_or_width_ends_a_run() {
        let mut shapes = [(8, 32); 6];
        shapes[3] = (9, 32);
        let (_, runs) = fused(lanes(6, 10), &shapes);
        assert_eq!(runs.iter().map(|run| run.count).collect::<Vec<_>>(), [3, 2]);
        assert_eq!(fused(lanes(6, 10), &[(8, 64); 6]).1, []);
    }

    #[test]
    fn a_run_that_would_overwrite_its_index_or_its_sum_is_not_fused() {
        // The two values' slots are those of the index and the sum.
        let ops = lanes(2, 0);
        assert_eq!(fused(ops.clone(), &[(8, 32); 2]).0, ops);
        let reads: Vec<Op> =
            (0..4).map(|i| Op::RegisterRead { dst: i, register: i, index: 2 }).collect();
        assert_eq!(fused(reads.clone(), &[(8, 32); 4]).0, reads);
        // A chain of moves copies one value on; a block copy would not.
        let chain: Vec<Op> = (0..3).map(|i| Op::Move { dst: i + 1, src: i }).collect();
        assert_eq!(fused(chain.clone(), &[]).0, chain);
    }
}
