//! Packets a second of one core: a program that sums all values of a packet into registers.

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tributary_dataplane::{EgressInput, IngressInput, Pipeline};

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
                // Aggregators are hashed to: neighbouring packets meet distant rows.
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

criterion_group!(benches, sum);
criterion_main!(benches);
