//! Broken or malicious controllers: each gets the specification's error, nothing changes, and
//! packets continue to pass.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;
use tributary_netio::{FrameIo, memory};
use tributary_p4runtime::google::rpc;
use tributary_p4runtime::p4::v1::write_request::Atomicity;
use tributary_p4runtime::p4::v1::{
    self as p4, Entity, FieldMatch, Index, P4Data, TableEntry, Update, WriteRequest, entity,
    field_match, p4_data, table_action,
};
use tributary_switch::{Switch, SwitchConfig};

use crate::common::*;
use crate::grpc::*;

/// Sends packets one by one through the switch, and counts those that come out.
struct Traffic {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(u64, Duration)>,
}

impl Traffic {
    /// Starts sending through a switch with tables.p4.
    fn start(mut ports: Vec<memory::MemoryPort>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let (mut count, mut slowest) = (0, Duration::ZERO);
            while !stopped.load(Ordering::Relaxed) {
                let start = Instant::now();
                ports[1]
                    .send(&[5, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
                    .unwrap();
                ports[1].flush().unwrap();
                let mut answer = None;
                while answer.is_none() {
                    assert!(
                        start.elapsed() < Duration::from_secs(20),
                        "a packet was not forwarded"
                    );
                    ports[0].wait(Some(Duration::from_millis(100))).unwrap();
                    ports[0].receive(1, &mut |frame| answer = Some(frame[1])).unwrap();
                }
                assert_eq!(answer, Some(77), "the table that never changes has changed");
                slowest = slowest.max(start.elapsed());
                count += 1;
            }
            (count, slowest)
        });
        Self { stop, thread }
    }

    /// How many packets passed, and the slowest one's time.
    async fn finish(self) -> (u64, Duration) {
        self.stop.store(true, Ordering::Relaxed);
        tokio::task::spawn_blocking(|| self.thread.join().unwrap()).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_controllers_at_once() {
    let Device { service, ports, _switch } = device();
    let mut client = connect(&service).await;
    let _primary = primary(&mut client).await;
    push(&mut client, TABLES).await;
    let traffic = Traffic::start(ports);

    let mut crowd = tokio::task::JoinSet::new();
    for id in 0..1000 {
        let service = service.clone();
        crowd.spawn(async move {
            let mut client = connect(&service).await;
            let mut controller = Controller::open(&mut client).await;
            // All bid the primary's election id, or less.
            controller.bid(id % 2 * 1000).await;
            let heard = controller.hear().await.map_err(|status| status.code());
            let refused = client.write(WriteRequest { election_id: None, ..writing(vec![]) }).await;
            (heard.map(drop), refused.unwrap_err().code(), controller, client)
        });
    }
    let crowd = crowd.join_all().await;
    let mut codes: Vec<_> = crowd.iter().map(|(heard, ..)| *heard).collect();
    codes.sort_by_key(|code| format!("{code:?}"));
    codes.dedup();
    // The second stream with the same id is refused.
    assert_eq!(codes, [Err(Code::InvalidArgument), Ok(())]);
    assert!(crowd.iter().all(|(_, refused, ..)| *refused == Code::PermissionDenied));

    // The server still answers.
    let status = client.write(writing(vec![])).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied, "1000 outbids 1");
    drop(crowd);
    let mut next = Controller::open(&mut client).await;
    next.bid(2000).await;
    assert_eq!(next.verdict().await, (rpc::Code::Ok, 2000));
    let (packets, _) = traffic.finish().await;
    assert!(packets > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_controllers_of_a_role_than_are_taken() {
    let device = device();
    let mut controllers = Vec::new();
    let mut client = connect(&device.service).await;
    let mut last = Ok(());
    for id in 0..100 {
        if id % 50 == 0 {
            client = connect(&device.service).await;
        }
        let mut controller = Controller::open(&mut client).await;
        controller.bid(1000 - id).await;
        last = controller.hear().await.map(drop).map_err(|status| status.code());
        controllers.push(controller);
        if last.is_err() {
            break;
        }
    }
    assert_eq!((last, controllers.len()), (Err(Code::ResourceExhausted), 65));
    let mut first = controllers.swap_remove(0);
    first.bid(1000).await;
    assert_eq!(first.verdict().await, (rpc::Code::Ok, 1000));
}

/// Connections that never send a valid message, or break off in the middle.
#[tokio::test(flavor = "multi_thread")]
async fn half_open_connections() {
    let Device { service, ports, _switch } = device();
    let mut client = connect(&service).await;
    let mut primary = primary(&mut client).await;
    push(&mut client, TABLES).await;
    let traffic = Traffic::start(ports);

    let (streams, incoming) = mpsc::channel::<io::Result<tokio::io::DuplexStream>>(4);
    tokio::spawn(service.clone().serve(ReceiverStream::new(incoming), std::future::pending()));
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let starts: [&[u8]; 6] = [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff; 300],
        &preface[..10],
        preface,
        &[&preface[..], &settings, &[0xff, 0xff, 0xff, 1, 4, 0, 0, 0, 1]].concat(),
    ];
    let mut open = Vec::new();
    for i in 0..300 {
        let (mut near, far) = tokio::io::duplex(1 << 12);
        streams.send(Ok(far)).await.unwrap();
        // Connections that the server has closed cannot be written to.
        drop(near.write_all(starts[i % starts.len()]).await);
        if i % 2 == 0 {
            open.push(near);
        }
        if i % 50 == 0 {
            // The server continues after it failed to accept a connection.
            let error = io::Error::other("too many open files");
            streams.send(Err(error)).await.unwrap();
        }
    }
    // Streams that send nothing, and streams that end without a message.
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(Controller::open(&mut client).await);
    }
    drop(silent.split_off(10));
    primary.bid(1).await;
    assert_eq!(primary.verdict().await, (rpc::Code::Ok, 1));
    client.write(writing(vec![])).await.unwrap();
    let (packets, _) = traffic.finish().await;
    assert!(packets > 0);
    drop(open);
}

/// As many updates as fit into a message, most of them invalid: packets pass in between.
#[tokio::test(flavor = "multi_thread")]
async fn huge_batches() {
    let Device { service, ports, _switch } = device();
    let mut client = connect(&service).await;
    let _primary = primary(&mut client).await;
    push(&mut client, TABLES).await;
    let names = names(TABLES);
    let traffic = Traffic::start(ports);
    let entry = |i: u32| {
        let m = vec![exact(1, &shortest(i.into())), exact(2, &[1])];
        table_entry(names.entry("TestIngress.exact_table", 0, m, 1))
    };
    for (atomicity, size, told) in [
        (Atomicity::RollbackOnError, 5_000, true),
        (Atomicity::RollbackOnError, 50_000, false),
        (Atomicity::ContinueOnError, 50_000, false),
    ] {
        let updates = (0..size).map(|i| insert(entry(i))).collect();
        let request = WriteRequest { atomicity: atomicity.into(), ..writing(updates) };
        let status = client.write(request).await.unwrap_err();
        assert_eq!(status.code(), Code::Unknown, "{status}");
        assert!(status.message().contains("RESOURCE_EXHAUSTED"), "{status}");
        // Above some size clients would not accept the details.
        assert_eq!(codes(&status).len(), if told { size as usize } else { 0 });
        let table_id = names.table("TestIngress.exact_table");
        let all = table_entry(TableEntry { table_id, ..Default::default() });
        let found = query(&mut client, vec![all]).await.unwrap().len();
        assert_eq!(found, if atomicity == Atomicity::ContinueOnError { 4 } else { 0 });
    }
    // Larger than a message may be.
    let metadata = vec![0; 20 << 20];
    let too_large = table_entry(TableEntry { metadata, ..Default::default() });
    let status = client.write(writing(vec![insert(too_large)])).await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status}");
    client.write(writing(vec![])).await.unwrap();
    let (packets, slowest) = traffic.finish().await;
    assert!(packets > 10, "{packets} packets, the slowest after {slowest:?}");
}

// --- Updates of any kind
// --------------------------------------------------------------------------

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => prop::collection::vec(any::<u8>(), 1..3),
        1 => prop::collection::vec(any::<u8>(), 0..8),
        1 => Just(vec![0xff; 4]),
    ]
}

fn field() -> impl Strategy<Value = FieldMatch> {
    use field_match::FieldMatchType as F;
    let found = prop_oneof![
        bytes().prop_map(|value| F::Exact(field_match::Exact { value })),
        (bytes(), -1..34)
            .prop_map(|(value, prefix_len)| F::Lpm(field_match::Lpm { value, prefix_len })),
        (bytes(), bytes())
            .prop_map(|(value, mask)| F::Ternary(field_match::Ternary { value, mask })),
        (bytes(), bytes()).prop_map(|(low, high)| F::Range(field_match::Range { low, high })),
        bytes().prop_map(|value| F::Optional(field_match::Optional { value })),
    ];
    (0u32..4, prop::option::weighted(0.95, found))
        .prop_map(|(field_id, field_match_type)| FieldMatch { field_id, field_match_type })
}

/// An entry that may be valid for a table.
fn likely(names: &Names) -> BoxedStrategy<TableEntry> {
    let id = |name: &str| names.table(&format!("TestIngress.{name}"));
    let small = || (0u8..4).prop_map(|b| vec![b]);
    let keyed = prop_oneof![
        (small(), small()).prop_map({
            let id = id("exact_table");
            move |(a, b)| (id, vec![exact(1, &a), exact(2, &b)], false)
        }),
        (1..9i32, small()).prop_map({
            let id = id("lpm_table");
            move |(len, a)| (id, vec![lpm(1, &[&a[..], &[0, 0, 0]].concat(), len)], false)
        }),
        (small(), prop::option::of(small())).prop_map({
            let id = id("ternary_table");
            move |(b, a)| {
                let wild = a.map(|a| ternary(1, &a, &[0xff]));
                (id, wild.into_iter().chain([exact(2, &b)]).collect(), true)
            }
        }),
        (small(), 4u8..7).prop_map({
            let id = id("range_table");
            move |(low, high)| (id, vec![range(1, &low, &[high])], true)
        }),
        prop::option::of(small()).prop_map({
            let id = id("optional_table");
            move |value| (id, value.iter().map(|value| optional(1, value)).collect(), true)
        }),
        Just((id("const_table"), vec![exact(1, &[7])], false)),
    ];
    let call = names.call("TestIngress.answer", &[&[0]]);
    (keyed, 1..4i32, any::<u8>(), prop::option::of(0i64..100), any::<[bool; 3]>())
        .prop_map(
            move |((table_id, r#match, ranked), priority, answer, counted, [a, b, default])| {
                let mut action = call.clone();
                if let Some(table_action::Type::Action(action)) = &mut action.r#type {
                    action.params[0].value = vec![answer];
                }
                let counter_data =
                    counted.map(|n| p4::CounterData { byte_count: n * 7, packet_count: n });
                TableEntry {
                    table_id,
                    r#match: if default && a { vec![] } else { r#match },
                    priority: if ranked && !(default && a) { priority } else { 0 },
                    action: (a || b).then_some(action),
                    counter_data: counter_data.filter(|_| b),
                    metadata: if a && b { vec![answer] } else { vec![] },
                    is_default_action: default && a,
                    ..Default::default()
                }
            },
        )
        .boxed()
}

/// Any update.
fn wild(names: &Names) -> BoxedStrategy<TableEntry> {
    let tables: Vec<u32> =
        names.0.tables.iter().map(|t| t.preamble.as_ref().unwrap().id).chain([0, 7]).collect();
    let actions: Vec<u32> =
        names.0.actions.iter().map(|t| t.preamble.as_ref().unwrap().id).chain([0, 7]).collect();
    let param =
        (0u32..4, bytes()).prop_map(|(param_id, value)| p4::action::Param { param_id, value });
    let action = (prop::sample::select(actions), prop::collection::vec(param, 0..3))
        .prop_map(|(action_id, params)| p4::Action { action_id, params });
    let action = prop_oneof![
        4 => action.prop_map(table_action::Type::Action),
        1 => any::<u32>().prop_map(table_action::Type::ActionProfileMemberId),
        1 => any::<u32>().prop_map(table_action::Type::ActionProfileGroupId),
    ];
    let action =
        prop::option::of(prop::option::of(action).prop_map(|r#type| p4::TableAction { r#type }));
    let fields = prop::collection::vec(field(), 0..4);
    (prop::sample::select(tables), fields, action, -1..3i32, any::<[bool; 5]>())
        .prop_map(|(table_id, r#match, action, priority, [a, b, c, d, e])| TableEntry {
            table_id,
            r#match,
            action,
            priority,
            is_default_action: a && b,
            is_const: a && c,
            idle_timeout_ns: i64::from(b && c),
            time_since_last_hit: (b && d).then(Default::default),
            meter_config: (d && e).then(Default::default),
            counter_data: (a && e).then_some(p4::CounterData { byte_count: -1, packet_count: 5 }),
            ..Default::default()
        })
        .boxed()
}

fn entities(names: &Names) -> BoxedStrategy<Entity> {
    use entity::Entity as E;
    let index = || prop::option::of((-1i64..20).prop_map(|index| Index { index }));
    let counters = [names.counter("TestIngress.seen"), 0, 9];
    let registers = [names.register("TestIngress.last"), 0, 9];
    let count = prop::option::of((-1i64..9, 0i64..9)).prop_map(|counted| {
        counted.map(|(byte_count, packet_count)| p4::CounterData { byte_count, packet_count })
    });
    let data = prop_oneof![
        4 => bytes().prop_map(p4_data::Data::Bitstring),
        1 => any::<bool>().prop_map(p4_data::Data::Bool),
    ];
    let replica = (0u16..6, 0u32..3);
    prop_oneof![
        8 => likely(names).prop_map(E::TableEntry),
        4 => wild(names).prop_map(E::TableEntry),
        2 => (likely(names), count.clone()).prop_map(|(entry, data)| {
            E::DirectCounterEntry(p4::DirectCounterEntry { table_entry: Some(entry), data })
        }),
        2 => (prop::sample::select(counters.to_vec()), index(), count).prop_map(
            |(counter_id, index, data)| {
                E::CounterEntry(p4::CounterEntry { counter_id, index, data })
            }
        ),
        2 => (prop::sample::select(registers.to_vec()), index(), prop::option::of(data)).prop_map(
            |(register_id, index, data)| {
                let data = data.map(|data| P4Data { data: Some(data) });
                E::RegisterEntry(p4::RegisterEntry { register_id, index, data })
            }
        ),
        2 => (0u32..5, prop::collection::vec(replica, 0..4)).prop_map(|(id, replicas)| {
            group(id, &replicas).entity.unwrap()
        }),
        1 => any::<u32>().prop_map(|meter_id| {
            E::MeterEntry(p4::MeterEntry { meter_id, ..Default::default() })
        }),
    ]
    .prop_map(|entity| Entity { entity: Some(entity) })
    .boxed()
}

fn updates(names: &Names) -> impl Strategy<Value = Vec<Update>> {
    let entity = prop::option::weighted(0.98, entities(names));
    let update = (0i32..4, entity).prop_map(|(r#type, entity)| Update { r#type, entity });
    prop::collection::vec(update, 1..40)
}

/// The whole state in a canonical order.
fn state(switch: &Switch) -> Vec<String> {
    let mut all: Vec<String> = everything(switch).iter().map(|e| format!("{e:?}")).collect();
    all.sort();
    all
}

#[test]
fn refused_updates_change_nothing_and_refused_batches_are_undone() {
    let start = || switch(TABLES, SwitchConfig::default());
    let names = Names::of(&start());
    let config = ProptestConfig { failure_persistence: None, cases: 200, ..Default::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let strategy = (updates(&names), updates(&names));
    let result = runner.run(&strategy, |(first, second)| {
        let mut switch = start();
        for update in &first {
            let before = state(&switch);
            if write(&mut switch, update.clone()).is_err() {
                prop_assert_eq!(before, state(&switch), "{:?}", update);
            }
        }
        let before = state(&switch);
        let results = switch.write_batch(&second, Atomicity::RollbackOnError).unwrap();
        if results.iter().any(Result::is_err) {
            prop_assert_eq!(&before, &state(&switch));
            let causes = results
                .iter()
                .filter(|r| r.as_ref().is_err_and(|refusal| refusal.code != rpc::Code::Aborted));
            prop_assert_eq!(causes.count(), 1);
        }
        // Valid updates are also undone if an invalid one follows.
        let good: Vec<Update> =
            second.iter().filter(|u| write(&mut switch, (*u).clone()).is_ok()).cloned().collect();
        let mut switch = start();
        for update in first {
            drop(write(&mut switch, update));
        }
        let before = state(&switch);
        let batch = [&good[..], &[Update::default()]].concat();
        let results = switch.write_batch(&batch, Atomicity::DataplaneAtomic).unwrap();
        prop_assert!(results.iter().all(Result::is_err));
        prop_assert_eq!(&before, &state(&switch));
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}
