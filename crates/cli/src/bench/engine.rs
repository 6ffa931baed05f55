//! The execution engine alone: `atp.p4` without ports, queues and threads.
//!
//! Two workers' gradients and the result, fragment after fragment: one packet in three is stored,
//! one is added and leaves, one frees its aggregator and is multicast.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use tributary_controller::{Catalogue, entries, plan};
use tributary_dataplane::{EgressInput, IngressInput, Instance, Packet, Verdict};
use tributary_jobfile::{Scenario, SwitchId};
use tributary_switch::{Forwarding, Switch, SwitchConfig};
use tributary_wire::agg::Repr;
use tributary_wire::{
    AggregatorIndex, Bitmap, Ecn, Envelope, Flags, Host, Kind, Protocol, Sequence, emit_frame,
};

use super::Spread;
use crate::args::BenchArgs;
use crate::report::table;
use crate::settings;

/// How long a repetition takes.
const TIME: Duration = Duration::from_millis(500);

/// Aggregators that the fragments go round.
const CELLS: u32 = 256;

pub(super) fn run(args: &BenchArgs) -> Result<()> {
    println!("\nEngine alone, atp.p4, one core: median (range) of {} repetitions", args.repeat);
    let mut rows = table(&["values a packet", "million packets/s", "ns a packet"]);
    let mut costs = Vec::new();
    for values in [32, 64, 256, 2048] {
        let mut bench = Bench::new(values)?;
        bench.round(0);
        let rates: Vec<f64> = (0..args.repeat).map(|_| bench.measure()).collect();
        let nanos: Vec<f64> = rates.iter().map(|rate| 1e9 / rate).collect();
        let nanos = Spread::of(nanos);
        costs.push((values, nanos.median));
        let rates = Spread::of(rates.iter().map(|rate| rate / 1e6).collect());
        rows.add_row([values.to_string(), rates.text(3), nanos.text(0)]);
    }
    println!("{rows}");
    if let [(few, cheap), .., (many, dear)] = costs[..] {
        let cost = (dear - cheap) / f64::from(many - few);
        println!("An added value costs {cost:.2} ns ({few} to {many} values).");
    }
    Ok(())
}

struct Bench {
    switch: Switch,
    packet: Packet,
    /// Two gradients and a parameter a cell, with their ports.
    frames: Vec<(u16, Vec<u8>)>,
    out: Vec<u8>,
}

impl Bench {
    fn new(values: u16) -> Result<Self> {
        let scenario = tributary_jobfile::parse(
            &format!(
                "[topology]\nkind = \"star\"\nworkers = 2\n\
                 [protocol]\nvalues_per_packet = {values}\nslots = 64\n\
                 [switch]\npool = {CELLS}\n[[job]]\nname = \"bench\"\n\
                 workload = {{ kind = \"random\" }}\n"
            ),
            "bench.toml",
        )?;
        let pipeline = settings::compile(&scenario, None)?.pipeline;
        let text = String::from_utf8(pipeline.device_config)?;
        let mut switch =
            Switch::new(SwitchConfig { ports: vec![1, 2, 3], ..SwitchConfig::default() });
        switch.commit(Forwarding::from_source(&text).map_err(|error| anyhow!("{error}"))?);
        let catalogue = Catalogue::new(&pipeline.p4info)?;
        let job = &scenario.jobs[0];
        let slot = entries::JobSlot::new(1).expect("not zero");
        let mut entities =
            entries::forwarding(&catalogue, &plan::forwarding(&scenario.topology)[0]);
        for part in plan::job(&scenario.topology, &job.into()) {
            entities.extend(entries::job(&catalogue, &part, job.id, slot));
        }
        let results = switch.write(&entries::insert(entities)).map_err(|e| anyhow!("{e}"))?;
        for result in results {
            result.map_err(|error| anyhow!("{error}"))?;
        }
        let packet = switch.forwarding().expect("committed above").pipeline().new_packet();
        let frames = (0..CELLS).flat_map(|cell| frames(&scenario, values, cell)).collect();
        Ok(Self { switch, packet, frames, out: Vec::new() })
    }

    /// Packets a second.
    fn measure(&mut self) -> f64 {
        let start = Instant::now();
        let mut packets = 0;
        while start.elapsed() < TIME {
            self.round(start.elapsed().as_micros() as u64);
            packets += self.frames.len();
        }
        packets as f64 / start.elapsed().as_secs_f64()
    }

    /// All frames once.
    fn round(&mut self, time_us: u64) {
        let forwarding = self.switch.forwarding_mut().expect("committed when it was made");
        let pipeline = forwarding.pipeline_mut();
        for (port, frame) in &self.frames {
            let input =
                IngressInput { port: *port, time_us, instance: Instance::Normal, preserved: false };
            let port = match pipeline.ingress(&mut self.packet, frame, &input).verdict {
                Verdict::Drop => continue,
                Verdict::Unicast(port) => port,
                Verdict::Multicast(_) => 1,
            };
            let input = EgressInput {
                port,
                rid: 0,
                instance: Instance::Normal,
                time_us,
                enq_time_us: time_us,
                enq_qdepth: 0,
                deq_qdepth: 0,
                deq_timedelta: 0,
            };
            pipeline.egress(&mut self.packet, &input, &mut self.out);
            black_box(&self.out);
        }
    }
}

fn frames(scenario: &Scenario, values: u16, cell: u32) -> [(u16, Vec<u8>); 3] {
    let job = &scenario.jobs[0];
    let topology = &scenario.topology;
    let frame = |kind, from, to, bitmap: Bitmap| {
        let repr = Repr {
            protocol: Protocol::Atp,
            kind,
            flags: Flags::NONE,
            priority: 0,
            job: job.id,
            values,
            sequence: Sequence(cell),
            bitmap,
            index: AggregatorIndex(cell),
        };
        let envelope =
            Envelope { source: topology.host(from).address, destination: to, ecn: Ecn::Ect0 };
        let mut frame = Vec::new();
        emit_frame(&mut frame, &envelope, &repr);
        let (switch, port) = topology.attachment(from);
        assert_eq!(switch, SwitchId(0), "a star has one switch");
        (port, frame)
    };
    let server = topology.host(job.ps).address;
    let [first, second] = [job.workers[0], job.workers[1]];
    [
        frame(Kind::Gradient, first, server, Bitmap(1)),
        frame(Kind::Gradient, second, server, Bitmap(2)),
        frame(Kind::Parameter, job.ps, Host::group(job.id), Bitmap(3)),
    ]
}
