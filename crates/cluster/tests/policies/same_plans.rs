//! NetPack: the fast search against the plain one.

use proptest::prelude::*;
use tributary_cluster::placement::netpack::{Duty, Oversubscribed, Plain, Readings};
use tributary_cluster::placement::{NetPack, Queue, Sharing};
use tributary_cluster::{Cluster, Job, Policy, Shape, State};

use crate::common::{any_batches, any_cluster, job, place, waiting};

/// Lets both searches place the same batches, between which the same jobs end, and compares all
/// plans.
fn compare(
    netpack: NetPack,
    cluster: &Cluster,
    batches: &[Vec<(u32, f64)>],
    ends: &[prop::sample::Index],
) -> Result<(), TestCaseError> {
    let NetPack { queue, sharing, oversubscribed, duty } = netpack;
    let readings = Readings { sharing, oversubscribed, duty, ..Readings::default() };
    let plain = Plain { queue, readings };
    let mut policies: [Box<dyn Policy>; 2] = [Box::new(netpack), Box::new(plain)];
    let mut states = [State::new(cluster), State::new(cluster)];
    let mut next = 0;
    for batch in batches {
        let jobs: Vec<_> = batch
            .iter()
            .map(|&(gpus, value)| {
                next += 1;
                Job { value, ..job(next, gpus) }
            })
            .collect();
        for (policy, state) in policies.iter_mut().zip(&mut states) {
            place(&mut **policy, state, &waiting(jobs.clone()));
        }
        let [fast, plain] = &states;
        prop_assert_eq!(fast.running(), plain.running());
        for end in ends {
            let running: Vec<_> = states[0].running().keys().copied().collect();
            if !running.is_empty() {
                let ended = *end.get(&running);
                for state in &mut states {
                    state.end(ended);
                }
            }
        }
    }
    Ok(())
}

fn any_netpack() -> impl Strategy<Value = NetPack> {
    let queue = prop::sample::select(vec![Queue::Knapsack, Queue::Fifo, Queue::Shortest]);
    let sharing =
        prop::sample::select(vec![Sharing::Allowed, Sharing::Forbidden, Sharing::Required]);
    let oversubscribed =
        prop::sample::select(vec![Oversubscribed::RacksFirst, Oversubscribed::Penalty]);
    let duty = prop::sample::select(vec![Duty::Always, Duty::Cycles]);
    (queue, sharing, oversubscribed, duty).prop_map(|(queue, sharing, oversubscribed, duty)| {
        NetPack { queue, sharing, oversubscribed, duty }
    })
}

proptest! {
    #[test]
    fn both_searches_make_the_same_plans(
        netpack in any_netpack(),
        cluster in any_cluster(),
        batches in any_batches(),
        ends in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        compare(netpack, &cluster, &batches, &ends)?;
    }

    // Plans tie most often on identical servers.
    #[test]
    fn both_searches_break_ties_alike(
        netpack in any_netpack(),
        racks in 1_u32..4,
        servers_per_rack in 1_u32..7,
        gpus_per_server in 1_u32..5,
        oversubscription in prop_oneof![Just(1.0), Just(4.0), Just(20.0)],
        pat_gbps in prop_oneof![Just(1000.0), Just(150.0), Just(0.0)],
        batches in any_batches(),
        ends in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let cluster = Cluster::uniform(&Shape {
            racks,
            servers_per_rack,
            gpus_per_server,
            oversubscription,
            pat_gbps,
            ..Shape::default()
        });
        compare(netpack, &cluster, &batches, &ends)?;
    }
}
