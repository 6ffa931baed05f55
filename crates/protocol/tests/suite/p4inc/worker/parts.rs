//! Tensors with a part for each worker.

use tributary_protocol::priority::Priority;
use tributary_protocol::{Endpoint, Exchange, Parts, SubmitError, Tensor, Terms, Worker};
use tributary_wire::agg::Repr;
use tributary_wire::{Audience, Flags, Kind};

use super::{EVERYONE, sums};
use crate::p4inc::setup::{FORWARDED, LOCAL, PARTIAL, SWITCHML, Sent, frame, sent, us};

fn terms(exchange: Exchange) -> Terms {
    let parts = Some(Parts::new(exchange));
    Terms { parts, ..Priority::LOWEST.into() }
}

/// Worker 1 of three; each part has two fragments of two values.
fn loaded(exchange: Exchange) -> Worker {
    let mut worker = Worker::new(LOCAL.papers(1)).unwrap();
    let values = (0..12).map(|value| i32::MIN + value);
    let values = match exchange {
        Exchange::AllGather => values.collect(),
        Exchange::ReduceScatter => (0..12).collect(),
    };
    worker.submit_with(Tensor::I32(values), terms(exchange)).unwrap();
    worker
}

fn result(worker: &mut Worker, fragment: u32, audience: Audience, words: &[i32]) {
    let values = words.len() as u16;
    let repr = Repr { audience, values, ..LOCAL.repr(Kind::Parameter, (fragment, 0), EVERYONE) };
    worker.handle_frame(us(1), &frame(&repr, words));
}

#[test]
fn a_worker_gives_its_part_and_zeros_without_values() {
    let mut worker = loaded(Exchange::AllGather);
    let packets = sent(&mut worker, us(0));
    for (fragment, packet) in packets.iter().enumerate() {
        let owner = fragment as u8 % 3;
        assert_eq!(packet.repr.audience, Audience::all_but(owner));
        let expected = match owner {
            1 => vec![i32::MIN + 2 * fragment as i32, i32::MIN + 2 * fragment as i32 + 1],
            _ => Vec::new(),
        };
        assert_eq!(packet.words, expected, "fragment {fragment}");
        assert_eq!(usize::from(packet.repr.values), expected.len());
    }
    assert_eq!(packets.len(), 6);
    for fragment in 0..6 {
        let audience = Audience::all_but(fragment as u8 % 3);
        let words = if fragment % 3 == 1 { vec![] } else { vec![7, fragment as i32] };
        result(&mut worker, fragment, audience, &words);
    }
    let own = |value| i32::MIN + value;
    let expected = vec![7, 0, own(2), own(3), 7, 2, 7, 3, own(8), own(9), 7, 5];
    assert_eq!(sums(&mut worker), [expected.into()]);
}

#[test]
fn a_worker_gets_the_sums_of_its_part() {
    let mut worker = loaded(Exchange::ReduceScatter);
    let packets = sent(&mut worker, us(0));
    for (fragment, packet) in packets.iter().enumerate() {
        assert_eq!(packet.repr.audience, Audience::only(fragment as u8 % 3));
        assert_eq!(packet.words, [2 * fragment as i32, 2 * fragment as i32 + 1]);
    }
    for fragment in 0..6 {
        // A switch that answers a repeated packet does not leave the values out.
        let words = if fragment % 3 == 1 || fragment == 5 { vec![9, 9] } else { vec![] };
        result(&mut worker, fragment, Audience::only(fragment as u8 % 3), &words);
    }
    assert_eq!(sums(&mut worker), [vec![0, 1, 9, 9, 4, 5, 6, 7, 9, 9, 10, 11].into()]);
}

/// No switch answers a packet without values.
#[test]
fn zeros_that_are_sent_again_have_values() {
    let mut worker = loaded(Exchange::AllGather);
    assert_eq!(sent(&mut worker, us(0))[0].words, []);
    for fragment in 2..6 {
        let audience = Audience::all_but(fragment as u8 % 3);
        result(&mut worker, fragment, audience, &[7, 7]);
    }
    let again = sent(&mut worker, us(2));
    let zeros = again.iter().find(|packet| packet.short().0 == 0).expect("it is lost");
    assert_eq!((&zeros.words[..], zeros.repr.audience), (&[0, 0][..], Audience::all_but(0)));
}

/// A result without the values that are needed is no result.
#[test]
fn a_worker_waits_for_the_values_that_it_needs() {
    for (exchange, audience) in
        [(Exchange::ReduceScatter, Audience::only(1)), (Exchange::AllGather, Audience::all_but(0))]
    {
        let mut worker = loaded(exchange);
        sent(&mut worker, us(0));
        let fragment = if exchange == Exchange::AllGather { 0 } else { 1 };
        // Whatever audience the packet names.
        for named in [audience, Audience::only(2), Audience::all_but(1)] {
            result(&mut worker, fragment, named, &[]);
        }
        assert_eq!((worker.stats().rejected.wrong_values, worker.stats().results), (3, 0));
        result(&mut worker, fragment, audience, &[1, 2]);
        result(&mut worker, fragment, audience, &[]);
        assert_eq!((worker.stats().results, worker.stats().duplicates), (1, 1));
    }
    // All need the sums of other tensors.
    let mut worker = super::loaded(LOCAL, 1);
    sent(&mut worker, us(0));
    result(&mut worker, 0, Audience::only(2), &[]);
    assert_eq!((worker.stats().rejected.wrong_values, worker.stats().results), (1, 0));
}

/// Floats are scattered at the scale that all values fit.
#[test]
fn a_part_climbs_the_ladder_with_its_owner() {
    let mut worker = Worker::new(LOCAL.papers(0)).unwrap();
    let values: Vec<f32> = vec![1e9, 0.0, 1.0, 2.0, 3.0, 4.0];
    worker.submit_with(values.into(), terms(Exchange::ReduceScatter)).unwrap();
    let packets = sent(&mut worker, us(0));
    assert_eq!(packets[0].repr.flags, Flags::OVERFLOW);
    for (fragment, flags) in [(0, Flags::OVERFLOW), (1, Flags::OVERFLOW), (2, Flags::NONE)] {
        let (audience, values) = (Audience::only(fragment), u16::from(fragment == 0) * 2);
        let words = vec![0; values.into()];
        let repr = LOCAL.repr(Kind::Parameter, (fragment.into(), 0), EVERYONE);
        worker.handle_frame(us(1), &frame(&Repr { flags, audience, values, ..repr }, &words));
    }
    assert_eq!((worker.stats().coarser, worker.stats().results), (2, 1));
    let again = sent(&mut worker, us(2));
    let rounds: Vec<_> =
        again.iter().map(Sent::short).map(|(fragment, rung, _)| (fragment, rung)).collect();
    assert_eq!(rounds, [(0, 1), (1, 1)]);
}

#[test]
fn jobs_of_several_switches_exchange_no_parts() {
    let submit =
        |mut worker: Worker, tensor: Tensor, terms| worker.submit_with(tensor, terms).err();
    let ones = |count: usize| Tensor::I32(vec![1; count].into());
    for exchange in [Exchange::ReduceScatter, Exchange::AllGather] {
        for (setup, refused) in
            [(LOCAL, false), (SWITCHML, false), (PARTIAL, true), (FORWARDED, true)]
        {
            let worker = Worker::new(setup.papers(1)).unwrap();
            let error = submit(worker, ones(6), terms(exchange));
            assert_eq!(error, refused.then_some(SubmitError::Parts), "{exchange:?}");
        }
    }
    let floats = Tensor::F32(vec![1.0; 6].into());
    let worker = Worker::new(LOCAL.papers(1)).unwrap();
    assert_eq!(
        submit(worker, floats, terms(Exchange::AllGather)),
        Some(SubmitError::GatheredFloats)
    );
}
