//! Requirements of the P4Runtime specification on sessions, calls and streams that the other tests do
//! not show. `docs/reference/p4runtime-matrix.md` lists all requirements with their tests.

use std::time::Duration;

use tokio_stream::StreamExt as _;
use tonic::Code;
use tributary_netio::FrameIo;
use tributary_p4runtime::google::rpc;
use tributary_p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action;
use tributary_p4runtime::p4::v1::{
    self as p4, CapabilitiesRequest, Entity, ForwardingPipelineConfig,
    GetForwardingPipelineConfigRequest, MasterArbitrationUpdate, PacketOut, ReadRequest, Role,
    SetForwardingPipelineConfigRequest, TableEntry, Uint128, WriteRequest, stream_message_request,
    stream_message_response,
};
use tributary_switch::CPU_PORT;

use crate::common::*;
use crate::features::FEATURES;
use crate::grpc::*;

/// A bid as it is, and the answer.
async fn bid(
    controller: &mut Controller,
    role: Option<Role>,
    election_id: Option<Uint128>,
) -> Result<MasterArbitrationUpdate, tonic::Status> {
    let bid = MasterArbitrationUpdate { device_id: DEVICE, role, election_id, status: None };
    controller.say(stream_message_request::Update::Arbitration(bid)).await;
    match controller.hear().await? {
        stream_message_response::Update::Arbitration(update) => Ok(update),
        other => panic!("{other:?}"),
    }
}

fn code_of(update: &MasterArbitrationUpdate) -> rpc::Code {
    update.status.as_ref().unwrap().code.try_into().unwrap()
}

fn error_of(heard: Result<stream_message_response::Update, tonic::Status>) -> p4::StreamError {
    match heard {
        Ok(stream_message_response::Update::Error(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_election_id_of_zero_is_not_an_unset_one() {
    let device = device();
    let mut client = connect(&device.service).await;
    let mut standby = Controller::open(&mut client).await;
    let told = bid(&mut standby, None, None).await.unwrap();
    assert_eq!((code_of(&told), told.election_id, told.role), (rpc::Code::NotFound, None, None));
    let mut first = Controller::open(&mut client).await;
    let told = bid(&mut first, None, Some(election(0))).await.unwrap();
    assert_eq!((code_of(&told), told.election_id), (rpc::Code::Ok, Some(election(0))));
    assert_eq!(standby.verdict().await, (rpc::Code::AlreadyExists, 0));
    let zero = WriteRequest { election_id: Some(election(0)), ..writing(vec![]) };
    // It is the primary: only the missing program is wrong.
    assert_eq!(client.write(zero).await.unwrap_err().code(), Code::FailedPrecondition);
    let unset = WriteRequest { election_id: None, ..writing(vec![]) };
    assert_eq!(client.write(unset).await.unwrap_err().code(), Code::PermissionDenied);
    // Several controllers may stand by.
    let mut other = Controller::open(&mut client).await;
    let told = bid(&mut other, None, None).await.unwrap();
    assert_eq!(code_of(&told), rpc::Code::AlreadyExists);
}

#[tokio::test]
async fn the_high_half_of_an_election_id_counts() {
    let device = device();
    let mut client = connect(&device.service).await;
    let _low = primary(&mut client).await;
    let mut high = Controller::open(&mut client).await;
    let told = bid(&mut high, None, Some(Uint128 { high: 1, low: 0 })).await.unwrap();
    assert_eq!(code_of(&told), rpc::Code::Ok);
    let refused = client.write(writing(vec![])).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
}

#[tokio::test]
async fn every_role_has_a_primary_and_the_name_is_part_of_each_request() {
    let device = device();
    let mut client = connect(&device.service).await;
    let _default = primary(&mut client).await;
    push(&mut client, TABLES).await;
    let mut other = Controller::open(&mut client).await;
    let role = || Some(Role { name: "metrics".into(), ..Default::default() });
    let told = bid(&mut other, role(), Some(election(1))).await.unwrap();
    assert_eq!((code_of(&told), told.role.unwrap().name), (rpc::Code::Ok, "metrics".into()));
    let with = |role: &str, id| WriteRequest {
        role: role.into(),
        election_id: Some(election(id)),
        ..writing(vec![])
    };
    client.write(with("metrics", 1)).await.unwrap();
    client.write(with("", 1)).await.unwrap();
    let writer = client.clone();
    let code = async |request| writer.clone().write(request).await.unwrap_err().code();
    assert_eq!(code(with("metrics", 2)).await, Code::PermissionDenied);
    assert_eq!(code(with("unheard", 1)).await, Code::NotFound);
    let request = |role: &str| SetForwardingPipelineConfigRequest {
        role: role.into(),
        ..set(Action::Verify, Some(config(TABLES)))
    };
    client.set_forwarding_pipeline_config(request("metrics")).await.unwrap();
    let refused = client.set_forwarding_pipeline_config(request("unheard")).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    // When its controller is gone, the role is known, but has no primary.
    drop(other);
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while client.write(with("metrics", 1)).await.is_ok() {
        assert!(std::time::Instant::now() < deadline, "the stream is still open");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(code(with("metrics", 1)).await, Code::PermissionDenied);
}

#[tokio::test]
async fn a_stream_keeps_its_role_and_its_device() {
    let device = device();
    let mut client = connect(&device.service).await;
    let mut controller = primary(&mut client).await;
    let role = Some(Role { name: "other".into(), ..Default::default() });
    let refused = bid(&mut controller, role, Some(election(1))).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    let mut controller = primary(&mut client).await;
    let moved = MasterArbitrationUpdate {
        device_id: DEVICE + 1,
        election_id: Some(election(1)),
        ..Default::default()
    };
    controller.say(stream_message_request::Update::Arbitration(moved)).await;
    assert_eq!(controller.hear().await.unwrap_err().code(), Code::FailedPrecondition);
}

#[tokio::test]
async fn every_call_checks_the_device_first() {
    let device = device();
    let mut client = connect(&device.service).await;
    let other = DEVICE + 1;
    // No controller is primary and no program is set: the device is still what is wrong.
    let write = WriteRequest { device_id: other, ..writing(vec![]) };
    assert_eq!(client.write(write).await.unwrap_err().code(), Code::NotFound);
    let push = SetForwardingPipelineConfigRequest {
        device_id: other,
        ..set(Action::VerifyAndCommit, Some(config(TABLES)))
    };
    let refused = client.set_forwarding_pipeline_config(push).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    let get = GetForwardingPipelineConfigRequest { device_id: other, response_type: 0 };
    let refused = client.get_forwarding_pipeline_config(get).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    let refused = client.capabilities(CapabilitiesRequest { device_id: other }).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    // Then the controller, before the program.
    let refused = client.write(writing(vec![])).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    let refused = client.set_forwarding_pipeline_config(set(Action::Commit, None)).await;
    assert_eq!(refused.unwrap_err().code(), Code::PermissionDenied);
}

#[tokio::test]
async fn reading_needs_no_controller() {
    let device = device();
    let mut client = connect(&device.service).await;
    let controller = primary(&mut client).await;
    push(&mut client, TABLES).await;
    drop(controller);
    let mut other = connect(&device.service).await;
    let constant = query(&mut other, vec![table_entry(TableEntry::default())]).await.unwrap();
    assert_eq!(constant.len(), 1);
    let request = ReadRequest {
        device_id: DEVICE,
        role: "any".into(),
        entities: vec![table_entry(TableEntry::default()); 2],
    };
    // An entity that two queries select is sent twice.
    let mut parts = other.read(request).await.unwrap().into_inner();
    let mut count = 0;
    while let Some(part) = parts.next().await {
        count += part.unwrap().entities.len();
    }
    assert_eq!(count, 2);
}

#[tokio::test]
async fn reads_during_a_long_write_are_answered() {
    let device = device();
    let mut client = connect(&device.service).await;
    let _primary = primary(&mut client).await;
    push(&mut client, TABLES).await;
    let names = names(TABLES);
    let entry = |i: u8| {
        table_entry(names.entry("TestIngress.lpm_table", 0, vec![lpm(1, &[i + 1, 0, 0, 0], 8)], i))
    };
    let updates = (0..60).map(|i| insert(entry(i))).collect();
    let mut writer = client.clone();
    let written = tokio::spawn(async move { writer.write(writing(updates)).await });
    let template =
        TableEntry { table_id: names.table("TestIngress.lpm_table"), ..Default::default() };
    for _ in 0..20 {
        let found = query(&mut client, vec![table_entry(template.clone())]).await.unwrap();
        assert!(found.len() <= 60);
    }
    written.await.unwrap().unwrap();
    assert_eq!(query(&mut client, vec![table_entry(template)]).await.unwrap().len(), 60);
}

#[tokio::test]
async fn malformed_updates_and_requests_are_refused() {
    let device = device();
    let mut client = connect(&device.service).await;
    let _primary = primary(&mut client).await;
    push(&mut client, TABLES).await;
    client.write(writing(vec![])).await.unwrap();
    let unknown = WriteRequest { atomicity: 9, ..writing(vec![]) };
    assert_eq!(client.write(unknown).await.unwrap_err().code(), Code::InvalidArgument);
    let names = names(TABLES);
    let good = table_entry(names.entry("TestIngress.lpm_table", 0, vec![], 1));
    let batch = vec![
        p4::Update { r#type: 0, entity: Some(good.clone()) },
        p4::Update { r#type: 77, entity: Some(good.clone()) },
        p4::Update { r#type: 1, entity: None },
        insert(Entity::default()),
        insert(good),
    ];
    let status = client.write(writing(batch)).await.unwrap_err();
    let invalid = rpc::Code::InvalidArgument;
    assert_eq!(codes(&status), [invalid, invalid, invalid, invalid, rpc::Code::Ok]);
    let get = GetForwardingPipelineConfigRequest { device_id: DEVICE, response_type: 9 };
    let refused = client.get_forwarding_pipeline_config(get).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn the_details_of_a_batch_have_the_code_and_nothing_else_for_a_success() {
    use prost::Message as _;
    let device = device();
    let mut client = connect(&device.service).await;
    let _primary = primary(&mut client).await;
    push(&mut client, TABLES).await;
    let names = names(TABLES);
    let entry = table_entry(names.entry("TestIngress.lpm_table", 0, vec![], 1));
    let batch = vec![insert(entry.clone()), insert(entry)];
    let status = client.write(writing(batch)).await.unwrap_err();
    let details = rpc::Status::decode(status.details()).unwrap();
    assert_eq!((details.code, &details.message[..]), (rpc::Code::Unknown as i32, status.message()));
    let errors: Vec<p4::Error> =
        details.details.iter().map(|any| p4::Error::decode(&any.value[..]).unwrap()).collect();
    assert_eq!(errors[0], p4::Error::default());
    assert_eq!(errors[1].canonical_code, rpc::Code::AlreadyExists as i32);
    assert!(errors[1].message.contains("lpm_table"), "{:?}", errors[1]);
}

#[tokio::test]
async fn committing_a_program_clears_the_state() {
    let device = device();
    let mut client = connect(&device.service).await;
    let _primary = primary(&mut client).await;
    push(&mut client, TABLES).await;
    let names = names(TABLES);
    let entry = table_entry(names.entry("TestIngress.lpm_table", 0, vec![], 1));
    client.write(writing(vec![insert(entry), insert(group(3, &[(1, 1)]))])).await.unwrap();
    push(&mut client, TABLES).await;
    let template =
        TableEntry { table_id: names.table("TestIngress.lpm_table"), ..Default::default() };
    let left = query(&mut client, vec![table_entry(template), group(0, &[])]).await.unwrap();
    assert_eq!(left, []);
    // Without a cookie there is none to return.
    let without = ForwardingPipelineConfig { cookie: None, ..config(TABLES) };
    let request = set(Action::VerifyAndCommit, Some(without.clone()));
    client.set_forwarding_pipeline_config(request).await.unwrap();
    let get = GetForwardingPipelineConfigRequest { device_id: DEVICE, response_type: 0 };
    let got = client.get_forwarding_pipeline_config(get).await.unwrap().into_inner();
    assert_eq!(got.config, Some(without));
}

#[tokio::test]
async fn messages_that_are_not_set_or_not_known_do_not_end_a_stream() {
    let device = device();
    let mut client = connect(&device.service).await;
    let mut controller = primary(&mut client).await;
    let message = p4::StreamMessageRequest { update: None };
    controller.send.send(message).await.unwrap();
    let error = error_of(controller.hear().await);
    assert_eq!(error.canonical_code, rpc::Code::InvalidArgument as i32);
    let any = prost_types::Any { type_url: "type.googleapis.com/other".into(), value: vec![] };
    controller.say(stream_message_request::Update::Other(any.clone())).await;
    let error = error_of(controller.hear().await);
    assert_eq!(error.canonical_code, rpc::Code::Unimplemented as i32);
    let Some(p4::stream_error::Details::Other(other)) = error.details else { panic!("{error:?}") };
    assert_eq!(other.other, Some(any));
    assert_eq!(
        bid(&mut controller, None, Some(election(1))).await.map(|u| code_of(&u)).unwrap(),
        rpc::Code::Ok
    );
}

#[tokio::test]
async fn packet_outs_with_wrong_metadata_are_dropped_and_returned() {
    let device = device();
    let mut client = connect(&device.service).await;
    let mut controller = primary(&mut client).await;
    push(&mut client, TRAFFIC).await;
    let metadata = vec![p4::PacketMetadata { metadata_id: 7, value: vec![1] }];
    let packet = PacketOut { payload: probe(UNICAST, 0, 1, b"lost"), metadata };
    controller.say(stream_message_request::Update::Packet(packet.clone())).await;
    let error = error_of(controller.hear().await);
    assert_eq!(error.canonical_code, rpc::Code::InvalidArgument as i32);
    let Some(p4::stream_error::Details::PacketOut(details)) = error.details else {
        panic!("{error:?}")
    };
    assert_eq!(details.packet_out, Some(packet));
}

#[tokio::test]
async fn packets_come_to_the_primaries_of_all_roles_and_to_no_backup() {
    let mut device = device();
    let mut client = connect(&device.service).await;
    let mut controller = primary(&mut client).await;
    push(&mut client, TRAFFIC).await;
    let mut backup = Controller::open(&mut client).await;
    let told = bid(&mut backup, None, Some(election(0))).await.unwrap();
    assert_eq!(code_of(&told), rpc::Code::AlreadyExists);
    let mut other = Controller::open(&mut client).await;
    let role = Some(Role { name: "other".into(), ..Default::default() });
    bid(&mut other, role, Some(election(0))).await.unwrap();
    let mut ports = tokio::task::spawn_blocking(move || {
        device.ports[1].send(&probe(UNICAST, 0, CPU_PORT, b"in")).unwrap();
        device.ports[1].flush().unwrap();
        device
    })
    .await
    .unwrap();
    for primary in [&mut controller, &mut other] {
        match primary.hear().await.unwrap() {
            stream_message_response::Update::Packet(packet) => {
                assert_eq!(seen(&packet.payload).name, b"in");
            }
            other => panic!("{other:?}"),
        }
    }
    // The next message of the backup is the answer to its own.
    let told = bid(&mut backup, None, Some(election(0))).await.unwrap();
    assert_eq!(code_of(&told), rpc::Code::AlreadyExists);
    ports.ports.clear();
}

#[tokio::test]
async fn lists_of_digests_are_acknowledged_by_the_primary_only() {
    let device = device();
    let mut client = connect(&device.service).await;
    let _primary = primary(&mut client).await;
    push(&mut client, FEATURES).await;
    let mut backup = Controller::open(&mut client).await;
    bid(&mut backup, None, Some(election(0))).await.unwrap();
    let digest_id = names(FEATURES).0.digests[0].preamble.as_ref().unwrap().id;
    let ack = p4::DigestListAck { digest_id, list_id: 1 };
    backup.say(stream_message_request::Update::DigestAck(ack)).await;
    let error = error_of(backup.hear().await);
    assert_eq!(error.canonical_code, rpc::Code::PermissionDenied as i32);
}
