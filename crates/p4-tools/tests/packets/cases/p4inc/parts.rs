//! Results that not all workers need, and contributions of zeros, which lack them.

use super::{Job, LOCAL, LONE, SERVED, UNIT, rack, values};
use crate::cases::{cases, switchml};
use crate::entries::Entry;
use crate::frames::{
    ALL_BUT, COLLISION, Frame, GRADIENT, MARKED, OVERFLOW, PARAMETER, QUERY, REPLY, RESEND, mac,
};
use crate::lab::{Lab, NO_JOB, Outcome::*};
use crate::scene::{PS, sum};

cases!("parts":
    scattered, gathered, of_other_workers, flags_stay, again_with_values, early, the_owner_gives_values,
    where_servers_sum, for_all_with_values, other_kinds, wrong_lengths,
);

/// The same job in either program, with its switch.
fn everywhere(check: impl Fn(&mut Lab, Job)) {
    check(&mut rack(), LOCAL);
    check(&mut switchml::rack(), switchml::A);
}

/// Without values.
fn zeros(job: Job, worker: usize, cell: u32, audience: u8) -> Frame {
    job.gradient(worker, 8, cell, &[]).audience(audience)
}

/// Each worker gets the sum of one fragment; the others learn that it is complete.
fn scattered() {
    everywhere(|lab, job| {
        let [x, y, z] = values(lab);
        for (worker, cell) in (0..3).zip(2..) {
            let of =
                |from, values: &[i32]| job.gradient(from, 8, cell, values).audience(1 + worker);
            lab.check_gone(1, &of(0, &x).bytes(), (job.slot, Absorbed));
            lab.check_gone(2, &of(1, &y).bytes(), (job.slot, Added));
            let last = of(2, &z);
            let result = job.published(&last, &sum(&[&x, &y, &z]));
            let out = job.for_audience(&result);
            assert_eq!(out.iter().filter(|(_, frame)| frame.len() > 70).count(), 1);
            lab.check(3, &last.bytes(), (job.slot, Completed), &out);
        }
    });
}

/// One worker gives the values of a fragment. All others get them, whichever worker sends last.
fn gathered() {
    everywhere(|lab, job| {
        let [x] = values(lab);
        for (owner, cell) in (0..3_usize).zip(2..) {
            let audience = ALL_BUT | (1 + owner as u8);
            let of = |worker: usize| match worker == owner {
                true => job.gradient(worker, 8, cell, &x).audience(audience),
                false => zeros(job, worker, cell, audience),
            };
            lab.check_gone(1, &of(0).bytes(), (job.slot, Absorbed));
            lab.check_gone(2, &of(1).bytes(), (job.slot, Added));
            let result = job.published(&of(2), &x);
            let out = job.for_audience(&result);
            assert_eq!(out.iter().filter(|(_, frame)| frame.len() > 70).count(), 2);
            lab.check(3, &of(2).bytes(), (job.slot, Completed), &out);
        }
    });
}

/// An audience may name a worker that is not there: then nobody gets values, or all do.
fn of_other_workers() {
    everywhere(|lab, job| {
        let [x] = values(lab);
        for (audience, cell) in
            [4, 32, 33, 127, ALL_BUT | 4, ALL_BUT].into_iter().zip([2, 3, 4, 5, 2, 3])
        {
            let round = if cell < 4 && audience & ALL_BUT != 0 { 24 } else { 8 };
            let of = |worker| job.gradient(worker, round, cell, &x).audience(audience);
            lab.check_gone(1, &of(0).bytes(), (job.slot, Absorbed));
            lab.check_gone(2, &of(1).bytes(), (job.slot, Added));
            let out = job.for_audience(&job.published(&of(2), &sum(&[&x, &x, &x])));
            lab.check(3, &of(2).bytes(), (job.slot, Completed), &out);
        }
    });
}

fn flags_stay() {
    everywhere(|lab, job| {
        let [x] = values(lab);
        let audience = ALL_BUT | 1;
        let first = job.gradient(0, 8, 2, &x).audience(audience).flags(OVERFLOW | MARKED);
        lab.check_gone(1, &first.bytes(), (job.slot, Absorbed));
        lab.check_gone(2, &zeros(job, 1, 2, audience).bytes(), (job.slot, Added));
        let last = zeros(job, 2, 2, audience);
        let result = job.published(&last, &x).flags(OVERFLOW | MARKED);
        lab.check(3, &last.bytes(), (job.slot, Completed), &job.for_audience(&result));
    });
}

/// Who asks again gets the values, whether it needs them or not; but nothing answers a packet without values.
fn again_with_values() {
    everywhere(|lab, job| {
        let [x] = values(lab);
        let audience = ALL_BUT | 1;
        let own = job.gradient(0, 8, 2, &x).audience(audience);
        let bare = zeros(job, 1, 2, audience);
        let full = bare.clone().values(&vec![0; x.len()]);
        lab.check_gone(1, &own.bytes(), (job.slot, Absorbed));
        for flags in [0, RESEND] {
            lab.check_gone(1, &own.clone().flags(flags).bytes(), (job.slot, Duplicate));
        }
        lab.check_gone(2, &bare.bytes(), (job.slot, Added));
        for again in [&bare, &full] {
            lab.check_gone(2, &again.clone().flags(RESEND).bytes(), (job.slot, Duplicate));
        }
        let last = zeros(job, 2, 2, audience);
        let out = job.for_audience(&job.published(&last, &x));
        lab.check(3, &last.bytes(), (job.slot, Completed), &out);
        for flags in [0, RESEND] {
            lab.check_gone(2, &bare.clone().flags(flags).bytes(), (job.slot, Duplicate));
            for (port, again) in [(1, &own), (2, &full)] {
                let again = again.clone().flags(flags);
                let reply = job.repeated(&again, &x).bytes();
                lab.check(port, &again.bytes(), (job.slot, Repeated), &[(port, reply)]);
            }
        }
    });
}

/// What comes too early is dropped if it lacks values.
fn early() {
    everywhere(|lab, job| {
        let [x] = values(lab);
        lab.check_gone(1, &job.gradient(0, 8, 2, &x).bytes(), (job.slot, Absorbed));
        let early = job.gradient(0, 24, 2, &[]).audience(ALL_BUT | 2);
        lab.check_gone(1, &early.bytes(), (job.slot, Asynchronous));
    });
}

/// Otherwise a job could have results sent that are longer than all that its workers send.
fn the_owner_gives_values() {
    everywhere(|lab, job| {
        for audience in [ALL_BUT | 1, ALL_BUT | 4, ALL_BUT | 32, ALL_BUT | 33, ALL_BUT, 0xff] {
            let bare = zeros(job, 0, 2, audience);
            lab.check_gone(1, &bare.bytes(), (job.slot, Malformed));
        }
        // In a scatter, everybody gives values.
        for audience in [1, 2, 32] {
            lab.check_gone(1, &zeros(job, 0, 2, audience).bytes(), (NO_JOB, Malformed));
        }
        lab.check_gone(1, &zeros(job, 0, 2, ALL_BUT | 2).bytes(), (job.slot, Absorbed));
    });
}

/// Where a server has the results, everybody gives values. A switch passes no packet on that lacks them: it could
/// become longer on the way.
fn where_servers_sum() {
    let mut lab = rack();
    let cell = UNIT.cell(0);
    let frames = [
        (UNIT, zeros(UNIT, 0, cell, ALL_BUT | 2), Malformed),
        (LONE, zeros(LONE, 0, LONE.cell(0), ALL_BUT | 2), Malformed),
        (SERVED, zeros(SERVED, 0, 0, ALL_BUT | 2), Malformed),
        (UNIT, zeros(UNIT, 0, cell, ALL_BUT | 2).flags(RESEND | COLLISION), Malformed),
        (UNIT, zeros(UNIT, 0, cell + 4, ALL_BUT | 2), Outside),
    ];
    for (job, bare, outcome) in frames {
        lab.check_gone(1, &bare.bytes(), (job.slot, outcome));
    }
    // A switch on the path.
    let far = Job { id: 9, slot: 9, service: 77, ..LOCAL };
    lab.insert(&[Entry::pass(far.id, 1, GRADIENT, far.slot), Entry::forward(far.id, far.service)]);
    let bare = zeros(far, 0, 15, ALL_BUT | 2).with(|f| f.destination = mac(PS));
    lab.check_gone(1, &bare.bytes(), (far.slot, Malformed));
}

/// Values are not left out where all need them.
fn for_all_with_values() {
    everywhere(|lab, job| {
        lab.check_gone(1, &zeros(job, 0, 2, 0).bytes(), (NO_JOB, Malformed));
    });
}

/// Only contributions have an audience when they come to a switch.
fn other_kinds() {
    everywhere(|lab, job| {
        let [x] = values(lab);
        for kind in [PARAMETER, REPLY, QUERY] {
            let values: &[i32] = if kind == QUERY { &[] } else { &x };
            for values in [values, &[]] {
                let frame = job.frame(kind, PS, 1, 8, 2).values(values).audience(1);
                lab.check_gone(PS, &frame.bytes(), (NO_JOB, Malformed));
            }
        }
    });
}

fn wrong_lengths() {
    everywhere(|lab, job| {
        let [x] = values(lab);
        let bare = zeros(job, 0, 2, ALL_BUT | 2);
        for frame in [
            bare.clone().values(&x[1..]),
            bare.clone().values(&x[..1]),
            bare.clone().with(|f| f.count = Some(32)),
            bare.clone().with(|f| f.udp_length = Some(40)),
            bare.clone().with(|f| f.total_length = Some(60)),
            bare.clone().values(&x).with(|f| f.count = Some(0)),
            bare.clone().with(|f| f.reserved = 1),
            bare.clone().with(|f| f.index = u32::MAX),
        ] {
            lab.check_gone(1, &frame.bytes(), (NO_JOB, Malformed));
        }
        lab.check_gone(1, &bare.bytes(), (job.slot, Absorbed));
        assert_eq!(bare.kind, GRADIENT);
    });
}
