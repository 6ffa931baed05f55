//! Packets per second on one core: a program that sums all values of a packet into registers.

#[path = "../tests/suite/common/mod.rs"]
mod common;

use std::hint::black_box;

use common::atp;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tributary_dataplane::{EgressInput, IngressInput, Instance, Pipeline, Verdict};

const POOL: u32 = 4096;

fn sum(c: &mut Criterion) {
    let mut group = c.benchmark_group("sum");
    group.throughput(Throughput::Elements(1));
    for values in [32, 64, 256, 2048] {
        let mut pipeline = Pipeline::load(common::summing(values, POOL.into())).unwrap();
        let mut packet = pipeline.new_packet();
        let mut frame = common::summing_frame(values, 0);
        let mut out = Vec::new();
        let mut index = 0u32;
        group.bench_function(format!("{values} values, both passes"), |b| {
            b.iter(|| {
                // Aggregators are chosen by hash: consecutive packets use distant rows.
                index = index.wrapping_mul(5).wrapping_add(977) % POOL;
                frame[..4].copy_from_slice(&index.to_be_bytes());
                pipeline.ingress(&mut packet, black_box(&frame), &IngressInput::default());
                pipeline.egress(&mut packet, &EgressInput::default(), &mut out);
                black_box(out.len())
            });
        });
        group.bench_function(format!("{values} values, ingress alone"), |b| {
            b.iter(|| {
                index = index.wrapping_mul(5).wrapping_add(977) % POOL;
                frame[..4].copy_from_slice(&index.to_be_bytes());
                pipeline.ingress(&mut packet, black_box(&frame), &IngressInput::default())
            });
        });
    }
    group.finish();
}

/// ATP with two workers: of two packets one occupies an aggregator, the other completes the task
/// and leaves with the sum. Nothing frees the aggregators here, so each first packet finds another
/// task that has been idle for long, and needs a second ingress pass: three passes for two packets.
fn atp(c: &mut Criterion) {
    let mut group = c.benchmark_group("atp");
    group.throughput(Throughput::Elements(2));
    for values in [32, 64, 256, 2048] {
        let mut pipeline = atp::switch(values);
        let mut packet = pipeline.new_packet();
        let numbers: Vec<u32> = (0..values as u32).collect();
        let mut frames = [0, 1].map(|worker| atp::gradient(worker, 0, 0, &numbers));
        let mut out = Vec::new();
        let mut sequence = 0u32;
        let mut left = 0u64;
        group.bench_function(format!("{values} values"), |b| {
            b.iter(|| {
                sequence = sequence.wrapping_add(1);
                let index = sequence.wrapping_mul(2_654_435_761) % POOL;
                for (frame, port) in frames.iter_mut().zip(1..) {
                    frame[atp::SEQUENCE..][..4].copy_from_slice(&sequence.to_be_bytes());
                    frame[atp::INDEX..][..4].copy_from_slice(&index.to_be_bytes());
                    // Each task finds an aggregator that has been idle for long.
                    let time_us = u64::from(sequence) * 100_000;
                    let mut input = IngressInput { port, time_us, ..Default::default() };
                    let ingress = pipeline.ingress(&mut packet, black_box(frame), &input);
                    if ingress.resubmit {
                        input.instance = Instance::Resubmitted;
                        pipeline.ingress(&mut packet, frame, &input);
                    } else if let Verdict::Unicast(port) = ingress.verdict {
                        let input = EgressInput { port, ..Default::default() };
                        pipeline.egress(&mut packet, &input, &mut out);
                        left += 1;
                    }
                }
                black_box(out.len())
            });
        });
        assert!(left > 0, "the workers' packets did not meet");
    }
    group.finish();
}

criterion_group!(benches, sum, atp);
criterion_main!(benches);
