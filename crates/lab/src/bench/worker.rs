//! One worker alone: its state machine on one core, without I/O, threads and other endpoints.
//!
//! An echo answers each gradient with the sum of a job whose other workers have only zeros: it turns
//! the gradient's own frame into the result, so its cost is a few stores per fragment. The worker
//! converts and checks as in any job.

use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::{Result, ensure};
use tributary_protocol::fixed::Scale;
use tributary_protocol::worker::{Event, Tensor, Worker, WorkerConfig};
use tributary_protocol::{Assignment, Endpoint, JobConfig, Mode, Time, Timing};
use tributary_wire::agg::{OFFSET, field};
use tributary_wire::{
    AggregatorIndex, Epoch, Host, JobId, Kind, Mac, Protocol, Rack, Segment, Service, WorkerIndex,
};

use super::{Spread, processor_time};
use crate::bench::Args;
use tributary_run::report::table;

/// Elements of a tensor: 4 MB, more than the second-level cache holds.
const ELEMENTS: usize = 1 << 20;

/// Processor time of a repetition.
const TIME: Duration = Duration::from_millis(500);

/// Workers of the job.
const WORKERS: u8 = 4;

/// Virtual time between two calls.
const STEP: Duration = Duration::from_nanos(200);

pub(super) fn run(args: &Args) -> Result<()> {
    println!("\nOne worker alone, one core: processor time, median (range)");
    let mut rows =
        table(&["protocol", "values", "in flight", "M elements/s", "ns per fragment", "GB/s"]);
    let mut benches = Vec::new();
    for protocol in [Protocol::Atp, Protocol::P4inc] {
        for values in [64, 256] {
            for burst in [1, 32] {
                benches.push(Bench::new(protocol, values, burst)?);
            }
        }
    }
    let mut nanos = vec![Vec::new(); benches.len()];
    // In turns, so that the machine's other load affects all rows.
    for _ in 0..args.repeat {
        for (bench, nanos) in benches.iter_mut().zip(&mut nanos) {
            nanos.push(bench.measure()?);
        }
    }
    for (bench, nanos) in benches.iter().zip(nanos) {
        let elements = nanos.iter().map(|nanos| 1e3 * f64::from(bench.values) / nanos);
        let elements = Spread::of(elements.collect());
        rows.add_row([
            format!("{:?}", bench.protocol),
            bench.values.to_string(),
            bench.frames.len().to_string(),
            elements.text(0),
            Spread::of(nanos).text(0),
            format!("{:.2}", 4e-3 * elements.median),
        ]);
    }
    println!("{rows}");
    Ok(())
}

struct Bench {
    protocol: Protocol,
    values: u16,
    worker: Worker,
    tensor: Tensor,
    /// As many as are in flight at a time.
    frames: Vec<Vec<u8>>,
    /// The bitmap of a result.
    whole: [u8; 4],
    now: Time,
}

impl Bench {
    fn new(protocol: Protocol, values: u16, burst: usize) -> Result<Self> {
        let id = JobId::new(1).expect("not zero");
        let slots = JobConfig::DEFAULT_SLOTS;
        let pool = NonZeroU32::new(4 * slots).expect("not zero");
        let local = Assignment {
            service: Service::new(1),
            segment: Segment { offset: AggregatorIndex(0), size: slots },
            mode: Mode::Local,
        };
        let job = JobConfig {
            protocol,
            values_per_packet: values,
            assignment: if protocol == Protocol::P4inc { local } else { Assignment::NONE },
            ..JobConfig::new(id.run(Epoch::FIRST), WORKERS, pool)
        };
        let host =
            |last| Host { mac: Mac([2, 0, 0, 0, 0, last]), ip: Ipv4Addr::new(10, 0, 0, last) };
        let worker = Worker::new(WorkerConfig {
            job,
            index: WorkerIndex::new(0).expect("in range"),
            // The default of job files.
            scale: Scale::new(1_048_576.0).expect("a usable scale"),
            host: host(1),
            server: host(2),
            initial_window: None,
            rate: None,
            timing: Timing::default(),
        })?;
        Ok(Self {
            protocol,
            values,
            worker,
            tensor: Tensor::F32((0..ELEMENTS).map(|i| (i as f32).sin()).collect()),
            frames: vec![Vec::with_capacity(2048); burst],
            whole: job.whole().0.to_be_bytes(),
            now: Time::ZERO,
        })
    }

    /// Nanoseconds per fragment.
    fn measure(&mut self) -> Result<f64> {
        self.pass()?;
        let (start, mut fragments) = (processor_time(), 0);
        while processor_time() - start < TIME {
            self.pass()?;
            fragments += ELEMENTS / usize::from(self.values);
        }
        Ok((processor_time() - start).as_nanos() as f64 / fragments as f64)
    }

    /// Sums one tensor. The sums are the values, as the fixed point holds them after the first time.
    fn pass(&mut self) -> Result<()> {
        let tensor = std::mem::replace(&mut self.tensor, Tensor::F32(Vec::new().into()));
        self.worker.submit(tensor)?;
        loop {
            let mut sent = 0;
            for frame in &mut self.frames {
                self.now += STEP;
                if !self.worker.poll_transmit(self.now, frame) {
                    break;
                }
                sent += 1;
                let header = &mut frame[OFFSET..];
                header[field::KIND] = Kind::Parameter as u8;
                header[field::BITMAP].copy_from_slice(&self.whole);
                header[field::RACK] = Rack::NONE.0;
            }
            for frame in &self.frames[..sent] {
                self.now += STEP;
                self.worker.handle_frame(self.now, frame);
            }
            match self.worker.poll_event() {
                Some(Event::TensorDone { tensor, .. }) => {
                    self.tensor = tensor;
                    return Ok(());
                }
                event => ensure!(
                    event.is_none() && sent > 0,
                    "the worker stopped: {event:?}, {:?}",
                    self.worker.stats()
                ),
            }
        }
    }
}
