//! Collectives that run on sets, which record the contributors of the data at each rank.

use proptest::prelude::*;

use super::*;
use crate::topology::{Cluster, ServerIndex, Shape};

/// The contributors to a chunk, one bit per rank.
type Contributors = u128;

/// The contributors to each chunk at each rank.
type Held = Vec<Vec<Contributors>>;

fn start(ranks: u32, chunks: usize) -> Held {
    (0..ranks).map(|rank| vec![1 << rank; chunks]).collect()
}

/// Runs one phase. Each transfer carries some chunks, which are added to the receiver's chunks or
/// replace them.
fn step(
    held: &mut Held,
    phase: Phase,
    adds: bool,
    mut carries: impl FnMut(u32, u32) -> Vec<usize>,
) -> Result<(), TestCaseError> {
    let before = held.clone();
    let mut heard = vec![0; held.len()];
    for (from, to) in phase.transfers() {
        heard[to as usize] += 1;
        prop_assert_eq!(phase.receives_from(to), Some(from));
        prop_assert_eq!(phase.sends_to(from), Some(to));
        let chunks = carries(from, to);
        let share = chunks.len() as f64 / before[0].len() as f64;
        prop_assert!((share - phase.share).abs() < 1e-12, "{share} of the bytes, {phase:?}");
        for chunk in chunks {
            let (mine, theirs) = (before[to as usize][chunk], before[from as usize][chunk]);
            prop_assert!(!adds || mine & theirs == 0, "counted twice by {phase:?}");
            held[to as usize][chunk] = if adds { mine | theirs } else { theirs };
        }
    }
    prop_assert!(heard.iter().all(|&times| times <= 1), "a rank hears two in {phase:?}");
    Ok(())
}

fn ring(ranks: u32) -> Result<Held, TestCaseError> {
    let mut held = start(ranks, ranks as usize);
    for (phase, time) in Collective::Ring.schedule(ranks).zip(0..) {
        // In step t, rank r sends chunk r − t. After N − 1 steps this chunk is complete.
        step(&mut held, phase, time < ranks - 1, |from, _| {
            vec![((from + 2 * ranks - time) % ranks) as usize]
        })?;
    }
    Ok(held)
}

fn halving_doubling(ranks: u32) -> Result<Held, TestCaseError> {
    let chunks = 1_usize << ranks.ilog2();
    let mut held = start(ranks, chunks);
    // The chunks for which each rank is responsible, or whose sums it has.
    let mut mine = vec![0..chunks; ranks as usize];
    let phases: Vec<_> = Collective::HalvingDoubling.schedule(ranks).collect();
    for (time, &phase) in phases.iter().enumerate() {
        let sums = time < phases.len() / 2;
        let before = mine.clone();
        let at = |rank: u32| before[rank as usize].clone();
        step(&mut held, phase, sums, |from, to| {
            if !phase.exchanges() {
                return (0..chunks).collect();
            }
            if !sums {
                mine[to as usize] = at(from).start.min(at(to).start)..at(from).end.max(at(to).end);
                return at(from).collect();
            }
            let half = usize::midpoint(at(to).start, at(to).end);
            mine[to as usize] = if to < from { at(to).start..half } else { half..at(to).end };
            mine[to as usize].clone().collect()
        })?;
    }
    Ok(held)
}

fn tree(ranks: u32) -> Result<Held, TestCaseError> {
    let mut held = start(ranks, 1);
    let phases: Vec<_> = Collective::Tree.schedule(ranks).collect();
    for (time, &phase) in phases.iter().enumerate() {
        step(&mut held, phase, time < phases.len() / 2, |_, _| vec![0])?;
    }
    Ok(held)
}

fn sent(collective: Collective, ranks: u32) -> Vec<f64> {
    let mut sent = vec![0.0; ranks as usize];
    for phase in collective.schedule(ranks) {
        for (from, _) in phase.transfers() {
            sent[from as usize] += phase.share;
        }
    }
    sent
}

fn servers(of: &[u32]) -> Vec<ServerIndex> {
    of.iter().copied().map(ServerIndex).collect()
}

proptest! {
    #[test]
    fn every_rank_ends_with_the_sum_of_all(ranks in 1_u32..=100) {
        for held in [ring(ranks)?, halving_doubling(ranks)?, tree(ranks)?] {
            let all = (1 << ranks) - 1;
            prop_assert!(held.iter().flatten().all(|&contributors| contributors == all));
        }
    }

    #[test]
    fn ring_and_halving_doubling_send_the_least_possible(bits in 1_u32..=10, other in 2_u32..300) {
        let least = |ranks: u32| 2.0 * f64::from(ranks - 1) / f64::from(ranks);
        let ranks = 1 << bits;
        for sent in sent(Collective::HalvingDoubling, ranks) {
            prop_assert!((sent - least(ranks)).abs() < 1e-9);
        }
        for sent in sent(Collective::Ring, other) {
            prop_assert!((sent - least(other)).abs() < 1e-9);
        }
    }

    #[test]
    fn others_send_their_closed_forms(ranks in 2_u32..300) {
        let tree: f64 = sent(Collective::Tree, ranks).iter().sum();
        prop_assert!((tree - 2.0 * f64::from(ranks - 1)).abs() < 1e-9);
        // Halving among p ranks, plus the whole amount in each direction for each further rank.
        let p = f64::from(1 << ranks.ilog2());
        let extra = f64::from(ranks) - p;
        let halving: f64 = sent(Collective::HalvingDoubling, ranks).iter().sum();
        prop_assert!((halving - (2.0 * (p - 1.0) + 2.0 * extra)).abs() < 1e-9);
    }

    #[test]
    fn phases_are_the_schedule_by_cost(ranks in 0_u32..300) {
        for collective in Collective::ALL {
            let counted: u32 = collective.phases(ranks).map(|phase| phase.times).sum();
            prop_assert_eq!(counted as usize, collective.schedule(ranks).count());
            let by_phase: f64 = collective
                .phases(ranks)
                .map(|phase| f64::from(phase.times) * phase.share * phase.transfers().count() as f64)
                .sum();
            let by_time: f64 = sent(collective, ranks).iter().sum();
            prop_assert!((by_phase - by_time).abs() < 1e-9);
        }
    }

    #[test]
    fn the_locality_order_has_every_rank_once(ranks in 0_u32..300) {
        for collective in Collective::ALL {
            let mut order = collective.locality_order(ranks);
            order.sort_unstable();
            prop_assert_eq!(order, (0..ranks).collect::<Vec<_>>());
        }
    }

    /// Recomputes costs from the schedule, transfer by transfer and link by link.
    #[test]
    fn costs_are_those_of_the_schedule(
        on in proptest::collection::vec(0_u32..24, 1..40),
        oversubscription in 1.0_f64..20.0,
    ) {
        let shape = Shape {
            racks: 6,
            servers_per_rack: 4,
            oversubscription,
            racks_per_pod: Some(2),
            ..Shape::default()
        };
        let cluster = Cluster::uniform(&shape);
        let (bytes, ranks) = (1e9, servers(&on));
        for collective in Collective::ALL {
            let (mut crossing, mut seconds) = (0.0, 0.0);
            for phase in collective.schedule(ranks.len() as u32) {
                let mut slowest = 0.0_f64;
                for layer in 0..3 {
                    let place = |rank: u32| {
                        let server = ranks[rank as usize].0;
                        [server, server / 4, server / 8][layer]
                    };
                    let gbps = [100.0, 400.0 / oversubscription, 800.0 / oversubscription][layer];
                    for node in 0..24 {
                        let out = phase
                            .transfers()
                            .filter(|&(a, b)| place(a) == node && place(b) != node)
                            .count();
                        let into = phase
                            .transfers()
                            .filter(|&(a, b)| place(b) == node && place(a) != node)
                            .count();
                        let gigabits = out.max(into) as f64 * phase.share * bytes * 8e-9;
                        slowest = slowest.max(gigabits / gbps);
                    }
                }
                seconds += slowest;
                let pairs = phase
                    .pairs()
                    .filter(|&(a, b)| ranks[a as usize] != ranks[b as usize])
                    .count();
                crossing += pairs as f64 * phase.share * bytes;
            }
            let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
            prop_assert!(close(collective.cross_machine_bytes(bytes, &ranks), crossing));
            prop_assert!(close(collective.time_s(&cluster, bytes, &ranks), seconds));
        }
    }
}

/// Titan figure 1 (a): K/2, K/4, K/4, K/2; first with the rank at distance two, then with the
/// neighbour.
#[test]
fn four_ranks_halve_and_double_as_in_figure_1() {
    let schedule: Vec<_> = Collective::HalvingDoubling
        .schedule(4)
        .map(|phase| (phase.share, phase.pairs().collect::<Vec<_>>()))
        .collect();
    let far = (0.5, vec![(0, 2), (1, 3)]);
    let near = (0.25, vec![(0, 1), (2, 3)]);
    assert_eq!(schedule, [far.clone(), near.clone(), near, far]);
}

/// Titan §II-B and figure 1 (b) to (d), with K = 1.
#[test]
fn traffic_across_machines_is_counted_as_in_section_2b() {
    let cross = |on: &[u32]| Collective::HalvingDoubling.cross_machine_bytes(1.0, &servers(on));
    assert_eq!(cross(&[1, 1, 1, 1]), 0.0, "Elasticflow: all on machine 1");
    assert_eq!(cross(&[2, 2, 2, 4]), 1.5, "HiveD: the last worker alone");
    assert_eq!(cross(&[2, 3, 2, 3]), 1.0, "Titan: workers 1 and 3, 2 and 4");
    assert_eq!(cross(&[2, 2, 3, 3]), 2.0, "neighbours together: the worst of all");
}

#[test]
fn the_locality_order_keeps_the_halves_together() {
    assert_eq!(Collective::HalvingDoubling.locality_order(4), [0, 2, 1, 3]);
    // Ranks 1 and 3 represent 0 and 2; the places of 1, 3, 4, 5 are 0…3.
    assert_eq!(Collective::HalvingDoubling.locality_order(6), [1, 0, 4, 3, 2, 5]);
    assert_eq!(Collective::Ring.locality_order(4), [0, 1, 2, 3]);
}

/// A server that sends for eight ranks at a time takes eight times as long. The bandwidth between
/// each pair of machines alone does not show this.
#[test]
fn a_link_carries_all_ranks_behind_it() {
    let cluster = Cluster::uniform(&Shape { racks: 1, servers_per_rack: 4, ..Shape::default() });
    let ring = [0, 1, 2, 3].map(ServerIndex);
    // 6 phases of a quarter of 12.5 GB at 12.5 GB/s.
    let time_s = Collective::Ring.time_s(&cluster, 12.5e9, &ring);
    assert!((time_s - 1.5).abs() < 1e-9);
    // Two ranks on server 0 exchange halves with servers 1 and 2 at the same time.
    let split = [0, 0, 1, 2].map(ServerIndex);
    let time_s = Collective::HalvingDoubling.time_s(&cluster, 12.5e9, &split);
    assert!((time_s - (2.0 * (2.0 * 0.5 + 0.25))).abs() < 1e-9, "{time_s}");
}

#[test]
fn a_link_without_bandwidth_takes_for_ever() {
    let shape = Shape { racks: 1, servers_per_rack: 2, link_gbps: 0.0, ..Shape::default() };
    let cluster = Cluster::uniform(&shape);
    let time_s = Collective::Tree.time_s(&cluster, 1.0, &[0, 1].map(ServerIndex));
    assert_eq!(time_s, f64::INFINITY);
    assert_eq!(Collective::Tree.time_s(&cluster, 1.0, &[0, 0].map(ServerIndex)), 0.0);
}

#[test]
fn a_path_is_as_wide_as_its_narrowest_link() {
    let shape = Shape {
        racks: 4,
        servers_per_rack: 2,
        oversubscription: 4.0,
        racks_per_pod: Some(2),
        ..Shape::default()
    };
    let cluster = Cluster::uniform(&shape);
    let gbps = |a, b| path_gbps(&cluster, ServerIndex(a), ServerIndex(b));
    assert_eq!(gbps(0, 0), f64::INFINITY);
    assert_eq!(gbps(0, 1), 100.0);
    assert_eq!(gbps(0, 2), 50.0);
    assert_eq!(gbps(0, 4), 50.0);
}
