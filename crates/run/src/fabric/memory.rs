//! Threads of one process, joined by memory links: an [`Embedded`] network, and its workers.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use tokio::sync::mpsc;
use tributary_base::one_line;
use tributary_controller::programs::Compiled;
use tributary_embedded::{self as embedded, Embedded, LINK_CAPACITY, Outside, join, spawn};
use tributary_model::{Deployment, End, Link, SwitchId, worker_index};
use tributary_netio::FrameCount;
use tributary_p4runtime::p4::v1::Entity;
use tributary_sim::Taps;
use tributary_switch::PortStatistics;
use tributary_worker::workload::Verifier;
use tributary_worker::{live, rounds};

use super::live::Live;
use super::{
    Counted, Crossing, Crossings, Fabric, Note, PortCount, QueueReport, Removed, SwitchEnd, waits,
};
use crate::Options;

/// The memory fabric.
pub struct Memory {
    deployment: Arc<Deployment>,
    live: Live,
    network: Embedded,
    stop: Arc<AtomicBool>,
    workers: Vec<JoinHandle<()>>,
    /// Threads of each switch.
    threads: u16,
}

/// How long a switch may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Frames that a link with delays holds back, at most: those of several windows.
const HELD_BACK: u64 = 4096;

impl Fabric for Memory {
    async fn start(
        deployment: &Arc<Deployment>,
        program: Compiled,
        options: &Options,
        taps: Option<&Taps>,
    ) -> Result<Self> {
        let tap = taps
            .cloned()
            .map(|taps| -> embedded::Tap { Arc::new(move |end, io| Box::new(taps.tap(end, io))) });
        let threads = options.switch_threads;
        let options = embedded::Options {
            engine: options.engine,
            threads: options.switch_threads,
            outside: Outside::new(),
            tap,
            metrics: &options.metrics,
        };
        let network = Embedded::open(deployment, &program.pipeline, options).await?;
        let mut live = Live::new();
        live.control(Arc::clone(network.controller()));
        let (deployment, stop) = (Arc::clone(deployment), Arc::default());
        Ok(Self { deployment, live, network, stop, workers: Vec::new(), threads })
    }

    async fn admit(&mut self, job: usize) -> Result<()> {
        self.live.admit(&self.deployment, job).await
    }

    fn start_endpoints(&mut self) -> Result<()> {
        self.live.begin();
        let notes = self.live.notes.clone();
        let tell: embedded::Tell = Arc::new(move |note| send(&notes, note.into()));
        let contacts = self.network.start_servers(Ipv4Addr::LOCALHOST.into(), &tell)?;
        let deployment = Arc::clone(&self.deployment);
        let scenario = deployment.scenario();
        for (job, its) in scenario.whole_jobs() {
            let values = scenario.network.switch.values_per_packet;
            let verifier = Verifier::new(its, values, its.workers.len());
            for worker in 0..its.workers.len() {
                let index = worker_index(worker);
                let lanes = self.network.worker(job, worker, &contacts)?;
                let board = self.network.boards().workers.clone();
                let port = live::WorkerPort {
                    lanes,
                    may_be_replaced: false,
                    own_process: false,
                    turns: None,
                    board,
                };
                let (notes, stop) = (self.live.notes.clone(), Arc::clone(&self.stop));
                let (deployment, verifier) = (Arc::clone(&deployment), verifier.clone());
                self.workers.push(spawn(format!("{} worker {worker}", its.name), move || {
                    let mut tell = |event| send(&notes, Note::Worker { job, worker, event });
                    let outcome =
                        live::work(&deployment, job, index, port, verifier, &stop, &mut tell);
                    tell(match outcome {
                        Ok(report) => rounds::Event::Done(Box::new(report)),
                        Err(error) => rounds::Event::Failed { reason: one_line(error.as_ref()) },
                    });
                })?);
            }
        }
        Ok(())
    }

    async fn next_note(&mut self) -> Option<Note> {
        self.live.next_note().await
    }

    fn elapsed(&self) -> Duration {
        self.live.elapsed()
    }

    fn stop_endpoints(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        join(&mut self.workers);
        self.network.stop_endpoints();
    }

    async fn remove(&mut self, job: usize) -> Result<Vec<Removed>> {
        self.live.remove(&self.deployment, job).await
    }

    fn stop_switches(&mut self) -> Vec<SwitchEnd> {
        self.live.end();
        let stopped = self.network.stop_switches().into_iter();
        let end = |report: Option<tributary_switch::runtime::Report>| {
            let queues =
                report.map(|report| QueueReport::of(report.ports.iter().map(|(_, port)| port)));
            SwitchEnd { queues, cpu: None }
        };
        stopped.map(end).collect()
    }

    async fn counts(&self, job: usize) -> Result<Vec<(SwitchId, Counted)>> {
        self.live.counts(&self.deployment, job).await
    }

    async fn read(&self, switch: SwitchId, request: Vec<Entity>) -> Result<Vec<Entity>> {
        self.live.read(switch, request).await
    }

    async fn ports(&self, switch: SwitchId) -> Vec<(u16, PortCount)> {
        let counted = self.statistics(switch).await.into_iter();
        counted.map(|(port, statistics)| (port, statistics.into())).collect()
    }

    /// All senders are read before any receiver, so that no frame looks lost that was sent meanwhile.
    async fn crossings(&self) -> Crossings {
        let deployment = Arc::clone(&self.deployment);
        let topology = &deployment.scenario().network.topology;
        let hosts =
            || topology.host_ids().filter_map(|host| Some((host, self.network.frames(host)?)));
        let sent: BTreeMap<_, _> = hosts().map(|(host, count)| (host, count.sent)).collect();
        let senders = self.all_statistics().await;
        let receivers = self.all_statistics().await;
        let received: BTreeMap<_, _> =
            hosts().map(|(host, count)| (host, count.received)).collect();
        let crossing = |link: &Link, from: End, to: End| {
            let sent = match from {
                End::Host(host) => *sent.get(&host)?,
                End::Switch(switch, port) => senders.get(&(switch.0, port))?.sent,
            };
            let received = match to {
                End::Host(host) => *received.get(&host)?,
                End::Switch(switch, port) => receivers.get(&(switch.0, port))?.received,
            };
            Some(Crossing { sent, received, under_way: self.under_way(link) })
        };
        let links = topology.links[..topology.fixed_links()].iter();
        let ways = |link: &Link| {
            let [first, second] = link.ends;
            [crossing(link, first, second), crossing(link, second, first)]
        };
        links.map(ways).collect()
    }

    fn core_waits(&self) -> Option<(Duration, usize)> {
        // Those of the executors, which run the workers' endpoints.
        let waits = waits::of_threads("self", |name| name.starts_with("workers "));
        (!waits.is_empty()).then(|| (waits.iter().sum(), waits.len()))
    }
}

impl Memory {
    /// What the ports of a switch have counted; empty if it does not answer.
    async fn statistics(&self, switch: SwitchId) -> Vec<(u16, PortStatistics)> {
        let Some(control) = self.network.switch(switch) else { return Vec::new() };
        let ports: Vec<u16> =
            self.deployment.scenario().network.topology.port_numbers(switch).collect();
        let count = move |switch: &mut tributary_switch::Switch, _| {
            let count = |port| Some((port, switch.port_statistics(port)?));
            ports.into_iter().filter_map(count).collect()
        };
        let counted = tokio::time::timeout(PATIENCE, control.run(count)).await;
        counted.ok().and_then(Result::ok).unwrap_or_default()
    }

    async fn all_statistics(&self) -> BTreeMap<(usize, u16), FrameCount> {
        let mut all = BTreeMap::new();
        for switch in self.deployment.scenario().network.topology.switch_ids() {
            for (port, PortStatistics { sent, received, .. }) in self.statistics(switch).await {
                all.insert((switch.0, port), FrameCount { sent, received });
            }
        }
        all
    }

    /// Most frames on a link at a time.
    fn under_way(&self, link: &Link) -> u64 {
        let scenario = self.deployment.scenario();
        let lanes = scenario.jobs.iter().map(|job| job.lane.count).max().unwrap_or(1);
        let parts = lanes * usize::from(self.threads);
        let faults = &link.faults;
        let is_late = !faults.delay.is_zero() || !faults.jitter.is_zero() || faults.reorder > 0.0;
        (LINK_CAPACITY * parts) as u64 + if is_late { HELD_BACK } else { 0 }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.stop_endpoints();
        self.live.end();
    }
}

fn send(notes: &mpsc::UnboundedSender<Note>, note: Note) {
    // The run may already be over.
    drop(notes.send(note));
}
