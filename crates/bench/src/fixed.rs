//! Fixed-point conversion at the end hosts, compared with memcpy over the same bytes.

use std::hint::black_box;
use std::time::Instant;

use tributary_protocol::fixed::{self, Scale};

use super::Spread;
use crate::Args;
use tributary_job::report::{bytes, table};

/// Bytes of `f32` per repetition.
const VOLUME: usize = 1 << 30;

pub(super) fn run(args: &Args) {
    println!("\nFixed-point conversion, one core: GB/s of f32, median (range)");
    let mut rows = table(&["buffer", "to fixed point", "from fixed point", "memcpy"]);
    // In the first-level cache, in the second, and in memory.
    for values in [2_048, 65_536, 16 << 20] {
        let numbers: Vec<f32> = (0..values).map(|i| (i as f32).sin()).collect();
        let mut payload = vec![0u8; 4 * values];
        let mut back = vec![0f32; values];
        let scale = Scale::new(1e6).expect("a usable scale");
        let limit = fixed::limit(8);
        let encode = rate(args, values, || {
            black_box(fixed::encode(black_box(&numbers), scale, limit, black_box(&mut payload)));
        });
        let decode = rate(args, values, || {
            fixed::decode(black_box(&payload), scale, black_box(&mut back));
        });
        let copy = rate(args, values, || {
            black_box(&mut back).copy_from_slice(black_box(&numbers));
        });
        rows.add_row([bytes(4 * values as u64), encode.text(2), decode.text(2), copy.text(2)]);
    }
    println!("{rows}");
}

fn rate(args: &Args, values: usize, mut pass: impl FnMut()) -> Spread {
    let passes = (VOLUME / (4 * values)).max(1);
    pass();
    let measured = (0..args.repeat).map(|_| {
        let start = Instant::now();
        for _ in 0..passes {
            pass();
        }
        (passes * 4 * values) as f64 / start.elapsed().as_secs_f64() / 1e9
    });
    Spread::of(measured.collect())
}
