//! Fuzz target: decoding arbitrary bytes from TCP.
//!
//! Under `cargo test` it runs briefly on random input. `cargo bolero test fuzz_channel` runs a
//! fuzzer.

use bytes::BytesMut;
use tributary_wire::channel::{
    Answer, BODY_MAX, FromServer, FromWorker, Hello, Message, ToServer, ToWorker, split_frame,
};

/// The tags. They let random input reach the messages without a fuzzer.
const TAGS: [u8; 20] =
    [1, 2, 3, 16, 17, 18, 19, 20, 21, 32, 33, 34, 48, 49, 50, 64, 65, 66, 67, 68];

/// An accepted body encodes to the same bytes.
fn again<M: Message>(body: &bytes::Bytes) {
    if let Ok(message) = M::decode(body.clone()) {
        let mut frame = BytesMut::new();
        message.encode(&mut frame);
        assert_eq!(frame[4..], body[..]);
    }
}

#[test]
fn fuzz_channel() {
    bolero::check!().for_each(|input: &[u8]| {
        let mut stream = BytesMut::from(input);
        while let Ok(Some(body)) = split_frame(&mut stream, BODY_MAX) {
            again::<FromWorker>(&body);
        }
        let Some((first, rest)) = input.split_first() else { return };
        let tag = TAGS[usize::from(*first) % TAGS.len()];
        let body: bytes::Bytes = [&[tag], rest].concat().into();
        again::<Hello>(&body);
        again::<Answer>(&body);
        again::<FromWorker>(&body);
        again::<ToWorker>(&body);
        again::<FromServer>(&body);
        again::<ToServer>(&body);
    });
}
