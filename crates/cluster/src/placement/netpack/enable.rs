//! Step 4: for which of the placed jobs switches aggregate (NetPack §5.2).

use crate::{JobId, RackIndex, Round};

/// A job of this round that uses the network.
struct Contender {
    job: JobId,
    /// Racks on its path.
    racks: Vec<RackIndex>,
    rate_gbps: f64,
    /// Aggregation efficiency: the rate times the number of flows that arrive at its switches.
    efficiency_gbps: f64,
}

/// Gives the switches' memory to the jobs of the round in descending order of aggregation
/// efficiency, until it is used up.
///
/// Jobs of earlier rounds keep their memory. A switch has memory left while the jobs enabled so far
/// aggregate less than its throughput. The job that exceeds the throughput is still enabled, and
/// statistical aggregation shares the memory.
pub(super) fn selectively(round: &mut Round<'_, '_>) {
    let (contenders, mut left_gbps) = contenders(round);
    for contender in contenders {
        let mut enabled = Vec::new();
        for &rack in &contender.racks {
            let left = &mut left_gbps[rack.at()];
            if *left > 1e-9 * contender.rate_gbps {
                *left -= contender.rate_gbps;
                enabled.push(rack);
            }
        }
        if enabled != contender.racks {
            round.aggregate_at(contender.job, enabled);
        }
    }
}

/// The jobs of this round that use the network, most efficient first, and by rack the memory that
/// the switches have left for them.
fn contenders(round: &mut Round<'_, '_>) -> (Vec<Contender>, Vec<f64>) {
    let started = round.started().to_vec();
    let (state, network) = round.with_network();
    let cluster = state.cluster();
    let racks = (0..cluster.racks().len() as u32).map(RackIndex);
    let mut left_gbps: Vec<_> = racks.map(|rack| network.pat_left_gbps(rack)).collect();
    let mut contenders = Vec::new();
    for job in started {
        let plan = &state.running()[&job].plan;
        if !plan.is_distributed() || plan.ps.is_none() {
            continue;
        }
        for &rack in &plan.aggregating {
            left_gbps[rack.at()] += network.aggregated_gbps(job, rack);
        }
        let rate_gbps = network.rate_gbps(job);
        // Every worker's flow arrives at the switch of its own rack. Each rack except the parameter
        // server's then sends one flow to the switch of the parameter server's rack.
        let flows = plan.workers().len() + plan.aggregating.len().saturating_sub(1);
        let efficiency_gbps = rate_gbps * flows as f64;
        contenders.push(Contender {
            job,
            racks: plan.aggregating.clone(),
            rate_gbps,
            efficiency_gbps,
        });
    }
    contenders
        .sort_by(|a, b| b.efficiency_gbps.total_cmp(&a.efficiency_gbps).then(a.job.cmp(&b.job)));
    (contenders, left_gbps)
}
