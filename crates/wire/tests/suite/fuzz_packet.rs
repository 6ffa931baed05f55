//! Fuzz target: decoding arbitrary bytes from the wire.
//!
//! Under `cargo test` it runs briefly on random input. `cargo bolero test fuzz_packet` runs a
//! fuzzer.

use tributary_wire::agg::Packet;
use tributary_wire::{emit_frame, values};

#[test]
fn fuzz_packet() {
    bolero::check!().for_each(|input: &[u8]| {
        // The first byte selects whether the rest is a whole frame or the contents of valid outer
        // headers. The latter lets random input reach the inner checks without a fuzzer.
        let Some((mode, rest)) = input.split_first() else {
            return;
        };
        let mut frame = Vec::new();
        if mode % 2 == 1 {
            let bytes = tributary_wire::golden::VECTORS[usize::from(*mode) % 16].bytes();
            frame.extend_from_slice(&bytes[..42.min(bytes.len())]);
            let length = (36 + rest.len().saturating_sub(28)).min(1400) as u16;
            frame[38..40].copy_from_slice(&length.to_be_bytes());
            frame[16..18].copy_from_slice(&(length + 20).to_be_bytes());
            frame[24..26].fill(0);
            let sum = tributary_wire::ipv4::checksum(frame[14..34].try_into().unwrap());
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        frame.extend_from_slice(rest);
        let Ok(packet) = Packet::new_checked(frame.as_slice()) else {
            return;
        };
        let words: Vec<i32> = packet.values_i32().collect();
        assert_eq!(words.len(), usize::from(packet.values()));
        let mut again = Vec::new();
        values::write_i32(emit_frame(&mut again, &packet.envelope(), packet.repr()), &words);
        assert_eq!(Packet::new_checked(again.as_slice()).unwrap().repr(), packet.repr());
    });
}
