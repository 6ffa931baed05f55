//! A job, its endpoints, and packets for one endpoint.

use std::num::NonZeroU32;
use std::time::Duration;

use bytes::Bytes;
use tributary_protocol::esa::{AgentJob, Backend, Server, Target};
use tributary_protocol::fixed::Scale;
use tributary_protocol::{
    Endpoint, JobConfig, PsConfig, Recovery, Time, Timing, Worker, WorkerConfig,
};
use tributary_wire::agg::{Packet, Repr};
use tributary_wire::channel::Values;
use tributary_wire::{
    Audience, Bitmap, Ecn, Envelope, Epoch, Flags, Host, JobId, Kind, Mac, Protocol, Rack,
    Sequence, WorkerIndex, emit_frame, values,
};

pub(crate) const JOB: JobId = JobId::new(1).unwrap();
pub(crate) const EPOCH: Epoch = Epoch::new(5).unwrap();

/// The number of the PS's host.
pub(crate) const SERVER: u8 = 200;

pub(crate) fn ms(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

pub(crate) fn host(number: u8) -> Host {
    Host { mac: Mac([2, 0, 0, 0, 0, number]), ip: [10, 0, 0, number].into() }
}

pub(crate) fn index(worker: u16) -> WorkerIndex {
    WorkerIndex::new(worker).unwrap()
}

/// Two values per packet, eight slots.
pub(crate) fn job(workers: u8) -> JobConfig {
    JobConfig {
        protocol: Protocol::Esa,
        values_per_packet: 2,
        slots: 8,
        ..JobConfig::new(JOB.run(EPOCH), workers, NonZeroU32::new(64).unwrap())
    }
}

pub(crate) fn worker_config(job: JobConfig, worker: u8) -> WorkerConfig {
    WorkerConfig {
        job,
        index: index(worker.into()),
        scale: Scale::new(1000.0).unwrap(),
        host: host(worker),
        server: host(SERVER),
        initial_window: None,
        rate: None,
        timing: Timing::default(),
    }
}

/// A worker with the papers' recovery rules.
pub(crate) fn papers(job: JobConfig, worker: u8) -> Worker {
    let mut config = worker_config(job, worker);
    config.timing.recovery = Recovery::Papers;
    Worker::new(config).unwrap()
}

pub(crate) fn ps_config(job: JobConfig) -> PsConfig {
    let workers = (0..job.workers() as u8).map(host).collect();
    PsConfig { job, host: host(SERVER), workers, follows_runs: true, timing: Timing::default() }
}

pub(crate) fn backend(job: JobConfig) -> Backend {
    let switches = vec![Target { rack: Rack::NONE, members: job.whole(), via: host(0) }];
    let mut backend = Backend::default();
    backend.add_server(ps_config(job)).unwrap();
    backend
        .add_agent(AgentJob { job, host: host(SERVER), switches, timing: Timing::default() })
        .unwrap();
    backend
}

pub(crate) fn worker(job: JobConfig, worker: u8) -> Worker {
    Worker::new(worker_config(job, worker)).unwrap()
}

pub(crate) fn server(job: JobConfig) -> Server {
    Server::new(ps_config(job)).unwrap()
}

/// The header of a packet of the job.
pub(crate) fn repr(
    job: &JobConfig,
    kind: Kind,
    sequence: u32,
    bitmap: Bitmap,
    flags: Flags,
) -> Repr {
    let sequence = Sequence(sequence);
    Repr {
        protocol: Protocol::Esa,
        kind,
        flags,
        priority: 0,
        job: job.job,
        epoch: EPOCH,
        values: job.values_per_packet,
        sequence,
        bitmap,
        rack: Rack::NONE,
        audience: Audience::ALL,
        index: job.tasks().index(sequence),
    }
}

pub(crate) fn frame(repr: &Repr, words: &[i32]) -> Vec<u8> {
    let envelope = Envelope { source: host(99), destination: host(98), ecn: Ecn::Ect0 };
    let mut frame = Vec::new();
    values::write_i32(emit_frame(&mut frame, &envelope, repr), words);
    frame
}

/// All frames that an endpoint sends now: headers and words.
pub(crate) fn sent(endpoint: &mut impl Endpoint, now: Time) -> Vec<(Repr, Vec<i32>)> {
    let mut frame = Vec::new();
    let mut all = vec![];
    while endpoint.poll_transmit(now, &mut frame) {
        let packet = Packet::new_checked(frame.as_slice()).unwrap();
        all.push((*packet.repr(), packet.values_i32().collect()));
    }
    all
}

pub(crate) fn integers(words: &[i32]) -> Values {
    let payload: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    Values { float: false, payload: Bytes::from(payload) }
}

pub(crate) fn floats(numbers: &[f32]) -> Values {
    let payload: Vec<u8> = numbers.iter().flat_map(|n| n.to_bits().to_be_bytes()).collect();
    Values { float: true, payload: Bytes::from(payload) }
}
