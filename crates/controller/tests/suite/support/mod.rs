//! What a controller must be able to do with any switch. The cases are the same for every target; a
//! [`Kit`] starts its switches.

pub(crate) mod failures;

use std::time::{Duration, Instant};

use tributary_controller::client::{SwitchConfig, Target};
use tributary_controller::entries;
use tributary_controller::jobs::Controller;
use tributary_controller::outcomes::Outcome;
use tributary_controller::programs::Pipeline;
use tributary_controller::session::Session;
use tributary_controller::{Catalogue, Error};
use tributary_model::jobfile::parse;
use tributary_model::{Aggregation, Error as Unservable, Scenario, SwitchId, plan::Placement};
use tributary_p4runtime::p4::config::v1::Preamble;
use tributary_p4runtime::p4::v1::field_match::FieldMatchType;
use tributary_p4runtime::p4::v1::{Entity, MeterConfig, MulticastGroupEntry, TableEntry, entity};
use tributary_p4runtime::p4::v1::{
    PacketReplicationEngineEntry, packet_replication_engine_entry, table_action,
};
use tributary_protocol::{Assignment, Mode};
use tributary_wire::agg::Repr;
use tributary_wire::{
    AggregatorIndex, Audience, Bitmap, Ecn, Envelope, Epoch, Flags, JobId, Kind, Protocol, Rack,
    Segment, Sequence, Service, emit_frame,
};

pub(crate) use failures::{
    a_stray_hand_is_undone, a_switch_that_falls_silent, an_admission_is_whole_wherever_it_breaks,
};

/// The tests that every kind of switch passes. `$kit` makes one for a program, or `None` if its
/// tools are not installed.
macro_rules! cases {
    ($kit:path) => {
        $crate::support::cases! { $kit, "atp":
            a_job_comes_and_goes,
            a_restarted_switch_gets_everything_back,
            changes_reach_a_switch_that_was_away,
            a_new_controller_reconciles,
            a_second_controller_is_told,
            bad_switches_are_named,
            a_failed_admission_leaves_nothing,
            an_admission_is_whole_wherever_it_breaks,
            a_switch_that_falls_silent,
            a_stray_hand_is_undone,
        }
        $crate::support::cases! { $kit, "esa": an_esa_job_comes_and_goes }
        $crate::support::cases! { $kit, "p4inc": p4inc_jobs_come_move_and_go }

        #[tokio::test(flavor = "multi_thread")]
        async fn another_program_under_our_cookie() {
            if let (Some(kit), Some(esa)) = ($kit("atp"), $kit("esa")) {
                $crate::support::failures::another_program_under_our_cookie(&kit, esa.pipeline)
                    .await;
            }
        }
    };
    ($kit:path, $program:literal: $($case:ident),* $(,)?) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $case() {
            if let Some(kit) = $kit($program) {
                $crate::support::$case(&kit).await;
            }
        }
    )*};
}
pub(crate) use cases;

/// A kind of switch.
pub(crate) trait Kit {
    /// A running switch; stops when dropped.
    type Switch;
    /// A program for a small pool, compiled for this target.
    fn pipeline(&self) -> Pipeline;
    /// Starts a switch whose P4Runtime server listens at this loopback port.
    fn start(&self, port: u16) -> Self::Switch;
}

/// Two racks of two workers.
pub(crate) fn scenario() -> Scenario {
    parse("[topology]\nracks = 2\n[switch]\npool = 64\n[[job]]\n", "test").unwrap()
}

/// The same for ESA, with the reminder agent on a host beside the parameter server's: ports 3 and 4
/// of rack 1, whose port 5 leads to port 3 of rack 2.
pub(crate) fn esa_scenario() -> Scenario {
    let text = "protocol = \"esa\"\n[topology]\nracks = 2\nps_hosts = 2\n[switch]\npool = 64\n\
                [[job]]\nps = \"ps1\"\nagent = \"ps2\"\n";
    parse(text, "test").unwrap()
}

/// A port that is free right now.
pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub(crate) fn config(name: &str, port: u16) -> SwitchConfig {
    SwitchConfig::new(name, Target::Address(format!("127.0.0.1:{port}")))
}

/// Every entity of ours in a switch, in a comparable form.
async fn contents(session: &Session, pipeline: &Pipeline) -> Vec<String> {
    let named = |name: &str| {
        let tables = pipeline.p4info.tables.iter();
        let mut ids = tables.filter_map(|table| {
            let preamble = table.preamble.as_ref()?;
            preamble.name.ends_with(name).then_some(preamble.id)
        });
        ids.next()
    };
    let table = |table_id| Entity {
        entity: Some(entity::Entity::TableEntry(TableEntry { table_id, ..TableEntry::default() })),
    };
    let groups = PacketReplicationEngineEntry {
        r#type: Some(packet_replication_engine_entry::Type::MulticastGroupEntry(
            MulticastGroupEntry::default(),
        )),
    };
    let groups = Entity { entity: Some(entity::Entity::PacketReplicationEngineEntry(groups)) };
    let everywhere = [".hosts", ".limits", ".memberships"];
    let mut request: Vec<_> = everywhere.into_iter().flat_map(named).map(table).collect();
    request.extend([named(".servers"), named(".services")].into_iter().flatten().map(table));
    request.push(groups);
    let mut found: Vec<String> = session
        .read(request)
        .await
        .unwrap()
        .into_iter()
        .filter(|entity| match &entity.entity {
            Some(entity::Entity::TableEntry(entry)) => !entry.is_default_action,
            _ => true,
        })
        .map(|entity| format!("{entity:?}"))
        .collect();
    found.sort();
    found
}

/// The entries of a table as "keys → action parameters", with the program's names and order.
pub(crate) async fn entries_of(session: &Session, pipeline: &Pipeline, table: &str) -> Vec<String> {
    let info = &pipeline.p4info;
    let is =
        |preamble: Option<&Preamble>, name: &str| preamble.is_some_and(|p| p.name.ends_with(name));
    let id = |preamble: Option<&Preamble>| preamble.map_or(0, |preamble| preamble.id);
    let table = info.tables.iter().find(|found| is(found.preamble.as_ref(), table)).unwrap();
    let table_id = id(table.preamble.as_ref());
    let metered = info.direct_meters.iter().any(|meter| meter.direct_table_id == table_id);
    let meter_config = metered.then(MeterConfig::default);
    let wanted = TableEntry { table_id, meter_config, ..TableEntry::default() };
    let request = Entity { entity: Some(entity::Entity::TableEntry(wanted)) };
    let described = session.read(vec![request]).await.unwrap().into_iter().filter_map(|found| {
        let Some(entity::Entity::TableEntry(entry)) = found.entity else { panic!("an entry") };
        if entry.is_default_action {
            return None;
        }
        let keys = table.match_fields.iter().map(|field| {
            let key = entry.r#match.iter().find(|key| key.field_id == field.id).unwrap();
            match &key.field_match_type {
                Some(FieldMatchType::Exact(exact)) => number(&exact.value).to_string(),
                other => panic!("{other:?}"),
            }
        });
        let keys: Vec<String> = keys.collect();
        let Some(table_action::Type::Action(done)) = entry.action?.r#type else {
            panic!("an action");
        };
        let mut actions = info.actions.iter();
        let action = actions.find(|action| id(action.preamble.as_ref()) == done.action_id).unwrap();
        let params = action.params.iter().map(|param| {
            let given = done.params.iter().find(|given| given.param_id == param.id).unwrap();
            format!(" {:#x}", number(&given.value))
        });
        let name = action.preamble.as_ref()?.name.rsplit('.').next()?;
        let rate = entry.meter_config.map_or(String::new(), |meter| format!(" {} B/s", meter.pir));
        Some(format!("{} → {name}{}{rate}", keys.join(" "), params.collect::<String>()))
    });
    let mut described: Vec<String> = described.collect();
    described.sort();
    described
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// A fresh gradient of a worker: every value is the worker's number, counted from 1.
pub(crate) fn gradient(scenario: &Scenario, worker: u8, sequence: u32, index: u32) -> Vec<u8> {
    let job = &scenario.jobs[0];
    let host = |id| scenario.network.topology.host(id).address;
    let envelope = Envelope {
        source: host(job.workers[usize::from(worker)]),
        destination: host(job.server()),
        ecn: Ecn::Ect0,
    };
    let repr = Repr {
        protocol: Protocol::Atp,
        kind: Kind::Gradient,
        flags: Flags::NONE,
        priority: 0,
        job: job.id,
        epoch: job.epoch,
        values: 64,
        sequence: Sequence(sequence),
        bitmap: Bitmap(1 << worker),
        rack: Rack::NONE,
        audience: Audience::ALL,
        index: AggregatorIndex(index),
    };
    let mut frame = Vec::new();
    for value in emit_frame(&mut frame, &envelope, &repr).chunks_exact_mut(4) {
        value.copy_from_slice(&(i32::from(worker) + 1).to_be_bytes());
    }
    frame
}

async fn connect(
    kit: &impl Kit,
    scenario: &Scenario,
    ports: [u16; 2],
) -> Result<Controller, Error> {
    let configs = vec![config("rack1", ports[0]), config("rack2", ports[1])];
    Controller::connect(&scenario.network.topology, configs, &kit.pipeline()).await
}

/// Push, admit, count, remove, sweep; the switch is as clean as before.
pub(crate) async fn a_job_comes_and_goes(kit: &impl Kit) {
    let scenario = scenario();
    let ports = [free_port(), free_port()];
    let _switches = ports.map(|port| kit.start(port));
    let controller = connect(kit, &scenario, ports).await.unwrap();
    let pipeline = kit.pipeline();
    let rack2 = &controller.switches()[1];
    let clean = contents(rack2, &pipeline).await;
    assert_eq!(clean.len(), 1 + 5, "the flood group and five hosts: {clean:#?}");

    let placement = Placement::unassigned(&scenario.jobs[0]);
    controller.admit(&placement).await.unwrap();
    let admitted = contents(rack2, &pipeline).await;
    assert_eq!(admitted.len(), clean.len() + 1 + 2 + 3, "{admitted:#?}");
    let taken = controller.admit(&placement).await.unwrap_err();
    assert!(matches!(taken, Error::JobTaken(..)), "{taken}");

    // Packets from the controller's own port belong to no member: they are only counted.
    let job = placement.job;
    for sequence in 0..3 {
        rack2.packet_out(gradient(&scenario, 2, sequence, sequence)).await.unwrap();
    }
    let rejected = async || {
        controller.traffic().await.unwrap()[&tributary_model::SwitchId(1)][Outcome::Rejected]
    };
    wait_until(async || rejected().await.packets == 3).await;
    for (_, outcomes) in controller.outcomes(job).await.unwrap() {
        assert!(outcomes.iter().all(|(_, count)| count.packets == 0));
    }

    let freed = controller.remove(job).await.unwrap();
    assert_eq!(freed.values().copied().collect::<Vec<_>>(), [0, 0]);
    assert_eq!(contents(rack2, &pipeline).await, clean);
    assert!(matches!(controller.remove(job).await, Err(Error::UnknownJob(_))));
    let swept = controller.traffic().await.unwrap()[&tributary_model::SwitchId(1)];
    assert_eq!(swept[Outcome::Swept].packets, 64, "every cell of the pool was visited");
    // Its ID can be used again.
    controller.admit(&placement).await.unwrap();
}

/// ESA: each switch has what a job's ports may send and where its evicted sums go, until its
/// removal.
pub(crate) async fn an_esa_job_comes_and_goes(kit: &impl Kit) {
    let scenario = esa_scenario();
    let ports = [free_port(), free_port()];
    let _switches = ports.map(|port| kit.start(port));
    let controller = connect(kit, &scenario, ports).await.unwrap();
    let pipeline = kit.pipeline();
    let mut clean = Vec::new();
    for session in controller.switches() {
        clean.push(contents(session, &pipeline).await);
        assert_eq!(clean.last().unwrap().len(), 1 + 6, "the flood group and six hosts");
    }

    let placement = Placement::unassigned(&scenario.jobs[0]);
    let job = placement.job;
    controller.admit(&placement).await.unwrap();
    let server = scenario.network.topology.host(placement.ps.unwrap()).address;
    let (mac, ip) = (number(&server.mac.0), number(&server.ip.octets()));
    // Keys are job, epoch, port and kind: 1 a gradient, 2 a result, 6 a reminder, 7 the answer
    // "absent". The job counts in slot 1 and has multicast group 2.
    let upper = [
        "1 1 1 1 0 → contribute 0x1 0xf 0xf 0x2 0x1 0xff",
        "1 1 2 1 0 → contribute 0x2 0xf 0xf 0x2 0x1 0xff",
        "1 1 3 2 0 → distribute 0x2 0x1",
        "1 1 4 6 0 → remind 0xf 0x1",
        "1 1 5 1 0 → contribute 0xc 0xf 0xf 0x2 0x1 0xff",
        "1 1 5 7 0 → answer 0x1",
    ];
    let lower = [
        "1 1 1 1 0 → contribute 0x4 0xc 0xc 0x0 0x1 0xff",
        "1 1 2 1 0 → contribute 0x8 0xc 0xc 0x0 0x1 0xff",
        "1 1 3 2 0 → distribute 0x2 0x1",
        "1 1 3 6 0 → remind 0xc 0x1",
    ];
    for (session, expected) in controller.switches().iter().zip([&upper[..], &lower]) {
        assert_eq!(entries_of(session, &pipeline, ".memberships").await, expected);
        let servers = entries_of(session, &pipeline, ".servers").await;
        assert_eq!(servers, [format!("1 → to_server 0x1 0x0 {mac:#x} {ip:#x}")]);
    }

    let freed = controller.remove(job).await.unwrap();
    assert_eq!(freed.values().copied().collect::<Vec<_>>(), [0, 0]);
    for (session, clean) in controller.switches().iter().zip(&clean) {
        assert!(entries_of(session, &pipeline, ".memberships").await.is_empty());
        assert!(entries_of(session, &pipeline, ".servers").await.is_empty());
        assert_eq!(&contents(session, &pipeline).await, clean);
    }
    // The next controller also removes what a killed one left behind.
    controller.admit(&placement).await.unwrap();
    drop(controller);
    let successor = connect(kit, &scenario, ports).await.unwrap();
    for (session, clean) in successor.switches().iter().zip(&clean) {
        assert_eq!(session.orphans(), [placement.run()]);
        assert_eq!(&contents(session, &pipeline).await, clean);
    }
}

/// Two racks of two workers; one job over both, and one in the first rack without a PS.
pub(crate) fn segment_scenario() -> Scenario {
    let text = "[topology]\nracks = 2\n[switch]\npool = 64\n[[job]]\n\
                [[job]]\nworkers = [\"w1\", \"w2\"]\n";
    parse(text, "test").unwrap()
}

/// P4INC: jobs get and free segments; the entries of each switch follow the place of aggregation.
#[expect(clippy::too_many_lines, reason = "one story, told in order")]
pub(crate) async fn p4inc_jobs_come_move_and_go(kit: &impl Kit) {
    let scenario = segment_scenario();
    let ports = [free_port(), free_port()];
    let _switches = ports.map(|port| kit.start(port));
    let controller = connect(kit, &scenario, ports).await.unwrap();
    let pipeline = kit.pipeline();
    let [rack1, rack2] = controller.switches() else { panic!("two switches") };
    let clean = [contents(rack1, &pipeline).await, contents(rack2, &pipeline).await];
    let services = async |session| entries_of(session, &pipeline, ".services").await;
    let room = |controller: &Controller| -> Vec<u32> {
        controller.room().iter().map(|room| room.free).collect()
    };
    assert_eq!(room(&controller), [64, 64]);

    // A job over both racks: 16 aggregators in each, at the same offset.
    let wide = Placement::unassigned(&scenario.jobs[0]);
    let assigned = controller.admit_sized(wide.clone(), Aggregation::Network, 16).await.unwrap();
    let segment = |offset, size| Segment { offset: AggregatorIndex(offset), size };
    let expected =
        |number, segment, mode| Assignment { service: Service::new(number), segment, mode };
    assert_eq!(assigned, expected(1, segment(0, 16), Mode::Partial));
    // Keys are job, epoch, port and kind: 1 a gradient, 2 a result, 3 a reply, 4 a query.
    let upper = [
        "1 1 1 1 0 → contribute 0x1 0x3 0x3 0x0 0x1",
        "1 1 2 1 0 → contribute 0x2 0x3 0x3 0x0 0x1",
        "1 1 3 2 0 → distribute 0x2 0x1",
        "1 1 3 3 0 → answer 0x1",
        "1 1 3 4 0 → answer 0x1",
        "1 1 5 1 0 → pass 0x1",
    ];
    let lower = [
        "1 1 1 1 0 → contribute 0x4 0xc 0xc 0x0 0x1",
        "1 1 2 1 0 → contribute 0x8 0xc 0xc 0x0 0x1",
        "1 1 3 2 0 → distribute 0x2 0x1",
        "1 1 3 3 0 → answer 0x1",
        "1 1 3 4 0 → answer 0x1",
    ];
    assert_eq!(entries_of(rack1, &pipeline, ".memberships").await, upper);
    assert_eq!(entries_of(rack2, &pipeline, ".memberships").await, lower);
    for session in [rack1, rack2] {
        assert_eq!(services(session).await, ["1 1 → aggregate 0x0 0x10 0xf 0xf"]);
    }

    // A local job beside it, in the first rack only.
    let local = Placement { ps: None, ..Placement::unassigned(&scenario.jobs[1]) };
    let assigned = controller.admit_sized(local.clone(), Aggregation::Network, 40).await.unwrap();
    assert_eq!(assigned, expected(1, segment(16, 40), Mode::Local));
    let both = ["1 1 → aggregate 0x0 0x10 0xf 0xf", "2 1 → aggregate 0x10 0x28 0x3 0x3"];
    assert_eq!(services(rack1).await, both);
    let memberships = entries_of(rack1, &pipeline, ".memberships").await;
    assert_eq!(memberships[6], "2 2 1 1 0 → contribute 0x1 0x3 0x3 0x3 0x2");
    assert_eq!(memberships[7], "2 2 2 1 0 → contribute 0x2 0x3 0x3 0x3 0x2");
    assert_eq!((memberships.len(), room(&controller)), (8, vec![8, 48]));
    // A third job does not fit, even with a segment of its own choice, and leaves nothing behind.
    let (job, epoch) = (JobId::new(3).unwrap(), Epoch::new(3).unwrap());
    let third = Placement { job, epoch, ..local.clone() };
    let short = controller.admit_sized(third.clone(), Aggregation::Network, 9).await.unwrap_err();
    assert_eq!(
        short.to_string(),
        "switch rack1: job 3 wants 9 aggregators in one piece, and the largest free piece has 8; ask for \
         fewer, or wait until a job ends"
    );
    let overlapping = third.assigned(expected(1, segment(55, 2), Mode::Local));
    let taken = controller.admit(&overlapping).await.unwrap_err();
    assert!(matches!(taken, Error::Model(Unservable::Memory { .. })), "{taken}");
    assert_eq!((services(rack1).await.len(), room(&controller)), (2, vec![8, 48]));

    // To the parameter server and back: another service each time, and memory only in the network.
    let moved = controller.relocate(wide.job, Aggregation::Server, 0).await.unwrap();
    assert_eq!(moved, Assignment::NONE);
    assert_eq!(room(&controller), [24, 64]);
    for (session, memberships) in [(rack1, &upper[..]), (rack2, &lower[..])] {
        assert_eq!(services(session).await[0], "1 0 → forward");
        let found = entries_of(session, &pipeline, ".memberships").await;
        assert_eq!(found[..memberships.len()], *memberships, "the same may come from each port");
    }
    let again = controller.relocate(wide.job, Aggregation::Server, 0).await.unwrap();
    assert_eq!(again, Assignment::NONE);
    let refused = controller.relocate(wide.job, Aggregation::Network, 17).await.unwrap_err();
    assert!(matches!(refused, Error::Model(Unservable::Memory { .. })), "{refused}");
    assert_eq!(services(rack2).await, ["1 0 → forward"], "a refusal changes nothing");
    let moved = controller.relocate(wide.job, Aggregation::Network, 8).await.unwrap();
    assert_eq!(moved, expected(2, segment(0, 8), Mode::Partial));
    assert_eq!(services(rack2).await, ["1 2 → aggregate 0x0 0x8 0xf 0xf"]);
    // From one segment to another: the job holds both until the old one is swept.
    let moved = controller.relocate(wide.job, Aggregation::Network, 4).await.unwrap();
    assert_eq!(moved, expected(3, segment(8, 4), Mode::Partial));
    assert_eq!(room(&controller), [20, 60]);
    let unknown = controller.relocate(overlapping.job, Aggregation::Server, 0).await.unwrap_err();
    assert_eq!(unknown, Error::UnknownJob(overlapping.job));
    let alone = controller.relocate(local.job, Aggregation::Server, 0).await.unwrap_err();
    assert_eq!(alone, Error::Model(Unservable::NoServer(local.job)));

    // After removal nothing is left; only the segment was swept.
    let freed = controller.remove(wide.job).await.unwrap();
    assert_eq!(freed.into_values().collect::<Vec<_>>(), [0, 0]);
    controller.remove(local.job).await.unwrap();
    assert_eq!(room(&controller), [64, 64]);
    for (session, clean) in [rack1, rack2].into_iter().zip(&clean) {
        assert_eq!(&contents(session, &pipeline).await, clean);
    }
    let traffic = controller.traffic().await.unwrap();
    assert_eq!(traffic[&SwitchId(1)][Outcome::Swept].packets, 16 + 8 + 4);
    // The ID was used before: its services continue from there.
    let assigned = controller.admit_sized(wide.clone(), Aggregation::Network, 1).await.unwrap();
    assert_eq!(assigned.service, Service::new(4));

    // The next controller sweeps every aggregator, because they do not name their job.
    drop(controller);
    let successor = connect(kit, &scenario, ports).await.unwrap();
    for (session, clean) in successor.switches().iter().zip(&clean) {
        assert_eq!(session.orphans(), [wide.run()]);
        assert!(session.was_running());
        assert_eq!(&contents(session, &pipeline).await, clean);
    }
    let after = successor.traffic().await.unwrap()[&SwitchId(1)][Outcome::Swept].packets;
    assert_eq!(after, 16 + 8 + 4 + 64);
}

async fn wait_until(condition: impl AsyncFn() -> bool) {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < Duration::from_secs(10), "it never comes");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A switch that is stopped and started again gets everything back.
pub(crate) async fn a_restarted_switch_gets_everything_back(kit: &impl Kit) {
    let scenario = scenario();
    let ports = [free_port(), free_port()];
    let _rack1 = kit.start(ports[0]);
    let rack2 = kit.start(ports[1]);
    let controller = connect(kit, &scenario, ports).await.unwrap();
    let pipeline = kit.pipeline();
    let placement = Placement::unassigned(&scenario.jobs[0]);
    controller.admit(&placement).await.unwrap();
    let session = &controller.switches()[1];
    let before = contents(session, &pipeline).await;

    drop(rack2);
    wait_until(async || session.health().is_err()).await;
    let _rack2 = kit.start(ports[1]);
    wait_until(async || session.health().is_ok()).await;
    assert_eq!(session.connections(), 2);
    assert_eq!(contents(session, &pipeline).await, before);
    // The restarted switch works.
    controller.remove(placement.job).await.unwrap();
    assert!(contents(session, &pipeline).await.len() < before.len());
}

/// A job removed while a switch is disconnected is removed from it when it is back.
pub(crate) async fn changes_reach_a_switch_that_was_away(kit: &impl Kit) {
    let scenario = scenario();
    let port = free_port();
    let switch = kit.start(port);
    let pipeline = kit.pipeline();
    let catalogue = Catalogue::new(&pipeline.p4info).unwrap();
    let placement = Placement::unassigned(&scenario.jobs[0]);
    let part = &tributary_model::plan::job(&scenario.network.topology, &placement)[0];
    let slot = entries::JobSlot::new(1).unwrap();
    let entities = entries::job(&catalogue, part, placement.run(), slot);
    let session = Session::connect(config("s1", port), pipeline.clone(), &[]).await.unwrap();
    drop(switch);
    wait_until(async || session.health().is_err()).await;
    let restart = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        kit.start(port)
    };
    let reset = entries::reset_counters(&catalogue, slot);
    let (installed, _switch) = tokio::join!(session.install(&reset, &entities), restart);
    installed.unwrap();
    assert_eq!(contents(&session, &pipeline).await.len(), entities.len());
}

/// A new controller finds the state of the last one: it keeps what is correct, repairs what is not,
/// and removes the rest.
pub(crate) async fn a_new_controller_reconciles(kit: &impl Kit) {
    let scenario = scenario();
    let ports = [free_port(), free_port()];
    let _switches = ports.map(|port| kit.start(port));
    let pipeline = kit.pipeline();
    let placement = Placement::unassigned(&scenario.jobs[0]);
    let first = connect(kit, &scenario, ports).await.unwrap();
    let clean = contents(&first.switches()[0], &pipeline).await;
    first.admit(&placement).await.unwrap();
    // Delete one host's entry and the flood group, and add another job, as a stray client would.
    let catalogue = Catalogue::new(&pipeline.p4info).unwrap();
    let forwarding = &tributary_model::plan::forwarding(&scenario.network.topology)[0];
    let some = entries::forwarding(&catalogue, forwarding)[..2].to_vec();
    first.switches()[0].remove(&some).await.unwrap();
    let mut other = tributary_model::plan::job(&scenario.network.topology, &placement)[0].clone();
    other.members = Bitmap(0xff);
    let slot = entries::JobSlot::new(9).unwrap();
    let strange = JobId::new(77).unwrap().run(Epoch::new(77).unwrap());
    let stray = entries::job(&catalogue, &other, strange, slot);
    first.switches()[0].install(&[], &stray).await.unwrap();
    drop(first);

    let second = connect(kit, &scenario, ports).await.unwrap();
    let session = &second.switches()[0];
    assert_eq!(session.orphans(), [placement.run(), strange]);
    assert_eq!(contents(session, &pipeline).await, clean);
    // The orphans were swept. The pipeline was not pushed again, so counters continue.
    let swept = second.traffic().await.unwrap()[&tributary_model::SwitchId(0)];
    assert_eq!(swept[Outcome::Swept].packets, 2 * 64);
    second.admit(&placement).await.unwrap();
}

/// Of two controllers, the one with the higher election ID is primary; the other gets its ID, and
/// takes over when there is no primary any more.
pub(crate) async fn a_second_controller_is_told(kit: &impl Kit) {
    let port = free_port();
    let _switch = kit.start(port);
    let ruler = SwitchConfig { election_id: 7, ..config("s1", port) };
    let ruler = Session::connect(ruler, kit.pipeline(), &[]).await.unwrap();
    let backup = Session::connect(config("s1", port), kit.pipeline(), &[]).await;
    let message = backup.unwrap_err().to_string();
    assert_eq!(
        message,
        "switch s1: another controller is primary (election ID 7, ours is 1); stop it, or take over \
         with --election-id 8"
    );
    // A higher election ID replaces the primary.
    let usurper = SwitchConfig { election_id: 8, ..config("s1", port) };
    let usurper = Session::connect(usurper, kit.pipeline(), &[]).await.unwrap();
    wait_until(async || matches!(ruler.health(), Err(Error::NotPrimary { .. }))).await;
    assert!(usurper.health().is_ok());
    drop(usurper);
    wait_until(async || ruler.health().is_ok()).await;
}

/// No server listens; the address is invalid; the program is refused.
pub(crate) async fn bad_switches_are_named(kit: &impl Kit) {
    let port = free_port();
    let error = Session::connect(config("s1", port), kit.pipeline(), &[]).await.unwrap_err();
    let message = error.to_string();
    let start = format!("switch s1: no P4Runtime server answers at 127.0.0.1:{port} (");
    assert!(message.starts_with(&start) && message.contains("refused"), "{message}");

    let nowhere = SwitchConfig::new("s1", Target::Address("nowhere".into()));
    let error = Session::connect(nowhere, kit.pipeline(), &[]).await.unwrap_err();
    assert!(matches!(error, Error::Address { .. }), "{error}");

    let _switch = kit.start(port);
    let broken = Pipeline { device_config: b"control { nonsense".to_vec(), ..kit.pipeline() };
    let error = Session::connect(config("s1", port), broken, &[]).await.unwrap_err();
    assert!(matches!(error, Error::PipelineRefused { .. }), "{error}");
    assert!(!error.to_string().contains('\n'), "{error}");
    let other = SwitchConfig { device_id: 42, ..config("s1", port) };
    let error = Session::connect(other, kit.pipeline(), &[]).await.unwrap_err();
    // BMv2 accepts any device ID until it gets a pipeline.
    let expected =
        matches!(error, Error::Device { device: 42, .. } | Error::PipelineRefused { .. });
    assert!(expected, "{error:?}");
}

/// If one switch refuses a job, all switches undo it.
pub(crate) async fn a_failed_admission_leaves_nothing(kit: &impl Kit) {
    let scenario = scenario();
    let ports = [free_port(), free_port()];
    let _rack1 = kit.start(ports[0]);
    let rack2 = kit.start(ports[1]);
    let configs = ["rack1", "rack2"].into_iter().zip(ports).map(|(name, port)| SwitchConfig {
        patience: Duration::from_millis(300),
        ..config(name, port)
    });
    let controller =
        Controller::connect(&scenario.network.topology, configs.collect(), &kit.pipeline())
            .await
            .unwrap();
    let pipeline = kit.pipeline();
    let session = &controller.switches()[0];
    let clean = contents(session, &pipeline).await;
    drop(rack2);
    let placement = Placement::unassigned(&scenario.jobs[0]);
    let error = controller.admit(&placement).await.unwrap_err();
    assert!(error.to_string().starts_with("switch rack2: "), "{error}");
    assert_eq!(contents(session, &pipeline).await, clean);
    // The ID is free: once the switch is back, the job is admitted.
    let _rack2 = kit.start(ports[1]);
    wait_until(async || controller.switches()[1].health().is_ok()).await;
    controller.admit(&placement).await.unwrap();
}
