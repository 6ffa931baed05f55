//! Property tests of the reliable channel's messages, and tests of what decoding rejects.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use tributary_wire::channel::{
    Answer, BODY_MAX, Error, FromServer, FromWorker, HELLO_LEN, Hello, Message, Refusal, Role,
    ToServer, ToWorker, Token, Values, split_frame,
};
use tributary_wire::{Epoch, JobId, Sequence, VALUES_MAX, WORKERS_MAX, WorkerIndex, WorkerSet};

fn sequence() -> impl Strategy<Value = Sequence> {
    any::<u32>().prop_map(Sequence)
}

fn workers() -> impl Strategy<Value = WorkerSet> {
    proptest::collection::vec(any::<u32>(), 0..=32)
        .prop_map(|words| WorkerSet::from_words(words).unwrap())
}

fn values() -> impl Strategy<Value = Values> {
    let words = prop_oneof![1usize..=80, Just(256), Just(usize::from(VALUES_MAX))];
    (any::<bool>(), words, any::<u8>()).prop_map(|(float, words, seed)| Values {
        float,
        payload: (0..4 * words).map(|at| (at as u8).wrapping_mul(31) ^ seed).collect(),
    })
}

fn from_worker() -> impl Strategy<Value = FromWorker> {
    prop_oneof![
        sequence().prop_map(|sequence| FromWorker::Remind { sequence }),
        (sequence(), values())
            .prop_map(|(sequence, values)| FromWorker::Values { sequence, values }),
        (sequence(), values())
            .prop_map(|(sequence, values)| FromWorker::Result { sequence, values }),
        sequence().prop_map(|sequence| FromWorker::NotSent { sequence }),
        sequence().prop_map(|sequence| FromWorker::Over { sequence }),
        sequence().prop_map(|end| FromWorker::Finished { end }),
    ]
}

fn to_worker() -> impl Strategy<Value = ToWorker> {
    prop_oneof![
        (sequence(), any::<bool>())
            .prop_map(|(sequence, float)| ToWorker::Query { sequence, float }),
        (sequence(), values()).prop_map(|(sequence, values)| ToWorker::Result { sequence, values }),
        Just(ToWorker::Dismissed),
    ]
}

fn from_server() -> impl Strategy<Value = FromServer> {
    prop_oneof![
        (sequence(), workers(), any::<bool>(), any::<bool>()).prop_map(
            |(sequence, merged, float, urgent)| FromServer::Entry {
                sequence,
                merged,
                float,
                urgent
            }
        ),
        sequence().prop_map(|sequence| FromServer::Closed { sequence }),
        (sequence(), workers(), values()).prop_map(|(sequence, workers, values)| {
            FromServer::Deliver { sequence, workers, values }
        }),
    ]
}

fn to_server() -> impl Strategy<Value = ToServer> {
    prop_oneof![
        (sequence(), workers())
            .prop_map(|(sequence, workers)| ToServer::Missing { sequence, workers }),
        (sequence(), workers(), any::<bool>(), values()).prop_map(
            |(sequence, workers, marked, values)| ToServer::Partial {
                sequence,
                workers,
                marked,
                values
            }
        ),
        (sequence(), values()).prop_map(|(sequence, values)| ToServer::Known { sequence, values }),
        sequence().prop_map(|sequence| ToServer::Over { sequence }),
        workers().prop_map(|workers| ToServer::Finished { workers }),
    ]
}

fn hello() -> impl Strategy<Value = Hello> {
    let role = prop_oneof![
        (0..WORKERS_MAX).prop_map(|index| Role::Worker(WorkerIndex::new(index).unwrap())),
        Just(Role::Server),
    ];
    (1u16.., 1u32.., role, any::<[u8; 16]>()).prop_map(|(job, epoch, role, token)| Hello {
        job: JobId::new(job).unwrap(),
        epoch: Epoch::new(epoch).unwrap(),
        role,
        token: Token(token),
    })
}

fn body<M: Message>(message: &M) -> Bytes {
    let mut stream = BytesMut::new();
    message.encode(&mut stream);
    let body = split_frame(&mut stream, BODY_MAX).unwrap().unwrap();
    assert!(stream.is_empty());
    body
}

/// Number of directions that accept the body. Decoding must not panic.
fn readers(body: &Bytes) -> usize {
    [
        Hello::decode(body.clone()).is_ok(),
        Answer::decode(body.clone()).is_ok(),
        FromWorker::decode(body.clone()).is_ok(),
        ToWorker::decode(body.clone()).is_ok(),
        FromServer::decode(body.clone()).is_ok(),
        ToServer::decode(body.clone()).is_ok(),
    ]
    .into_iter()
    .filter(|read| *read)
    .count()
}

/// Decoding inverts encoding, no other direction accepts the message, and no shorter or longer body
/// is accepted, unless its length fits another number of values.
fn exactly<M: Message + PartialEq + std::fmt::Debug>(message: &M) -> Result<(), TestCaseError> {
    let whole = body(message);
    prop_assert_eq!(&M::decode(whole.clone()).unwrap(), message);
    prop_assert_eq!(readers(&whole), 1);
    for shorter in (0..whole.len()).rev().take(40) {
        if let Ok(other) = M::decode(whole.slice(..shorter)) {
            prop_assert_eq!((whole.len() - shorter) % 4, 0, "{:?}", other);
            prop_assert_eq!(body(&other).len(), shorter);
        }
    }
    for more in 1..4 {
        let mut longer = whole.to_vec();
        longer.resize(whole.len() + more, 0);
        prop_assert!(M::decode(longer.into()).is_err());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn hellos(message in hello()) {
        exactly(&message)?;
        prop_assert_eq!(body(&message).len(), HELLO_LEN);
        let token = message.token;
        prop_assert_eq!(token.to_hex().parse::<Token>().unwrap(), token);
        prop_assert_eq!(token.to_hex().to_uppercase().parse::<Token>().unwrap(), token);
        let shown = format!("{message:?}");
        prop_assert!(!shown.contains(&token.to_hex()));
        let bytes = format!("{:?}", token.0);
        prop_assert!(!shown.contains(&bytes));
    }

    #[test]
    fn messages_from_workers(message in from_worker()) {
        exactly(&message)?;
    }

    #[test]
    fn messages_to_workers(message in to_worker()) {
        exactly(&message)?;
    }

    #[test]
    fn messages_from_servers(message in from_server()) {
        exactly(&message)?;
    }

    #[test]
    fn messages_to_servers(message in to_server()) {
        exactly(&message)?;
    }

    #[test]
    fn a_token_equals_only_itself(token: [u8; 16], at in 0usize..16, bit in 0u32..8) {
        let mut other = token;
        other[at] ^= 1 << bit;
        prop_assert_eq!(Token(token), Token(token));
        prop_assert_ne!(Token(token), Token(other));
    }

    #[test]
    fn a_stream_is_split_for_any_read_boundaries(
        messages in prop::collection::vec(from_worker(), 1..8),
        chunk in 1usize..700,
    ) {
        let mut stream = BytesMut::new();
        messages.iter().for_each(|message| message.encode(&mut stream));
        let mut received = BytesMut::new();
        let mut decoded = Vec::new();
        for piece in stream.chunks(chunk) {
            received.extend_from_slice(piece);
            while let Some(body) = split_frame(&mut received, BODY_MAX).unwrap() {
                decoded.push(FromWorker::decode(body).unwrap());
            }
        }
        prop_assert_eq!(decoded, messages);
        prop_assert!(received.is_empty());
    }

    #[test]
    fn lengths_beyond_the_limit_are_refused_before_the_body_is_there(
        length in any::<u32>(),
        longest in 1usize..=BODY_MAX,
    ) {
        let mut received = BytesMut::from(&length.to_be_bytes()[..]);
        let fits = length > 0 && length as usize <= longest;
        let expected = if fits { Ok(None) } else { Err(Error::Length { stated: length, longest }) };
        prop_assert_eq!(split_frame(&mut received, longest), expected);
    }
}

/// A body of this tag and these bytes.
fn raw(tag: u8, fields: &[u8]) -> Bytes {
    [&[tag], fields].concat().into()
}

#[test]
fn every_fault_has_its_error() {
    let mut hello = vec![4, 0, 7, 1, 7, 0, 0, 0, 5];
    hello.extend([9; 16]);
    assert!(Hello::decode(raw(1, &hello)).is_ok());
    let spoilt = |at: usize, byte: u8| {
        let mut fields = hello.clone();
        fields[at] = byte;
        Hello::decode(raw(1, &fields)).unwrap_err()
    };
    assert_eq!(spoilt(0, 1), Error::Version(1));
    assert_eq!(spoilt(1, 4), Error::Role(0x0407));
    assert_eq!(spoilt(1, 255), Error::Role(0xff07));
    let mut nobody = hello.clone();
    nobody[3..5].fill(0);
    assert_eq!(Hello::decode(raw(1, &nobody)).unwrap_err(), Error::Job);
    assert_eq!(spoilt(8, 0), Error::Epoch);
    assert_eq!(Hello::decode(raw(2, &hello)).unwrap_err(), Error::Tag(2));
    assert_eq!(Hello::decode(Bytes::new()).unwrap_err(), Error::Truncated(1));
    assert_eq!(Hello::decode(raw(1, &hello[..20])).unwrap_err(), Error::Truncated(5));

    assert_eq!(Answer::decode(raw(3, &[0])).unwrap_err(), Error::Refusal(0));
    assert_eq!(Answer::decode(raw(3, &[6])).unwrap_err(), Error::Refusal(6));
    assert_eq!(Answer::decode(raw(3, &[4])).unwrap(), Answer::Refused(Refusal::Role));
    assert_eq!(Answer::decode(raw(2, &[0])).unwrap_err(), Error::Trailing(1));

    let values = |bytes: &[u8]| FromWorker::decode(raw(17, &[&[0; 4], bytes].concat()));
    assert_eq!(values(&[2, 0, 0, 0, 0]).unwrap_err(), Error::Flags(2));
    assert_eq!(values(&[0]).unwrap_err(), Error::Payload(0));
    assert_eq!(values(&[0, 1, 2, 3]).unwrap_err(), Error::Payload(3));
    assert_eq!(values(&[]).unwrap_err(), Error::Truncated(1));
    let most = 4 * usize::from(VALUES_MAX);
    assert!(values(&vec![0; 1 + most]).is_ok());
    assert_eq!(values(&vec![0; 1 + most + 4]).unwrap_err(), Error::Payload(most + 4));

    assert_eq!(FromWorker::decode(raw(16, &[0; 3])).unwrap_err(), Error::Truncated(1));
    assert_eq!(FromWorker::decode(raw(32, &[0; 5])).unwrap_err(), Error::Tag(32));
    assert_eq!(ToWorker::decode(raw(32, &[0, 0, 0, 0, 2])).unwrap_err(), Error::Flags(2));
    let entry = [&[0; 4][..], &[1, 0, 0, 0, 9, 4]].concat();
    assert_eq!(FromServer::decode(raw(48, &entry)).unwrap_err(), Error::Flags(4));
    let partial = [&[0; 5][..], &[1, 0, 0, 0, 0, 0]].concat();
    assert_eq!(ToServer::decode(raw(65, &partial)).unwrap_err(), Error::Flags(1));
    // A set of workers has no zeros at its end, and at most 32 words.
    let missing = |workers: &[u8]| ToServer::decode(raw(64, &[&[0; 4], workers].concat()));
    assert!(missing(&[2, 0, 0, 0, 0, 0, 0, 0, 1]).is_ok());
    assert_eq!(missing(&[1, 0, 0, 0, 0]).unwrap_err(), Error::Workers(1));
    assert_eq!(missing(&[vec![33], vec![1; 132]].concat()).unwrap_err(), Error::Workers(33));
    assert_eq!(missing(&[2, 0, 0, 0, 1]).unwrap_err(), Error::Truncated(4));
}

#[test]
fn texts_that_are_not_tokens() {
    let good = "000102030405060708090a0b0c0d0e0f";
    assert!(good.parse::<Token>().is_ok());
    for bad in [
        "",
        &good[1..],
        &good[2..],
        &format!("{good}0"),
        &format!("{good}00"),
        &good.replace('f', "g"),
        &good.replace("0f", "+f"),
        &format!(" {}", &good[1..]),
        &"ä".repeat(16),
    ] {
        assert!(bad.parse::<Token>().is_err(), "{bad:?}");
    }
}

#[test]
#[should_panic(expected = "no values of a packet")]
fn values_that_no_peer_would_accept_are_not_sent() {
    let values = Values { float: false, payload: Bytes::new() };
    FromWorker::Values { sequence: Sequence(0), values }.encode(&mut BytesMut::new());
}
