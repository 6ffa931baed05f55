//! A host on a port of the switch that takes no part in the job, and continuously sends forged
//! packets.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tributary_netio::FrameIo;
use tributary_netio::device::{Config, Device, Kind as Sockets};
use tributary_run::testbed::Stream;
use tributary_wire::agg::Repr;
use tributary_wire::{
    AggregatorIndex, Audience, Bitmap, Ecn, Envelope, Epoch, Flags, Host, JobId, Kind, Mac,
    Protocol, Sequence, Service, emit_frame, values,
};

use crate::by_hand::{Net, ended};
use crate::command::namespaces;

const POOL: u32 = 64;
const VALUES: u16 = 64;

fn host(number: u8) -> Host {
    let ip = Ipv4Addr::new(10, 0, 1, number);
    Host { mac: Mac([2, 0, 10, 0, 1, number]), ip }
}

/// A forged packet: for the first job, from one host to another.
struct Forged {
    protocol: Protocol,
    kind: Kind,
    flags: Flags,
    priority: u8,
    bitmap: u32,
    from: u8,
    to: u8,
}

impl Forged {
    /// Its frames for every one of the first fragments at all aggregators, the right ones included.
    fn frames(&self, epoch: Epoch) -> impl Iterator<Item = Vec<u8>> {
        let all = (0..16).flat_map(|sequence| (0..POOL).map(move |index| (sequence, index)));
        all.map(move |(sequence, index)| {
            let repr = Repr {
                protocol: self.protocol,
                kind: self.kind,
                flags: self.flags,
                priority: self.priority,
                job: JobId::new(1).unwrap(),
                epoch,
                values: VALUES,
                sequence: Sequence(sequence),
                bitmap: Bitmap(self.bitmap),
                rack: tributary_wire::Rack::NONE,
                audience: Audience::ALL,
                index: AggregatorIndex(index),
            };
            let (source, destination) = (host(self.from), host(self.to));
            let mut frame = Vec::new();
            let payload =
                emit_frame(&mut frame, &Envelope { source, destination, ecn: Ecn::Ect0 }, &repr);
            values::write_i32(payload, &vec![0x0bad_cafe; usize::from(VALUES)]);
            frame
        })
    }
}

/// Results for both workers, as if from the parameter server at `ps`; with ESA also packets that
/// bypass the aggregators in the name of others: values, results, queries.
fn forged(protocol: Protocol, epoch: Epoch, ps: u8) -> Vec<Vec<u8>> {
    let service = if protocol.has_services() { Service::new(1) } else { Service::FORWARDED };
    let result = |kind, to| Forged {
        protocol,
        kind,
        flags: Flags::NONE,
        priority: service.get(),
        bitmap: 0b11,
        from: ps,
        to,
    };
    let mut all = vec![result(Kind::Parameter, 1), result(Kind::Reply, 2)];
    if protocol == Protocol::Esa {
        let repair = |kind, priority, bitmap, from, to| Forged {
            protocol,
            kind,
            flags: Flags::REPAIR,
            priority,
            bitmap,
            from,
            to,
        };
        // Integers and floats.
        for code in [2, 3, 4, 5] {
            all.push(repair(Kind::Gradient, code, 0b01, 1, ps));
            all.push(repair(Kind::Gradient, code, 0b10, 2, ps));
        }
        all.extend([6, 7].map(|code| repair(Kind::Parameter, code, 0b01, ps, 1)));
    }
    // Interleaved, so that all are tried while the job runs.
    let mut all: Vec<_> = all.iter().map(|it| it.frames(epoch)).collect();
    let turn = || all.iter_mut().map(Iterator::next).collect::<Option<Vec<_>>>();
    std::iter::from_fn(turn).flatten().collect()
}

/// The frame itself, and with tags that kernels and network cards remove.
fn disguised(frame: &[u8]) -> [Vec<u8>; 3] {
    let behind = |tag: &[u8]| [&frame[..12], tag, &frame[12..]].concat();
    [frame.to_vec(), behind(&[0x81, 0, 0, 0]), behind(&[0x88, 0xa8, 0, 0, 0x81, 0, 0, 0])]
}

#[test]
fn forged_packets_are_in_no_sum() {
    if !namespaces() {
        return;
    }
    for (protocol, kind) in [
        ("atp", Protocol::Atp),
        ("esa", Protocol::Esa),
        ("p4inc", Protocol::P4inc),
        ("switchml", Protocol::SwitchMl),
    ] {
        let local = kind.has_services();
        let hosts = if local { &["w1", "w2", "x"][..] } else { &["w1", "w2", "ps", "x"] };
        let parts = if protocol == "switchml" { "partitions = 2\n" } else { "" };
        let job = format!(
            "protocol = \"{protocol}\"\n[topology]\nkind = \"star\"\nworkers = 2\n\
             [switch]\npool = {POOL}\n{parts}[[job]]\nslots = 16\nwindow = 16\n\
             workload = {{ kind = \"random\", tensors = 20, elements = 2000 }}\n"
        );
        let net = Net::with(&job, hosts);
        let controller = net.controller();
        let said = controller.output(Stream::Out);
        let epoch = said.lines().find_map(|line| line.split_once("epoch ")).unwrap().1;
        let epoch = Epoch::new(epoch.trim().parse().unwrap()).unwrap();
        let _server = (!local).then(|| net.server());
        let frames = forged(kind, epoch, hosts.len() as u8 - 1);
        let over = AtomicBool::new(false);
        let mut outsider = net
            .run_in("x", || Device::open(Sockets::Packet, &Config::switch_port("eth0")))
            .unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for some in frames.chunks(16).cycle() {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    for frame in some.iter().flat_map(|frame| disguised(frame)) {
                        // Frames that the link does not accept now are sent again soon.
                        let _ = outsider.send(&frame);
                    }
                    let _ = outsider.flush();
                    // A flood would take processor time from the job.
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            // Workers join the run that was admitted.
            let workers = [0, 1].map(|index| net.worker(index));
            let ends = workers.each_ref().map(ended);
            over.store(true, Ordering::Relaxed);
            for (worker, (success, errors)) in workers.iter().zip(ends) {
                assert!(success, "{protocol}: {errors}");
                let output = worker.output(Stream::Out);
                assert!(output.contains("40000 values summed, 40000 of them compared"), "{output}");
            }
        });
    }
}
