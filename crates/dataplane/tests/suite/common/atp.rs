//! The ATP program of this repository, configured for one job of two workers and their server.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use tributary_dataplane::{ActionCall, KeyMatch, Pipeline, TableEntry, Value};
use tributary_p4::ir::{Program, TableId};
use tributary_p4::{Sources, compile};

pub const JOB: u16 = 5;
pub const EPOCH: u32 = 0x6a0c_51d7;
/// Port of the parameter server; worker w is at port w + 1.
pub const SERVER_PORT: u16 = 9;
pub const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// Compiles the program for this many values per packet.
pub fn program(values: usize) -> Program {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4src/v1model/atp.p4");
    let defines = [("VALUES".to_owned(), values.to_string())];
    compile(&Sources::disk(), path, &defines).unwrap_or_else(|e| panic!("{e:?}")).program
}

/// Number of a table, by the end of its name.
pub fn table(program: &Program, suffix: &str) -> TableId {
    let at = program.tables.iter().position(|table| table.name.ends_with(suffix));
    TableId(at.unwrap_or_else(|| panic!("no table {suffix}")) as u32)
}

/// A call of an action that a table offers, by the end of its name.
pub fn call(program: &Program, table: TableId, suffix: &str, args: &[u64]) -> ActionCall {
    let action = program.tables[table.index()]
        .actions
        .iter()
        .position(|offered| program.actions[offered.action.index()].name.ends_with(suffix))
        .unwrap_or_else(|| panic!("no action {suffix}"));
    ActionCall { action: action as u32, args: args.iter().map(|&arg| Value::from(arg)).collect() }
}

/// Loads the program; workers 0 and 1 meet in this switch.
pub fn switch(values: usize) -> Pipeline {
    let program = program(values);
    let mut pipeline = super::load(program.clone()).unwrap();
    let exact = |value: u64| KeyMatch::Exact(Value::from(value));
    let memberships = table(&program, "memberships");
    for worker in 0..2 {
        pipeline
            .insert(
                memberships,
                TableEntry::new(
                    vec![
                        exact(JOB.into()),
                        exact(EPOCH.into()),
                        exact(worker + 1),
                        exact(1),
                        exact(0),
                    ],
                    0,
                    call(&program, memberships, "contribute", &[1 << worker, 3, 3, 0, 1]),
                ),
            )
            .unwrap();
    }
    let hosts = table(&program, "hosts");
    pipeline
        .insert(
            hosts,
            TableEntry::new(
                vec![KeyMatch::Exact(Value::from_be_bytes(&SERVER_MAC))],
                0,
                call(&program, hosts, "to_port", &[SERVER_PORT.into()]),
            ),
        )
        .unwrap();
    pipeline
}

/// Offsets of the fields that tests change in a frame.
pub const BITMAP: usize = 14 + 20 + 8 + 16;
pub const VALUES: usize = 14 + 20 + 8 + 28;

/// A fresh gradient of a worker.
pub fn gradient(worker: u32, sequence: u32, index: u32, values: &[u32]) -> Vec<u8> {
    let mut payload = vec![1, 1, 0, 0];
    payload.extend(JOB.to_be_bytes());
    payload.extend((values.len() as u16).to_be_bytes());
    for word in [EPOCH, sequence, 1 << worker, 0, index] {
        payload.extend(word.to_be_bytes());
    }
    payload.extend(values.iter().flat_map(|value| value.to_be_bytes()));
    let mut frame = Vec::new();
    etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, worker as u8 + 1], SERVER_MAC)
        .ip(etherparse::IpHeaders::Ipv4(
            etherparse::Ipv4Header {
                dont_fragment: true,
                ecn: etherparse::IpEcn::TWO,
                ..etherparse::Ipv4Header::new(
                    0,
                    64,
                    etherparse::ip_number::UDP,
                    [10, 0, 0, 1],
                    [10, 0, 0, 9],
                )
                .unwrap()
            },
            Default::default(),
        ))
        .udp(29810, 29810)
        .write(&mut frame, &payload)
        .unwrap();
    // The switch changes the payload, so there is no UDP checksum.
    frame[40..42].fill(0);
    frame
}
