//! The bound of liveness: how long a fragment may take when nothing is lost any more.
//!
//! I7 says that every task completes if packets get through. This module says by when. A
//! *disturbance* is a frame or a segment of a channel that is lost, duplicated or held back, a packet
//! that finds a queue full, and the time in which a link or an endpoint is down. In every period
//! without disturbances, a tensor that all workers of its job have submitted is complete at all of
//! them after at most [`bound`]. A disturbance of any job counts for all jobs, because they share
//! links and aggregators.

use std::time::Duration;

use tributary_endpoint::driver::tcp::USER_TIMEOUT;
use tributary_model::{Protocol, Scenario};
use tributary_netio::faults::Reorder;
use tributary_protocol::{Recovery, Time};
use tributary_sim::{Act, Network, Outcome};

use super::case::{Case, VALUES};
use crate::exact::LADDER;

/// Retransmission timeout of a connection without a sample (RFC 6298 §2.1). With one, Linux's lower
/// bound applies, which is less.
const FIRST_TIMEOUT: Duration = Duration::from_secs(1);

/// Round trips in which slow start sends again all segments that a connection had in flight.
const SLOW_START: u32 = 12;

/// Bytes of a frame beside its values, with framing.
const HEADERS: usize = 14 + 20 + 8 + 28 + 24;

/// The longest time from the end of disturbances at `quiet`, or from the submission of the job's
/// tensor of this round if that is later, until the tensor is complete at all workers. `usual` is the
/// longest time that a worker usually waits for a result, if there was any.
///
/// The fragments complete in order of their sequences, or sooner. So consider the lowest fragment
/// that a worker lacks. All workers have all earlier results, so it is the lowest in their windows:
/// each has sent it, or sends it at once. The terms are:
///
/// | term | what | where |
/// | --- | --- | --- |
/// | `rest` | the longest interval of every timer that backs off | `RttConfig::max` |
/// | `silence` | the interval of a worker's probes, unless it backed off | [`silence`] |
/// | `trip` | the longest round trip, with full queues, over packets or a channel | [`round_trip`] |
/// | `channel` | until a connection gets a segment through | [`channel`] |
///
/// With ESA and the papers' rules, which need the channel, a fragment takes at most 4 `rest`:
///
/// - 2 until a worker that lacks the result reminds the agent. Its timer fires at least once per
///   `rest`, and queues a reminder for the lowest fragment if that has waited for a timeout. A
///   reminder that was queued just before, and was lost with a connection, postpones this by one
///   (`worker/loss/papers.rs`).
/// - 1 until the agent begins a round. The entry's timer begins one at least once per `rest`, and a
///   round in progress holds back reminders no longer than that (`esa/agent/rounds.rs`). If its
///   reminders are answered, or the entry's timer fired before, it asks all workers that are
///   missing. Each answers with its values or the result. A worker that reminds later finds the
///   result at the PS.
/// - 1 for another round if one of these answers shows that the task must be collected in floats.
///
/// With ESA and repairs in packets, it takes 1 `rest` until every worker that backed off has probed
/// again. It has probed so often before that its probe reaches the PS. The next result resets its
/// interval. Beside that, a fragment takes at most 5 `silence`:
///
/// - 3 until a question reaches a worker. The first probe may go through the switches, the second
///   reaches the PS, and the third makes it ask if it asked or answered too recently when the second
///   arrived (`may_be_answered` in `esa/server/receive.rs`). From then on every answer makes the PS
///   ask the next worker, at most twice each because of floats. It then multicasts the result.
/// - 2 because silence begins anew with each result, and when later transmissions show fragments to
///   be late. Each fragment has one result, so this happens twice per fragment.
///
/// Only the papers' rules need the channel, with one exception: if the tensors of the job have more
/// fragments than a dictionary has entries, it may be full of tasks that are complete. The agent
/// closes these within two rounds, asking workers over the channel.
///
/// The other protocols have no channel. With ATP, a fragment takes as long as with ESA until it
/// reaches the PS (2 `rest`, or 5 `silence`), and 1 `rest` until the PS's timer asks all workers that
/// are missing, twice because of floats (`server/timers.rs`). A successor of a PS that does not know
/// that the task is complete asks for the result in the same time. P4INC has the same timers where it
/// has a PS. Without a PS, and with SwitchML, it takes less: every worker that lacks the result sends
/// again by itself, and the switch answers. A fragment that does not fit has a round for each rung of
/// the ladder.
///
/// The number of jobs and aggregators does not matter. At worst every task loses its aggregator to
/// another one, and none of these steps needs an aggregator.
pub(crate) fn bound(
    case: &Case,
    scenario: &Scenario,
    job: usize,
    round: usize,
    quiet: Duration,
    usual: Option<Duration>,
) -> Duration {
    let shape = &case.jobs[job];
    let workers = shape.workers as u32;
    let fragments: Vec<u32> =
        shape.tensors.iter().map(|tensor| tensor.fragments() as u32).collect();
    let all_fragments: u32 = fragments.iter().sum();
    let ladder = match case.protocol {
        Protocol::P4inc | Protocol::SwitchMl if shape.tensors[round].overflows => LADDER.len(),
        _ => 1,
    };
    let count = fragments[round] * ladder as u32;
    let rest = scenario.network.timeouts.max;
    let trip = round_trip(case, scenario);
    let channel = channel(quiet) + SLOW_START * trip + case.options(false).pace.reconnect;
    let held_back = Reorder::default().patience;
    let papers = case.recovery == Recovery::Papers;
    let (rests, silences, trips) = match (case.protocol, case.recovery) {
        (Protocol::Esa, Recovery::Papers) => (4, 0, 8),
        (Protocol::Esa, Recovery::Rack) => (0, 5, 2 * workers + 6),
        (_, Recovery::Papers) => (4, 0, 6),
        (_, Recovery::Rack) => (2, 5, 7),
    };
    let backed_off = if papers { Duration::ZERO } else { rest };
    let silence = silence(scenario, fragments[round], usual);
    let full = all_fragments > 2 * case.slots;
    let cleared = if full { 2 * rest } else { Duration::ZERO };
    let needs_channel = case.protocol == Protocol::Esa && (papers || full);
    let connected = if needs_channel { channel + cleared } else { Duration::ZERO };
    let of_fragment = rests * rest + silences * silence + trips * trip;
    held_back + connected + backed_off + count * of_fragment
}

/// The longest interval between probes of a worker that usually gets a result after `usual`, or has
/// not got one yet: three round trips, sixteenfold after some probes, and longer with many fragments
/// (`on_timeout` in `worker/loss/rack.rs`).
fn silence(scenario: &Scenario, fragments: u32, usual: Option<Duration>) -> Duration {
    let least = scenario.network.timeouts.min;
    let patience = if fragments > 8 { 32 } else { 1 };
    let silence = patience * usual.map_or(least, |usual| least.max(3 * usual));
    (16 * silence).min(scenario.network.timeouts.max)
}

/// The longest time in which a connection that lost segments sends the first of them again, or is
/// replaced. Its timeout (RFC 6298) is a smoothed time plus four deviations, none of which is longer
/// than the run has lasted, or [`FIRST_TIMEOUT`]. It doubles, and so adds at most the time that the
/// connection has waited already. After [`USER_TIMEOUT`] there is another connection (`set_timer` in
/// `tcp.rs`).
fn channel(quiet: Duration) -> Duration {
    (6 * quiet + FIRST_TIMEOUT).min(USER_TIMEOUT)
}

/// The longest time for a packet from a worker to the PS and an answer, or a message and an answer,
/// if nothing is lost: on each link its delay and jitter, and at most a full queue or window before
/// it.
fn round_trip(case: &Case, scenario: &Scenario) -> Duration {
    let options = case.options(false);
    let links = scenario.network.topology.switches.len() as u32 + 1;
    let bits = 8 * (HEADERS + 4 * VALUES);
    let frame = Duration::from_secs_f64(bits as f64 / options.cable.bandwidth);
    let jitter = Duration::from_micros(case.jitter.into());
    let link = options.cable.latency + jitter + (case.queue + case.slots + 1) * frame;
    2 * (options.pace.latency + options.pace.jitter + links * link)
}

/// What is recorded of a run.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// The times of disturbances.
    disturbed: Vec<Duration>,
    /// By job, the longest time that a worker usually waits for a result, at some times.
    usual: Vec<(Duration, Vec<Option<Duration>>)>,
}

impl Record {
    /// The longest time in a period that a worker of a job usually waits for a result.
    fn usual(&self, job: usize, from: Duration, to: Duration) -> Option<Duration> {
        let first = self.usual.partition_point(|(at, _)| *at <= from).saturating_sub(1);
        let last = self.usual.partition_point(|(at, _)| *at < to).max(first);
        let period = &self.usual[first..self.usual.len().min(last + 1)];
        period.iter().filter_map(|(_, jobs)| jobs[job]).max()
    }
}

/// Records what matters for the bound during a run.
pub(crate) struct Watch<'a> {
    scenario: &'a Scenario,
    last: Option<Time>,
    hops: u64,
    drops: u64,
    record: Record,
}

/// Time between two looks at the workers, if nothing is disturbed.
const TICK: Duration = Duration::from_millis(1);

impl<'a> Watch<'a> {
    pub(crate) fn new(scenario: &'a Scenario) -> Self {
        Self { scenario, last: None, hops: 0, drops: 0, record: Record::default() }
    }

    /// Call it after each event.
    pub(crate) fn look(&mut self, network: &Network) {
        let last = network.disturbed_at();
        // Only an arrival can find a queue full.
        let drops = if network.hops() > self.hops { self.full_queues(network) } else { self.drops };
        let now = network.now() - Time::ZERO;
        let disturbed = last > self.last || drops > self.drops;
        if disturbed {
            self.record.disturbed.push(now);
        }
        let due = self.record.usual.last().is_none_or(|(at, _)| *at + TICK <= now);
        if disturbed || due {
            let usual = self.scenario.jobs.iter().map(|job| {
                let workers = job.workers.iter();
                workers.filter_map(|host| network.worker(*host, job.id)?.round_trip()).max()
            });
            self.record.usual.push((now, usual.collect()));
        }
        (self.last, self.hops, self.drops) = (last, network.hops(), drops);
    }

    /// Number of packets that found a queue full.
    fn full_queues(&self, network: &Network) -> u64 {
        let topology = &self.scenario.network.topology;
        let of = |id| {
            let ports = topology.port_numbers(id).filter_map(move |port| {
                network.switch(id).port_statistics(port).map(|port| port.queue_drops)
            });
            ports.sum::<u64>()
        };
        topology.switch_ids().map(of).sum()
    }

    pub(crate) fn record(self) -> Record {
        self.record
    }
}

/// A tensor's time in a period without disturbances.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Wait {
    pub(crate) job: usize,
    pub(crate) round: usize,
    /// When the period began, or the last worker submitted the tensor.
    pub(crate) since: Duration,
    /// Until the tensor was complete, or the period ended.
    pub(crate) took: Duration,
    pub(crate) bound: Duration,
    /// Whether the tensor was complete then.
    complete: bool,
}

impl Wait {
    /// The part of the bound that it took.
    pub(crate) fn part(&self) -> f64 {
        self.took.as_secs_f64() / self.bound.as_secs_f64()
    }
}

/// The tensor that took the largest part of its bound; an error if one took longer.
pub(crate) fn check(
    case: &Case,
    scenario: &Scenario,
    outcome: &Outcome,
    record: &Record,
) -> Result<Option<Wait>, String> {
    let mut longest: Option<Wait> = None;
    for wait in waits(case, scenario, outcome, record) {
        if wait.took > wait.bound {
            let Wait { job, round, since, took, bound, .. } = wait;
            let until = if wait.complete { "complete" } else { "still incomplete" };
            return Err(format!(
                "job {job}, tensor {round}: {until} {took:?} after {since:?}, although nothing was \
                 disturbed since. The bound is {bound:?}"
            ));
        }
        if longest.is_none_or(|longest| longest.part() < wait.part()) {
            longest = Some(wait);
        }
    }
    Ok(longest)
}

fn waits(case: &Case, scenario: &Scenario, outcome: &Outcome, record: &Record) -> Vec<Wait> {
    let quiet = quiet_periods(case, scenario, &record.disturbed);
    let mut waits = Vec::new();
    for (job, courses) in outcome.courses.iter().enumerate() {
        let ended = case.acts.iter().find(|(_, act)| *act == Act::End(job)).map(|(time, _)| *time);
        for round in 0..case.jobs[job].tensors.len() {
            let of_workers: Option<Vec<_>> = courses.iter().map(|own| own.get(round)).collect();
            let Some(of_workers) = of_workers else { continue };
            let submitted = of_workers.iter().map(|course| course.submitted).max();
            let summed: Option<Vec<_>> = of_workers.iter().map(|course| course.summed).collect();
            let summed = summed.and_then(|all| all.into_iter().max()).unwrap_or(Duration::MAX);
            for &(from, to) in &quiet {
                let since = submitted.map_or(from, |submitted| from.max(submitted));
                let until = to.min(ended.unwrap_or(to)).min(summed);
                if let Some(took) = until.checked_sub(since) {
                    let usual = record.usual(job, since, until);
                    let bound = bound(case, scenario, job, round, since, usual);
                    let complete = until == summed;
                    waits.push(Wait { job, round, since, took, bound, complete });
                }
            }
        }
    }
    waits
}

/// The periods without disturbances.
fn quiet_periods(
    case: &Case,
    scenario: &Scenario,
    disturbed: &[Duration],
) -> Vec<(Duration, Duration)> {
    let mut times: Vec<(Duration, Option<Act>)> = disturbed.iter().map(|at| (*at, None)).collect();
    times.extend(case.all_acts(scenario).into_iter().map(|(at, act)| (at, Some(act))));
    // Until the circuits change for the last time, there may be no way.
    let mut down: Vec<Act> = case.optical.iter().map(|_| Act::Route).collect();
    times.extend(case.optical.iter().map(|optical| (optical.settled(), Some(Act::Route))));
    times.sort_by_key(|(at, _)| *at);
    let mut periods = Vec::new();
    // `down` has what is down, by the act that ends it.
    let mut since = down.is_empty().then_some(Duration::ZERO);
    for (at, act) in times {
        if let Some(since) = since {
            periods.push((since, at));
        }
        match act {
            Some(Act::Down(link)) => down.push(Act::Up(link)),
            Some(Act::StopServer(job)) => down.push(Act::StartServer(job)),
            Some(Act::StopAgent(job)) => down.push(Act::StartAgent(job)),
            Some(Act::End(job)) => down.retain(|end| end.job() != Some(job)),
            Some(act) => down.retain(|end| *end != act),
            None => {}
        }
        since = down.is_empty().then_some(at);
    }
    periods.extend(since.map(|since| (since, Duration::MAX)));
    periods
}
