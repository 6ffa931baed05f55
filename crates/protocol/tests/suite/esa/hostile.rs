//! Peers that send arbitrary messages: endpoints do not panic, memory stays bounded, and messages
//! of one job's peers do not affect another job.

use proptest::prelude::*;
use tributary_protocol::esa::ToPeer;
use tributary_protocol::{Endpoint, Tensor};
use tributary_wire::channel::{FromWorker, ToWorker, Values};
use tributary_wire::{Bitmap, Flags, JobId, Kind, Sequence};

use crate::esa::setup::{
    JOB, backend, floats, frame, index, integers, job, ms, repr, sent, worker,
};

/// Sequences near the start, within two windows, and at the end of the range.
fn sequence() -> impl Strategy<Value = Sequence> {
    prop_oneof![0u32..40, Just(u32::MAX), Just(u32::MAX - 1), any::<u32>()].prop_map(Sequence)
}

fn values() -> impl Strategy<Value = Values> {
    prop_oneof![
        Just(integers(&[1, 2])),
        Just(floats(&[1.0, f32::NAN])),
        Just(integers(&[1, 2, 3])),
        Just(integers(&[])),
    ]
}

fn from_worker() -> impl Strategy<Value = FromWorker> {
    (0..6, sequence(), values()).prop_map(|(kind, sequence, values)| match kind {
        0 => FromWorker::Remind { sequence },
        1 => FromWorker::Values { sequence, values },
        2 => FromWorker::Result { sequence, values },
        3 => FromWorker::NotSent { sequence },
        4 => FromWorker::Over { sequence },
        _ => FromWorker::Finished { end: sequence },
    })
}

fn to_worker() -> impl Strategy<Value = ToWorker> {
    (0..3, sequence(), values(), any::<bool>()).prop_map(|(kind, sequence, values, float)| {
        match kind {
            0 => ToWorker::Query { sequence, float },
            1 => ToWorker::Result { sequence, values },
            _ => ToWorker::Dismissed,
        }
    })
}

#[derive(Clone, Debug)]
enum Act {
    Message(u16, u8, FromWorker),
    Packet(Kind, u32, u32, u8),
    Wait,
}

fn act() -> impl Strategy<Value = Act> {
    let kinds = prop::sample::select(vec![Kind::Gradient, Kind::Absent, Kind::Reminder]);
    prop_oneof![
        4 => (1u16..3, 0u8..5, from_worker()).prop_map(|(job, w, m)| Act::Message(job, w, m)),
        3 => (kinds, sequence(), 0u32..16, 0u8..16)
            .prop_map(|(kind, sequence, bitmap, flags)| Act::Packet(kind, sequence.0, bitmap, flags)),
        1 => Just(Act::Wait),
    ]
}

proptest! {
    #[test]
    fn server_and_agent(acts in prop::collection::vec(act(), 0..300)) {
        let job = job(3);
        let mut ps = backend(job);
        let mut now = 0;
        for act in acts {
            match act {
                Act::Message(job, worker, message) => {
                    ps.handle_worker(ms(now), JobId::new(job).unwrap(), index(worker.into()), message);
                }
                Act::Packet(kind, sequence, bitmap, flags) => {
                    let flags = Flags::from_bits(flags).unwrap();
                    let header = repr(&job, kind, sequence, Bitmap(bitmap), flags);
                    ps.handle_frame(ms(now), &frame(&header, &[3, 4]));
                }
                Act::Wait => {
                    if let Some(at) = ps.poll_timeout() {
                        now = now.max(at.as_nanos() / 1_000_000 + 1);
                        ps.handle_timeout(ms(now));
                    }
                }
            }
            // At most two windows of entries, and no watches without entries.
            let entries = ps.servers()[0].pending_tasks();
            prop_assert!(entries <= 16);
            prop_assert_eq!(ps.agent().watched(), entries);
            while let Some(message) = ps.poll_message() {
                let ToPeer::Worker { job, worker, .. } = message else { panic!("{message:?}") };
                prop_assert!(job == JOB && worker.get() < 3);
            }
            for (header, _) in sent(&mut ps, ms(now)) {
                prop_assert!(matches!(header.kind, Kind::Parameter | Kind::Reminder));
                if header.kind == Kind::Parameter {
                    prop_assert_eq!(header.bitmap, job.whole());
                }
            }
            while ps.poll_event().is_some() {}
        }
    }

    #[test]
    fn a_worker(messages in prop::collection::vec((to_worker(), any::<bool>()), 0..300)) {
        let mut worker = worker(job(3), 1);
        worker.submit(Tensor::F32(vec![0.5; 60].into())).unwrap();
        let mut now = 0;
        for (message, wait) in messages {
            if wait && let Some(at) = worker.poll_timeout() {
                now = now.max(at.as_nanos() / 1_000_000 + 1);
                worker.handle_timeout(ms(now));
            }
            sent(&mut worker, ms(now));
            worker.handle_message(ms(now), message);
            while worker.poll_event().is_some() {}
            let mut said = 0;
            while worker.poll_message().is_some() {
                said += 1;
            }
            prop_assert!(said <= 8 + 32 + 1);
        }
        prop_assert!(!worker.is_dismissed());
    }
}
