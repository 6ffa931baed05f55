//! Jobs, frames and the output of endpoints.

use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::time::Duration;

use tributary_protocol::addressing::Permutation;
use tributary_protocol::fixed::Scale;
use tributary_protocol::{
    Assignment, Endpoint, JobConfig, Mode, PsConfig, Recovery, Time, Timing, WorkerConfig,
};
use tributary_wire::agg::{Packet, Repr};
use tributary_wire::{
    AggregatorIndex, Audience, Bitmap, Ecn, Envelope, Epoch, Flags, Host, JobId, Kind, Mac,
    Protocol, Rack, Round, Segment, Service, WorkerIndex, emit_frame, values,
};

pub(crate) const JOB: JobId = JobId::new(263).unwrap();
pub(crate) const EPOCH: Epoch = Epoch::new(5).unwrap();

/// The number of the PS's host.
pub(crate) const SERVER: u8 = 100;

pub(crate) fn host(last: u8) -> Host {
    Host { mac: Mac([2, 0, 0, 0, 0, last]), ip: Ipv4Addr::new(10, 0, 0, last) }
}

pub(crate) const fn us(micros: u64) -> Time {
    Time::from_nanos(micros * 1_000)
}

/// A test's parameters of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) protocol: Protocol,
    pub(crate) mode: Mode,
    pub(crate) service: u8,
    /// Number of aggregators of the segment, which starts at 16.
    pub(crate) size: u32,
    pub(crate) workers: u8,
    pub(crate) values: u16,
    pub(crate) slots: u32,
    pub(crate) scale: f64,
    pub(crate) initial_window: Option<u32>,
}

/// Three workers, two values per packet, eight slots, eight aggregators, scale 1000, service 17.
pub(crate) const LOCAL: Setup = Setup {
    protocol: Protocol::P4inc,
    mode: Mode::Local,
    service: 17,
    size: 8,
    workers: 3,
    values: 2,
    slots: 8,
    scale: 1000.0,
    initial_window: None,
};

pub(crate) const PARTIAL: Setup = Setup { mode: Mode::Partial, ..LOCAL };
pub(crate) const FORWARDED: Setup = Setup { mode: Mode::Forwarded, service: 0, size: 0, ..LOCAL };
pub(crate) const SWITCHML: Setup = Setup { protocol: Protocol::SwitchMl, size: 16, ..LOCAL };

pub(crate) const POOL: u32 = 256;
const OFFSET: u32 = 16;

impl Setup {
    pub(crate) fn assignment(&self) -> Assignment {
        let offset = if self.size == 0 { 0 } else { OFFSET };
        Assignment {
            service: Service::new(self.service),
            segment: Segment { offset: AggregatorIndex(offset), size: self.size },
            mode: self.mode,
        }
    }

    pub(crate) fn job(&self) -> JobConfig {
        JobConfig {
            protocol: self.protocol,
            values_per_packet: self.values,
            slots: self.slots,
            assignment: self.assignment(),
            ..JobConfig::new(JOB.run(EPOCH), self.workers, NonZeroU32::new(POOL).unwrap())
        }
    }

    /// Tests of liveness ignore stalls.
    fn timing() -> Timing {
        Timing { stall_timeout: Duration::from_secs(3600), ..Timing::default() }
    }

    pub(crate) fn worker(&self, index: u8) -> WorkerConfig {
        WorkerConfig {
            job: self.job(),
            index: WorkerIndex::new(index.into()).unwrap(),
            scale: Scale::new(self.scale).unwrap(),
            host: host(index),
            server: host(SERVER),
            initial_window: self.initial_window,
            rate: None,
            timing: Self::timing(),
        }
    }

    /// With the papers' recovery rules.
    pub(crate) fn papers(&self, index: u8) -> WorkerConfig {
        let mut config = self.worker(index);
        config.timing.recovery = Recovery::Papers;
        config
    }

    pub(crate) fn server(&self) -> PsConfig {
        PsConfig {
            job: self.job(),
            host: host(SERVER),
            workers: (0..self.workers).map(host).collect(),
            timing: Self::timing(),
            follows_runs: true,
        }
    }

    /// The aggregator of a fragment of P4INC.
    pub(crate) fn index(&self, fragment: u32) -> AggregatorIndex {
        match self.size {
            0 => AggregatorIndex(0),
            _ => Permutation::new(JOB, self.assignment().segment).index(fragment),
        }
    }

    /// The header of a packet of P4INC.
    pub(crate) fn repr(&self, kind: Kind, (fragment, rung): (u32, u8), bitmap: u32) -> Repr {
        Repr {
            protocol: self.protocol,
            kind,
            flags: Flags::NONE,
            priority: self.service,
            job: JOB,
            epoch: EPOCH,
            values: if kind.has_values() { self.values } else { 0 },
            sequence: Round { fragment, rung }.sequence(),
            bitmap: Bitmap(bitmap),
            rack: Rack::NONE,
            audience: Audience::ALL,
            index: self.index(fragment),
        }
    }
}

pub(crate) fn frame(repr: &Repr, words: &[i32]) -> Vec<u8> {
    let envelope = Envelope { source: host(77), destination: host(78), ecn: Ecn::Ect0 };
    let mut frame = Vec::new();
    values::write_i32(emit_frame(&mut frame, &envelope, repr), words);
    frame
}

/// A sent frame.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) envelope: Envelope,
    pub(crate) repr: Repr,
    pub(crate) words: Vec<i32>,
}

impl Sent {
    /// Fragment, rung and flags.
    pub(crate) fn short(&self) -> (u32, u8, Flags) {
        let Round { fragment, rung } = self.repr.round();
        (fragment, rung, self.repr.flags)
    }
}

/// All frames that an endpoint sends now.
pub(crate) fn sent(endpoint: &mut impl Endpoint, now: Time) -> Vec<Sent> {
    let mut frame = Vec::new();
    let mut all = vec![];
    while endpoint.poll_transmit(now, &mut frame) {
        let packet = Packet::new_checked(frame.as_slice()).unwrap();
        all.push(Sent {
            envelope: packet.envelope(),
            repr: *packet.repr(),
            words: packet.values_i32().collect(),
        });
    }
    all
}

/// Fragments, rungs and flags of all frames that an endpoint sends now.
pub(crate) fn rounds(endpoint: &mut impl Endpoint, now: Time) -> Vec<(u32, u8, Flags)> {
    sent(endpoint, now).iter().map(Sent::short).collect()
}
