//! Benchmarks fixed-point conversion against a plain copy of the same bytes.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tributary_protocol::fixed::{Rounding, Scale, accumulate, decode, encode, limit};

fn fixed(c: &mut Criterion) {
    let scale = Scale::new(1_000_000.0).expect("a positive scale");
    let mut group = c.benchmark_group("fixed");
    for len in [64usize, 256, 2048] {
        let values: Vec<f32> = (0..len).map(|i| (i as f32).sin()).collect();
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_be_bytes()).collect();
        let mut payload = vec![0u8; 4 * len];
        let mut out = vec![0f32; len];
        let mut sums = vec![0i32; len];
        assert!(encode(&values, scale, limit(8), &mut payload));
        group.throughput(Throughput::Bytes(4 * len as u64));
        group.bench_function(BenchmarkId::new("memcpy", len), |b| {
            b.iter(|| black_box(&mut payload).copy_from_slice(black_box(&bytes)));
        });
        group.bench_function(BenchmarkId::new("encode", len), |b| {
            b.iter(|| encode(black_box(&values), scale, limit(8), black_box(&mut payload)));
        });
        group.bench_function(BenchmarkId::new("decode", len), |b| {
            b.iter(|| decode(black_box(&payload), scale, black_box(&mut out)));
        });
        // As when a worker receives a result: count its own values before the sums overwrite them.
        let mut rounding = Rounding::default();
        group.bench_function(BenchmarkId::new("count and decode", len), |b| {
            b.iter(|| {
                rounding.count(black_box(&values), scale, false);
                decode(black_box(&payload), scale, black_box(&mut out));
            });
        });
        black_box(rounding);
        group.bench_function(BenchmarkId::new("accumulate", len), |b| {
            b.iter(|| accumulate(black_box(&mut sums), black_box(&payload)));
        });
    }
    group.finish();
}

criterion_group!(benches, fixed);
criterion_main!(benches);
