//! Values: each is added modulo 2^32, for each packet size.

use super::cases;
use crate::lab::Lab;
use crate::lab::Outcome::*;
use crate::scene::{A, PS, embedded_rack, rack, sum};
use crate::target::Build;

cases!("sums": values_32, values_62_64, values_256, values_2048);

fn values_32() {
    wrap_around(rack(Build::PATIENT));
}

fn values_62_64() {
    for values in [62, 64] {
        wrap_around(rack(Build { values, ..Build::PATIENT }));
    }
}

fn values_256() {
    wrap_around(rack(Build { values: 256, ..Build::PATIENT }));
}

/// Only on the embedded switch: compiling 2048 values for BMv2 takes about a minute.
fn values_2048() {
    wrap_around(embedded_rack(Build { values: 2048, ..Build::PATIENT }));
}

/// Extremes, carries out of each byte and numbers of both signs, at each position in turn.
fn wrap_around(mut lab: Lab) {
    const HARD: [i32; 14] = [
        0,
        1,
        -1,
        i32::MAX,
        i32::MIN,
        i32::MAX - 1,
        i32::MIN + 1,
        0xff,
        0x100,
        0xffff,
        0x1_0000,
        0x00ff_ffff,
        -0x0100_0000,
        0x7fff_0000,
    ];
    let n = lab.build().values;
    for (cell, step) in [1usize, 3, 5, 9].into_iter().enumerate() {
        let part = |worker: usize| -> Vec<i32> {
            (0..n).map(|i| HARD[(i * step + worker * (cell + 1) + i / 14) % 14]).collect()
        };
        let parts = [part(0), part(1), part(2)];
        let frame = |w: usize| A.gradient(w, 7, cell as u32, &parts[w]);
        lab.check_gone(1, &frame(0).bytes(), (A.slot, Absorbed));
        lab.check_gone(2, &frame(1).bytes(), (A.slot, Added));
        let total = sum(&[&parts[0], &parts[1], &parts[2]]);
        let exact = |i: usize| parts.iter().map(|part| i64::from(part[i])).sum::<i64>();
        assert!((0..n).any(|i| exact(i) != i64::from(total[i])), "some sum wraps around");
        let whole = frame(2).bitmap(0b111).values(&total);
        lab.check(3, &frame(2).bytes(), (A.slot, Completed), &[(PS, whole.bytes())]);
    }
}
