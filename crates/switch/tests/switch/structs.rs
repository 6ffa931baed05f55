//! Structs in structs: cells of registers, and data of digests.

use tributary_netio::FrameIo;
use tributary_p4runtime::google::rpc::Code;
use tributary_p4runtime::p4::config::v1 as info;
use tributary_p4runtime::p4::v1::write_request::Atomicity;
use tributary_p4runtime::p4::v1::{
    self as p4, Entity, Index, P4Data, P4StructLike, RegisterEntry, Update, digest_entry, entity,
    p4_data, stream_message_response,
};
use tributary_switch::{Switch, SwitchConfig};

use crate::common::*;
use crate::grpc::*;

const STRUCTS: &str = include_str!("programs/structs.p4");

fn bits(value: u64) -> P4Data {
    P4Data { data: Some(p4_data::Data::Bitstring(shortest(value))) }
}

fn flag(value: bool) -> P4Data {
    P4Data { data: Some(p4_data::Data::Bool(value)) }
}

fn list(members: Vec<P4Data>) -> P4Data {
    P4Data { data: Some(p4_data::Data::Struct(P4StructLike { members })) }
}

fn pair(members: Vec<P4Data>) -> P4Data {
    P4Data { data: Some(p4_data::Data::Tuple(P4StructLike { members })) }
}

/// A cell of `flows`.
fn flow(seen: bool, low: u64, high: u64, first: u64, second: u64) -> P4Data {
    list(vec![flag(seen), list(vec![bits(low), bits(high)]), pair(vec![bits(first), bits(second)])])
}

fn cell(switch: &Switch, index: Option<i64>, data: Option<P4Data>) -> Entity {
    let register_id = Names::of(switch).register("TestIngress.flows");
    let index = index.map(|index| Index { index });
    Entity {
        entity: Some(entity::Entity::RegisterEntry(RegisterEntry { register_id, index, data })),
    }
}

/// A packet with an operation, an index and a value.
fn frame(op: u8, index: u8, value: u16) -> Vec<u8> {
    let [high, low] = value.to_be_bytes();
    vec![op, index, high, low, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
}

#[test]
fn cells_are_structs_of_structs() {
    let mut switch = switch(STRUCTS, SwitchConfig::default());
    switch.receive(0, 1, &frame(0, 2, 0x1234));
    let all = read(&switch, cell(&switch, None, None));
    assert_eq!(all.len(), 4);
    assert_eq!(all[2], cell(&switch, Some(2), Some(flow(true, 0x34, 0x1234, 2, 1))));
    assert_eq!(all[3], cell(&switch, Some(3), Some(flow(false, 0, 0, 0, 0))));

    let new = flow(true, 0xff, 0xffff, 1, 2);
    let update = modify(cell(&switch, Some(3), Some(new.clone())));
    write(&mut switch, update).unwrap();
    assert_eq!(read(&switch, cell(&switch, Some(3), None)), [cell(&switch, Some(3), Some(new))]);

    let before = everything(&switch);
    let tuple_as_struct =
        list(vec![flag(true), list(vec![bits(0), bits(0)]), list(vec![bits(0), bits(0)])]);
    for (data, code) in [
        (flow(true, 0x100, 0, 0, 0), Code::OutOfRange),
        (bits(1), Code::InvalidArgument),
        (list(vec![flag(true), bits(1)]), Code::InvalidArgument),
        (list(vec![flag(true), bits(1), pair(vec![bits(0), bits(0)])]), Code::InvalidArgument),
        (tuple_as_struct, Code::InvalidArgument),
        (P4Data { data: None }, Code::InvalidArgument),
    ] {
        let update = modify(cell(&switch, Some(3), Some(data.clone())));
        assert_eq!(write(&mut switch, update).unwrap_err().code, code, "{data:?}");
        assert_eq!(everything(&switch), before);
    }
}

/// P4Runtime has a member for `bit<0>`, the switch stores nothing for it.
#[test]
fn members_without_bits_are_empty_strings() {
    let program = STRUCTS
        .replace("bit<8> low;", "bit<8> low; bit<0> none;")
        .replace("{ hdr.h.value[7:0],", "{ hdr.h.value[7:0], 0,")
        .replace("{ hdr.h.index,", "{ hdr.h.index, 0,");
    let flow = |low: u64, none: &[u8], high: u64| {
        let none = P4Data { data: Some(p4_data::Data::Bitstring(none.to_vec())) };
        let kinds = pair(vec![bits(2), bits(1)]);
        list(vec![flag(true), list(vec![bits(low), none, bits(high)]), kinds])
    };
    let mut switch = switch(&program, SwitchConfig::default());
    switch.receive(0, 1, &frame(0, 2, 0x1234));
    let stored = cell(&switch, Some(2), Some(flow(0x34, &[], 0x1234)));
    assert_eq!(read(&switch, cell(&switch, Some(2), None)), [stored]);

    let new = cell(&switch, Some(2), Some(flow(5, &[], 6)));
    write(&mut switch, modify(new.clone())).unwrap();
    assert_eq!(read(&switch, cell(&switch, Some(2), None)), [new]);
    let wrong = modify(cell(&switch, Some(2), Some(flow(5, &[0], 6))));
    assert_eq!(write(&mut switch, wrong).unwrap_err().code, Code::InvalidArgument);
}

#[test]
fn cells_are_rolled_back_as_a_whole() {
    let mut switch = switch(STRUCTS, SwitchConfig::default());
    switch.receive(0, 1, &frame(0, 1, 0x1234));
    let before = everything(&switch);
    let updates = [
        modify(cell(&switch, Some(1), Some(flow(false, 1, 2, 3, 0)))),
        modify(cell(&switch, None, Some(flow(true, 4, 5, 6, 1)))),
    ];
    let failing = [&updates[..], &[Update::default()]].concat();
    let results = switch.write_batch(&failing, Atomicity::RollbackOnError).unwrap();
    assert!(results.iter().all(Result::is_err), "{results:?}");
    assert_eq!(everything(&switch), before);
    let results = switch.write_batch(&updates, Atomicity::RollbackOnError).unwrap();
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_ne!(everything(&switch), before);
}

/// A program that is reconciled keeps its registers, except where their cells have other parts.
#[test]
fn cells_survive_a_program_with_the_same_structs() {
    let mut switch = switch(STRUCTS, SwitchConfig::default());
    switch.receive(0, 1, &frame(0, 1, 0x1234));
    let before = everything(&switch);
    switch
        .reconcile(forwarding(&STRUCTS.replace("sm.egress_spec = 1;", "sm.egress_spec = 2;")))
        .unwrap();
    assert_eq!(everything(&switch), before);
    let other = STRUCTS.replace("tuple<bit<4>, bit<2>>", "tuple<bit<4>, bit<3>>");
    assert_ne!(other, STRUCTS);
    assert!(switch.reconcile(forwarding(&other)).is_err());
    assert_eq!(everything(&switch), before);
}

#[test]
fn p4info_describes_the_structs() {
    use info::p4_data_type_spec::TypeSpec;
    let switch = switch(STRUCTS, SwitchConfig::default());
    let names = Names::of(&switch);
    let Some(TypeSpec::Struct(named)) = names.0.registers[0].type_spec.clone().unwrap().type_spec
    else {
        panic!("{:?}", names.0.registers);
    };
    let structs = &names.0.type_info.as_ref().unwrap().structs;
    let members: Vec<&str> = structs[&named.name].members.iter().map(|m| m.name.as_str()).collect();
    assert_eq!((named.name.as_str(), &members[..]), ("flow_t", &["seen", "span", "kinds"][..]));
    assert!(structs.contains_key("span_t"));
}

#[tokio::test]
async fn digests_carry_structs_in_structs() {
    let Device { service, mut ports, _switch } = device();
    let mut client = connect(&service).await;
    let mut controller = primary(&mut client).await;
    push(&mut client, STRUCTS).await;
    let digest_id = forwarding(STRUCTS).p4info().digests[0].preamble.as_ref().unwrap().id;
    let config = digest_entry::Config { max_timeout_ns: 0, max_list_size: 1, ack_timeout_ns: 0 };
    let entry = p4::DigestEntry { digest_id, config: Some(config) };
    let entry = Entity { entity: Some(entity::Entity::DigestEntry(entry)) };
    client.write(writing(vec![insert(entry)])).await.unwrap();
    ports[1].send(&frame(1, 9, 0x1234)).unwrap();
    ports[1].flush().unwrap();
    match controller.hear().await.unwrap() {
        stream_message_response::Update::Digest(digests) => {
            assert_eq!(digests.data, [flow(true, 9, 0x1234, 1, 0)]);
        }
        other => panic!("{other:?}"),
    }
}
