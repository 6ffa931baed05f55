//! Why a job is where it is, for people.

use tributary_api::placement::v1;
use tributary_cluster::placement::explain::{self, Distance, Share};
use tributary_cluster::{JobId, Link, Plan, Round, ServerIndex, Weighed};

use super::{Manager, Refusal};
use crate::job::Record;
use crate::site::{Part, Site};

/// The names of the servers and switches of plans.
#[derive(Clone, Copy)]
pub(super) struct Names<'a> {
    pub(super) site: &'a Site,
    pub(super) part: &'a Part,
}

impl Names<'_> {
    pub(super) fn server(self, server: ServerIndex) -> String {
        self.part.names[server.at()].clone()
    }

    fn place(self, plan: &Plan) -> v1::Place {
        let worker = |(server, gpus)| v1::PlannedWorker { server: self.server(server), gpus };
        v1::Place {
            workers: plan.workers().into_iter().map(worker).collect(),
            parameter_server: plan.ps.map(|ps| self.server(ps)).unwrap_or_default(),
        }
    }

    pub(super) fn weighed(self, plans: Vec<Weighed>) -> Vec<v1::WeighedPlan> {
        let named = plans.iter().map(|weighed| v1::WeighedPlan {
            place: Some(self.place(&weighed.plan)),
            worth_gbps: weighed.worth_gbps,
            workers_gbps: weighed.workers_gbps,
            ps_gbps: weighed.ps_gbps,
            hot_spot_gbps: weighed.hot_spot_gbps,
        });
        named.collect()
    }

    fn switches(self, share: &Share) -> Vec<v1::SwitchShare> {
        let named = share.switches.iter().map(|at| v1::SwitchShare {
            switch: self.site.switch(at.rack).to_owned(),
            aggregated_gbps: at.aggregated_gbps,
            left_gbps: at.left_gbps,
            pat_gbps: at.pat_gbps,
        });
        named.collect()
    }

    fn links(self, share: &Share) -> Vec<v1::LinkShare> {
        let named = share.links.iter().map(|at| {
            let (server, uplinks_of) = match at.link {
                Link::Server(server) => (self.server(server), String::new()),
                Link::Uplinks(rack) => (String::new(), self.site.switch(rack).to_owned()),
            };
            v1::LinkShare {
                server,
                uplinks_of,
                flows: at.flows,
                all_flows: at.all_flows,
                left_gbps: at.left_gbps,
                link_gbps: at.link_gbps,
            }
        });
        named.collect()
    }

    fn distance(self, distance: Distance) -> v1::Distance {
        match distance {
            Distance::Skipped(places) => v1::Distance { skipped: places, ..Default::default() },
            Distance::Known { cost_s, least_s, best } => {
                v1::Distance { skipped: 0, cost_s, least_s, best: Some(self.place(&best)) }
            }
        }
    }
}

impl Manager {
    /// Why a job is where it is: its share of the network as it is now, and the plans that the policy
    /// weighed. The answer lacks the job itself.
    ///
    /// # Errors
    ///
    /// If there is no such job.
    pub fn explain(&mut self, now_ms: u64, job: u32) -> Result<v1::ExplainResponse, Refusal> {
        let record: Record = self.durable.jobs.get(&job).ok_or(Refusal::Unknown(job))?.clone();
        // A job that has been placed has the value of that time.
        let valued_ms = record.phase.run().map_or(now_ms, |run| run.since_ms);
        let pending = self.pending(valued_ms, &record);
        let part = self.present();
        let mut state = self.state(&part);
        let names = Names { site: &self.site, part: &part };
        let mut answer = v1::ExplainResponse {
            policy: self.policy.name().to_owned(),
            value: pending.value,
            ..v1::ExplainResponse::default()
        };
        let id = JobId(job);
        if let Some(share) = explain::share(&mut state, id)
            && share.rate_gbps.is_finite()
        {
            answer.rate_gbps = Some(share.rate_gbps);
            answer.switches = names.switches(&share);
            answer.links = names.links(&share);
            answer.distance =
                explain::distance(&state, id).map(|distance| names.distance(distance));
        }
        if let Some(plans) = self.weighed.get(&job) {
            (answer.plans, answer.decided) = (plans.clone(), true);
        } else if !record.phase.is_over() {
            state.end(id);
            let mut round = Round::in_network(&mut state);
            round.keep_weighed();
            self.policy.place(&mut round, &[pending]);
            answer.plans = names.weighed(round.take_weighed(id));
        }
        Ok(answer)
    }
}
