//! The three eviction rules that the program can be compiled with.

use tributary_p4::Architecture;

use super::{A, B, furnished, values};
use crate::cases::cases;
use crate::frames::COLLISION;
use crate::lab::Lab;
use crate::lab::Outcome::*;
use crate::scene::{PS, sum};
use crate::target::{ALWAYS, Build, COIN};

cases!("esa::variants": always, coin);

fn always() {
    let mut lab = furnished(Lab::new(Build { preemption: ALWAYS, ..Build::ESA }));
    let [x, y, z] = values(&lab);
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).priority(255).bytes(), (A.slot, Absorbed));
    lab.check_gone(2, &A.gradient(1, 7, 3, &y).priority(255).bytes(), (A.slot, Added));
    let weak = B.gradient(0, 1, 3, &z).priority(1);
    let evicted = A.evicted(&weak, 7, 0b011, &sum(&[&x, &y]));
    lab.check(2, &weak.bytes(), (B.slot, Preempted), &[(PS, evicted.bytes())]);
    let weak = A.gradient(0, 7, 3, &x).priority(1);
    let evicted = B.evicted(&weak, 1, 0b001, &z);
    lab.check(1, &weak.bytes(), (A.slot, Preempted), &[(B.ps, evicted.bytes())]);
    lab.check_gone(1, &weak.bytes(), (A.slot, Duplicate));
}

/// About half of the packets, whatever the priorities, and no values are lost. Each switch is
/// tested alone, because random choices differ.
fn coin() {
    [Architecture::V1model, Architecture::Tna].into_iter().for_each(toss);
}

fn toss(architecture: Architecture) {
    for (holder, packet) in [(255, 1), (1, 255)] {
        let build = Build { preemption: COIN, ..Build::ESA };
        let mut lab = furnished(Lab::alone(architecture, build));
        let [x, y] = values(&lab);
        let mut evictions = 0;
        for sequence in 0..200 {
            let first = A.gradient(0, sequence, 3, &x).priority(holder);
            lab.check_gone(1, &first.bytes(), (A.slot, Absorbed));
            let other = B.gradient(0, sequence, 3, &y).priority(packet);
            let evicted = A.evicted(&other, sequence, 0b001, &x).bytes();
            let failed = other.clone().flags(COLLISION).bytes();
            let out = lab.send(2, &other.bytes());
            let won = out == [(PS, evicted)];
            assert!(won || out == [(B.ps, failed)], "{out:?}");
            evictions += u32::from(won);
            let (job, total) = if won { (B, &y) } else { (A, &x) };
            lab.send(job.ps, &job.parameter(sequence, 3, total).bytes());
            lab.counted();
        }
        assert!((60..=140).contains(&evictions), "{evictions} of 200");
    }
}
