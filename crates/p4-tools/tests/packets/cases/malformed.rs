//! Packets to our UDP port that break the rules of the headers.

use super::cases;
use crate::frames::{ABSENT, Frame, GRADIENT, PARAMETER, QUERY, REMINDER, REPLY, SWEEP};
use crate::lab::Lab;
use crate::lab::{NO_JOB, Outcome::*};
use crate::scene::{A, B, PS, rack, sum, values};
use crate::target::Build;

cases!("malformed":
    truncated_at_every_byte, truncated_before_ethernet_ends, lengths_and_counts, unused_flag_bits,
    reserved_bytes,
    other_protocols, other_kinds, index_beyond_the_pool, zero_bitmap, foreign_bits,
    wrong_checksum, every_bit_of_the_checksum, trailer_is_kept,
);

/// Checks that the cell is still free after the refused packets.
fn cell_is_free(lab: &mut Lab, cell: u32) {
    let x = values(lab, 1);
    lab.check_gone(2, &B.gradient(0, 99, cell, &x).bytes(), (B.slot, Absorbed));
}

fn truncated_at_every_byte() {
    let mut lab = rack(Build::PATIENT);
    let whole = A.gradient(0, 7, 3, &values(&lab, 1)).bytes();
    for length in 14..whole.len() {
        lab.check_gone(1, &whole[..length], (NO_JOB, Malformed));
    }
    for frame in [A.query(0, 7, 3), A.parameter(7, 3, &values(&lab, 1))] {
        let whole = frame.bytes();
        for length in (14..whole.len()).step_by(3) {
            lab.check_gone(PS, &whole[..length], (NO_JOB, Malformed));
        }
    }
    cell_is_free(&mut lab, 3);
}

/// No link carries these, but a port of the embedded switch need not be a link.
fn truncated_before_ethernet_ends() {
    let mut lab = crate::scene::embedded_rack(Build::PATIENT);
    let whole = A.gradient(0, 7, 3, &values(&lab, 1)).bytes();
    for length in 0..14 {
        lab.check_gone(1, &whole[..length], (NO_JOB, Malformed));
    }
}

/// Count, UDP length and IPv4 length must agree with each other and with the compiled program.
fn lengths_and_counts() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    let n = x.len() as u16;
    let gradient = || A.gradient(0, 7, 3, &x);
    let full = 8 + 28 + 4 * n;
    let mut wrong = Vec::new();
    for count in [0, 1, n - 1, n + 1, 2 * n, u16::MAX] {
        wrong.push((1, gradient().with(|f| f.count = Some(count))));
    }
    for length in [0, 8, 35, 36, full - 4, full - 1, full + 1, full + 4, u16::MAX] {
        wrong.push((1, gradient().with(|f| f.udp_length = Some(length))));
        wrong.push((1, gradient().with(|f| f.total_length = Some(length.saturating_add(20)))));
    }
    // All three agree on another number of values than the program's.
    for count in [0, 1, n - 1, n + 1, 2 * n] {
        let other = vec![1; usize::from(count)];
        wrong.push((1, gradient().values(&other)));
        wrong.push((PS, A.parameter(7, 3, &other)));
        wrong.push((PS, A.reply(0, 7, 3, &other)));
    }
    // Kinds without values, with values.
    wrong.push((PS, A.query(0, 7, 3).values(&x)));
    wrong.push((PS, A.query(0, 7, 3).values(&[1])));
    wrong.push((PS, A.query(0, 7, 3).with(|f| f.count = Some(n))));
    wrong.push((PS, A.query(0, 7, 3).with(|f| f.udp_length = Some(37))));
    wrong.push((PS, A.query(0, 7, 3).with(|f| f.total_length = Some(55))));
    for (port, frame) in wrong {
        lab.check_gone(port, &frame.bytes(), (NO_JOB, Malformed));
    }
    cell_is_free(&mut lab, 3);
}

fn unused_flag_bits() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    for bits in 1..16 {
        let flags = bits << 4;
        for (port, frame) in [
            (1, A.gradient(0, 7, 3, &x)),
            (PS, A.parameter(7, 3, &x)),
            (PS, A.reply(0, 7, 3, &x)),
            (PS, A.query(0, 7, 3)),
        ] {
            lab.check_gone(port, &frame.flags(flags).bytes(), (NO_JOB, Malformed));
        }
    }
    cell_is_free(&mut lab, 3);
}

/// The bytes behind the rack must be zero: in ATP all results are for all.
fn reserved_bytes() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    for bit in 0..24 {
        for (port, frame) in [(1, A.gradient(0, 7, 3, &x)), (PS, A.parameter(7, 3, &x))] {
            let frame = frame.with(|f| match bit {
                0..16 => f.reserved = 1 << bit,
                _ => f.audience = 1 << (bit - 16),
            });
            lab.check_gone(port, &frame.bytes(), (NO_JOB, Malformed));
        }
    }
    cell_is_free(&mut lab, 3);
}

fn other_protocols() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    for protocol in (0..=255).filter(|&protocol| protocol != 1) {
        let frame = A.gradient(0, 7, 3, &x).with(|f| f.protocol = protocol);
        lab.check_gone(1, &frame.bytes(), (NO_JOB, Malformed));
    }
    cell_is_free(&mut lab, 3);
}

fn other_kinds() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    let known = [GRADIENT, PARAMETER, REPLY, QUERY, SWEEP];
    for kind in (0..=255).filter(|kind| !known.contains(kind)) {
        let frame = A.gradient(0, 7, 3, &x).with(|f| f.kind = kind);
        // Kinds of other protocols are recognised, but have no entry.
        let outcome = if [REMINDER, ABSENT].contains(&kind) { Rejected } else { Malformed };
        lab.check_gone(1, &frame.bytes(), (NO_JOB, outcome));
        let bare = A.query(0, 7, 3).with(|f| f.kind = kind);
        lab.check_gone(PS, &bare.bytes(), (NO_JOB, Malformed));
    }
    cell_is_free(&mut lab, 3);
}

fn index_beyond_the_pool() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    let pool = lab.build().pool;
    for index in [pool, pool + 1, pool * 2, 0x1_0000, 0x8000_0000, u32::MAX] {
        for (port, frame) in [
            (1, A.gradient(0, 7, index, &x)),
            (PS, A.parameter(7, index, &x)),
            (PS, A.reply(0, 7, index, &x)),
            (PS, A.query(0, 7, index)),
        ] {
            lab.check_gone(port, &frame.bytes(), (NO_JOB, Malformed));
        }
    }
    for cell in 0..pool {
        cell_is_free(&mut lab, cell);
    }
}

fn zero_bitmap() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    for flags in 0..16 {
        let frame = A.gradient(0, 7, 3, &x).bitmap(0).flags(flags);
        lab.check_gone(1, &frame.bytes(), (A.slot, Malformed));
    }
    cell_is_free(&mut lab, 3);
}

/// No port may send for workers that are not behind it, whatever the flags.
fn foreign_bits() {
    let mut lab = rack(Build::PATIENT);
    let [x, y] = [1, 2].map(|seed| values(&lab, seed));
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
    for flags in 0..16 {
        for bitmap in [0b010, 0b011, 0b100, 0b111, 0b1000, 0x8000_0000, 0x8000_0001, u32::MAX] {
            let frame = A.gradient(0, 7, 3, &y).bitmap(bitmap).flags(flags);
            lab.check_gone(1, &frame.bytes(), (A.slot, Malformed));
        }
    }
    lab.check_gone(2, &A.gradient(1, 7, 3, &y).bytes(), (A.slot, Added));
    let last = A.gradient(2, 7, 3, &y);
    let whole = last.clone().bitmap(0b111).values(&sum(&[&x, &y, &y]));
    lab.check(3, &last.bytes(), (A.slot, Completed), &[(PS, whole.bytes())]);
}

fn wrong_checksum() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    for (port, frame) in [
        (1, A.gradient(0, 7, 3, &x)),
        (PS, A.parameter(7, 3, &x)),
        (PS, A.query(0, 7, 3)),
        (5, Frame::new(0, 5, 6).with(|f| f.udp_destination = 53)),
    ] {
        for checksum in [0, 1, 0xffff] {
            let frame = frame.clone().with(|f| f.checksum = Some(checksum));
            lab.check_gone(port, &frame.bytes(), (NO_JOB, Malformed));
        }
    }
    cell_is_free(&mut lab, 3);
}

/// A flipped bit anywhere in the IPv4 header is detected. Changes of the version or the header's
/// length make it another header, whose checksum the switch does not verify.
fn every_bit_of_the_checksum() {
    let mut lab = rack(Build::PATIENT);
    let whole = A.gradient(0, 7, 3, &values(&lab, 1)).bytes();
    for bit in 0..160 {
        let mut frame = whole.clone();
        frame[14 + bit / 8] ^= 0x80 >> (bit % 8);
        let outcome = if bit < 8 { Barred } else { Malformed };
        lab.check_gone(1, &frame, (NO_JOB, outcome));
    }
    cell_is_free(&mut lab, 3);
}

/// Ethernet may pad; bytes after the IPv4 packet pass unchanged.
fn trailer_is_kept() {
    let mut lab = rack(Build::PATIENT);
    let [x, y] = [1, 2].map(|seed| values(&lab, seed));
    let first = B.gradient(0, 7, 3, &x).with(|f| f.trailer = vec![1, 2, 3]);
    lab.check_gone(2, &first.bytes(), (B.slot, Absorbed));
    let last = B.gradient(1, 7, 3, &y).with(|f| f.trailer = vec![0xaa; 7]);
    let whole = last.clone().bitmap(0b11).values(&sum(&[&x, &y]));
    lab.check(3, &last.bytes(), (B.slot, Completed), &[(PS, whole.bytes())]);
    let query = A.query(0, 7, 3).with(|f| f.trailer = vec![0; 30]);
    lab.check(PS, &query.bytes(), (A.slot, Queried), &[(1, query.bytes())]);
}
