//! Action profiles, meters, value sets, digests, timeouts and clone sessions, written by a
//! controller and used by packets.

use std::collections::BTreeSet;

use tributary_netio::FrameIo;
use tributary_p4runtime::google::rpc::Code;
use tributary_p4runtime::p4::config::v1::Preamble;
use tributary_p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action as Config;
use tributary_p4runtime::p4::v1::write_request::Atomicity;
use tributary_p4runtime::p4::v1::{
    self as p4, Entity, Index, MeterConfig, TableAction, TableEntry, Update, entity, p4_data,
    stream_message_request, stream_message_response, table_action,
};
use tributary_switch::{Switch, SwitchConfig};

use crate::common::*;
use crate::grpc::*;

pub(crate) const FEATURES: &str = include_str!("programs/features.p4");

const PROFILED: u8 = 0;
pub(crate) const SELECTED: u8 = 1;
pub(crate) const BY_INDEX: u8 = 2;
pub(crate) const BY_ENTRY: u8 = 3;
pub(crate) const AGING: u8 = 4;
const INITIAL: u8 = 5;

pub(crate) fn features() -> (Switch, Names) {
    let switch = switch(FEATURES, SwitchConfig::default());
    let names = Names::of(&switch);
    (switch, names)
}

pub(crate) fn request(kind: u8, key: u16, seed: u32) -> Vec<u8> {
    let mut frame = vec![kind, 0];
    frame.extend(key.to_be_bytes());
    frame.extend(seed.to_be_bytes());
    frame.resize(20, 0);
    frame
}

/// The colour and answer of a returned packet.
pub(crate) fn ask(switch: &mut Switch, now_us: u64, kind: u8, key: u16, seed: u32) -> (u8, u8) {
    switch.receive(now_us, 2, &request(kind, key, seed));
    let frame = transmit(switch, now_us, 1).expect("the packet goes out");
    (frame[1], frame[8])
}

pub(crate) fn id_of(preambles: impl Iterator<Item = Option<Preamble>>, name: &str) -> u32 {
    preambles.flatten().find(|p| p.name.ends_with(name)).unwrap_or_else(|| panic!("no {name}")).id
}

pub(crate) fn profile(names: &Names, name: &str) -> u32 {
    id_of(names.0.action_profiles.iter().map(|p| p.preamble.clone()), name)
}

pub(crate) fn entity(entity: entity::Entity) -> Entity {
    Entity { entity: Some(entity) }
}

pub(crate) fn answer(names: &Names, value: u8) -> p4::Action {
    match names.call("TestIngress.answer", &[&[value]]).r#type {
        Some(table_action::Type::Action(action)) => action,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn member(names: &Names, profile_name: &str, member_id: u32, value: u8) -> Entity {
    entity(entity::Entity::ActionProfileMember(p4::ActionProfileMember {
        action_profile_id: profile(names, profile_name),
        member_id,
        action: Some(answer(names, value)),
    }))
}

pub(crate) fn group_of(
    names: &Names,
    group_id: u32,
    members: &[(u32, i32)],
    max_size: i32,
) -> Entity {
    let member = |&(member_id, weight): &(u32, i32)| p4::action_profile_group::Member {
        member_id,
        weight,
        watch_kind: None,
    };
    entity(entity::Entity::ActionProfileGroup(p4::ActionProfileGroup {
        action_profile_id: profile(names, "spread"),
        group_id,
        members: members.iter().map(member).collect(),
        max_size,
    }))
}

pub(crate) fn entry(names: &Names, table: &str, key: u8, action: table_action::Type) -> Entity {
    table_entry(TableEntry {
        table_id: names.table(&format!("TestIngress.{table}")),
        r#match: vec![exact(1, &[key])],
        action: Some(TableAction { r#type: Some(action) }),
        ..Default::default()
    })
}

pub(crate) fn set_of(names: &Names, actions: &[(u8, i32)]) -> table_action::Type {
    let one = |&(value, weight): &(u8, i32)| p4::ActionProfileAction {
        action: Some(answer(names, value)),
        weight,
        watch_kind: None,
    };
    table_action::Type::ActionProfileActionSet(p4::ActionProfileActionSet {
        action_profile_actions: actions.iter().map(one).collect(),
        ..Default::default()
    })
}

pub(crate) fn refused(switch: &mut Switch, update: Update, code: Code) {
    let refusal = write(switch, update).unwrap_err();
    assert_eq!(refusal.code, code, "{refusal}");
}

#[test]
fn members_are_shared_by_entries() {
    use table_action::Type::{ActionProfileGroupId, ActionProfileMemberId};
    let (mut switch, names) = features();
    let uses = |key, id| entry(&names, "profiled", key, ActionProfileMemberId(id));
    refused(&mut switch, insert(uses(1, 7)), Code::NotFound);
    write(&mut switch, insert(member(&names, "shared", 7, 70))).unwrap();
    refused(&mut switch, insert(member(&names, "shared", 7, 70)), Code::AlreadyExists);
    for key in [1, 2] {
        write(&mut switch, insert(uses(key, 7))).unwrap();
        assert_eq!(ask(&mut switch, 0, PROFILED, key.into(), 0).1, 70);
    }
    write(&mut switch, modify(member(&names, "shared", 7, 71))).unwrap();
    assert_eq!(ask(&mut switch, 0, PROFILED, 2, 0).1, 71);
    assert_eq!(read(&switch, uses_all(&names, "profiled")), [uses(1, 7), uses(2, 7)]);
    assert_eq!(
        read(&switch, entity(entity::Entity::ActionProfileMember(Default::default()))),
        [member(&names, "shared", 7, 71)]
    );

    refused(&mut switch, delete(member(&names, "shared", 7, 0)), Code::FailedPrecondition);
    let direct = table_action::Type::Action(answer(&names, 1));
    let wrong = entry(&names, "profiled", 3, direct);
    refused(&mut switch, insert(wrong), Code::InvalidArgument);
    let group = entry(&names, "profiled", 3, ActionProfileGroupId(7));
    refused(&mut switch, insert(group), Code::InvalidArgument);
    refused(&mut switch, insert(member(&names, "shared", 0, 1)), Code::InvalidArgument);
    refused(&mut switch, modify(member(&names, "shared", 9, 1)), Code::NotFound);
    for id in 1..4 {
        write(&mut switch, insert(member(&names, "shared", id, 1))).unwrap();
    }
    refused(&mut switch, insert(member(&names, "shared", 4, 1)), Code::ResourceExhausted);
    for key in [1, 2] {
        write(&mut switch, delete(uses(key, 0))).unwrap();
    }
    write(&mut switch, delete(member(&names, "shared", 7, 0))).unwrap();
}

fn uses_all(names: &Names, table: &str) -> Entity {
    let table_id = names.table(&format!("TestIngress.{table}"));
    table_entry(TableEntry { table_id, ..Default::default() })
}

#[test]
fn groups_spread_packets_by_weight() {
    use table_action::Type::ActionProfileGroupId;
    let (mut switch, names) = features();
    for (id, value) in [(1, 10), (2, 20)] {
        write(&mut switch, insert(member(&names, "spread", id, value))).unwrap();
    }
    let good = group_of(&names, 5, &[(1, 1), (2, 2)], 3);
    for (group, code) in [
        (group_of(&names, 0, &[(1, 1)], 3), Code::InvalidArgument),
        (group_of(&names, 5, &[(1, 0)], 3), Code::InvalidArgument),
        (group_of(&names, 5, &[(1, -1)], 3), Code::InvalidArgument),
        (group_of(&names, 5, &[(1, 1), (1, 1)], 3), Code::InvalidArgument),
        (group_of(&names, 5, &[(1, 1)], 0), Code::InvalidArgument),
        (group_of(&names, 5, &[(1, 1)], 4), Code::InvalidArgument),
        (group_of(&names, 5, &[(1, 2), (2, 2)], 3), Code::InvalidArgument),
        (group_of(&names, 5, &[(9, 1)], 3), Code::NotFound),
    ] {
        refused(&mut switch, insert(group), code);
    }
    refused(&mut switch, modify(good.clone()), Code::NotFound);
    write(&mut switch, insert(good.clone())).unwrap();
    refused(&mut switch, insert(good.clone()), Code::AlreadyExists);
    write(&mut switch, insert(entry(&names, "selected", 1, ActionProfileGroupId(5)))).unwrap();
    let mut counts = [0u32; 3];
    for seed in 0..300 {
        counts[ask(&mut switch, 0, SELECTED, 1, seed).1 as usize / 10] += 1;
    }
    assert_eq!(counts[0], 0);
    assert!(counts[2] > counts[1] && counts[1] > 50, "{counts:?}");

    let all = entity(entity::Entity::ActionProfileGroup(Default::default()));
    assert_eq!(read(&switch, all), [good]);
    refused(&mut switch, modify(group_of(&names, 5, &[(1, 1)], 2)), Code::InvalidArgument);
    write(&mut switch, modify(group_of(&names, 5, &[(1, 1)], 3))).unwrap();
    assert!((0..20).all(|seed| ask(&mut switch, 0, SELECTED, 1, seed).1 == 10));
    refused(&mut switch, delete(group_of(&names, 5, &[], 0)), Code::FailedPrecondition);
    refused(&mut switch, delete(member(&names, "spread", 1, 0)), Code::FailedPrecondition);

    let watching = |ports: &[u8]| {
        let members: Vec<(u32, i32)> = (1..=ports.len() as u32).map(|id| (id, 1)).collect();
        let mut group = group_of(&names, 6, &members, 3);
        if let Some(entity::Entity::ActionProfileGroup(group)) = &mut group.entity {
            for (member, port) in group.members.iter_mut().zip(ports) {
                let kind = p4::action_profile_group::member::WatchKind::WatchPort(vec![*port]);
                member.watch_kind = Some(kind);
            }
        }
        group
    };
    refused(&mut switch, insert(watching(&[99])), Code::InvalidArgument);
    write(&mut switch, insert(watching(&[3, 4]))).unwrap();
    let all = entity(entity::Entity::ActionProfileGroup(Default::default()));
    assert_eq!(read(&switch, all)[1], watching(&[3, 4]));
    write(&mut switch, insert(entry(&names, "selected", 6, ActionProfileGroupId(6)))).unwrap();
    let answers = |switch: &mut Switch| -> Vec<u8> {
        let ask = |seed| ask(switch, 0, SELECTED, 6, seed).1;
        let mut all: Vec<u8> = (0..40).map(ask).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    assert_eq!(answers(&mut switch), [10, 20]);
    switch.set_link(3, false);
    assert_eq!(answers(&mut switch), [20]);
    switch.set_link(4, false);
    // Without members that can be chosen, the table's action changes nothing.
    assert_eq!(answers(&mut switch), [0]);
    switch.set_link(3, true);
    assert_eq!(answers(&mut switch), [10]);
    switch.set_link(4, true);
    let sets = entry(&names, "selected", 2, set_of(&names, &[(1, 1)]));
    refused(&mut switch, insert(sets), Code::InvalidArgument);
}

#[test]
fn action_sets_are_read_back_as_written() {
    let (mut switch, names) = features();
    let uses = |actions: &[(u8, i32)]| entry(&names, "selected", 1, set_of(&names, actions));
    for wrong in [&[(1, 0)][..], &[(1, 4)], &[(1, 2), (2, 2)]] {
        refused(&mut switch, insert(uses(wrong)), Code::InvalidArgument);
    }
    let good = uses(&[(30, 1), (40, 1), (30, 1)]);
    write(&mut switch, insert(good.clone())).unwrap();
    assert_eq!(read(&switch, uses_all(&names, "selected")), [good]);
    let answers: Vec<u8> = (0..64).map(|seed| ask(&mut switch, 0, SELECTED, 1, seed).1).collect();
    assert!(answers.iter().all(|answer| [30, 40].contains(answer)));
    assert!(answers.contains(&30) && answers.contains(&40));
    refused(&mut switch, insert(member(&names, "spread", 1, 1)), Code::InvalidArgument);
    write(&mut switch, delete(uses(&[]))).unwrap();
    write(&mut switch, insert(member(&names, "spread", 1, 1))).unwrap();
}

/// An entry with a set that has other properties than actions.
fn set_with(
    names: &Names,
    actions: &[(u8, i32)],
    change: impl FnOnce(&mut p4::ActionProfileActionSet),
) -> Entity {
    let mut set = set_of(names, actions);
    if let table_action::Type::ActionProfileActionSet(set) = &mut set {
        change(set);
    }
    entry(names, "selected", 1, set)
}

/// The different colours and answers of 64 packets of one flow, and of as many flows.
fn colors_and_answers(switch: &mut Switch) -> [BTreeSet<(u8, u8)>; 2] {
    [|_| 7, |seed| seed].map(|flow: fn(u32) -> u32| {
        (0..64).map(|seed| ask(switch, 0, SELECTED, 1, flow(seed))).collect()
    })
}

#[test]
fn a_group_action_runs_before_the_action_that_is_picked() {
    let (mut switch, names) = features();
    let tint = |color: u8| match names.call("TestIngress.tint", &[&[color]]).r#type {
        Some(table_action::Type::Action(action)) => Some(action),
        other => panic!("{other:?}"),
    };
    let tinted = set_with(&names, &[(30, 1), (40, 1)], |set| set.group_action = tint(9));
    write(&mut switch, insert(tinted.clone())).unwrap();
    assert_eq!(read(&switch, uses_all(&names, "selected")), [tinted]);
    let [one, many] = colors_and_answers(&mut switch);
    assert_eq!(one.len(), 1);
    assert_eq!(many, BTreeSet::from([(9, 30), (9, 40)]));
    // Of a set without actions, it is all that runs; without an entry, nothing does.
    write(&mut switch, modify(set_with(&names, &[], |set| set.group_action = tint(5)))).unwrap();
    assert_eq!(ask(&mut switch, 0, SELECTED, 1, 3), (5, 0));
    write(&mut switch, delete(set_with(&names, &[], |_| {}))).unwrap();
    assert_eq!(ask(&mut switch, 0, SELECTED, 1, 3), (0, 0));

    let elsewhere = |action: Option<p4::Action>| {
        set_with(&names, &[(30, 1)], |set| set.action_profile_actions[0].action = action)
    };
    refused(&mut switch, insert(elsewhere(tint(1))), Code::PermissionDenied);
    let other = set_with(&names, &[(30, 1)], |set| set.group_action = Some(answer(&names, 1)));
    refused(&mut switch, insert(other), Code::PermissionDenied);
}

#[test]
fn a_set_may_pick_at_random_and_count_its_size_in_another_way() {
    let (mut switch, names) = features();
    let by_hash = set_with(&names, &[(30, 1), (40, 2)], |set| set.action_selection_mode = 1);
    write(&mut switch, insert(by_hash.clone())).unwrap();
    assert_eq!(colors_and_answers(&mut switch)[0].len(), 1);
    let random = set_with(&names, &[(30, 1), (40, 2)], |set| set.action_selection_mode = 2);
    write(&mut switch, modify(random.clone())).unwrap();
    assert_eq!(read(&switch, uses_all(&names, "selected")), [random]);
    let mut counts = [0u32; 2];
    for _ in 0..600 {
        counts[usize::from(ask(&mut switch, 0, SELECTED, 1, 7).1 == 40)] += 1;
    }
    assert!((150..250).contains(&counts[0]) && counts[1] == 600 - counts[0], "{counts:?}");

    // The selector has room for weights of 3 in total, or for 3 actions.
    let heavy =
        |semantics| set_with(&names, &[(30, 2), (40, 2)], |set| set.size_semantics = semantics);
    refused(&mut switch, modify(heavy(1)), Code::InvalidArgument);
    write(&mut switch, modify(heavy(2))).unwrap();
    assert_eq!(read(&switch, uses_all(&names, "selected")), [heavy(2)]);
    let unknown = set_with(&names, &[(30, 1)], |set| set.size_semantics = 9);
    refused(&mut switch, modify(unknown), Code::InvalidArgument);
}

#[test]
fn meters_mark_packets_above_their_rates() {
    const GREEN: u8 = 0;
    const RED: u8 = 2;
    let (mut switch, names) = features();
    let meter_id = id_of(names.0.meters.iter().map(|m| m.preamble.clone()), "by_index");
    let meter = |index: Option<i64>, config: Option<MeterConfig>| {
        entity(entity::Entity::MeterEntry(p4::MeterEntry {
            meter_id,
            index: index.map(|index| Index { index }),
            config,
            counter_data: None,
        }))
    };
    let slow = MeterConfig { cir: 1, cburst: 2, pir: 1, pburst: 2, eburst: 0 };
    assert!((0..9).all(|_| ask(&mut switch, 0, BY_INDEX, 3, 0).0 == GREEN));
    write(&mut switch, modify(meter(Some(3), Some(slow)))).unwrap();
    let colors: Vec<u8> = (0..4).map(|_| ask(&mut switch, 0, BY_INDEX, 3, 0).0).collect();
    assert_eq!(colors, [GREEN, GREEN, RED, RED]);
    assert_eq!(ask(&mut switch, 0, BY_INDEX, 2, 0).0, GREEN, "another one");
    assert_eq!(read(&switch, meter(Some(3), None)), [meter(Some(3), Some(slow))]);
    assert_eq!(read(&switch, meter(None, None)).len(), 4);

    for (update, code) in [
        (insert(meter(Some(0), Some(slow))), Code::InvalidArgument),
        (delete(meter(Some(0), None)), Code::InvalidArgument),
        (modify(meter(Some(-1), Some(slow))), Code::InvalidArgument),
        (modify(meter(Some(4), Some(slow))), Code::OutOfRange),
        (modify(meter(Some(0), Some(MeterConfig { eburst: 1, ..slow }))), Code::InvalidArgument),
        (modify(meter(Some(0), Some(MeterConfig { cir: -1, ..slow }))), Code::InvalidArgument),
        (modify(meter(Some(0), Some(MeterConfig { cir: 2, ..slow }))), Code::InvalidArgument),
    ] {
        refused(&mut switch, update, code);
    }
    write(&mut switch, modify(meter(None, None))).unwrap();
    assert_eq!(ask(&mut switch, 0, BY_INDEX, 3, 0).0, GREEN);

    // The same at an entry, in bytes.
    let bytes = MeterConfig { cir: 1, cburst: 30, pir: 1, pburst: 30, eburst: 0 };
    let metered = |meter_config| {
        let action = names.call("NoAction", &[]);
        table_entry(TableEntry {
            table_id: names.table("TestIngress.metered"),
            r#match: vec![exact(1, &[1])],
            action: Some(action),
            meter_config,
            ..Default::default()
        })
    };
    write(&mut switch, insert(metered(Some(bytes)))).unwrap();
    let colors: Vec<u8> = (0..2).map(|_| ask(&mut switch, 0, BY_ENTRY, 1, 0).0).collect();
    assert_eq!(colors, [GREEN, RED]);
    let direct = |config| {
        let table_entry = match metered(None).entity {
            Some(entity::Entity::TableEntry(entry)) => TableEntry { action: None, ..entry },
            other => panic!("{other:?}"),
        };
        entity(entity::Entity::DirectMeterEntry(p4::DirectMeterEntry {
            table_entry: Some(table_entry),
            config,
            counter_data: None,
        }))
    };
    assert_eq!(read(&switch, direct(None)), [direct(Some(bytes))]);
    let wanted = table_entry(TableEntry {
        table_id: names.table("TestIngress.metered"),
        meter_config: Some(Default::default()),
        ..Default::default()
    });
    assert_eq!(read(&switch, wanted), [metered(Some(bytes))]);
    write(&mut switch, modify(direct(None))).unwrap();
    assert_eq!(ask(&mut switch, 0, BY_ENTRY, 1, 0).0, GREEN);
    write(&mut switch, modify(direct(Some(bytes)))).unwrap();
    // Modifying an entry without a configuration restores the default.
    write(&mut switch, modify(metered(None))).unwrap();
    assert_eq!(read(&switch, direct(None)), [direct(None)]);
    refused(&mut switch, insert(direct(None)), Code::InvalidArgument);
    write(&mut switch, delete(metered(None))).unwrap();
    refused(&mut switch, modify(direct(None)), Code::NotFound);
}

#[test]
fn value_sets_are_written_as_a_whole() {
    let (mut switch, names) = features();
    let value_set_id = id_of(names.0.value_sets.iter().map(|s| s.preamble.clone()), "special");
    let set = |members: &[u8]| {
        let member = |&value: &u8| p4::ValueSetMember { r#match: vec![exact(1, &[value])] };
        entity(entity::Entity::ValueSetEntry(p4::ValueSetEntry {
            value_set_id,
            members: members.iter().map(member).collect(),
        }))
    };
    assert_eq!(read(&switch, set(&[])), [set(&[])]);
    write(&mut switch, modify(set(&[9, 10]))).unwrap();
    assert_eq!(ask(&mut switch, 0, 9, 0, 0).1, 0xff);
    assert_eq!(ask(&mut switch, 0, 11, 0, 0).1, 0);
    for (update, code) in [
        (insert(set(&[1])), Code::InvalidArgument),
        (delete(set(&[9])), Code::InvalidArgument),
        (modify(set(&[1, 1])), Code::AlreadyExists),
        (modify(set(&[1, 2, 3, 4])), Code::ResourceExhausted),
    ] {
        refused(&mut switch, update, code);
        assert_eq!(read(&switch, set(&[])), [set(&[9, 10])]);
    }
    write(&mut switch, modify(set(&[]))).unwrap();
    assert_eq!(ask(&mut switch, 0, 9, 0, 0).1, 0);
}

#[test]
fn initial_entries_can_be_changed_and_removed() {
    let (mut switch, names) = features();
    assert_eq!(ask(&mut switch, 0, INITIAL, 1, 0).1, 11);
    let action = || table_action::Type::Action(answer(&names, 99));
    write(&mut switch, modify(entry(&names, "initial", 1, action()))).unwrap();
    write(&mut switch, delete(entry(&names, "initial", 2, action()))).unwrap();
    assert_eq!(ask(&mut switch, 0, INITIAL, 1, 0).1, 99);
    assert_eq!(ask(&mut switch, 0, INITIAL, 2, 0).1, 0);
}

/// Batches with all kinds of entities are rolled back.
#[test]
fn batches_of_all_kinds_are_rolled_back() {
    let (mut switch, names) = features();
    let updates = [
        insert(member(&names, "spread", 1, 1)),
        insert(group_of(&names, 1, &[(1, 1)], 2)),
        insert(entry(&names, "selected", 1, table_action::Type::ActionProfileGroupId(1))),
        insert(group(4, &[(1, 1)])),
        delete(entry(&names, "initial", 1, table_action::Type::Action(answer(&names, 0)))),
    ];
    let state = |switch: &Switch| {
        use entity::Entity as E;
        let templates = [
            E::ActionProfileMember(Default::default()),
            E::ActionProfileGroup(Default::default()),
            E::TableEntry(Default::default()),
            E::DigestEntry(Default::default()),
        ];
        (everything(switch), switch.read(&templates.map(entity)).unwrap())
    };
    let before = state(&switch);
    let failing = [&updates[..], &[Update::default()]].concat();
    let results = switch.write_batch(&failing, Atomicity::RollbackOnError).unwrap();
    assert!(results.iter().all(Result::is_err));
    assert_eq!(state(&switch), before);
    let results = switch.write_batch(&updates, Atomicity::RollbackOnError).unwrap();
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_ne!(state(&switch), before);
}

// --- Over gRPC
// ------------------------------------------------------------------------------------

pub(crate) fn aging(names: &Names, action: &str, args: &[&[u8]], idle_timeout_ns: i64) -> Entity {
    table_entry(TableEntry {
        table_id: names.table("TestIngress.aging"),
        priority: 1,
        action: Some(names.call(action, args)),
        idle_timeout_ns,
        metadata: b"mine".to_vec(),
        ..Default::default()
    })
}

#[tokio::test]
async fn digests_are_sent_once_and_again_after_their_acknowledgement() {
    let Device { service, mut ports, _switch } = device();
    let mut client = connect(&service).await;
    let mut controller = primary(&mut client).await;
    push(&mut client, FEATURES).await;
    let names = names(FEATURES);
    let digest_id = names.0.digests[0].preamble.as_ref().unwrap().id;
    let config = p4::digest_entry::Config {
        max_timeout_ns: 0,
        max_list_size: 1,
        ack_timeout_ns: 3_600_000_000_000,
    };
    let digest =
        entity(entity::Entity::DigestEntry(p4::DigestEntry { digest_id, config: Some(config) }));
    let updates = vec![insert(digest.clone()), insert(aging(&names, "TestIngress.learn", &[], 0))];
    client.write(writing(updates)).await.unwrap();
    let all = entity(entity::Entity::DigestEntry(Default::default()));
    assert_eq!(query(&mut client, vec![all]).await.unwrap(), [digest]);

    let mut send = |key| {
        ports[1].send(&request(AGING, key, 0)).unwrap();
        ports[1].flush().unwrap();
    };
    let list = async |controller: &mut Controller| match controller.hear().await.unwrap() {
        stream_message_response::Update::Digest(list) => list,
        other => panic!("{other:?}"),
    };
    send(7);
    let first = list(&mut controller).await;
    assert_eq!((first.digest_id, first.data.len()), (digest_id, 1));
    assert!(first.timestamp > 0);
    let Some(p4_data::Data::Struct(members)) = &first.data[0].data else { panic!("{first:?}") };
    let members: Vec<_> = members.members.iter().map(|m| m.data.clone().unwrap()).collect();
    let bits = |bytes: &[u8]| p4_data::Data::Bitstring(bytes.to_vec());
    assert_eq!(members, [bits(&[7]), bits(&[0xfb]), p4_data::Data::Bool(false)]);

    // A repeated digest is not sent; a new one is.
    send(7);
    send(8);
    let second = list(&mut controller).await;
    assert_ne!(second.list_id, first.list_id);
    assert_ne!(second.data, first.data);
    let ack = |digest_id, list_id| {
        stream_message_request::Update::DigestAck(p4::DigestListAck { digest_id, list_id })
    };
    controller.say(ack(digest_id + 1, 1)).await;
    match controller.hear().await.unwrap() {
        stream_message_response::Update::Error(error) => {
            assert_eq!(error.canonical_code, i32::from(Code::InvalidArgument));
            assert!(matches!(error.details, Some(p4::stream_error::Details::DigestListAck(_))));
        }
        other => panic!("{other:?}"),
    }
    controller.say(ack(digest_id, first.list_id)).await;
    // Acknowledgements are handled in order: the error for this one means that the other is done.
    controller.say(ack(digest_id + 1, 1)).await;
    controller.hear().await.unwrap();
    send(7);
    assert_eq!(list(&mut controller).await.data, first.data);
}

#[tokio::test]
async fn entries_that_no_packet_matches_are_reported_once_per_timeout() {
    let device = device();
    let mut client = connect(&device.service).await;
    let mut controller = primary(&mut client).await;
    push(&mut client, FEATURES).await;
    let names = names(FEATURES);
    let timeout = 50_000_123;
    let entry = aging(&names, "TestIngress.answer", &[&[5]], timeout);
    client.write(writing(vec![insert(entry.clone())])).await.unwrap();
    for _ in 0..2 {
        match controller.hear().await.unwrap() {
            stream_message_response::Update::IdleTimeoutNotification(idle) => {
                let entries: Vec<Entity> = idle.table_entry.into_iter().map(table_entry).collect();
                assert_eq!(entries, std::slice::from_ref(&entry));
                assert!(idle.timestamp > 0);
            }
            other => panic!("{other:?}"),
        }
    }
    let wanted = TableEntry {
        table_id: names.table("TestIngress.aging"),
        time_since_last_hit: Some(Default::default()),
        ..Default::default()
    };
    let found = query(&mut client, vec![table_entry(wanted)]).await.unwrap();
    let Some(entity::Entity::TableEntry(found)) = &found[0].entity else { panic!("{found:?}") };
    assert_eq!(found.idle_timeout_ns, timeout);
    assert!(found.time_since_last_hit.unwrap().elapsed_ns >= 2 * timeout, "{found:?}");
    for wrong in [
        aging(&names, "TestIngress.answer", &[&[5]], -1),
        table_entry(TableEntry {
            table_id: names.table("TestIngress.initial"),
            r#match: vec![exact(1, &[9])],
            action: Some(names.call("NoAction", &[])),
            idle_timeout_ns: 1,
            ..Default::default()
        }),
    ] {
        let status = client.write(writing(vec![insert(wrong)])).await.unwrap_err();
        assert_eq!(codes(&status), [Code::InvalidArgument], "{status}");
    }
}

#[tokio::test]
async fn reconciling_keeps_all_that_was_written() {
    let device = device();
    let mut client = connect(&device.service).await;
    let _primary = primary(&mut client).await;
    push(&mut client, FEATURES).await;
    let names = names(FEATURES);
    let meter_id = names.0.meters[0].preamble.as_ref().unwrap().id;
    let slow = MeterConfig { cir: 1, cburst: 2, pir: 1, pburst: 2, eburst: 0 };
    let default = table_entry(TableEntry {
        table_id: names.table("TestIngress.initial"),
        is_default_action: true,
        action: Some(names.call("TestIngress.answer", &[&[3]])),
        ..Default::default()
    });
    let written = [
        vec![
            insert(member(&names, "spread", 1, 1)),
            insert(aging(&names, "TestIngress.answer", &[&[5]], 3_600_000_000_000)),
            delete(entry(&names, "initial", 2, table_action::Type::Action(answer(&names, 0)))),
            insert(group(4, &[(1, 1)])),
            modify(default),
            modify(entity(entity::Entity::MeterEntry(p4::MeterEntry {
                meter_id,
                index: Some(Index { index: 2 }),
                config: Some(slow),
                counter_data: None,
            }))),
        ],
        vec![insert(group_of(&names, 1, &[(1, 1)], 2))],
        vec![insert(entry(&names, "selected", 1, table_action::Type::ActionProfileGroupId(1)))],
    ];
    for updates in written {
        client.write(writing(updates)).await.unwrap();
    }
    let templates = || {
        use entity::Entity as E;
        let pre =
            p4::packet_replication_engine_entry::Type::MulticastGroupEntry(Default::default());
        vec![
            E::TableEntry(Default::default()),
            E::TableEntry(TableEntry { is_default_action: true, ..Default::default() }),
            E::ActionProfileMember(Default::default()),
            E::ActionProfileGroup(Default::default()),
            E::MeterEntry(Default::default()),
            E::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry { r#type: Some(pre) }),
        ]
        .into_iter()
        .map(entity)
        .collect::<Vec<_>>()
    };
    let before = query(&mut client, templates()).await.unwrap();

    // A program with other actions in the same tables.
    let larger = FEATURES.replace("hdr.request.answer = value;", "hdr.request.answer = value + 1;");
    let request = set(Config::ReconcileAndCommit, Some(config(&larger)));
    client.set_forwarding_pipeline_config(request).await.unwrap();
    assert_eq!(query(&mut client, templates()).await.unwrap(), before);

    // Programs that cannot hold it.
    let smaller = FEATURES.replace("meter(4, MeterType.packets)", "meter(2, MeterType.packets)");
    for program in [smaller.as_str(), TABLES] {
        let request = set(Config::ReconcileAndCommit, Some(config(program)));
        let status = client.set_forwarding_pipeline_config(request).await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::InvalidArgument);
        assert!(status.message().contains("cannot be taken over"), "{status}");
        assert_eq!(query(&mut client, templates()).await.unwrap(), before);
    }
}
