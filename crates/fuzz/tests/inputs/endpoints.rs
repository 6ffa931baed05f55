//! Endpoints do not panic on any input from the wire, and frames that are not from the job's own endpoints never
//! change a sum.

use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::time::Duration;

use tributary_protocol::fixed::Scale;
use tributary_protocol::worker::{Event, Tensor, Worker, WorkerConfig};
use tributary_protocol::{Endpoint, JobConfig, ParameterServer, PsConfig, Time, Timing};
use tributary_wire::{Host, JobId, Mac, Protocol, WorkerIndex, golden, ipv4};

use crate::bounds::{MIB, Turn};
use crate::reader::Reader;

fn host(last: u8) -> Host {
    Host { mac: Mac([2, 0, 0, 0, 0, last]), ip: Ipv4Addr::new(10, 0, 0, last) }
}

/// Two workers and a PS of job 263, the job of the golden frames.
struct Trio {
    now: Time,
    workers: Vec<Worker>,
    server: ParameterServer,
    /// Frames sent by the job's endpoints, to be mutated.
    seen: Vec<Vec<u8>>,
}

impl Trio {
    /// For ATP, or for P4INC with switches that only forward.
    fn new(protocol: Protocol) -> Self {
        let job = JobConfig {
            protocol,
            values_per_packet: 32,
            slots: 4,
            ..JobConfig::new(
                JobId::new(263).unwrap().run(golden::EPOCH),
                2,
                NonZeroU32::new(64).unwrap(),
            )
        };
        let timing = Timing::default();
        let worker = |index| {
            let config = WorkerConfig {
                job,
                index: WorkerIndex::new(u16::from(index)).unwrap(),
                scale: Scale::new(1000.0).unwrap(),
                host: host(index),
                server: host(9),
                initial_window: None,
                rate: None,
                timing,
            };
            Worker::new(config).unwrap()
        };
        let config = PsConfig {
            job,
            host: host(9),
            workers: vec![host(0), host(1)],
            follows_runs: true,
            timing,
        };
        Self {
            now: Time::ZERO,
            workers: vec![worker(0), worker(1)],
            server: ParameterServer::new(config).unwrap(),
            seen: vec![],
        }
    }

    fn submit(&mut self) {
        for (w, worker) in self.workers.iter_mut().enumerate() {
            let values = (0..32 * 10).map(|i| (i * (w as i32 + 1)) as f32 / 8.0).collect();
            worker.submit(Tensor::F32(values)).unwrap();
        }
    }

    /// All endpoints send, and all frames arrive.
    fn exchange(&mut self) {
        self.now += Duration::from_micros(10);
        let mut frame = Vec::new();
        for worker in &mut self.workers {
            worker.handle_timeout(self.now);
            while worker.poll_transmit(self.now, &mut frame) {
                self.server.handle_frame(self.now, &frame);
                self.seen.push(frame.clone());
            }
        }
        self.server.handle_timeout(self.now);
        while self.server.poll_transmit(self.now, &mut frame) {
            for worker in &mut self.workers {
                worker.handle_frame(self.now, &frame);
            }
            self.seen.push(frame.clone());
        }
        self.seen.truncate(64);
    }

    fn everyone(&mut self, frame: &[u8]) {
        self.server.handle_frame(self.now, frame);
        for worker in &mut self.workers {
            worker.handle_frame(self.now, frame);
        }
    }
}

fn put_checksum_right(frame: &mut [u8]) {
    if let Some(header) = frame.get_mut(14..34) {
        let header: &mut [u8; 20] = header.try_into().unwrap();
        header[10..12].fill(0);
        let sum = ipv4::checksum(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

fn protocol(input: &mut Reader<'_>) -> Protocol {
    [Protocol::Atp, Protocol::P4inc][input.index(2)]
}

/// Most memory for one input: the values of three endpoints, and what they keep of frames.
const MEMORY: usize = 16 * MIB;

#[test]
fn any_frames() {
    let turn = Turn::wait();
    bolero::check!().for_each(|input: &[u8]| turn.bounded(MEMORY, || any(Reader::new(input))));
}

fn any(mut input: Reader<'_>) {
    let mut trio = Trio::new(protocol(&mut input));
    trio.submit();
    while !input.is_empty() {
        let frame = match input.byte() % 4 {
            0 => {
                trio.exchange();
                continue;
            }
            1 => golden::VECTORS[usize::from(input.byte()) % golden::VECTORS.len()].bytes(),
            2 => input.rest().iter().take(100).copied().collect(),
            _ => trio.seen.get(usize::from(input.byte())).cloned().unwrap_or_default(),
        };
        let mut frame = frame;
        for _ in 0..input.byte() % 8 {
            // Mutate the aggregation header more often than the other headers.
            let at = match input.byte() {
                at if at < 200 => 42 + usize::from(at) % 20,
                at => usize::from(at) % 64,
            };
            let byte = input.byte();
            if let Some(place) = frame.get_mut(at) {
                *place = byte;
            }
        }
        put_checksum_right(&mut frame);
        trio.everyone(&frame);
        trio.now += Duration::from_millis(u64::from(input.byte()));
        while trio.server.poll_event().is_some() {}
    }
    // Timers must not panic either, whatever state the frames caused.
    for _ in 0..20 {
        trio.exchange();
    }
}

/// Frames of another job, and malformed frames of this job, leave the sums unchanged.
#[test]
fn foreign_frames() {
    let turn = Turn::wait();
    bolero::check!().for_each(|input: &[u8]| turn.bounded(MEMORY, || foreign(Reader::new(input))));
}

fn foreign(mut input: Reader<'_>) {
    let protocol = protocol(&mut input);
    let mut trio = Trio::new(protocol);
    trio.submit();
    for _ in 0..12 {
        for _ in 0..input.byte() % 8 {
            let choice = usize::from(input.byte());
            let mut frame = match trio.seen.get(choice) {
                Some(frame) => frame.clone(),
                None => golden::VECTORS[choice % golden::VECTORS.len()].bytes(),
            };
            for _ in 0..input.byte() % 4 {
                let at = usize::from(input.byte()) % frame.len();
                frame[at] = input.byte();
            }
            match input.byte() % 5 {
                // Another job.
                0 => frame[46] = 2,
                // Another protocol.
                1 => frame[42] = 1 + (protocol as u8 + input.byte() % 3) % 4,
                // Another service.
                3 if protocol == Protocol::P4inc => frame[45] = 1 + input.byte() % 255,
                // Truncated.
                2 => frame.truncate(frame.len() - 1 - usize::from(input.byte()) % 60),
                // Another V: one value fewer, in all length fields.
                _ if frame[48..50] == [0, 32] && frame.len() == 70 + 128 => {
                    frame.truncate(70 + 124);
                    frame[16..18].copy_from_slice(&180u16.to_be_bytes());
                    frame[38..40].copy_from_slice(&160u16.to_be_bytes());
                    frame[48..50].copy_from_slice(&31u16.to_be_bytes());
                }
                _ => frame[42] = 0,
            }
            put_checksum_right(&mut frame);
            trio.everyone(&frame);
        }
        trio.exchange();
    }
    for worker in &mut trio.workers {
        let Some(Event::TensorDone { tensor: Tensor::F32(sums), .. }) = worker.poll_event() else {
            panic!("the tensor is not done: {:?}", worker.stats());
        };
        assert_eq!(sums.len(), 320);
        assert!(sums.iter().enumerate().all(|(i, sum)| *sum == (3 * i) as f32 / 8.0));
    }
}
