//! How many ranks each of a few machines gets, so that little crosses machines.
//!
//! Equation 1 leaves that open: it counts machines. The example of Titan §II-B takes, of the plans
//! with two machines in use, the one with the least traffic, two workers each.

/// Ways to share out `ranks` over machines with room for so many each, most first; each way adds up
/// to `ranks`. There is enough room.
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

/// Machine after machine, each filled.
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

/// To each the largest power of two that it has room for, what is then left as it comes: halving
/// keeps blocks of a power of two together.
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

/// As even as room allows.
fn level(room: &[u32], ranks: u32) -> Vec<u32> {
    let mut shares = vec![0; room.len()];
    let mut left = ranks;
    // Those with the least room get their share first, so that the others can make up for them.
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
