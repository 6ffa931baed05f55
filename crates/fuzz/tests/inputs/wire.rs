//! Decoding arbitrary bytes from the network. What is accepted encodes to the same again.

use bytes::{Bytes, BytesMut};
use tributary_wire::agg::Packet;
use tributary_wire::channel::{
    Answer, BODY_MAX, FromServer, FromWorker, Hello, Message, ToServer, ToWorker, split_frame,
};
use tributary_wire::{emit_frame, values};

use crate::bounds::{MIB, Turn};

#[test]
fn frame() {
    let turn = Turn::wait();
    bolero::check!().for_each(|input: &[u8]| turn.bounded(MIB, || decode(input)));
}

fn decode(input: &[u8]) {
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
}

/// The tags. They let random input reach the messages.
const TAGS: [u8; 20] =
    [1, 2, 3, 16, 17, 18, 19, 20, 21, 32, 33, 34, 48, 49, 50, 64, 65, 66, 67, 68];

/// An accepted body encodes to the same bytes.
fn again<M: Message>(body: &Bytes) {
    if let Ok(message) = M::decode(body.clone()) {
        let mut frame = BytesMut::new();
        message.encode(&mut frame);
        assert_eq!(frame[4..], body[..]);
    }
}

#[test]
fn channel() {
    let turn = Turn::wait();
    bolero::check!().for_each(|input: &[u8]| turn.bounded(MIB, || messages(input)));
}

fn messages(input: &[u8]) {
    let mut stream = BytesMut::from(input);
    while let Ok(Some(body)) = split_frame(&mut stream, BODY_MAX) {
        again::<FromWorker>(&body);
    }
    let Some((first, rest)) = input.split_first() else { return };
    let tag = TAGS[usize::from(*first) % TAGS.len()];
    let body: Bytes = [&[tag], rest].concat().into();
    again::<Hello>(&body);
    again::<Answer>(&body);
    again::<FromWorker>(&body);
    again::<ToWorker>(&body);
    again::<FromServer>(&body);
    again::<ToServer>(&body);
}
