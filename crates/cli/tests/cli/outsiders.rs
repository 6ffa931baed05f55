//! A host on a port of the switch that takes no part in the job, and sends forged results all the time.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tributary_netio::FrameIo;
use tributary_netio::device::{Config, Device, Kind as Sockets};
use tributary_testbed::Stream;
use tributary_wire::agg::Repr;
use tributary_wire::{
    AggregatorIndex, Bitmap, Ecn, Envelope, Epoch, Flags, Host, JobId, Kind, Mac, Protocol,
    Sequence, Service, emit_frame, values,
};

use crate::by_hand::{Net, ended};
use crate::command::namespaces;

const POOL: u32 = 64;
const VALUES: u16 = 64;

fn host(number: u8) -> Host {
    let ip = Ipv4Addr::new(10, 0, 1, number);
    Host { mac: Mac([2, 0, 10, 0, 1, number]), ip }
}

/// Results for both workers, as if from the parameter server at `ps`, of all first fragments, at all
/// aggregators: the right ones are among them.
fn results(protocol: Protocol, epoch: Epoch, ps: u8) -> Vec<Vec<u8>> {
    let service = if protocol.has_services() { Service::new(1) } else { Service::FORWARDED };
    let result = |worker: u8, kind, sequence, index| {
        let repr = Repr {
            protocol,
            kind,
            flags: Flags::NONE,
            priority: service.get(),
            job: JobId::new(1).unwrap(),
            epoch,
            values: VALUES,
            sequence: Sequence(sequence),
            bitmap: Bitmap(0b11),
            index: AggregatorIndex(index),
        };
        let envelope = Envelope { source: host(ps), destination: host(worker), ecn: Ecn::Ect0 };
        let mut frame = Vec::new();
        let payload = emit_frame(&mut frame, &envelope, &repr);
        values::write_i32(payload, &vec![0x0bad_cafe; usize::from(VALUES)]);
        frame
    };
    let kinds = [Kind::Parameter, Kind::Reply];
    let all = (0..16).flat_map(|sequence| (0..POOL).map(move |index| (sequence, index)));
    all.flat_map(|(sequence, index)| {
        [1, 2].into_iter().zip(kinds).map(move |(worker, kind)| (worker, kind, sequence, index))
    })
    .map(|(worker, kind, sequence, index)| result(worker, kind, sequence, index))
    .collect()
}

/// As they are, and behind tags of which kernels and cards make nothing.
fn disguised(frame: &[u8]) -> [Vec<u8>; 3] {
    let behind = |tag: &[u8]| [&frame[..12], tag, &frame[12..]].concat();
    [frame.to_vec(), behind(&[0x81, 0, 0, 0]), behind(&[0x88, 0xa8, 0, 0, 0x81, 0, 0, 0])]
}

#[test]
fn forged_results_are_in_no_sum() {
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
        let controller = net.controller(&net.tokens());
        let said = controller.output(Stream::Out);
        let epoch = said.lines().find_map(|line| line.split_once("epoch ")).unwrap().1;
        let epoch = Epoch::new(epoch.trim().parse().unwrap()).unwrap();
        let _server = (!local).then(|| net.server());
        let frames = results(kind, epoch, hosts.len() as u8 - 1);
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
                        // What the link does not take now is sent again soon.
                        let _ = outsider.send(&frame);
                    }
                    let _ = outsider.flush();
                    // A flood would take the processors from the others.
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            // Workers join the run that was admitted.
            let tokens = net.tokens();
            let workers = [0, 1].map(|index| net.worker(index, &tokens));
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
