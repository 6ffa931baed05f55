//! Programs from P4 source, through the front end.

use proptest::prelude::*;
use tributary_dataplane::{EgressInput, IngressInput, Packet, Pipeline, Verdict};

use super::common::atp::{self, BITMAP, SERVER_PORT, VALUES};

fn send(pipeline: &mut Pipeline, packet: &mut Packet, worker: u32, frame: &[u8]) -> Verdict {
    let input = IngressInput { port: worker as u16 + 1, ..Default::default() };
    let ingress = pipeline.ingress(packet, frame, &input);
    assert!(!ingress.resubmit);
    ingress.verdict
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn two_workers_values_leave_as_their_sums(
        a in proptest::collection::vec(any::<u32>(), 64),
        b in proptest::collection::vec(any::<u32>(), 64),
        index in 0u32..4096,
    ) {
        let mut pipeline = atp::switch(64);
        let mut packet = pipeline.new_packet();
        let first = atp::gradient(0, 7, index, &a);
        prop_assert_eq!(send(&mut pipeline, &mut packet, 0, &first), Verdict::Drop);
        // Repeating it is a duplicate, not a contribution.
        prop_assert_eq!(send(&mut pipeline, &mut packet, 0, &first), Verdict::Drop);
        let second = atp::gradient(1, 7, index, &b);
        prop_assert_eq!(send(&mut pipeline, &mut packet, 1, &second), Verdict::Unicast(SERVER_PORT));
        let mut out = Vec::new();
        prop_assert!(!pipeline.egress(&mut packet, &EgressInput::default(), &mut out).drop);
        let mut expected = second;
        expected[BITMAP..BITMAP + 4].copy_from_slice(&3u32.to_be_bytes());
        for (i, (a, b)) in a.iter().zip(&b).enumerate() {
            expected[VALUES + 4 * i..][..4].copy_from_slice(&a.wrapping_add(*b).to_be_bytes());
        }
        prop_assert_eq!(out, expected);
    }
}

#[test]
fn a_frame_with_a_bad_checksum_is_dropped_and_plain_traffic_passes_unchanged() {
    let mut pipeline = atp::switch(32);
    let mut packet = pipeline.new_packet();
    let mut frame = atp::gradient(0, 0, 0, &[1; 32]);
    frame[24] ^= 1;
    assert_eq!(send(&mut pipeline, &mut packet, 0, &frame), Verdict::Drop);
    let mut plain = atp::SERVER_MAC.to_vec();
    plain.extend([2, 0, 0, 0, 0, 1, 0x86, 0xdd, 1, 2, 3]);
    assert_eq!(send(&mut pipeline, &mut packet, 0, &plain), Verdict::Unicast(SERVER_PORT));
    let mut out = Vec::new();
    pipeline.egress(&mut packet, &EgressInput::default(), &mut out);
    assert_eq!(out, plain);
}
