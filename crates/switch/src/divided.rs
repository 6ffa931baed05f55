//! Tests of a switch whose packets are divided between cores, in any order of the cores' steps.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;
use tributary_p4runtime::p4::config::v1 as p4config;
use tributary_p4runtime::p4::v1::{
    self as p4, CounterEntry, DirectCounterEntry, Entity, Index as At, RegisterEntry, TableEntry,
    Update, entity, p4_data, packet_replication_engine_entry, replica, update,
};

use crate::entities::ReadBatch;
use crate::stf::{self, Script};
use crate::switch::{Core, Handover};
use crate::{Forwarding, Switch, SwitchConfig};

const ROWS: &str = include_str!("../tests/switch/programs/rows.p4");
const GROUP: u8 = 7;

/// A switch whose cores are all here, as threads would have them.
struct Cores {
    switch: Switch,
    /// Packets on their way, by the core that they are for, in order for each.
    mail: Vec<Vec<Handover>>,
    out: Vec<(u16, Vec<u8>)>,
}

impl Cores {
    fn new(count: u16) -> Self {
        let config = SwitchConfig {
            ports: vec![1, 2, 3],
            cores: count,
            queue_limit: 4096,
            ..SwitchConfig::default()
        };
        let mail = (0..count).map(|_| Vec::new()).collect();
        Self { switch: Switch::new(config), mail, out: Vec::new() }
    }

    fn core(&mut self, core: usize) -> &mut Core {
        match core {
            0 => self.switch.first_mut(),
            _ => &mut self.switch.others_mut()[core - 1],
        }
    }

    fn collect(&mut self, core: usize) {
        while let Some(handover) = self.core(core).poll_handover() {
            assert_ne!(usize::from(handover.to), core, "it was not the packet's core");
            self.mail[usize::from(handover.to)].push(handover);
        }
    }

    /// One step of a core. Returns whether it had something to do.
    fn step(&mut self, core: usize) -> bool {
        let mut busy = false;
        if !self.mail[core].is_empty() {
            let handover = self.mail[core].remove(0);
            drop(self.core(core).take_over(0, handover));
            busy = true;
        }
        busy |= self.core(core).has_pending();
        self.core(core).run_pending(0, 1);
        for port in 1..=3 {
            let mut frame = Vec::new();
            if self.core(core).transmit(0, port, &mut frame) {
                self.out.push((port, frame));
                busy = true;
            }
        }
        self.collect(core);
        busy || self.core(core).has_pending()
    }

    fn finish(&mut self) {
        while (0..self.mail.len()).fold(false, |busy, core| self.step(core) | busy) {}
    }

    fn write(&mut self, kind: update::Type, entity: entity::Entity) {
        let update = Update { r#type: kind.into(), entity: Some(Entity { entity: Some(entity) }) };
        self.switch.write(&[update]).unwrap().remove(0).unwrap();
    }

    fn read(&mut self, template: entity::Entity) -> Vec<entity::Entity> {
        let template = [Entity { entity: Some(template) }];
        self.switch.gather();
        self.switch
            .read(&template)
            .unwrap()
            .into_iter()
            .filter_map(|entity| entity.entity)
            .collect()
    }

    /// Values of the register, by row, without zeros.
    fn sums(&mut self) -> BTreeMap<u32, u32> {
        let cell = |entity| {
            let entity::Entity::RegisterEntry(entry) = entity else { unreachable!() };
            let Some(p4_data::Data::Bitstring(bytes)) = entry.data?.data else { return None };
            let sum = bytes.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
            (sum != 0).then_some((entry.index?.index as u32, sum))
        };
        self.read(entity::Entity::RegisterEntry(RegisterEntry::default()))
            .into_iter()
            .filter_map(cell)
            .collect()
    }

    /// Passes by operation, of the array and of the table's entries.
    fn passes(&mut self) -> [Vec<i64>; 2] {
        let of_array = |entity| match entity {
            entity::Entity::CounterEntry(CounterEntry { data: Some(data), .. }) => {
                data.packet_count
            }
            _ => unreachable!(),
        };
        let of_entry = |entity| match entity {
            entity::Entity::DirectCounterEntry(entry) => entry.data.unwrap().packet_count,
            _ => unreachable!(),
        };
        let array = self.read(entity::Entity::CounterEntry(CounterEntry::default()));
        let entries = self.read(entity::Entity::DirectCounterEntry(DirectCounterEntry {
            table_entry: Some(self.entry(None)),
            data: None,
        }));
        [
            array.into_iter().map(of_array).take(5).collect(),
            entries.into_iter().map(of_entry).collect(),
        ]
    }

    /// The entry of an operation, or a template for all entries.
    fn entry(&self, op: Option<u8>) -> TableEntry {
        let info = self.switch.forwarding().unwrap().p4info();
        let id = |p: &tributary_p4runtime::p4::config::v1::Table| p.preamble.clone().unwrap().id;
        let table_id = id(&info.tables[0]);
        let Some(op) = op else { return TableEntry { table_id, ..TableEntry::default() } };
        let action = info.actions.iter().find_map(|action| {
            let preamble = action.preamble.as_ref()?;
            preamble.name.ends_with("count").then_some(preamble.id)
        });
        let exact = p4::field_match::Exact { value: vec![op] };
        let exact = p4::field_match::FieldMatchType::Exact(exact);
        let action = p4::Action { action_id: action.unwrap(), params: vec![] };
        TableEntry {
            table_id,
            r#match: vec![p4::FieldMatch { field_id: 1, field_match_type: Some(exact) }],
            action: Some(p4::TableAction { r#type: Some(p4::table_action::Type::Action(action)) }),
            ..TableEntry::default()
        }
    }

    /// Starts the program, with an entry per operation and a group of two ports.
    fn start(&mut self) {
        let forwarding = Forwarding::from_source(ROWS).unwrap();
        self.switch.commit(forwarding);
        for op in 0..5 {
            let entry = self.entry(Some(op));
            self.write(update::Type::Insert, entity::Entity::TableEntry(entry));
        }
        let replica = |port: u8| p4::Replica {
            port_kind: Some(replica::PortKind::Port(vec![port])),
            ..p4::Replica::default()
        };
        let group = p4::MulticastGroupEntry {
            multicast_group_id: GROUP.into(),
            replicas: vec![replica(2), replica(3)],
            metadata: vec![],
        };
        let group = packet_replication_engine_entry::Type::MulticastGroupEntry(group);
        let group = p4::PacketReplicationEngineEntry { r#type: Some(group) };
        self.write(update::Type::Insert, entity::Entity::PacketReplicationEngineEntry(group));
    }
}

/// A packet: its operation, further passes and row.
#[derive(Clone, Copy, Debug)]
struct Probe {
    op: u8,
    left: u8,
    row: u32,
}

impl Probe {
    fn frame(self) -> Vec<u8> {
        let to = if self.op == 1 { GROUP } else { 2 };
        let mut frame = vec![self.op, self.left, 0, to];
        frame.extend(self.row.to_be_bytes());
        frame.extend([0; 4]);
        frame.extend(b"payload");
        frame
    }

    /// The rows of its passes.
    fn rows(self) -> Vec<u32> {
        match self.op {
            2 => vec![self.row; 1 + usize::from(self.left)],
            3 => (0..=u32::from(self.left)).map(|pass| (self.row + 64 * pass) % 1024).collect(),
            _ => vec![self.row],
        }
    }

    fn leaves(self) -> usize {
        [1, 2, 1, 1, 0][usize::from(self.op)]
    }
}

fn probe() -> impl Strategy<Value = Probe> {
    // Few rows, so that packets meet there.
    let rows = prop_oneof![0_u32..4, 62_u32..66, 126_u32..130, 1020_u32..1024];
    (0_u8..5, 0_u8..8, rows).prop_map(|(op, left, row)| Probe { op, left, row })
}

/// What happens next: a packet arrives at some core, a core makes a step, or the state is read.
#[derive(Clone, Debug)]
enum Event {
    Arrive(Probe, Index),
    Step(Index),
    Read,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (probe(), any::<Index>()).prop_map(|(probe, core)| Event::Arrive(probe, core)),
        4 => any::<Index>().prop_map(Event::Step),
        1 => Just(Event::Read),
    ]
}

proptest! {
    /// Each pass adds to its row exactly once, whatever core the packet came to; and reading shows
    /// sums and counts of all cores together, at any time.
    #[test]
    fn every_pass_counts_once(
        cores in 1_u16..5,
        events in prop::collection::vec(event(), 1..150),
    ) {
        let mut switch = Cores::new(cores);
        switch.start();
        let mut sums = BTreeMap::<u32, u32>::new();
        let (mut passes, mut leave) = (vec![0_i64; 5], 0);
        let mut last = 0_u32;
        for event in &events {
            match event {
                Event::Arrive(probe, core) => {
                    for row in probe.rows() {
                        *sums.entry(row).or_default() += 1;
                        passes[usize::from(probe.op)] += 1;
                    }
                    leave += probe.leaves();
                    let core = core.index(cores.into());
                    switch.core(core).receive(0, 1, &probe.frame());
                    switch.collect(core);
                }
                Event::Step(core) => drop(switch.step(core.index(cores.into()))),
                Event::Read => {
                    let now = switch.sums().values().sum();
                    prop_assert!(now >= last, "sums go back from {} to {}", last, now);
                    last = now;
                }
            }
        }
        switch.finish();
        prop_assert_eq!(switch.sums(), sums);
        prop_assert_eq!(switch.passes(), [passes.clone(), passes]);
        prop_assert_eq!(switch.out.len(), leave);
        // No two packets found the same sum in a row.
        let copies = |op: u8| if op == 1 { 2 } else { 1 };
        let mut seen = BTreeMap::<(u8, u32, u32), usize>::new();
        for (_, frame) in &switch.out {
            let word = |at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
            prop_assert_eq!(&frame[12..], b"payload");
            *seen.entry((frame[0], word(4), word(8))).or_default() += 1;
        }
        // Both replicas of a group's packet have the same.
        prop_assert!(seen.iter().all(|((op, ..), count)| *count == copies(*op)), "{:?}", seen);
        let statistics = switch.switch.statistics();
        if cores == 1 {
            prop_assert_eq!(statistics.handed_over, 0);
        }
        prop_assert_eq!(statistics.replaced, 0);
    }
}

/// Counts and rows that are written are read again, and packets go on from there.
#[test]
fn what_is_written_is_for_all_cores_together() {
    let mut switch = Cores::new(3);
    switch.start();
    let send = |switch: &mut Cores, row| {
        for core in 0..3 {
            switch.core(core).receive(0, 1, &Probe { op: 0, left: 0, row }.frame());
            switch.collect(core);
        }
        switch.finish();
    };
    let rows = [0, 64, 128, 192];
    rows.iter().for_each(|row| send(&mut switch, *row));
    assert_eq!(switch.passes()[0][0], 12);
    assert_eq!(switch.passes()[1][0], 12);
    let counter = CounterEntry {
        counter_id: switch.switch.forwarding().unwrap().p4info().counters[0]
            .preamble
            .clone()
            .unwrap()
            .id,
        index: Some(At { index: 0 }),
        data: Some(p4::CounterData { byte_count: 0, packet_count: 1000 }),
    };
    switch.write(update::Type::Modify, entity::Entity::CounterEntry(counter));
    let mut entry = switch.entry(Some(0));
    entry.counter_data = Some(p4::CounterData { byte_count: 0, packet_count: 500 });
    switch.write(update::Type::Modify, entity::Entity::TableEntry(entry));
    let register = switch.switch.forwarding().unwrap().p4info().registers[0].clone();
    for row in rows {
        let data = p4_data::Data::Bitstring((100 + row as u16).to_be_bytes().to_vec());
        let register = RegisterEntry {
            register_id: register.preamble.clone().unwrap().id,
            index: Some(At { index: row.into() }),
            data: Some(p4::P4Data { data: Some(data) }),
        };
        switch.write(update::Type::Modify, entity::Entity::RegisterEntry(register));
    }
    rows.iter().for_each(|row| send(&mut switch, *row));
    assert_eq!(switch.passes()[0][0], 1012);
    assert_eq!(switch.passes()[1][0], 512);
    assert_eq!(switch.sums(), rows.into_iter().map(|row| (row, 103 + row)).collect());

    // A new version of the program takes all of it over; packets on their way belong to the old one.
    switch.core(0).receive(0, 1, &Probe { op: 0, left: 0, row: 64 }.frame());
    switch.collect(0);
    let [saved, forwarding] = [(); 2].map(|()| Forwarding::from_source(ROWS).unwrap());
    // A program that was saved before is not the one whose state counts.
    switch.switch.save(saved);
    switch.switch.reconcile(forwarding).unwrap();
    switch.finish();
    assert_eq!(switch.switch.statistics().replaced, 1);
    assert_eq!(switch.passes()[0][0], 1012);
    assert_eq!(switch.passes()[1][0], 512);
    rows.iter().for_each(|row| send(&mut switch, *row));
    assert_eq!(switch.passes()[0][0], 1024);
    assert_eq!(switch.passes()[1][0], 524);
    assert_eq!(switch.sums(), rows.into_iter().map(|row| (row, 106 + row)).collect());
}

/// The packets of all cores share the rate of an entry.
#[test]
fn a_meter_is_that_of_all_cores_together() {
    let mut switch = Cores::new(3);
    switch.start();
    let info = switch.switch.forwarding().unwrap().p4info();
    let named = |preamble: &Option<p4config::Preamble>, name: &str| {
        preamble.as_ref().filter(|preamble| preamble.name.ends_with(name)).map(|own| own.id)
    };
    let table_id = info.tables.iter().find_map(|table| named(&table.preamble, "paced")).unwrap();
    let action_id = info.actions.iter().find_map(|a| named(&a.preamble, "measure")).unwrap();
    let action = p4::Action { action_id, params: vec![] };
    let (cir, cburst, pir, pburst) = (1, 10, 1, 10);
    let entry = TableEntry {
        table_id,
        action: Some(p4::TableAction { r#type: Some(p4::table_action::Type::Action(action)) }),
        meter_config: Some(p4::MeterConfig { cir, cburst, pir, pburst, eburst: 0 }),
        ..switch.entry(Some(0))
    };
    switch.write(update::Type::Insert, entity::Entity::TableEntry(entry.clone()));
    let send = |switch: &mut Cores, now_us: u64| {
        let before = switch.out.len();
        for row in (0..24).map(|row| row * 64) {
            switch.core(0).receive(now_us, 1, &Probe { op: 0, left: 0, row }.frame());
            switch.collect(0);
        }
        switch.finish();
        switch.out.len() - before
    };
    assert_eq!(send(&mut switch, 0), 10, "the burst");
    assert_eq!(send(&mut switch, 3_000_000), 3, "what three seconds brought");
    // Changed, and taken over by a new version of the program.
    let change = TableEntry {
        meter_config: Some(p4::MeterConfig { cir, cburst: 7, pir, pburst: 7, eburst: 0 }),
        ..entry.clone()
    };
    switch.write(update::Type::Modify, entity::Entity::TableEntry(change));
    assert_eq!(send(&mut switch, 3_000_000), 7);
    let take_over = |switch: &mut Cores| {
        let forwarding = Forwarding::from_source(ROWS).unwrap();
        switch.switch.reconcile(forwarding).unwrap();
    };
    take_over(&mut switch);
    assert_eq!(send(&mut switch, 3_000_000), 7);
    // The same for packets without an entry.
    let default = TableEntry {
        r#match: vec![],
        is_default_action: true,
        meter_config: Some(p4::MeterConfig { cir, cburst: 5, pir, pburst: 5, eburst: 0 }),
        ..entry.clone()
    };
    switch.write(update::Type::Delete, entity::Entity::TableEntry(entry));
    switch.write(update::Type::Modify, entity::Entity::TableEntry(default));
    assert_eq!(send(&mut switch, 3_000_000), 5);
    take_over(&mut switch);
    assert_eq!(send(&mut switch, 3_000_000), 5);
}

/// A refused batch leaves nothing at any core.
#[test]
fn a_batch_that_is_undone_is_undone_everywhere() {
    use tributary_p4runtime::p4::v1::write_request::Atomicity;
    let mut switch = Cores::new(3);
    switch.start();
    let update = |kind: update::Type, op| {
        let entry = entity::Entity::TableEntry(switch.entry(Some(op)));
        Update { r#type: kind.into(), entity: Some(Entity { entity: Some(entry) }) }
    };
    let updates = [
        update(update::Type::Delete, 0),
        update(update::Type::Insert, 9),
        update(update::Type::Insert, 1),
    ];
    let entries = |core: &Core| {
        let table = entity::Entity::TableEntry(TableEntry::default());
        let program = core.forwarding().unwrap();
        let mut batch = ReadBatch::new(program, &[Entity { entity: Some(table) }]);
        while !batch.step(program, usize::MAX).unwrap() {}
        batch.take()
    };
    let before = entries(switch.core(0));
    let results = switch.switch.write_batch(&updates, Atomicity::RollbackOnError).unwrap();
    assert!(results.iter().all(Result::is_err));
    for core in 0..3 {
        let mut now = entries(switch.core(core));
        now.sort_by_key(|entity| format!("{entity:?}"));
        let mut before = before.clone();
        before.sort_by_key(|entity| format!("{entity:?}"));
        assert_eq!(now, before);
    }
}

/// Commands of a script reach all cores when the program starts.
#[test]
fn commands_of_a_script_are_for_all_cores() {
    let script = "
        add ops hdr.row.op:0x00 count()
        add ops hdr.row.op:0x01 count()
        mc_mgrp_create 7
        mc_node_create 1 2 3
        mc_node_associate 7 0
        counter_write passes 0 1000 0
        register_write sums 64 100
        register_write sums 128 200";
    let mut switch = Cores::new(3);
    switch.switch.commit(Forwarding::from_source(ROWS).unwrap());
    stf::configure(&Script::parse(script).unwrap(), &mut switch.switch, 0).unwrap();
    for core in 0..3 {
        for (op, row) in [(0, 64), (0, 128), (1, 0)] {
            switch.core(core).receive(0, 1, &Probe { op, left: 0, row }.frame());
            switch.collect(core);
        }
    }
    switch.finish();
    assert_eq!(switch.sums(), BTreeMap::from([(0, 3), (64, 103), (128, 203)]));
    assert_eq!(switch.passes(), [vec![1006, 3, 0, 0, 0], vec![6, 3]]);
    assert_eq!(switch.out.len(), 6 + 2 * 3);

    let fails = |script: &str| {
        let mut switch = Cores::new(3);
        switch.switch.commit(Forwarding::from_source(ROWS).unwrap());
        let script = Script::parse(script).unwrap();
        stf::configure(&script, &mut switch.switch, 0).unwrap_err().to_string()
    };
    assert!(fails("deflect_on_drop 3").starts_with("1:1: a switch with several threads"));
    assert!(fails("add ops op:1 count()\nwait").starts_with("2:1: only commands for tables"));
}
