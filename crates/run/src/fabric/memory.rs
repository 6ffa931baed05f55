//! Threads of one process, joined by memory links: an [`Embedded`] network, and its workers.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use tokio::sync::mpsc;
use tributary_base::one_line;
use tributary_controller::programs::Compiled;
use tributary_embedded::{self as embedded, Embedded, Outside, join, spawn};
use tributary_model::{Deployment, SwitchId, worker_index};
use tributary_p4runtime::p4::v1::Entity;
use tributary_sim::Taps;
use tributary_worker::workload::Verifier;
use tributary_worker::{live, rounds};

use super::live::Live;
use super::{Counted, Fabric, Note, PortCount, QueueReport, Removed, SwitchEnd};
use crate::Options;

/// The memory fabric.
pub struct Memory {
    deployment: Arc<Deployment>,
    live: Live,
    network: Embedded,
    stop: Arc<AtomicBool>,
    workers: Vec<JoinHandle<()>>,
}

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
        Ok(Self { deployment, live, network, stop, workers: Vec::new() })
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
        let Some(control) = self.network.switch(switch) else { return Vec::new() };
        let ports: Vec<u16> =
            self.deployment.scenario().network.topology.port_numbers(switch).collect();
        let count = move |switch: &mut tributary_switch::Switch, _| {
            let count = |port| Some((port, switch.port_statistics(port)?.into()));
            ports.into_iter().filter_map(count).collect()
        };
        control.run(count).await.unwrap_or_default()
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
