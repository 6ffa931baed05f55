//! Clients that request much and read little: the switch's memory stays bounded, and others are
//! served.

use std::time::{Duration, Instant};

use tokio_stream::StreamExt as _;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};
use tributary_p4runtime::p4::v1::p4_runtime_client::P4RuntimeClient;
use tributary_p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action;
use tributary_p4runtime::p4::v1::{
    CapabilitiesRequest, ForwardingPipelineConfig, ReadRequest, ReadResponse, RegisterEntry,
    TableEntry, entity,
};
use tributary_switch::server::{Listen, ServerHandle};

use crate::common::*;
use crate::grpc::*;

/// Memory limit of undrained reads: two parts of 128 KiB for each read in progress, plus encoding
/// and transport.
const COST_KIB: u64 = 96 << 10;

/// How long the controller may have to wait on a busy machine.
const PROMPTLY: Duration = Duration::from_secs(5);

/// A server on a Unix socket, as in `tributary switch`.
async fn serve(device: &Device) -> (tempfile::TempDir, ServerHandle) {
    let folder = tempfile::tempdir().unwrap();
    let address = Listen::Unix(folder.path().join("p4runtime"));
    let service = device.service.clone();
    // It creates a tokio runtime of its own.
    let started = tokio::task::spawn_blocking(|| ServerHandle::start(service, address).unwrap());
    (folder, started.await.unwrap())
}

async fn client(server: &ServerHandle) -> P4RuntimeClient<Channel> {
    P4RuntimeClient::new(
        Endpoint::try_from(server.address().to_string()).unwrap().connect().await.unwrap(),
    )
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

const REGISTER: &str = "register<bit<20>>(16) last;";

/// tables.p4 with a register of 131 072 cells.
pub(crate) fn large() -> String {
    TABLES.replacen(REGISTER, &format!("{REGISTER} register<bit<64>>(1 << 17) much;"), 1)
}

fn all_registers() -> ReadRequest {
    let entity = entity::Entity::RegisterEntry(RegisterEntry::default());
    let entities = vec![tributary_p4runtime::p4::v1::Entity { entity: Some(entity) }];
    ReadRequest { device_id: DEVICE, entities, ..Default::default() }
}

/// Reads whose answers no client takes.
pub(crate) async fn undrained(
    client: &mut P4RuntimeClient<Channel>,
    count: usize,
) -> (Vec<Streaming<ReadResponse>>, Vec<Status>) {
    let (mut open, mut refused) = (Vec::new(), Vec::new());
    for _ in 0..count {
        match client.read(all_registers()).await {
            Ok(answers) => open.push(answers.into_inner()),
            Err(status) => refused.push(status),
        }
    }
    (open, refused)
}

#[tokio::test(flavor = "multi_thread")]
async fn undrained_reads_cost_little_and_cut_nobody_off() {
    let device = device();
    let (_folder, server) = serve(&device).await;
    let mut controller = client(&server).await;
    let _primary = primary(&mut controller).await;
    push(&mut controller, &large()).await;
    let before = resident_kib();

    let (mut crowd, mut open) = (Vec::new(), 0);
    for _ in 0..5 {
        let mut hostile = client(&server).await;
        let (answers, refused) = undrained(&mut hostile, 100).await;
        assert!(answers.len() <= 16, "{} reads of one connection", answers.len());
        assert!(refused.iter().all(|status| status.code() == Code::ResourceExhausted));
        assert!(refused[0].message().contains("reads of"), "{}", refused[0]);
        open += answers.len();
        crowd.push((hostile, answers));
    }
    assert_eq!(open, 64, "all that are not the controller's");
    tokio::time::sleep(Duration::from_millis(500)).await;
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < COST_KIB, "{grown} KiB more");

    // The controller reads and writes as before.
    let start = Instant::now();
    let names = names(&large());
    let entry = names.entry("TestIngress.exact_table", 0, vec![exact(1, &[7]), exact(2, &[7])], 1);
    controller.write(writing(vec![insert(table_entry(entry))])).await.unwrap();
    let table_id = names.table("TestIngress.exact_table");
    let template = TableEntry { table_id, ..Default::default() };
    assert_eq!(query(&mut controller, vec![table_entry(template)]).await.unwrap().len(), 1);
    assert!(start.elapsed() < PROMPTLY, "{:?}", start.elapsed());

    // An answer that is finally taken is complete. The other answers of its client are dropped
    // first, because they hold the flow-control window of their connection.
    let (_, of_one) = crowd.iter_mut().find(|(_, answers)| !answers.is_empty()).unwrap();
    let mut answers = of_one.pop().unwrap();
    of_one.clear();
    let mut cells = 0;
    while let Some(part) = answers.next().await {
        cells += part.unwrap().entities.len();
    }
    assert!(cells >= 1 << 17, "{cells}");
    drop(answers);
    drop(crowd);
    server.stop().unwrap();
}

/// Entries that exist all the time are read exactly once, whatever is written between the parts.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_table_is_read_in_parts_while_it_changes() {
    let device = device();
    let mut client = connect(&device.service).await;
    let _primary = primary(&mut client).await;
    let source = TABLES.replacen("size = 4;", "size = 50000;", 1);
    push(&mut client, &source).await;
    let names = names(&source);
    let table = "TestIngress.exact_table";
    let entry = |i: u64| {
        table_entry(names.entry(table, 0, vec![exact(1, &shortest(i)), exact(2, &[7])], 1))
    };
    let entries = 2000;
    client.write(writing((0..entries).map(|i| insert(entry(i))).collect())).await.unwrap();

    let template = table_entry(TableEntry { table_id: names.table(table), ..Default::default() });
    let request = ReadRequest { device_id: DEVICE, entities: vec![template], ..Default::default() };
    let mut answers = client.read(request.clone()).await.unwrap().into_inner();
    let mut seen = answers.next().await.unwrap().unwrap().entities;
    assert!(seen.len() < entries as usize / 2, "{} entries in the first part", seen.len());
    let gone = 200;
    let changes = (0..gone).flat_map(|i| [delete(entry(i)), insert(entry(100_000 + i))]);
    client.write(writing(changes.collect())).await.unwrap();
    while let Some(part) = answers.next().await {
        seen.extend(part.unwrap().entities);
    }
    for i in gone..entries {
        let wanted = entry(i);
        let count = seen.iter().filter(|seen| **seen == wanted).count();
        assert_eq!(count, 1, "entry {i}");
    }

    // Another program makes the read fail. The answer exceeds the buffers of a connection, so the
    // server cannot have finished it by then.
    client.write(writing((200_000..230_000).map(|i| insert(entry(i))).collect())).await.unwrap();
    let mut answers = client.read(request).await.unwrap().into_inner();
    push(&mut client, &source).await;
    let mut last = answers.next().await.unwrap();
    while let Some(part) = answers.next().await {
        last = part;
    }
    assert_eq!(last.unwrap_err().code(), Code::Aborted);
}

const SLOW: &str = "void f0(inout bit<32> x) { x = x + 1; }";

/// A program whose compilation runs until a limit of the compiler ends it.
fn slow() -> String {
    let twice = |i| format!("void f{i}(inout bit<32> x) {{ f{0}(x); f{0}(x); }}\n", i - 1);
    let functions: String = (1..40).map(twice).collect();
    let control = "control TestIngress";
    let source = TABLES.replacen(control, &format!("{SLOW}\n{functions}{control}"), 1);
    source.replacen("seen.count(", "bit<32> doubled = 1; f39(doubled); seen.count(", 1)
}

fn sent(source: &str) -> ForwardingPipelineConfig {
    ForwardingPipelineConfig { p4_device_config: source.into(), ..config(TABLES) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_program_is_refused_while_others_are_served() {
    let device = device();
    let (_folder, server) = serve(&device).await;
    let mut controller = client(&server).await;
    let _primary = primary(&mut controller).await;
    push(&mut controller, TABLES).await;
    let mut pushing = controller.clone();
    let pushed = tokio::spawn(async move {
        let request = set(Action::VerifyAndCommit, Some(sent(&slow())));
        pushing.set_forwarding_pipeline_config(request).await
    });
    let mut other = client(&server).await;
    while !pushed.is_finished() {
        let start = Instant::now();
        other.capabilities(CapabilitiesRequest::default()).await.unwrap();
        query(&mut other, vec![table_entry(TableEntry::default())]).await.unwrap();
        assert!(start.elapsed() < PROMPTLY, "{:?}", start.elapsed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let status = pushed.await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("the program is too large"), "{status}");

    for (hostile, what) in [
        ("#if 1\n".repeat(200_000), "`#if`s inside one another"),
        ("x y;\n".repeat(50_000), "there is no type `x`"),
        (
            TABLES.replacen(
                REGISTER,
                &format!("{REGISTER} register<bit<32>>(4000000000) huge;"),
                1,
            ),
            "huge",
        ),
    ] {
        let request = set(Action::VerifyAndCommit, Some(sent(&hostile)));
        let status = controller.set_forwarding_pipeline_config(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{what}");
        assert!(status.message().contains(what), "{status}");
    }
}

/// As on Ctrl-C: the server ends at once, while it compiles and answers wait to be taken.
#[tokio::test(flavor = "multi_thread")]
async fn the_server_ends_while_it_compiles_and_while_nobody_reads() {
    let device = device();
    let (_folder, server) = serve(&device).await;
    let mut controller = client(&server).await;
    let _primary = primary(&mut controller).await;
    push(&mut controller, &large()).await;
    let (_answers, _) = undrained(&mut client(&server).await, 5).await;
    let mut pushed = Vec::new();
    for _ in 0..20 {
        let mut controller = controller.clone();
        pushed.push(tokio::spawn(async move {
            let request = set(Action::VerifyAndCommit, Some(sent(&slow())));
            controller.set_forwarding_pipeline_config(request).await
        }));
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let start = Instant::now();
    tokio::task::spawn_blocking(|| server.stop().unwrap()).await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
}
