//! A job's only worker and its parameter server in one process, without a network.
//!
//! Jobs on one server run like this: its GPUs sum among themselves (NetPack §2.1). The endpoints
//! are those of every other job, joined by a link in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result, ensure};
use tributary_metrics::Board;
use tributary_model::{Deployment, Protocol};
use tributary_netio::{Waker, memory};
use tributary_ps::{Channels, Servers};
use tributary_wire::WorkerIndex;

use crate::live::{self, LanePort, Port};
use crate::numbers::Numbers;
use crate::rounds::{Event, WorkerReport};
use crate::workload::Verifier;

/// Frames that the link holds in each direction.
const CAPACITY: usize = 1 << 10;

/// Runs the only worker of the job with this index in the file.
///
/// # Errors
/// One line that describes the problem.
pub fn work(
    deployment: &Arc<Deployment>,
    position: usize,
    verifier: Verifier,
    stop: &Arc<AtomicBool>,
    board: Board<Numbers>,
    tell: &mut dyn FnMut(Event),
) -> Result<WorkerReport> {
    let job = deployment.job(position);
    ensure!(
        job.workers.len() == 1,
        "--alone: job {} has {} workers; leave --alone out",
        job.name,
        job.workers.len()
    );
    ensure!(
        job.lane.count == 1,
        "--alone: job {} has several threads per worker; leave `threads` out of it",
        job.name
    );
    let server = deployment.server(position).filter(|_| job.protocol == Protocol::Atp);
    let server = server.context(
        "--alone is for jobs of atp: others are not summed by their parameter server alone",
    )?;
    let servers = Servers::new([tributary_ps::Job { server, agent: None }])?;
    let far_waker = Waker::new();
    let (io, far) = memory::link(CAPACITY, &Waker::new(), &far_waker);
    let served = AtomicBool::new(false);
    thread::scope(|scope| {
        let serve = || {
            let mut stall = |_, event| tracing::warn!("the parameter server: {event:?}");
            tributary_ps::serve(
                servers,
                &mut Channels::default(),
                Box::new(far),
                None,
                &served,
                &Board::default(),
                &mut stall,
            )
        };
        let server = thread::Builder::new().name("ps".into()).spawn_scoped(scope, serve);
        let server = server.context("cannot start a thread")?;
        let lanes = vec![LanePort { io: Box::new(io), executor: None, link: None }];
        let port = Port { lanes, may_be_replaced: false, own_process: false, turns: None, board };
        let first = WorkerIndex::new(0).expect("an index");
        let outcome = live::work(deployment, position, first, port, verifier, stop, tell);
        served.store(true, Ordering::Relaxed);
        server.join().expect("the parameter server does not panic").context("the link failed")?;
        outcome
    })
}
