//! The driver against a device that this file emulates, with its faults, and hostile bytes.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use super::wire::{self, Body, Flow, HEADER, Message, Part, Request};
use super::*;

/// A flow of a device: table, priority, cookie, match and instructions.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Row {
    table: u8,
    priority: u16,
    cookie: u64,
    fields: Vec<u8>,
    instructions: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Fault {
    #[default]
    None,
    /// Accepts connections and sends nothing.
    Mute,
    /// Knows only OpenFlow 1.0.
    Old,
    /// Does not answer barriers.
    NoBarrier,
    /// Ignores flows that lead to this port.
    Blind(u8),
    /// Refuses to add flows.
    Full,
    /// Answers flow statistics with bytes that mean nothing.
    Garbage,
    /// Closes the connection when flows are added.
    Crash,
    /// Never ends its list of flows.
    Endless,
}

/// An OpenFlow device with four ports.
#[derive(Clone)]
struct Device {
    path: PathBuf,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    rows: Vec<Row>,
    fault: Fault,
    echoes: usize,
    /// Flows that were added or removed.
    changes: usize,
    /// The most rows that led to one port, or from one, at any time.
    crowd: usize,
}

fn message(kind: u8, xid: u32, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(HEADER + body.len()).unwrap().to_be_bytes();
    [&[4, kind], &length[..], &xid.to_be_bytes(), body].concat()
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(8), 0);
    padded
}

impl Row {
    /// From a FLOW_MOD without its header.
    fn read(body: &[u8]) -> (u8, Self) {
        let length = usize::from(u16::from_be_bytes([body[42], body[43]]));
        let row = Self {
            table: body[16],
            priority: u16::from_be_bytes([body[22], body[23]]),
            cookie: u64::from_be_bytes(body[..8].try_into().unwrap()),
            fields: body[40..40 + length].to_vec(),
            instructions: body[40 + length.next_multiple_of(8)..].to_vec(),
        };
        (body[17], row)
    }

    /// As an item of flow statistics.
    fn statistics(&self) -> Vec<u8> {
        let fields = padded(&self.fields);
        let length = 48 + fields.len() + self.instructions.len();
        let mut item = u16::try_from(length).unwrap().to_be_bytes().to_vec();
        item.extend([self.table, 0]);
        item.extend([7; 8]); // age
        item.extend(self.priority.to_be_bytes());
        item.extend([0; 10]); // timeouts, flags, padding
        item.extend(self.cookie.to_be_bytes());
        item.extend([9; 16]); // packets and bytes
        item.extend(fields);
        item.extend(&self.instructions);
        item
    }
}

impl Device {
    /// Starts a device that serves one connection after another.
    fn start(directory: &tempfile::TempDir) -> Self {
        let path = directory.path().join("device");
        let listener = UnixListener::bind(&path).unwrap();
        let device = Self { path, state: Arc::default() };
        let served = device.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                // A connection may end at any time.
                let _ = served.serve(stream).await;
            }
        });
        device
    }

    fn driver(&self) -> Box<dyn CrossConnect> {
        let path = self.path.display().to_string();
        crate::crossconnect::connect(
            &format!("openflow:unix:{path}"),
            Duration::from_millis(300),
            None,
        )
        .unwrap()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    async fn serve(&self, mut stream: UnixStream) -> std::io::Result<()> {
        let version = if self.state().fault == Fault::Old { 1 } else { 4 };
        if self.state().fault != Fault::Mute {
            let mut hello = message(0, 77, &[]);
            hello[0] = version;
            stream.write_all(&hello).await?;
            stream.write_all(&message(2, 78, b"alive?")).await?;
        }
        loop {
            let mut header = [0; HEADER];
            stream.read_exact(&mut header).await?;
            let mut body = vec![0; wire::length(header).unwrap() - HEADER];
            stream.read_exact(&mut body).await?;
            let xid = u32::from_be_bytes(header[4..].try_into().unwrap());
            let answer = self.answer(header[1], xid, &body);
            if self.state().fault == Fault::Crash && header[1] == 14 {
                return Ok(());
            }
            let endless = self.state().fault == Fault::Endless && header[1] == 18 && body[1] == 1;
            for part in answer.iter().cycle().take(if endless { usize::MAX } else { answer.len() })
            {
                stream.write_all(part).await?;
            }
        }
    }

    fn answer(&self, kind: u8, xid: u32, body: &[u8]) -> Vec<Vec<u8>> {
        let mut state = self.state();
        match (kind, state.fault) {
            (_, Fault::Mute) | (20, Fault::NoBarrier) => vec![],
            (3, _) => {
                assert_eq!((xid, body), (78, &b"alive?"[..]));
                state.echoes += 1;
                vec![]
            }
            (5, _) => vec![message(6, xid, &[5; 24])],
            (14, Fault::Full) => vec![message(1, xid, &[0, 5, 0, 1])],
            (14, fault) => {
                let (command, row) = Row::read(body);
                state.changes += 1;
                let same = |known: &Row| {
                    (known.table, known.priority, &known.fields)
                        == (row.table, row.priority, &row.fields)
                };
                state.rows.retain(|known| !same(known));
                let ignored =
                    matches!(fault, Fault::Blind(port) if row.instructions.get(15) == Some(&port));
                if command == 0 && !ignored {
                    state.rows.push(row);
                }
                let count = |port: fn(&Row) -> u8| {
                    let ports: Vec<u8> =
                        state.rows.iter().filter(|row| row.fields.len() == 12).map(port).collect();
                    (1..5).map(|port| ports.iter().filter(|at| **at == port).count()).max()
                };
                let crowd = count(|row| row.fields[11]).max(count(|row| row.instructions[15]));
                state.crowd = state.crowd.max(crowd.unwrap());
                vec![]
            }
            (18, fault) if body[1] == 1 => {
                // One part for each row, and an empty one at the end.
                let reply = |more, item: &[u8]| {
                    message(19, xid, &[&[0, 1, 0, more, 0, 0, 0, 0], item].concat())
                };
                if fault == Fault::Endless {
                    let row = state.rows[0].statistics();
                    return vec![reply(1, &row.repeat(60_000 / row.len()))];
                }
                if fault == Fault::Garbage {
                    return vec![reply(0, &[0, 60, 1, 2, 3])];
                }
                let rows = state.rows.iter().map(|row| reply(1, &row.statistics()));
                rows.chain([reply(0, &[])]).collect()
            }
            (18, _) => {
                let port = |number: u32| [&number.to_be_bytes()[..], &[0; 60]].concat();
                let ports = [4, 2, 1, 3, 0xffff_fffe].map(port).concat();
                vec![message(19, xid, &[&[0, 13, 0, 0, 0, 0, 0, 0], &ports[..]].concat())]
            }
            (20, _) => vec![message(21, xid, &[])],
            _ => vec![],
        }
    }
}

fn circuits(pairs: &[(u16, u16)]) -> Circuits {
    Circuits::new(pairs.iter().map(|&(a, b)| (Port(a), Port(b)))).unwrap()
}

#[tokio::test]
async fn circuits_are_two_flows_each() {
    let directory = tempfile::tempdir().unwrap();
    let device = Device::start(&directory);
    let mut driver = device.driver();
    assert_eq!(driver.ports().await, Ok(4), "the reserved port does not count");
    assert_eq!(driver.circuits().await, Ok(Circuits::DARK));
    for pairs in [&[(1, 2), (3, 4)][..], &[(1, 3), (2, 4)], &[(2, 4)], &[(1, 4), (2, 3)], &[]] {
        driver.change(&circuits(pairs)).await.unwrap();
        assert_eq!(driver.circuits().await, Ok(circuits(pairs)));
        assert_eq!(device.state().rows.len(), 2 * pairs.len());
    }
    assert_eq!(device.state().crowd, 1, "no port enters or leaves two circuits at any time");
    assert_eq!(device.state().echoes, 1);
}

#[tokio::test]
async fn a_circuit_that_stays_is_not_touched() {
    let directory = tempfile::tempdir().unwrap();
    let device = Device::start(&directory);
    let mut driver = device.driver();
    driver.change(&circuits(&[(1, 2), (3, 4)])).await.unwrap();
    assert_eq!(device.state().changes, 4);
    driver.change(&circuits(&[(1, 2)])).await.unwrap();
    assert_eq!(device.state().changes, 4 + 2, "two flows are removed");
    driver.change(&circuits(&[(1, 2), (3, 4)])).await.unwrap();
    assert_eq!(device.state().changes, 6 + 2, "two flows are added");
}

#[tokio::test]
async fn flows_of_others_are_reported_and_removed() {
    let directory = tempfile::tempdir().unwrap();
    let device = Device::start(&directory);
    let mut driver = device.driver();
    driver.change(&circuits(&[(1, 2)])).await.unwrap();
    let fields = vec![0, 1, 0, 4];
    let foreign = Row { table: 3, priority: 9, cookie: 0xab, fields, instructions: vec![] };
    device.state().rows.remove(1);
    device.state().rows.push(foreign);
    let error = driver.circuits().await.unwrap_err().to_string();
    assert!(error.contains("a flow from port 1 to port 2, and none back"), "{error}");
    assert!(error.contains("a flow in table 3 with priority 9 and cookie 0xab"), "{error}");
    driver.change(&circuits(&[(1, 2)])).await.unwrap();
    assert_eq!(device.state().rows.len(), 2);
}

#[tokio::test]
async fn each_fault_has_its_error() {
    let directory = tempfile::tempdir().unwrap();
    let device = Device::start(&directory);
    let mut driver = device.driver();
    let silent = "does not answer within 300ms";
    for (fault, message) in [
        (Fault::NoBarrier, silent),
        (Fault::Blind(3), "did not do as asked at ports 1, 3: its circuits are 2-4"),
        (Fault::Full, "refuses: OpenFlow error of type 5, code 1"),
        (Fault::Garbage, "refuses: a message is malformed: it ends too early"),
        (Fault::Crash, "cannot reach"),
        (Fault::Mute, silent),
        (Fault::Old, "refuses: it does not support OpenFlow 1.3"),
    ] {
        if matches!(fault, Fault::Mute | Fault::Old) {
            driver = device.driver();
        }
        device.state().fault = fault;
        let error = driver.change(&circuits(&[(1, 3), (2, 4)])).await.unwrap_err();
        assert!(error.to_string().contains(message), "{fault:?}: {error}");
        device.state().fault = Fault::None;
        driver.change(&circuits(&[(3, 4)])).await.unwrap();
    }
    device.state().fault = Fault::Blind(3);
    let wrong = driver.change(&circuits(&[(1, 2), (3, 4)])).await;
    assert_eq!(wrong, Ok(()), "what exists is not sent again");
}

#[tokio::test]
async fn an_endless_answer_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let device = Device::start(&directory);
    let address = format!("openflow:unix:{}", device.path.display());
    let mut driver = crate::crossconnect::connect(&address, Duration::from_secs(60), None).unwrap();
    driver.change(&circuits(&[(1, 2)])).await.unwrap();
    device.state().fault = Fault::Endless;
    let error = driver.circuits().await.unwrap_err().to_string();
    assert!(
        error.ends_with("it lists its flows or ports with more than 67108864 bytes"),
        "{error}"
    );
}

#[tokio::test]
async fn a_device_that_is_not_there_cannot_be_reached() {
    let mut driver =
        crate::crossconnect::connect("openflow:unix:/nowhere", Duration::from_secs(9), None)
            .unwrap();
    let error = driver.circuits().await.unwrap_err();
    assert!(matches!(&error, Error::Unreachable { .. }), "{error}");
    assert!(error.to_string().starts_with("cannot reach the cross-connect openflow:unix:/nowhere"));
}

#[test]
fn requests_have_the_bytes_of_the_specification() {
    let flow = Flow::between(Port(1), Port(258), 0x8000, 0x1122_3344_5566_7788);
    let hex = |request: Request| -> String {
        request.bytes(0x0a0b_0c0d).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    assert_eq!(hex(Request::Hello), "040000100a0b0c0d0001000800000010");
    assert_eq!(hex(Request::Incompatible), "0401000c0a0b0c0d00000000");
    assert_eq!(hex(Request::Features), "040500080a0b0c0d");
    assert_eq!(hex(Request::Barrier), "041400080a0b0c0d");
    assert_eq!(hex(Request::EchoReply(vec![5, 6])), "0403000a0a0b0c0d0506");
    assert_eq!(hex(Request::Ports), "041200100a0b0c0d000d000000000000");
    assert_eq!(
        hex(Request::Flows),
        "041200380a0b0c0d0001000000000000\
         ff000000ffffffffffffffff00000000\
         000000000000000000000000000000000001000400000000"
    );
    assert_eq!(
        hex(Request::Add(flow.clone())),
        "040e00580a0b0c0d112233445566778800000000000000000000000000008000\
         ffffffffffffffffffffffff000000000001000c800000040000000100000000\
         0004001800000000000000100000010200000000000000"
            .to_owned()
            + "00"
    );
    assert_eq!(
        hex(Request::Delete(flow)),
        "040e00400a0b0c0d112233445566778800000000000000000004000000008000\
         ffffffffffffffffffffffff000000000001000c800000040000000100000000"
    );
}

#[test]
fn versions_are_negotiated() {
    let hello = |version: u8, body: &[u8]| {
        let mut bytes = message(0, 1, body);
        bytes[0] = version;
        wire::read(&bytes).map(|message| message.body)
    };
    let says = |compatible| Ok(Body::Hello { compatible });
    assert_eq!(hello(4, &[]), says(true));
    assert_eq!(hello(6, &[]), says(true), "without a bitmap, the lower version counts");
    assert_eq!(hello(1, &[]), says(false));
    assert_eq!(hello(6, &[0, 1, 0, 8, 0, 0, 0, 0x52]), says(true));
    assert_eq!(hello(6, &[0, 1, 0, 8, 0, 0, 0, 0x42]), says(false));
    assert_eq!(hello(4, &[0, 9, 0, 5, 1, 0, 0, 0, 0, 1, 0, 8, 0, 0, 0, 0x02]), says(false));
    assert!(hello(4, &[0, 9, 0, 3]).is_err());
    assert!(hello(4, &[0, 1, 0, 8, 0]).is_err());
}

fn any_flow() -> impl Strategy<Value = Flow> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..40);
    (any::<(u8, u16, u64, u16, u16, u16)>(), bytes(), bytes()).prop_map(
        |((table, priority, cookie, idle, hard, flags), fields, instructions)| {
            let length = u16::try_from(4 + fields.len()).unwrap().to_be_bytes();
            let fields = [&[0, 1], &length[..], &fields].concat();
            Flow { table, priority, cookie, idle, hard, flags, fields, instructions }
        },
    )
}

proptest! {
    #[test]
    fn flows_come_back_as_they_were_added(flow in any_flow(), more in 0..2_u8) {
        let flow = Flow { idle: 0, hard: 0, flags: 0, ..flow };
        let (command, row) = Row::read(&Request::Add(flow.clone()).bytes(1)[HEADER..]);
        prop_assert_eq!(command, 0);
        let body = [&[0, 1, 0, more, 0, 0, 0, 0], &row.statistics()[..]].concat();
        let part = Part { items: vec![flow], more: more == 1, bytes: HEADER + body.len() };
        let expected = Message { xid: 5, body: Body::Flows(part) };
        prop_assert_eq!(wire::read(&message(19, 5, &body)), Ok(expected));
    }

    #[test]
    fn only_flows_of_circuits_have_ports(flow in any_flow(), a: u16, b: u16) {
        prop_assert_eq!(flow.ports(), None);
        let ours = Flow::between(Port(a), Port(b), PRIORITY, COOKIE);
        prop_assert_eq!(ours.ports(), Some((Port(a), Port(b))));
        prop_assert_eq!(direction(&ours), Some((Port(a), Port(b))));
        prop_assert_eq!(Flow { idle: 1, ..ours.clone() }.ports(), None);
        prop_assert_eq!(Flow { table: 1, ..ours.clone() }.ports(), None);
        prop_assert_eq!(direction(&Flow { cookie: 1, ..ours }), None);
    }

    #[test]
    fn no_bytes_panic(kind in 0..25_u8, part in 0..15_u8, mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        // An error is as good as a message.
        let _ = wire::read(&bytes);
        if bytes.len() > 1 {
            (bytes[0], bytes[1]) = (0, part);
        }
        let _ = wire::read(&message(kind, 1, &bytes));
    }

    #[test]
    fn spoilt_messages_do_not_panic(flow in any_flow(), at: prop::sample::Index, value: u8, cut: prop::sample::Index) {
        let (_, row) = Row::read(&Request::Add(flow).bytes(1)[HEADER..]);
        let mut bytes = message(19, 5, &[&[0, 1, 0, 0, 0, 0, 0, 0], &row.statistics()[..]].concat());
        let shorter = &bytes[..cut.index(bytes.len())];
        // Cut between the header of the statistics and the flow, it is a message without flows.
        prop_assert_eq!(wire::read(shorter).is_ok(), shorter.len() == 16);
        let at = at.index(bytes.len());
        bytes[at] = value;
        let _ = wire::read(&bytes);
    }
}
