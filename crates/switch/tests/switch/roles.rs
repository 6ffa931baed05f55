//! Roles with a configuration, and numbered roles.

use prost::Message as _;
use tokio_stream::StreamExt as _;
use tonic::Code;
use tonic::transport::Channel;
use tributary_netio::FrameIo;
use tributary_p4runtime::google::rpc;
use tributary_p4runtime::p4::v1::p4_runtime_client::P4RuntimeClient;
use tributary_p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action;
use tributary_p4runtime::p4::v1::{
    self as p4, Entity, MasterArbitrationUpdate, ReadRequest, Role,
    SetForwardingPipelineConfigRequest, TableEntry, Update, WriteRequest, entity,
    stream_message_request, stream_message_response,
};

use crate::common::*;
use crate::features::{AGING, FEATURES, aging, request};
use crate::grpc::*;

/// Stratum's message, written down once more.
#[derive(Clone, PartialEq, prost::Message)]
struct Config {
    #[prost(uint32, repeated, tag = "1")]
    exclusive: Vec<u32>,
    #[prost(uint32, repeated, tag = "2")]
    shared: Vec<u32>,
    #[prost(message, optional, tag = "3")]
    filter: Option<Filter>,
    #[prost(bool, tag = "4")]
    packets: bool,
    #[prost(bool, tag = "5")]
    push: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Filter {
    #[prost(uint32, tag = "1")]
    metadata_id: u32,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

fn any(config: &Config) -> prost_types::Any {
    let type_url = "type.googleapis.com/stratum.P4RoleConfig".to_owned();
    prost_types::Any { type_url, value: config.encode_to_vec() }
}

fn role(name: &str, config: &Config) -> Role {
    Role { name: name.into(), config: Some(any(config)), ..Default::default() }
}

/// A stream of a role, which is primary with election id 1 if its role is accepted.
async fn join(
    client: &mut P4RuntimeClient<Channel>,
    role: Role,
) -> Result<(Controller, MasterArbitrationUpdate), tonic::Status> {
    let mut controller = Controller::open(client).await;
    let bid = MasterArbitrationUpdate {
        device_id: DEVICE,
        role: Some(role),
        election_id: Some(election(1)),
        status: None,
    };
    controller.say(stream_message_request::Update::Arbitration(bid)).await;
    match controller.hear().await? {
        stream_message_response::Update::Arbitration(update) => Ok((controller, update)),
        other => panic!("{other:?}"),
    }
}

fn writing_as(role: &str, updates: Vec<Update>) -> WriteRequest {
    WriteRequest { role: role.into(), ..writing(updates) }
}

async fn query_as(
    client: &mut P4RuntimeClient<Channel>,
    role: &str,
    entities: Vec<Entity>,
) -> Vec<Entity> {
    let request = ReadRequest { device_id: DEVICE, role: role.into(), entities };
    let mut parts = client.read(request).await.unwrap().into_inner();
    let mut all = Vec::new();
    while let Some(part) = parts.next().await {
        all.extend(part.unwrap().entities);
    }
    all
}

fn on(names: &Names, table: &str) -> Entity {
    table_entry(names.entry(table, 0, vec![], 1))
}

const LPM: &str = "TestIngress.lpm_table";

#[tokio::test]
async fn a_role_writes_and_reads_its_own_objects_only() {
    let device = device();
    let mut client = connect(&device.service).await;
    let _default = primary(&mut client).await;
    push(&mut client, TABLES).await;
    let names = names(TABLES);
    let optional =
        |answer| table_entry(names.entry("TestIngress.optional_table", 1, vec![], answer));
    let config = Config {
        exclusive: vec![names.table(LPM)],
        shared: vec![names.counter("TestIngress.seen")],
        ..Default::default()
    };
    let (_routes, told) = join(&mut client, role("routes", &config)).await.unwrap();
    // The configuration comes back as it was sent.
    assert_eq!(told.role, Some(role("routes", &config)));
    let shared = Config { shared: vec![names.counter("TestIngress.seen")], ..Default::default() };
    let (_other, _) = join(&mut client, role("other", &shared)).await.unwrap();
    let unlimited = Role { name: "unlimited".into(), ..Default::default() };
    let (_unlimited, _) = join(&mut client, unlimited).await.unwrap();

    let counter = |index| {
        let counter_id = names.counter("TestIngress.seen");
        let data = Some(p4::CounterData { packet_count: 1, byte_count: 1 });
        let index = Some(p4::Index { index });
        let entry = p4::CounterEntry { counter_id, index, data };
        Entity { entity: Some(entity::Entity::CounterEntry(entry)) }
    };
    let denied = rpc::Code::PermissionDenied;
    let batch = vec![
        insert(on(&names, LPM)),
        insert(optional(1)),
        modify(counter(0)),
        insert(group(1, &[(1, 1)])),
    ];
    let refused = client.write(writing_as("routes", batch)).await.unwrap_err();
    assert_eq!(codes(&refused), [rpc::Code::Ok, denied, rpc::Code::Ok, denied]);
    // Another role: with a configuration the table is not in it, without one it is another's.
    for name in ["other", "unlimited"] {
        let batch = vec![delete(on(&names, LPM)), modify(counter(1))];
        let refused = client.write(writing_as(name, batch)).await.unwrap_err();
        assert_eq!(codes(&refused), [denied, rpc::Code::Ok], "{name}");
    }
    client.write(writing_as("unlimited", vec![insert(optional(2))])).await.unwrap();
    // A refused update of a batch that is made as a whole reverts the others.
    let batch = vec![delete(on(&names, LPM)), insert(group(1, &[(1, 1)]))];
    let rollback = p4::write_request::Atomicity::RollbackOnError.into();
    let request = WriteRequest { atomicity: rollback, ..writing_as("routes", batch) };
    let refused = client.write(request).await.unwrap_err();
    assert_eq!(codes(&refused), [rpc::Code::Aborted, denied]);

    let all = || vec![table_entry(TableEntry::default())];
    assert_eq!(query_as(&mut client, "routes", all()).await, [on(&names, LPM)]);
    assert_eq!(query_as(&mut client, "other", all()).await, []);
    // Those written and the constant one.
    assert_eq!(query_as(&mut client, "", all()).await.len(), 3);
    // The default role may do everything.
    client.write(writing(vec![delete(on(&names, LPM))])).await.unwrap();
}

#[tokio::test]
async fn a_role_sets_the_program_if_its_configuration_says_so() {
    let device = device();
    let mut client = connect(&device.service).await;
    for (name, push, expected) in [("yes", true, None), ("no", false, Some(Code::PermissionDenied))]
    {
        let config = Config { push, ..Default::default() };
        let (_stream, _) = join(&mut client, role(name, &config)).await.unwrap();
        let request = SetForwardingPipelineConfigRequest {
            role: name.into(),
            ..set(Action::VerifyAndCommit, Some(crate::grpc::config(TABLES)))
        };
        let done = client.set_forwarding_pipeline_config(request).await;
        assert_eq!(done.err().map(|status| status.code()), expected, "{name}");
    }
}

#[tokio::test]
async fn wrong_configurations_of_roles_are_refused() {
    let device = device();
    let mut client = connect(&device.service).await;
    let own = Config { exclusive: vec![1], shared: vec![2], ..Default::default() };
    let (_first, _) = join(&mut client, role("first", &own)).await.unwrap();
    let ids = |exclusive: &[u32], shared: &[u32]| {
        let config =
            Config { exclusive: exclusive.into(), shared: shared.into(), ..Default::default() };
        any(&config)
    };
    let foreign = prost_types::Any { type_url: "type.googleapis.com/other".into(), value: vec![] };
    let broken = prost_types::Any { value: vec![0xff], ..ids(&[], &[]) };
    let many: Vec<u32> = (10..5000).collect();
    for (what, name, config, code) in [
        ("scheme", "second", foreign, Code::InvalidArgument),
        ("bytes", "second", broken, Code::InvalidArgument),
        ("zero", "second", ids(&[0], &[]), Code::InvalidArgument),
        ("twice", "second", ids(&[5], &[5]), Code::InvalidArgument),
        ("exclusive of both", "second", ids(&[1], &[]), Code::InvalidArgument),
        ("exclusive of the other", "second", ids(&[], &[1]), Code::InvalidArgument),
        ("shared by the other", "second", ids(&[2], &[]), Code::InvalidArgument),
        ("default role", "", ids(&[5], &[]), Code::InvalidArgument),
        ("number of ids", "second", ids(&many, &[]), Code::ResourceExhausted),
    ] {
        let role = Role { name: name.into(), config: Some(config), ..Default::default() };
        let refused = join(&mut client, role).await.map(|(_, told)| told);
        assert_eq!(refused.expect_err(what).code(), code, "{what}");
    }
    let fine = Role { config: Some(ids(&[3], &[2])), name: "second".into(), ..Default::default() };
    join(&mut client, fine).await.unwrap();
}

#[tokio::test]
async fn a_new_primary_changes_the_configuration_and_all_of_the_role_are_told() {
    let device = device();
    let mut client = connect(&device.service).await;
    let first = Config { exclusive: vec![1], ..Default::default() };
    let (mut old, _) = join(&mut client, role("r", &first)).await.unwrap();
    let second = Config { exclusive: vec![2], ..Default::default() };
    let bid = |id, config: Option<&Config>| {
        let role = Role { name: "r".into(), config: config.map(any), ..Default::default() };
        stream_message_request::Update::Arbitration(MasterArbitrationUpdate {
            device_id: DEVICE,
            role: Some(role),
            election_id: Some(election(id)),
            status: None,
        })
    };
    let told = async |controller: &mut Controller| match controller.hear().await.unwrap() {
        stream_message_response::Update::Arbitration(update) => update.role.unwrap().config,
        other => panic!("{other:?}"),
    };
    // A backup's configuration has no effect.
    let mut new = Controller::open(&mut client).await;
    new.say(bid(0, Some(&second))).await;
    assert_eq!(told(&mut new).await, Some(any(&first)));
    new.say(bid(5, Some(&second))).await;
    assert_eq!(told(&mut new).await, Some(any(&second)));
    assert_eq!(told(&mut old).await, Some(any(&second)));
    new.say(bid(5, None)).await;
    assert_eq!(told(&mut new).await, None, "without one the role may do everything");
}

#[tokio::test]
async fn digests_and_idle_entries_go_to_the_roles_that_have_them() {
    let mut device = device();
    let mut client = connect(&device.service).await;
    let mut default = primary(&mut client).await;
    push(&mut client, FEATURES).await;
    let names = names(FEATURES);
    let digest_id = names.0.digests[0].preamble.as_ref().unwrap().id;
    let table = names.table("TestIngress.aging");
    let learning = Config { shared: vec![digest_id], ..Default::default() };
    let timing = Config { shared: vec![table], ..Default::default() };
    let (mut learner, _) = join(&mut client, role("learner", &learning)).await.unwrap();
    let (mut timer, _) = join(&mut client, role("timer", &timing)).await.unwrap();
    let digest = p4::DigestEntry { digest_id, config: Some(Default::default()) };
    let digest = Entity { entity: Some(entity::Entity::DigestEntry(digest)) };
    let entry = aging(&names, "TestIngress.learn", &[], 30_000_000);
    client.write(writing(vec![insert(digest), insert(entry)])).await.unwrap();
    device.ports[1].send(&request(AGING, 7, 0)).unwrap();
    device.ports[1].flush().unwrap();
    let digest = |update: &stream_message_response::Update| {
        matches!(update, stream_message_response::Update::Digest(_))
    };
    let idle = |update: &stream_message_response::Update| {
        matches!(update, stream_message_response::Update::IdleTimeoutNotification(_))
    };
    let heard = [default.hear().await.unwrap(), default.hear().await.unwrap()];
    assert!(heard.iter().any(digest) && heard.iter().any(idle), "{heard:?}");
    assert!(digest(&learner.hear().await.unwrap()));
    // One digest, then idle entries only.
    assert!(idle(&timer.hear().await.unwrap()) && idle(&timer.hear().await.unwrap()));
    assert!(idle(&default.hear().await.unwrap()));
    // Nothing but the digest: the next message is an answer.
    learner.send.send(p4::StreamMessageRequest { update: None }).await.unwrap();
    let heard = learner.hear().await.unwrap();
    assert!(matches!(heard, stream_message_response::Update::Error(_)), "{heard:?}");
}

#[tokio::test]
async fn packets_go_to_the_roles_that_receive_them() {
    let mut device = device();
    let mut client = connect(&device.service).await;
    let mut default = primary(&mut client).await;
    push(&mut client, TRAFFIC).await;
    let (mut deaf, _) = join(&mut client, role("deaf", &Config::default())).await.unwrap();
    let all = Config { packets: true, ..Default::default() };
    let (mut all, _) = join(&mut client, role("all", &all)).await.unwrap();
    // The program's packets have no metadata, so none has this value.
    let filter = Some(Filter { metadata_id: 1, value: vec![1] });
    let some = Config { packets: true, filter, ..Default::default() };
    let (mut some, _) = join(&mut client, role("some", &some)).await.unwrap();
    device.ports[1].send(&probe(UNICAST, 0, tributary_switch::CPU_PORT, b"in")).unwrap();
    device.ports[1].flush().unwrap();
    for receiver in [&mut default, &mut all] {
        let heard = receiver.hear().await.unwrap();
        assert!(matches!(heard, stream_message_response::Update::Packet(_)), "{heard:?}");
    }
    // The next message of the others is an answer.
    for other in [&mut deaf, &mut some] {
        other.send.send(p4::StreamMessageRequest { update: None }).await.unwrap();
        let heard = other.hear().await.unwrap();
        assert!(matches!(heard, stream_message_response::Update::Error(_)), "{heard:?}");
    }
}

#[tokio::test]
#[allow(deprecated, reason = "older controllers send it")]
async fn a_numbered_role_is_the_role_with_this_name() {
    let device = device();
    let mut client = connect(&device.service).await;
    let _default = primary(&mut client).await;
    push(&mut client, TABLES).await;
    let numbered = Role { id: 7, ..Default::default() };
    let (mut controller, told) = join(&mut client, numbered.clone()).await.unwrap();
    assert_eq!(told.role, Some(numbered), "in the controller's form");
    let write = WriteRequest { role_id: 7, ..writing(vec![]) };
    client.write(write.clone()).await.unwrap();
    client.write(writing_as("7", vec![])).await.unwrap();
    let unheard = WriteRequest { role_id: 8, ..writing(vec![]) };
    assert_eq!(client.write(unheard).await.unwrap_err().code(), Code::NotFound);
    let verify = SetForwardingPipelineConfigRequest {
        role_id: 7,
        ..set(Action::Verify, Some(config(TABLES)))
    };
    client.set_forwarding_pipeline_config(verify).await.unwrap();
    // A named controller takes over; each is told in its own form.
    let named = MasterArbitrationUpdate {
        device_id: DEVICE,
        role: Some(Role { name: "7".into(), ..Default::default() }),
        election_id: Some(election(2)),
        status: None,
    };
    let mut other = Controller::open(&mut client).await;
    other.say(stream_message_request::Update::Arbitration(named)).await;
    assert_eq!(other.verdict().await, (rpc::Code::Ok, 2));
    assert_eq!(controller.verdict().await, (rpc::Code::AlreadyExists, 2));
    assert_eq!(client.write(write).await.unwrap_err().code(), Code::PermissionDenied);
}
