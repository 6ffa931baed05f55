//! Numbers of ranks on each of a few machines, with little cross-machine traffic.
//!
//! Equation 1 does not determine them, because it counts machines only. The example of Titan §II-B
//! takes the plan with the least traffic among those with two machines in use: two workers each.

/// Ways to distribute `ranks` over machines with this room, most room first. Each way adds up to
/// `ranks`. There must be enough room.
pub(super) fn candidates(room: &[u32], ranks: u32) -> Vec<Vec<u32>> {
    let mut candidates = vec![filled(room, ranks), blocks(room, ranks), level(room, ranks)];
    if let &[first, second] = room {
        candidates
            .extend((ranks.saturating_sub(second)..=first.min(ranks)).map(|a| vec![a, ranks - a]));
    }
    candidates.sort_unstable();
    candidates.dedup();
    candidates
}

/// Fills machine after machine.
fn filled(room: &[u32], ranks: u32) -> Vec<u32> {
    let mut left = ranks;
    room.iter()
        .map(|&room| {
            let share = room.min(left);
            left -= share;
            share
        })
        .collect()
}

/// Gives each machine the largest power of two for which it has room, then fills up with the rest:
/// halving keeps blocks of a power of two together.
fn blocks(room: &[u32], ranks: u32) -> Vec<u32> {
    let mut left = ranks;
    let mut shares: Vec<_> = room
        .iter()
        .map(|&room| {
            let share = if room == 0 { 0 } else { (1 << room.ilog2()).min(left) };
            left -= share;
            share
        })
        .collect();
    for (share, room) in shares.iter_mut().zip(room) {
        let more = left.min(room - *share);
        *share += more;
        left -= more;
    }
    shares
}

/// As evenly as the room allows.
fn level(room: &[u32], ranks: u32) -> Vec<u32> {
    let mut shares = vec![0; room.len()];
    let mut left = ranks;
    // Machines with the least room get their share first, so that the others can compensate.
    for at in (0..room.len()).rev() {
        shares[at] = room[at].min(left / (at as u32 + 1));
        left -= shares[at];
    }
    shares
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn all_ways_add_up_and_fit(
            mut room in proptest::collection::vec(1_u32..=8, 1..20),
            part in 0.0_f64..=1.0,
        ) {
            room.sort_unstable_by(|a, b| b.cmp(a));
            let all: u32 = room.iter().sum();
            let ranks = (f64::from(all) * part) as u32;
            for shares in candidates(&room, ranks) {
                prop_assert_eq!(shares.iter().sum::<u32>(), ranks, "{:?}", shares);
                prop_assert!(shares.iter().zip(&room).all(|(share, room)| share <= room));
            }
        }
    }

    #[test]
    fn shares_are_full_in_blocks_or_even() {
        assert_eq!(filled(&[7, 6, 3], 10), [7, 3, 0]);
        assert_eq!(blocks(&[7, 6, 3], 10), [4, 4, 2]);
        assert_eq!(blocks(&[7, 6, 3], 14), [7, 5, 2]);
        assert_eq!(level(&[7, 6, 3], 10), [4, 3, 3]);
        assert_eq!(level(&[7, 6, 1], 10), [5, 4, 1]);
    }
}
