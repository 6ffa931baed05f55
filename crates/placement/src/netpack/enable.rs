//! Step 4: which switches aggregate for which of the jobs just placed (NetPack §5.2).

use tributary_cluster::{JobId, RackIndex, Round};

/// A job of this round that goes to the network.
struct Contender {
    job: JobId,
    /// Racks on its way.
    racks: Vec<RackIndex>,
    rate_gbps: f64,
    /// Aggregation efficiency: the rate times the flows that come in at its switches.
    efficiency_gbps: f64,
}

/// Gives the switches' memory to the jobs of the round with most aggregation efficiency first, until
/// it is used up.
///
/// Jobs of earlier rounds keep what they have. A switch has memory left while the jobs enabled so far
/// aggregate less than it can; the job that would exceed that still gets it, and statistical
/// aggregation shares what there is.
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

/// The jobs of this round that go to the network, most efficient first, and what the switches have
/// left for them, by rack.
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
        // Every worker's flow comes in at its own rack's switch; each rack but the parameter server's
        // sends one on to that one's switch once it aggregates.
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
