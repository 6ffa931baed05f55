//! P4Runtime over gRPC, with real clients.

use std::time::Duration;

use hyper_util::rt::TokioIo;
use prost::Message as _;
use tokio_stream::StreamExt as _;
use tonic::Code;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;
use tributary_netio::FrameIo;
use tributary_p4runtime::google::rpc;
use tributary_p4runtime::p4::v1::p4_runtime_client::P4RuntimeClient;
use tributary_p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action;
use tributary_p4runtime::p4::v1::{
    self as p4, CapabilitiesRequest, Entity, ForwardingPipelineConfig,
    GetForwardingPipelineConfigRequest, MasterArbitrationUpdate, PacketOut, ReadRequest,
    TableEntry, WriteRequest, get_forwarding_pipeline_config_request::ResponseType,
    stream_message_request, stream_message_response,
};
use tributary_switch::CPU_PORT;
use tributary_switch::server::{Listen, ServerError, ServerHandle};

use crate::common::*;
use crate::grpc::*;

#[tokio::test]
async fn the_primary_writes_and_the_backup_takes_over() {
    let device = device();
    let mut client = connect(&device.service).await;
    let mut first = Controller::open(&mut client).await;
    let mut second = Controller::open(&mut client).await;
    first.bid(1).await;
    assert_eq!(first.verdict().await, (rpc::Code::Ok, 1));
    push(&mut client, TABLES).await;

    second.bid(7).await;
    assert_eq!(first.verdict().await, (rpc::Code::AlreadyExists, 7));
    assert_eq!(second.verdict().await, (rpc::Code::Ok, 7));
    let refused = client.write(writing(vec![])).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    let refused = client.set_forwarding_pipeline_config(set(Action::Commit, None)).await;
    assert_eq!(refused.unwrap_err().code(), Code::PermissionDenied);
    let as_second = WriteRequest { election_id: Some(election(7)), ..writing(vec![]) };
    client.write(as_second.clone()).await.unwrap();

    drop(second);
    assert_eq!(first.verdict().await, (rpc::Code::NotFound, 7));
    assert_eq!(client.write(as_second).await.unwrap_err().code(), Code::PermissionDenied);
    first.bid(7).await;
    assert_eq!(first.verdict().await, (rpc::Code::Ok, 7));
}

#[tokio::test]
async fn streams_that_break_the_rules_are_ended_with_the_reason() {
    let device = device();
    let mut client = connect(&device.service).await;
    let _primary = primary(&mut client).await;
    let mut twin = Controller::open(&mut client).await;
    twin.bid(1).await;
    assert_eq!(twin.hear().await.unwrap_err().code(), Code::InvalidArgument);
    let mut lost = Controller::open(&mut client).await;
    lost.say(stream_message_request::Update::Arbitration(MasterArbitrationUpdate {
        device_id: DEVICE + 1,
        ..Default::default()
    }))
    .await;
    assert_eq!(lost.hear().await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn requests_for_another_device_or_without_a_pipeline() {
    let device = device();
    let mut client = connect(&device.service).await;
    let _primary = primary(&mut client).await;
    let code = client.write(writing(vec![])).await.unwrap_err().code();
    assert_eq!(code, Code::FailedPrecondition);
    assert_eq!(query(&mut client, vec![]).await.unwrap_err().code(), Code::FailedPrecondition);
    let wrong = WriteRequest { device_id: 9, ..writing(vec![]) };
    assert_eq!(client.write(wrong).await.unwrap_err().code(), Code::NotFound);
    let wrong = ReadRequest { device_id: 9, ..Default::default() };
    assert_eq!(client.read(wrong).await.unwrap_err().code(), Code::NotFound);
    let get = GetForwardingPipelineConfigRequest { device_id: DEVICE, response_type: 0 };
    let got = client.get_forwarding_pipeline_config(get).await.unwrap().into_inner();
    assert_eq!(got.config, None);
    let answer = client.capabilities(CapabilitiesRequest { device_id: DEVICE }).await.unwrap();
    assert_eq!(answer.into_inner().p4runtime_api_version, "1.4.1");
}

#[tokio::test]
async fn the_errors_of_a_program_are_in_the_status() {
    let device = device();
    let mut client = connect(&device.service).await;
    let _primary = primary(&mut client).await;
    push(&mut client, TABLES).await;
    let good = config(TRAFFIC);

    let line = 1 + TRAFFIC[..TRAFFIC.find("meta.passes = meta").unwrap()].matches('\n').count();
    let broken = TRAFFIC.replace("meta.passes = meta.passes + 1", "meta.passes = meta.pases + 1");
    let mut cases = vec![
        (ForwardingPipelineConfig { p4_device_config: broken.into(), ..good.clone() }, "pases"),
        (ForwardingPipelineConfig { p4_device_config: vec![0xff, 0xfe], ..good.clone() }, "text"),
        (ForwardingPipelineConfig { p4info: None, ..good.clone() }, "P4Info"),
        // The P4Info of another program.
        (ForwardingPipelineConfig { p4info: config(TABLES).p4info, ..good.clone() }, "exact_table"),
    ];
    for action in [Action::Verify, Action::VerifyAndSave, Action::VerifyAndCommit] {
        for (config, expected) in &cases {
            let request = set(action, Some(config.clone()));
            let status = client.set_forwarding_pipeline_config(request).await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument, "{status}");
            assert!(status.message().contains(expected), "{expected} not in {status}");
        }
        let request = set(action, None);
        let status = client.set_forwarding_pipeline_config(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
    }
    let (broken, _) = cases.swap_remove(0);
    let request = set(Action::Verify, Some(broken));
    let status = client.set_forwarding_pipeline_config(request).await.unwrap_err();
    assert!(status.message().contains(&format!(":{line}:")), "line {line} not in {status}");

    // The previous program still runs.
    let get = GetForwardingPipelineConfigRequest { device_id: DEVICE, response_type: 0 };
    let got = client.get_forwarding_pipeline_config(get).await.unwrap().into_inner();
    assert_eq!(got.config, Some(config(TABLES)));
}

#[tokio::test]
async fn verify_save_commit_and_get() {
    let device = device();
    let mut client = connect(&device.service).await;
    let _primary = primary(&mut client).await;
    let full = config(TRAFFIC);
    let status = async |client: &mut P4RuntimeClient<Channel>, request| {
        client.set_forwarding_pipeline_config(request).await.map(drop).map_err(|s| s.code())
    };
    let get = async |client: &mut P4RuntimeClient<Channel>, response_type: ResponseType| {
        let request = GetForwardingPipelineConfigRequest {
            device_id: DEVICE,
            response_type: response_type.into(),
        };
        client.get_forwarding_pipeline_config(request).await.unwrap().into_inner().config
    };
    assert_eq!(status(&mut client, set(Action::Verify, Some(full.clone()))).await, Ok(()));
    assert_eq!(get(&mut client, ResponseType::All).await, None, "VERIFY changes nothing");
    assert_eq!(status(&mut client, set(Action::Commit, None)).await, Err(Code::NotFound));
    assert_eq!(status(&mut client, set(Action::VerifyAndSave, Some(full.clone()))).await, Ok(()));
    let with_config = set(Action::Commit, Some(full.clone()));
    assert_eq!(status(&mut client, with_config).await, Err(Code::InvalidArgument));
    assert_eq!(status(&mut client, set(Action::Commit, None)).await, Ok(()));
    assert_eq!(status(&mut client, set(Action::Commit, None)).await, Err(Code::NotFound));
    let reconcile = set(Action::ReconcileAndCommit, Some(full.clone()));
    assert_eq!(status(&mut client, reconcile).await, Ok(()));
    let reconcile = set(Action::ReconcileAndCommit, None);
    assert_eq!(status(&mut client, reconcile).await, Err(Code::InvalidArgument));
    let unspecified = set(Action::Unspecified, Some(full.clone()));
    assert_eq!(status(&mut client, unspecified).await, Err(Code::InvalidArgument));

    let only = |p4info: bool, source: bool| ForwardingPipelineConfig {
        p4info: full.p4info.clone().filter(|_| p4info),
        p4_device_config: if source { full.p4_device_config.clone() } else { vec![] },
        cookie: full.cookie,
    };
    assert_eq!(get(&mut client, ResponseType::All).await, Some(full.clone()));
    assert_eq!(get(&mut client, ResponseType::CookieOnly).await, Some(only(false, false)));
    assert_eq!(get(&mut client, ResponseType::P4infoAndCookie).await, Some(only(true, false)));
    assert_eq!(
        get(&mut client, ResponseType::DeviceConfigAndCookie).await,
        Some(only(false, true))
    );
}

#[tokio::test]
async fn writes_report_each_update_and_reads_return_them() {
    let device = device();
    let mut client = connect(&device.service).await;
    let _primary = primary(&mut client).await;
    push(&mut client, TABLES).await;
    let names = names(TABLES);
    let entry = |b: u8| {
        let m = vec![exact(1, &[0]), exact(2, &[b])];
        table_entry(names.entry("TestIngress.exact_table", 0, m, b))
    };
    let batch = vec![insert(entry(1)), insert(entry(1)), insert(entry(2)), delete(entry(3))];
    let status = client.write(writing(batch)).await.unwrap_err();
    assert_eq!(status.code(), Code::Unknown);
    assert_eq!(
        codes(&status),
        [rpc::Code::Ok, rpc::Code::AlreadyExists, rpc::Code::Ok, rpc::Code::NotFound]
    );
    let table_id = names.table("TestIngress.exact_table");
    let all = table_entry(TableEntry { table_id, ..Default::default() });
    assert_eq!(query(&mut client, vec![all.clone()]).await.unwrap(), [entry(1), entry(2)]);

    // A refused batch of the other modes leaves nothing behind.
    for atomicity in [
        p4::write_request::Atomicity::RollbackOnError,
        p4::write_request::Atomicity::DataplaneAtomic,
    ] {
        let updates = vec![insert(entry(3)), delete(entry(1)), insert(entry(2)), delete(entry(2))];
        let request = WriteRequest { atomicity: atomicity.into(), ..writing(updates) };
        let status = client.write(request).await.unwrap_err();
        assert!(status.message().contains("ALREADY_EXISTS"), "{status}");
        let aborted = rpc::Code::Aborted;
        assert_eq!(codes(&status), [aborted, aborted, rpc::Code::AlreadyExists, aborted]);
        let mut left = query(&mut client, vec![all.clone()]).await.unwrap();
        left.sort_by_key(|entity| format!("{entity:?}"));
        assert_eq!(left, [entry(1), entry(2)]);
    }

    // Valid queries are answered, and the details name the failed one.
    let unknown = table_entry(TableEntry { table_id: 99, ..Default::default() });
    let request = ReadRequest {
        device_id: DEVICE,
        entities: vec![unknown.clone(), all.clone(), Entity::default()],
        ..Default::default()
    };
    let mut parts = client.read(request).await.unwrap().into_inner();
    assert_eq!(parts.next().await.unwrap().unwrap().entities.len(), 2);
    let status = parts.next().await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Unknown);
    let expected = [rpc::Code::NotFound, rpc::Code::Ok, rpc::Code::InvalidArgument];
    assert_eq!(codes(&status), expected);

    // Also if there is no other query, so that nothing is sent before the status.
    let failed = tokio::time::timeout(Duration::from_secs(60), query(&mut client, vec![unknown]));
    assert_eq!(codes(&failed.await.unwrap().unwrap_err()), [rpc::Code::NotFound]);
}

#[tokio::test]
async fn long_answers_come_in_parts() {
    let device = device();
    let mut client = connect(&device.service).await;
    let _primary = primary(&mut client).await;
    push(&mut client, TABLES).await;
    let names = names(TABLES);
    let entries: Vec<Entity> = (0..60u8)
        .map(|i| {
            let m = vec![lpm(1, &[i + 1, 0, 0, 0], 8)];
            let entry = names.entry("TestIngress.lpm_table", 0, m, i);
            table_entry(TableEntry { metadata: vec![i; 100_000], ..entry })
        })
        .collect();
    let updates = entries.iter().cloned().map(insert).collect();
    client.write(writing(updates)).await.unwrap();
    let table_id = names.table("TestIngress.lpm_table");
    let template = table_entry(TableEntry { table_id, ..Default::default() });
    let request = ReadRequest { device_id: DEVICE, entities: vec![template], ..Default::default() };
    let mut parts = client.read(request).await.unwrap().into_inner();
    let mut sizes = Vec::new();
    let mut all = Vec::new();
    while let Some(part) = parts.next().await {
        let part = part.unwrap();
        sizes.push(part.encoded_len());
        all.extend(part.entities);
    }
    assert_eq!(all, entries);
    assert!(sizes.len() > 1 && sizes.iter().all(|&size| size < 2 << 20), "{sizes:?}");
}

#[tokio::test]
async fn packets_go_out_and_come_in() {
    let mut device = device();
    let mut client = connect(&device.service).await;
    let mut controller = primary(&mut client).await;
    let mut backup = Controller::open(&mut client).await;
    backup.bid(0).await;
    assert_eq!(backup.verdict().await, (rpc::Code::AlreadyExists, 1));
    let packet =
        |payload| stream_message_request::Update::Packet(PacketOut { payload, metadata: vec![] });
    let complaint = |heard| match heard {
        Ok(stream_message_response::Update::Error(error)) => error,
        other => panic!("{other:?}"),
    };
    controller.say(packet(probe(UNICAST, 0, 1, b"too early"))).await;
    let error = complaint(controller.hear().await);
    assert_eq!(error.canonical_code, i32::from(rpc::Code::FailedPrecondition));
    push(&mut client, TRAFFIC).await;

    backup.say(packet(probe(UNICAST, 0, 1, b"no"))).await;
    let error = complaint(backup.hear().await);
    assert_eq!(error.canonical_code, i32::from(rpc::Code::PermissionDenied));
    assert!(matches!(error.details, Some(p4::stream_error::Details::PacketOut(_))));

    controller.say(packet(probe(UNICAST, 0, 1, b"out"))).await;
    let arrived = tokio::task::spawn_blocking(move || {
        let mut frames = Vec::new();
        while frames.is_empty() {
            device.ports[0].wait(Some(Duration::from_secs(10))).unwrap();
            device.ports[0].receive(9, &mut |frame| frames.push(frame.to_vec())).unwrap();
        }
        device.ports[1].send(&probe(UNICAST, 0, CPU_PORT, b"in")).unwrap();
        device.ports[1].flush().unwrap();
        (frames, device)
    });
    let (frames, _device) = arrived.await.unwrap();
    assert_eq!(frames.len(), 1);
    assert_eq!((seen(&frames[0]).name, seen(&frames[0]).ingress_port), (b"out".to_vec(), CPU_PORT));
    match controller.hear().await.unwrap() {
        stream_message_response::Update::Packet(packet) => {
            assert_eq!(seen(&packet.payload).name, b"in");
        }
        other => panic!("{other:?}"),
    }
}

/// Servers on TCP with a free port and on a Unix socket, and errors for occupied addresses.
#[tokio::test(flavor = "multi_thread")]
async fn servers_listen_and_stop_with_streams_open() {
    let device = device();
    let blocking = tokio::task::spawn_blocking(move || {
        let listen = Listen::Tcp("127.0.0.1:0".parse().unwrap());
        (ServerHandle::start(device.service.clone(), listen).unwrap(), device)
    });
    let (server, device) = blocking.await.unwrap();
    let Listen::Tcp(address) = *server.address() else { panic!("{:?}", server.address()) };
    assert_ne!(address.port(), 0);
    let channel = Endpoint::try_from(format!("http://{address}")).unwrap().connect().await.unwrap();
    let mut client = P4RuntimeClient::new(channel);
    let mut controller = primary(&mut client).await;

    let (taken, stopped) = tokio::task::spawn_blocking(move || {
        let taken = ServerHandle::start(device.service.clone(), server.address().clone());
        (taken.map(drop), server.stop())
    })
    .await
    .unwrap();
    let error = taken.unwrap_err();
    assert!(matches!(error, ServerError::Listen { .. }));
    let expected = format!("cannot serve P4Runtime on {address}: the address is in use");
    assert_eq!(error.to_string(), expected);
    stopped.unwrap();
    let end = tokio::time::timeout(Duration::from_secs(10), controller.receive.next()).await;
    assert!(matches!(end.unwrap(), None | Some(Err(_))), "the stream was closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn unix_sockets_are_cleared_away() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("switch.sock");
    // A socket that a killed server left behind, and a regular file.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let other = directory.path().join("notes.txt");
    std::fs::write(&other, "keep").unwrap();
    let device = device();
    let (start, listen) = (device.service.clone(), Listen::Unix(path.clone()));
    let server = tokio::task::spawn_blocking(move || ServerHandle::start(start, listen));
    let server = server.await.unwrap().unwrap();

    let connecting = path.clone();
    let connector = service_fn(move |_: Uri| {
        let path = connecting.clone();
        async move { tokio::net::UnixStream::connect(path).await.map(TokioIo::new) }
    });
    let channel = Endpoint::from_static("http://switch").connect_with_connector(connector).await;
    let mut client = P4RuntimeClient::new(channel.unwrap());
    client.capabilities(CapabilitiesRequest { device_id: 0 }).await.unwrap();

    let service = device.service.clone();
    let results = tokio::task::spawn_blocking(move || {
        let taken = [Listen::Unix(path.clone()), Listen::Unix(other.clone())]
            .map(|listen| ServerHandle::start(service.clone(), listen).map(drop).unwrap_err());
        let stopped = server.stop();
        (taken, stopped, path.exists(), std::fs::read_to_string(other).unwrap())
    });
    let (taken, stopped, socket_left, notes) = results.await.unwrap();
    assert!(taken.iter().all(|error| error.to_string().contains("in use")), "{taken:?}");
    stopped.unwrap();
    assert!(!socket_left);
    assert_eq!(notes, "keep");
}

#[tokio::test]
async fn a_stopped_switch_is_unavailable() {
    let Device { service, _switch: handle, .. } = device();
    let mut client = connect(&service).await;
    let _primary = primary(&mut client).await;
    let report = tokio::task::spawn_blocking(|| handle.stop()).await.unwrap();
    assert_eq!(report.ports.len(), 3);
    assert_eq!(client.write(writing(vec![])).await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(query(&mut client, vec![]).await.unwrap_err().code(), Code::Unavailable);
}
