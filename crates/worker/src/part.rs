//! A worker's part in its job: one run, or several if the job goes on without workers that die.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use tributary_endpoint::membership::{Membership, Verdict};
use tributary_endpoint::tokens::Tokens;
use tributary_endpoint::{Args, channel, open_lanes};
use tributary_metrics::Board;
use tributary_model::{HostId, worker_index};
use tributary_netio::device::Device;
use tributary_netio::faults::Faulty;
use tributary_netio::{Counted, FrameCount, Frames};
use tributary_wire::WorkerSet;

use crate::live::{self, LanePort, Silence, WorkerPort};
use crate::node::Error;
use crate::numbers::Numbers;
use crate::rounds::{Event, Rounds, WorkerReport};

/// What a worker has on its host.
pub(crate) struct Host<'a> {
    pub(crate) args: &'a Args,
    pub(crate) id: HostId,
    pub(crate) tokens: Tokens,
    /// Whether a client lets each round begin.
    pub(crate) stepped: bool,
    pub(crate) board: Board<Numbers>,
    /// Those of all ports so far.
    pub(crate) frames: RefCell<Vec<Arc<Frames>>>,
}

impl Host<'_> {
    /// Frames of the host so far.
    fn frames(&self) -> FrameCount {
        self.frames.borrow().iter().map(|frames| frames.now()).sum()
    }

    /// The connections of a worker that is about to take part in a run.
    fn port(
        &self,
        rounds: &Rounds,
        ports: Vec<Faulty<Device>>,
        membership: &Membership,
    ) -> Result<WorkerPort> {
        let (deployment, at, index) = rounds.part();
        let scenario = deployment.scenario();
        let address = |agent| channel::agent_address(scenario, agent);
        let connect = |(lane, io)| {
            let lane = deployment.job(lane);
            let link = channel::worker_link(scenario, lane, index, &self.tokens, address)?;
            let frames = Arc::<Frames>::default();
            self.frames.borrow_mut().push(Arc::clone(&frames));
            Ok(LanePort { io: Box::new(Counted::new(io, frames)), executor: None, link })
        };
        let lanes = scenario.lanes(at).zip(ports).map(connect).collect::<Result<_>>()?;
        let turns = Some((membership.turns().clone(), self.stepped));
        let board = self.board.clone();
        Ok(WorkerPort { lanes, may_be_replaced: true, own_process: true, turns, board })
    }
}

/// Takes part in the run that has begun, on these ports, and in those in which its job goes on.
///
/// # Errors
/// One line that describes the problem.
pub(crate) fn run(
    host: &Host<'_>,
    mut rounds: Rounds,
    ports: Vec<Faulty<Device>>,
    mut membership: Membership,
    stop: &Arc<AtomicBool>,
    tell: &dyn Fn(Event),
) -> Result<WorkerReport> {
    let tell = &mut |event: Event| tell(event.with_frames(host.frames()));
    let report = |rounds: &Rounds, stats| {
        let frames = Some(host.frames());
        WorkerReport { frames, ..rounds.report(stats) }
    };
    let (deployment, at, _) = rounds.part();
    // All others learn from the controller, too, with whom the job goes on.
    let whole = Arc::clone(deployment);
    let job = whole.job(at);
    let goes_on = job.on_death.goes_on();
    let mut workers: WorkerSet = (0..job.workers.len()).map(worker_index).collect();
    let mut ports = Some(ports);
    loop {
        let open = match ports.take() {
            Some(ports) => ports,
            None => open_lanes(whole.scenario(), host.id, host.args, at)?,
        };
        let port = host.port(&rounds, open, &membership)?;
        let (worked, stats) = live::work_on(&mut rounds, port, membership.halt(), tell);
        let stopped = |error: &anyhow::Error| matches!(error.downcast_ref(), Some(Error::Stopped));
        let silence = match worked {
            Ok(()) if !goes_on => {
                membership.leave(rounds.stopped().rounds);
                return Ok(report(&rounds, &stats));
            }
            Ok(()) => None,
            Err(error) if stop.load(Ordering::Relaxed) => return Err(error),
            Err(error) if goes_on && stopped(&error) => None,
            Err(error) if goes_on && error.is::<Silence>() => Some(error),
            Err(error) => match membership.lost() {
                Some(lost) if stopped(&error) => bail!(
                    "job {}: worker {lost} has died in the middle of the run, as the controller has seen; \
                     start all workers of the job again",
                    job.name
                ),
                _ if stopped(&error) => match membership.why_over() {
                    Some(reason) => bail!(reason),
                    None => return Err(error),
                },
                _ => return Err(error),
            },
        };
        let stopped = rounds.stopped();
        let verdict = membership.settle(stopped, stop, |missing| tell(Event::waiting(missing)));
        let verdict = match (verdict, silence) {
            // It has all sums, whoever is away, and however it goes on with the others.
            (Err(_) | Ok(Verdict::Over(_)), _)
                if stopped.is_done() && !stop.load(Ordering::Relaxed) =>
            {
                Verdict::Complete
            }
            // Nobody has died, as far as the controller knows.
            (Err(_) | Ok(Verdict::Over(_)), Some(silence)) if membership.lost().is_none() => {
                return Err(silence);
            }
            (verdict, _) => verdict.with_context(|| format!("job {}", job.name))?,
        };
        match verdict {
            Verdict::Complete => return Ok(report(&rounds, &stats)),
            Verdict::Over(reason) => bail!(reason),
            Verdict::GoOn(next) => {
                let mut deployment = (*whole).clone();
                deployment.set_epoch(at, next.epoch());
                deployment.keep(at, next.workers);
                if host.stepped {
                    deployment.set_assignment(at, membership.first_turn(stop)?.assignment);
                }
                tell(rounds.go_on(Arc::new(deployment), &next, workers, &stats)?);
                workers = next.workers;
            }
        }
    }
}
