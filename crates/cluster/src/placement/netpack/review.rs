//! After step 3, in one reading: parameter servers move once the workers of all jobs are placed.
//!
//! Step 3 chooses a server before the workers of later jobs are placed, which may then share its
//! link. This review is ours, not the paper's.

use crate::{JobId, Round, ServerIndex};

use crate::placement::sharing::Sharing;

/// Moves the parameter server of each job of the round, in the order of placement, to the server
/// where all running jobs together sum their gradients fastest. It stays if no server is better.
pub(super) fn parameter_servers(round: &mut Round<'_, '_>, sharing: Sharing) {
    for job in round.started().to_vec() {
        review(round, job, sharing);
    }
}

fn review(round: &mut Round<'_, '_>, job: JobId, sharing: Sharing) {
    let plan = &round.running()[&job].plan;
    let Some(now) = plan.ps else { return };
    let workers = plan.workers();
    let has_worker = |ps| workers.iter().any(|(server, _)| *server == ps);
    let mut best = (time(round), now);
    let allowed = |ps: &ServerIndex| *ps != now && sharing.allows(has_worker(*ps));
    let others = round.cluster().server_indices().filter(allowed);
    for ps in others {
        round.serve_at(job, ps);
        let time = time(round);
        // Rounding must not move a server.
        if time < best.0 * (1.0 - 1e-9) {
            best = (time, ps);
        }
    }
    round.serve_at(job, best.1);
}

/// The objective of table 3, Σ d/v over all running jobs, in bytes per Gb/s.
fn time(round: &mut Round<'_, '_>) -> f64 {
    let (state, network) = round.with_network();
    let jobs = state.running().values().map(|running| &running.job);
    jobs.map(|job| job.gradient_bytes / network.rate_gbps(job.id)).sum()
}
