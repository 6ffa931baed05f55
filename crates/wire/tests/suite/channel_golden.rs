//! Checks the golden vectors of the reliable channel: they decode to the messages that their files
//! describe and encode to the same bytes. They were written without this crate's encoder.

use std::collections::BTreeSet;
use std::path::Path;

use bytes::{Bytes, BytesMut};
use tributary_wire::channel::{
    Answer, BODY_MAX, FromServer, FromWorker, HELLO_LEN, Hello, Message, Refusal, Role, ToServer,
    ToWorker, Token, Values, split_frame,
};
use tributary_wire::golden::{EPOCH, Vector};
use tributary_wire::{JobId, Sequence, WorkerIndex, WorkerSet};

const SEQUENCE: Sequence = Sequence(74565);
const WORKERS: WorkerSet = WorkerSet::from_low_bits(0b1011);

fn directory() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/golden/channel"))
}

fn read(name: &'static str) -> Vec<u8> {
    let text = std::fs::read_to_string(directory().join(format!("{name}.hex"))).unwrap();
    Vector { name, text: text.leak() }.bytes()
}

fn integers() -> Values {
    let words = [1, -2, i32::MAX].map(i32::to_be_bytes);
    Values { float: false, payload: words.as_flattened().to_vec().into() }
}

fn floats() -> Values {
    let words = [1.5f32, -3e38].map(f32::to_be_bytes);
    Values { float: true, payload: words.as_flattened().to_vec().into() }
}

fn hello(role: Role) -> Hello {
    let token = Token(std::array::from_fn(|at| 0xf0 + at as u8));
    Hello { job: JobId::new(263).unwrap(), epoch: EPOCH, role, token }
}

/// Compares one vector with its message in both directions and records its name as checked.
fn check<M: Message + PartialEq + std::fmt::Debug>(
    seen: &mut BTreeSet<String>,
    name: &'static str,
    message: &M,
) {
    let bytes = read(name);
    let mut stream = BytesMut::from(&bytes[..]);
    let body = split_frame(&mut stream, BODY_MAX).unwrap().unwrap();
    assert!(stream.is_empty(), "{name}");
    assert_eq!(M::decode(body).unwrap(), *message, "{name}");
    let mut encoded = BytesMut::from(&b"before"[..]);
    message.encode(&mut encoded);
    assert_eq!(encoded[6..], bytes, "{name}");
    seen.insert(name.to_owned());
}

#[test]
fn vectors_decode_and_encode() {
    let mut seen = BTreeSet::new();
    let it = &mut seen;
    let sequence = SEQUENCE;
    let last = WorkerIndex::new(31).unwrap();
    check(it, "hello_worker", &hello(Role::Worker(last)));
    check(it, "hello_server", &hello(Role::Server));
    assert_eq!(read("hello_server").len(), 4 + HELLO_LEN);
    check(it, "welcome", &Answer::Welcome);
    check(it, "refused_hello", &Answer::Refused(Refusal::Hello));
    check(it, "refused_job", &Answer::Refused(Refusal::Job));
    check(it, "refused_token", &Answer::Refused(Refusal::Token));
    check(it, "refused_role", &Answer::Refused(Refusal::Role));
    check(it, "refused_run", &Answer::Refused(Refusal::Run));

    check(it, "worker_remind", &FromWorker::Remind { sequence });
    check(it, "worker_values", &FromWorker::Values { sequence, values: integers() });
    check(it, "worker_values_float", &FromWorker::Values { sequence, values: floats() });
    check(it, "worker_result", &FromWorker::Result { sequence, values: integers() });
    check(it, "worker_not_sent", &FromWorker::NotSent { sequence });
    check(it, "worker_over", &FromWorker::Over { sequence });
    check(it, "worker_finished", &FromWorker::Finished { end: Sequence(74566) });

    check(it, "to_worker_query", &ToWorker::Query { sequence, float: false });
    check(it, "to_worker_query_float", &ToWorker::Query { sequence, float: true });
    check(it, "to_worker_result", &ToWorker::Result { sequence, values: floats() });
    check(it, "to_worker_dismissed", &ToWorker::Dismissed);

    let merged = WORKERS;
    let entry = |on| FromServer::Entry { sequence, merged, float: on, urgent: on };
    check(it, "server_entry", &entry(false));
    check(it, "server_entry_urgent", &entry(true));
    check(it, "server_closed", &FromServer::Closed { sequence });
    let deliver = FromServer::Deliver { sequence, workers: WORKERS, values: integers() };
    check(it, "server_deliver", &deliver);

    check(it, "to_server_missing", &ToServer::Missing { sequence, workers: WORKERS });
    let far = [3, 1000].map(|worker| WorkerIndex::new(worker).unwrap());
    let workers = far.into_iter().collect();
    check(it, "to_server_missing_far", &ToServer::Missing { sequence, workers });
    let workers = WORKERS;
    let partial = |marked| ToServer::Partial { sequence, workers, marked, values: integers() };
    check(it, "to_server_partial", &partial(false));
    check(it, "to_server_partial_marked", &partial(true));
    check(it, "to_server_known", &ToServer::Known { sequence, values: floats() });
    check(it, "to_server_over", &ToServer::Over { sequence });
    check(it, "to_server_finished", &ToServer::Finished { workers });

    let files = std::fs::read_dir(directory()).unwrap();
    let on_disk: BTreeSet<String> = files
        .map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(seen, on_disk, "every file is a case");
}

#[test]
fn values_share_the_memory_of_the_body() {
    let bytes = read("to_server_partial");
    let body = Bytes::from(bytes).slice(4..);
    let ToServer::Partial { values, .. } = ToServer::decode(body.clone()).unwrap() else {
        panic!("not a partial sum");
    };
    assert_eq!(values.payload.as_ptr_range().end, body.as_ptr_range().end);
    assert!(values.i32s().eq([1, -2, i32::MAX]));
}
