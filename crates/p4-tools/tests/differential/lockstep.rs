//! Runs both switches packet by packet.

use std::collections::BTreeMap;
use std::env;

use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_p4runtime::p4::v1::{
    CounterEntry, DirectCounterEntry, Entity, TableEntry, Update, entity, update,
};
use tributary_p4runtime::text;

use crate::draw::{Draw, groups};
use crate::programs::Program;
use crate::resources::{self, id, wrap};
use crate::switches::{Bmv2, Embedded, Target};

/// Number of sets of entries per program.
const SEEDS: u64 = 3;

/// Packets per set.
const PACKETS: usize = 60;

/// Runs a program with entries and packets from several seeds.
pub(crate) fn run(program: &Program) {
    let (embedded, info) = Embedded::start(program);
    let mut switches: Vec<Box<dyn Target>> = vec![Box::new(embedded)];
    if crate::with_bmv2() {
        let (bmv2, theirs) = Bmv2::start(program);
        same_description(&info, theirs).unwrap_or_else(|why| panic!("{why}"));
        switches.push(Box::new(bmv2));
    }
    for switch in &mut switches {
        switch.write(&groups()).unwrap_or_else(|why| panic!("{} refuses {why}", switch.name()));
    }
    let chosen = env::var("TRIBUTARY_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = chosen.map_or(1..=SEEDS, |seed| seed..=seed);
    let mut came_out = 0;
    for seed in seeds {
        came_out += one_seed(program, &info, &mut switches, seed);
    }
    assert!(came_out > 0, "no packet came out: nothing was compared");
}

/// Returns how many packets came out.
fn one_seed(
    program: &Program,
    info: &P4Info,
    switches: &mut [Box<dyn Target>],
    seed: u64,
) -> usize {
    let mut draw = Draw::new(seed);
    let mut entries = draw.profiles(info);
    entries.extend(draw.entries(info).into_iter().map(entity::Entity::TableEntry));
    let write = |switches: &mut [Box<dyn Target>], updates: &[Update]| {
        for switch in switches {
            if let Err(why) = switch.write(updates) {
                panic!("{}, seed {seed}: {} refuses {why}", program.name, switch.name());
            }
        }
    };
    write(switches, &resources::all(update::Type::Insert, &entries));
    write(switches, &draw.meters(info));
    let mut came_out = 0;
    for number in 0..PACKETS {
        if number == PACKETS / 2 {
            write(switches, &draw.regroup(&entries));
        }
        let (port, frame) = draw.packet(program);
        let mut all = switches.iter_mut().map(|switch| (switch.name(), switch.pass(port, &frame)));
        let (first, expected) = all.next().expect("there is a switch");
        for (other, outputs) in all {
            assert!(
                outputs == expected,
                "{}, seed {seed}, packet {number} into port {port}: {}\n{first} gives {}\n\
                 {other} gives {}\nentries: {entries:#?}",
                program.name,
                hex(&frame),
                show(&expected),
                show(&outputs),
            );
        }
        came_out += expected.len();
    }
    let mut all =
        switches.iter_mut().map(|switch| (switch.name(), counters(switch.as_mut(), info)));
    let (first, expected) = all.next().expect("there is a switch");
    for (other, counted) in all {
        assert_eq!(
            expected, counted,
            "{}, seed {seed}: {first} (left) and {other} (right) count differently",
            program.name
        );
    }
    write(switches, &resources::all(update::Type::Delete, &entries));
    write(switches, &resources::reset_meters(info));
    came_out
}

/// Packets and bytes, by counter and index, or by table and entry, without zeros.
pub(crate) type Counts = BTreeMap<(u32, String), (i64, i64)>;

fn counters(switch: &mut dyn Target, info: &P4Info) -> Counts {
    let which = all_counters(info);
    if which.is_empty() {
        return Counts::new();
    }
    counts(switch.read(&which))
}

/// Templates for all counters of a program.
pub(crate) fn all_counters(info: &P4Info) -> Vec<Entity> {
    let arrays = info.counters.iter().map(|counter| {
        let counter_id = id(counter.preamble.as_ref());
        wrap(entity::Entity::CounterEntry(CounterEntry { counter_id, ..CounterEntry::default() }))
    });
    let direct = info.direct_counters.iter().map(|counter| {
        let entry = TableEntry { table_id: counter.direct_table_id, ..TableEntry::default() };
        let entry = DirectCounterEntry { table_entry: Some(entry), data: None };
        wrap(entity::Entity::DirectCounterEntry(entry))
    });
    arrays.chain(direct).collect()
}

/// What counters have counted.
pub(crate) fn counts(entities: Vec<Entity>) -> Counts {
    let mut counts = Counts::new();
    for entity in entities {
        let (key, data) = match entity.entity {
            Some(entity::Entity::CounterEntry(entry)) => {
                let index = entry.index.map_or(0, |index| index.index);
                ((entry.counter_id, index.to_string()), entry.data)
            }
            Some(entity::Entity::DirectCounterEntry(entry)) => {
                let mut at = entry.table_entry.expect("it belongs to an entry");
                at.r#match.sort_by_key(|field| field.field_id);
                let key = format!("{:?}, priority {}", at.r#match, at.priority);
                ((at.table_id, key), entry.data)
            }
            other => panic!("not a counter: {other:?}"),
        };
        let data = data.unwrap_or_default();
        if (data.packet_count, data.byte_count) != (0, 0) {
            counts.insert(key, (data.packet_count, data.byte_count));
        }
    }
    counts
}

/// Entities use the P4Info's IDs, so both compilers must assign the same.
pub(crate) fn same_description(ours: &P4Info, mut theirs: P4Info) -> Result<(), String> {
    let sorted = |info: &mut P4Info| {
        info.type_info = None;
        info.pkg_info = None;
        info.tables.sort_by_key(|table| table.preamble.as_ref().map(|p| p.id));
        info.actions.sort_by_key(|action| action.preamble.as_ref().map(|p| p.id));
        info.counters.sort_by_key(|counter| counter.preamble.as_ref().map(|p| p.id));
        info.direct_counters.sort_by_key(|counter| counter.preamble.as_ref().map(|p| p.id));
        info.registers.sort_by_key(|register| register.preamble.as_ref().map(|p| p.id));
        info.action_profiles.sort_by_key(|profile| profile.preamble.as_ref().map(|p| p.id));
        info.meters.sort_by_key(|meter| meter.preamble.as_ref().map(|p| p.id));
        info.direct_meters.sort_by_key(|meter| meter.preamble.as_ref().map(|p| p.id));
        for profile in &mut info.action_profiles {
            profile.table_ids.sort_unstable();
        }
        for table in &mut info.tables {
            table.action_refs.sort_by_key(|action| action.id);
        }
    };
    let mut ours = ours.clone();
    sorted(&mut ours);
    sorted(&mut theirs);
    let (ours, theirs) = (text::to_text(&ours), text::to_text(&theirs));
    let mut lines = ours.lines().zip(theirs.lines());
    match lines.find(|(ours, theirs)| ours != theirs) {
        _ if ours == theirs => Ok(()),
        Some((ours, theirs)) => Err(format!("the P4Info has `{ours}`, p4c's has `{theirs}`")),
        None => Err("the P4Info and p4c's have different lengths".to_owned()),
    }
}

pub(crate) fn hex(frame: &[u8]) -> String {
    frame.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn show(outputs: &[(u16, Vec<u8>)]) -> String {
    if outputs.is_empty() {
        return "nothing".to_owned();
    }
    let lines = outputs.iter().map(|(port, frame)| format!("\n    port {port}: {}", hex(frame)));
    lines.collect()
}
