//! Packets with arbitrary content for endpoints in any mode: no endpoint panics, and memory does
//! not grow.

use std::time::Duration;

use proptest::prelude::*;
use tributary_protocol::{Endpoint, ParameterServer, Tensor, Time, Worker};
use tributary_wire::agg::Repr;
use tributary_wire::{
    AggregatorIndex, Audience, Bitmap, Flags, JobId, Kind, Protocol, Rack, Sequence,
};

use crate::p4inc::setup::{EPOCH, FORWARDED, LOCAL, PARTIAL, SWITCHML, Setup, frame, sent};

fn protocol() -> impl Strategy<Value = Protocol> {
    prop_oneof![
        8 => Just(None),
        1 => prop::sample::select(vec![Protocol::Atp, Protocol::Esa, Protocol::P4inc, Protocol::SwitchMl])
            .prop_map(Some),
    ]
    .prop_map(|protocol| protocol.unwrap_or(Protocol::P4inc))
}

/// Sequences near the start, near some windows, and at the end of the range.
fn sequence() -> impl Strategy<Value = u32> {
    prop_oneof![
        6 => 0u32..200,
        1 => (u32::MAX - 20)..=u32::MAX,
        1 => any::<u32>(),
    ]
}

prop_compose! {
    /// A header that resembles a valid one enough to pass most checks.
    fn repr()(
        protocol in protocol(),
        kind in prop::sample::select(Kind::ALL.to_vec()),
        flags in 0u8..16,
        service in prop_oneof![8 => Just(17u8), 1 => any::<u8>()],
        job in prop_oneof![12 => Just(263u16), 1 => 1u16..],
        values in prop_oneof![12 => Just(2u16), 1 => 1u16..5],
        sequence in sequence(),
        bitmap in prop_oneof![4 => Just(7u32), 4 => 0u32..8, 1 => any::<u32>()],
        index in prop_oneof![8 => Just(None), 1 => any::<u32>().prop_map(Some)],
    ) -> (Repr, bool) {
        let index_is_right = index.is_none();
        (Repr {
            protocol,
            kind,
            flags: Flags::from_bits(flags).unwrap(),
            priority: service,
            job: JobId::new(job).unwrap(),
            epoch: EPOCH,
            values: if kind.has_values() { values } else { 0 },
            sequence: Sequence(sequence),
            bitmap: Bitmap(bitmap),
            rack: Rack::NONE,
            audience: Audience::ALL,
            index: AggregatorIndex(index.unwrap_or(0)),
        }, index_is_right)
    }
}

/// The packet, adapted to a job with this setup.
fn suited(setup: Setup, (repr, index_is_right): (Repr, bool)) -> Vec<u8> {
    let mut repr = repr;
    if setup.protocol == Protocol::SwitchMl && repr.protocol == Protocol::P4inc {
        repr.protocol = Protocol::SwitchMl;
    }
    if repr.priority == 17 {
        repr.priority = setup.service;
    }
    if index_is_right {
        let fragment = repr.round().fragment;
        repr.index = match setup.protocol {
            Protocol::SwitchMl => AggregatorIndex(16 + 2 * (fragment % setup.slots)),
            _ => setup.index(fragment),
        };
    }
    frame(&repr, &[1, -1, 1, -1][..usize::from(repr.values)])
}

proptest! {
    #[test]
    fn nothing_panics_and_memory_is_bounded(
        setup in prop::sample::select(vec![LOCAL, PARTIAL, Setup { slots: 32, ..PARTIAL }, FORWARDED, SWITCHML]),
        packets in prop::collection::vec((repr(), 0u64..40), 0..400),
    ) {
        let mut worker = Worker::new(setup.worker(1)).unwrap();
        worker.submit(Tensor::F32((0..200).map(|i| i as f32 * 1e6).collect())).unwrap();
        worker.submit(Tensor::I32((0..50).collect())).unwrap();
        let mut server =
            (setup.protocol == Protocol::P4inc).then(|| ParameterServer::new(setup.server()).unwrap());
        let mut now = Time::ZERO;
        for (packet, wait) in packets {
            now += Duration::from_millis(wait);
            let frame = suited(setup, packet);
            worker.handle_frame(now, &frame);
            worker.handle_timeout(now);
            // Each fragment in flight at most once, plus the growth of the window.
            prop_assert!(sent(&mut worker, now).len() <= 2 * setup.slots as usize);
            while worker.poll_event().is_some() {}
            if let Some(server) = &mut server {
                server.handle_frame(now, &frame);
                server.handle_timeout(now);
                // A packet requests at most one result or question per worker, a timeout one per
                // slot.
                let most = (1 + setup.slots as usize) * 3;
                prop_assert!(sent(server, now).len() <= most);
                prop_assert!(server.pending_tasks() <= setup.slots as usize);
                while server.poll_event().is_some() {}
            }
        }
    }
}
