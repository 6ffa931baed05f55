//! Fixed-point conversion at the end hosts, compared with memcpy over the same bytes.

use std::hint::black_box;

use tributary_base::decimal_size;
use tributary_protocol::fixed::{self, Rounding, Scale};

use super::{Spread, processor_time};
use crate::bench::Args;
use tributary_run::report::table;

/// Bytes of `f32` per repetition.
const VOLUME: usize = 1 << 30;

pub(super) fn run(args: &Args) {
    println!(
        "\nFixed-point conversion, one core, {}: GB/s of 32-bit values, median (range)",
        fixed::instructions()
    );
    let mut rows = table(&["buffer", "kernel", "GB/s", "of memcpy"]);
    // In the first-level cache, in the second, and in memory.
    for values in [2_048, 65_536, 16 << 20] {
        let mut buffers = Buffers::new(values);
        let mut rates = vec![Vec::new(); Kernel::ALL.len()];
        // In turns, so that the machine's other load affects all kernels.
        for _ in 0..args.repeat {
            for (kernel, rates) in Kernel::ALL.iter().zip(&mut rates) {
                rates.push(buffers.rate(*kernel));
            }
        }
        let spreads: Vec<Spread> = rates.into_iter().map(Spread::of).collect();
        for (kernel, spread) in Kernel::ALL.iter().zip(&spreads) {
            rows.add_row([
                decimal_size(4 * values as u64),
                kernel.name().to_owned(),
                spread.text(1),
                format!("{:.0} %", 100.0 * spread.median / spreads[0].median),
            ]);
        }
    }
    println!("{rows}");
}

/// What is measured. The job files' default scale is a power of two, for which conversion is
/// cheaper.
#[derive(Clone, Copy, Debug)]
enum Kernel {
    Copy,
    Encode(f64),
    Decode(f64),
    Accumulate,
    Count,
}

impl Kernel {
    const ALL: [Self; 7] = [
        Self::Copy,
        Self::Encode(POWER),
        Self::Encode(OTHER),
        Self::Decode(POWER),
        Self::Decode(OTHER),
        Self::Accumulate,
        Self::Count,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Copy => "memcpy",
            Self::Encode(POWER) => "to fixed point, scale 2^20",
            Self::Encode(_) => "to fixed point, scale 10^6",
            Self::Decode(POWER) => "from fixed point, scale 2^20",
            Self::Decode(_) => "from fixed point, scale 10^6",
            Self::Accumulate => "added to sums",
            Self::Count => "rounding counted",
        }
    }
}

/// The default scale of job files, and one that is no power of two.
const POWER: f64 = 1_048_576.0;
const OTHER: f64 = 1e6;

struct Buffers {
    numbers: Vec<f32>,
    payload: Vec<u8>,
    back: Vec<f32>,
    sums: Vec<i32>,
    rounding: Rounding,
}

impl Buffers {
    fn new(values: usize) -> Self {
        Self {
            numbers: (0..values).map(|i| (i as f32).sin()).collect(),
            payload: vec![0; 4 * values],
            back: vec![0.0; values],
            sums: vec![0; values],
            rounding: Rounding::default(),
        }
    }

    fn rate(&mut self, kernel: Kernel) -> f64 {
        let volume = 4 * self.numbers.len();
        let passes = (VOLUME / volume).max(1);
        self.pass(kernel);
        let start = processor_time();
        for _ in 0..passes {
            self.pass(kernel);
        }
        (passes * volume) as f64 / (processor_time() - start).as_secs_f64() / 1e9
    }

    fn pass(&mut self, kernel: Kernel) {
        let scale = |factor| Scale::new(factor).expect("a usable scale");
        let Self { numbers, payload, back, sums, rounding } = black_box(self);
        match kernel {
            Kernel::Copy => back.copy_from_slice(numbers),
            Kernel::Encode(factor) => {
                black_box(fixed::encode(numbers, scale(factor), fixed::limit(8), payload));
            }
            Kernel::Decode(factor) => fixed::decode(payload, scale(factor), back),
            Kernel::Accumulate => fixed::accumulate(sums, payload),
            Kernel::Count => rounding.count(numbers, scale(POWER), false),
        }
    }
}
