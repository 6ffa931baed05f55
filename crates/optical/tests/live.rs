//! The control loop over real P4Runtime, with embedded switches and a cross-connect that fails in every
//! way: jobs that do not need it go on, the others follow when it is back, and a loop that was killed
//! goes on with its jobs.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tributary_controller::client::{SwitchConfig as Address, Target};
use tributary_controller::jobs::Controller;
use tributary_controller::ports::PortMap;
use tributary_controller::programs::{Pipeline, Source, compile, defines};
use tributary_controller::service::{Admission, Demand, Jobs, Known};
use tributary_model::{
    Aggregation, Deployment, Scenario, SummedAt, SwitchId,
    circuits::{Circuits, Port},
    plan::Placement,
};
use tributary_netio::memory::{self, MemoryPort};
use tributary_optical::crossconnect::double::{Double, Fault};
use tributary_optical::orchestrator::journal::Redb;
use tributary_optical::orchestrator::live::{Live, carries};
use tributary_optical::orchestrator::planner::{End, Planner};
use tributary_optical::orchestrator::slots::{SlotReport, slot};
use tributary_protocol::Mode;
use tributary_switch::SwitchConfig;
use tributary_switch::runtime::{Runtime, SwitchHandle};
use tributary_switch::server::{Listen, ServerHandle, Service};
use tributary_wire::JobId;

/// Job 1 needs no light, and job 2 needs it from unit 2 to unit 3.
const FILE: &str = "protocol = \"p4inc\"\n\
    [topology]\nunits = 4\noptical_ports = 1\nreconfiguration = \"1ms\"\n\
    [switch]\npool = 64\n\
    [orchestrator]\nslot = \"10ms\"\nport_rate = \"40Mb/s\"\nswitch_rate = \"1Gb/s\"\n\
    step = \"10Mb/s\"\ninc = 1\niteration_timeout = \"4s\"\n\
    [[job]]\nworkers = [\"w1\", \"w2\"]\nps = \"ps2\"\nsegment = 16\nslots = 8\nwindow = 8\n\
    [[job]]\nworkers = [\"w3\", \"w5\"]\nps = \"ps3\"\nsegment = 16\nslots = 8\nwindow = 8\n";

/// Switches that outlive their controllers.
struct Switches {
    scenario: Scenario,
    pipeline: Pipeline,
    addresses: Vec<Address>,
    _running: Vec<(ServerHandle, SwitchHandle, Vec<MemoryPort>)>,
    directory: TempDir,
}

impl Switches {
    fn start(file: &str) -> Self {
        let scenario =
            tributary_model::jobfile::parse(file, "units").unwrap_or_else(|e| panic!("{e}"));
        let source = Source::built_in("p4inc").unwrap();
        let pipeline = compile(&source, &defines(&scenario.network.switch)).unwrap().pipeline;
        let directory = tempfile::tempdir().unwrap();
        let mut addresses = Vec::new();
        let mut running = Vec::new();
        for id in scenario.network.topology.switch_ids() {
            let config = SwitchConfig { device_id: id.0 as u64 + 1, ..SwitchConfig::default() };
            let mut runtime = Runtime::new(config);
            let cables = scenario.network.topology.port_numbers(id).map(|port| {
                let (near, far) = memory::pair();
                runtime.add_port(port, Box::new(near), None);
                far
            });
            let cables = cables.collect();
            let (switch, packets_in) = runtime.start().unwrap();
            let socket = directory.path().join(format!("{}.sock", id.0));
            let service = Service::new(switch.control().clone(), packets_in);
            let server = ServerHandle::start(service, Listen::Unix(socket.clone())).unwrap();
            let target = Target::Address(format!("unix:{}", socket.display()));
            let name = &scenario.network.topology.switch(id).name;
            addresses.push(Address { device_id: id.0 as u64 + 1, ..Address::new(name, target) });
            running.push((server, switch, cables));
        }
        Self { scenario, pipeline, addresses, _running: running, directory }
    }

    /// A controller with what the journal remembers.
    async fn control(&self, device: &Double) -> Loop {
        let topology = &self.scenario.network.topology;
        let journal = Redb::open(&self.directory.path().join("journal.redb"), topology).unwrap();
        let records = journal.records(topology).unwrap();
        let circuits = journal.circuits().unwrap();
        let topology = topology.patched(&circuits).unwrap();
        let resumed: Vec<_> =
            records.iter().map(|record| (record.placement.clone(), record.slot)).collect();
        let (ports, addresses) = (PortMap::default(), self.addresses.clone());
        let controller =
            Controller::resume(&topology, &ports, addresses, &self.pipeline, &resumed, |_| {});
        let controller = controller.await.unwrap();
        let journal = Arc::new(journal);
        let kept: Arc<Redb> = Arc::clone(&journal);
        let settings = self.scenario.orchestration.as_ref().unwrap();
        let carries = Some(carries(&topology, settings));
        let known = Known { carries, ..Deployment::unassigned(self.scenario.clone()).into() };
        let jobs = Jobs::resume(controller, known, &records, kept);
        let live = Live::new(jobs.clone(), Box::new(device.clone()));
        let planner = Planner::new(&topology, settings);
        Loop { jobs, live: live.resumed(circuits, journal), planner }
    }

    async fn admit(&self, its: &Loop, job: usize) {
        let placement = Placement::unassigned(&self.scenario.jobs[job]);
        let demand = Demand {
            bits: NonZeroU64::new(100_000).unwrap(),
            iterations: NonZeroU64::new(1_000),
            aggregators: 16,
            update: Duration::ZERO,
        };
        let admission = Admission::new(placement, Aggregation::Server, 0);
        its.jobs.admit(Admission { demand: Some(demand), ..admission }).await.unwrap();
    }
}

struct Loop {
    jobs: Jobs,
    live: Live,
    planner: Planner,
}

fn id(job: u16) -> JobId {
    JobId::new(job).unwrap()
}

impl Loop {
    async fn slot(&mut self) -> SlotReport {
        slot(&mut self.planner, &mut self.live).await.unwrap()
    }

    fn iteration(&self, job: u16) -> u64 {
        self.jobs.watch(id(job)).unwrap().borrow().1.iteration.number
    }

    fn mode(&self, job: u16) -> Mode {
        self.jobs.watch(id(job)).unwrap().borrow().1.assignment.mode
    }

    /// The workers of a job report the end of their iteration.
    fn finish(&self, job: u16) {
        let number = self.iteration(job);
        for worker in 0..2 {
            self.jobs.finish(id(job), number, worker).unwrap();
        }
    }
}

/// Runs a test. The switches have threads and runtimes of their own, which must start outside of its.
fn with_switches(test: impl AsyncFnOnce(&Switches)) {
    with_switches_of(FILE, test);
}

fn with_switches_of(file: &str, test: impl AsyncFnOnce(&Switches)) {
    let switches = Switches::start(file);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(test(&switches));
}

fn device(switches: &Switches) -> Double {
    let ports = switches.scenario.network.topology.cross_connect_ports();
    Double::new(ports, Duration::from_millis(50))
}

#[test]
fn jobs_get_light_and_rates_and_move() {
    with_switches(async |switches| {
        let device = device(switches);
        let mut its = switches.control(&device).await;
        for job in 0..2 {
            switches.admit(&its, job).await;
        }
        let report = its.slot().await;
        assert_eq!(report.problems, Vec::<String>::new());
        assert_eq!(report.started, [(id(1), 1), (id(2), 1)]);
        assert_eq!((its.mode(1), its.mode(2)), (Mode::Local, Mode::Forwarded));
        // Unit 2's only port is joined with unit 3's.
        assert_eq!(device.truth().peer(Port(2)), Some(Port(3)));
        assert_eq!(its.jobs.controller().circuits().await, device.truth());
        // An iteration that is over is followed by the next, and one that runs is not started again.
        its.finish(1);
        let report = its.slot().await;
        assert_eq!(report.started, [(id(1), 2)]);
        assert_eq!(report.rates.len(), 2);
    });
}

/// With two circuits between it and the server's unit.
#[test]
fn one_switch_adds_for_a_job_over_two_units_also_under_the_next_controller() {
    let file = FILE
        .replace("optical_ports = 1", "optical_ports = 2")
        .replace("inc = 1\n", "inc = 1\npartial_inc = true\n")
        .replace("[\"w3\", \"w5\"]\nps = \"ps3\"", "[\"w3\", \"w4\", \"w5\"]\nps = \"ps1\"");
    with_switches_of(&file, async |switches| {
        let device = device(switches);
        let mut its = switches.control(&device).await;
        switches.admit(&its, 1).await;
        let report = its.slot().await;
        assert_eq!(report.problems, Vec::<String>::new());
        let unit = SwitchId(1);
        assert_eq!(report.moved, [(id(2), SummedAt::Switch(unit))]);
        assert_eq!((&report.started[..], its.mode(2)), (&[(id(2), 1)][..], Mode::Partial));
        let adding = |its: &Loop| its.jobs.list().remove(0).placement.adding;
        assert_eq!(adding(&its), Some([unit].into()));
        drop(its);
        let mut its = switches.control(&device).await;
        assert_eq!(adding(&its), Some([unit].into()));
        for worker in 0..3 {
            its.jobs.finish(id(2), 1, worker).unwrap();
        }
        let report = its.slot().await;
        assert_eq!((report.problems, report.moved), (Vec::new(), Vec::new()), "it stays there");
        assert_eq!(report.started, [(id(2), 2)]);
    });
}

#[test]
fn a_cross_connect_that_fails_stops_only_jobs_that_need_other_circuits() {
    for fault in [Fault::Lost, Fault::Silent, Fault::Refusing, Fault::Stuck(Port(2))] {
        with_switches(async |switches| {
            let device = device(switches);
            let mut its = switches.control(&device).await;
            device.set_fault(Some(fault));
            for job in 0..2 {
                switches.admit(&its, job).await;
            }
            let report = its.slot().await;
            // A device that cannot even be read is not asked to change.
            assert!(report.problems.len() <= 1, "{fault:?}: {report:?}");
            assert_eq!(report.started, [(id(1), 1)], "{fault:?}");
            assert_eq!(its.jobs.controller().circuits().await, device.truth(), "{fault:?}");
            // The other job goes on while it rests.
            its.finish(1);
            assert_eq!(its.slot().await.started, [(id(1), 2)], "{fault:?}");
            device.set_fault(None);
            tokio::time::sleep(Duration::from_millis(1_100)).await;
            let mut started = Vec::new();
            for _ in 0..3 {
                started.extend(its.slot().await.started);
            }
            assert!(started.contains(&(id(2), 1)), "{fault:?}: {started:?}");
            assert_eq!(its.jobs.controller().circuits().await, device.truth(), "{fault:?}");
        });
    }
}

#[test]
fn a_cross_connect_that_forgets_its_circuits_gets_them_again() {
    with_switches(async |switches| {
        let device = device(switches);
        let mut its = switches.control(&device).await;
        switches.admit(&its, 1).await;
        assert_eq!(its.slot().await.started, [(id(2), 1)]);
        device.restart();
        let report = its.slot().await;
        assert_eq!((report.new_circuits, report.problems.len()), (1, 0), "{report:?}");
        assert_eq!(device.truth().peer(Port(2)), Some(Port(3)));
        // Someone else's change is undone as soon as a job needs the port.
        let other = Circuits::new([(Port(2), Port(4))]).unwrap();
        let mut stranger = device.clone();
        tributary_optical::crossconnect::CrossConnect::change(&mut stranger, &other).await.unwrap();
        its.slot().await;
        assert_eq!(device.truth().peer(Port(2)), Some(Port(3)));
    });
}

#[test]
fn an_iteration_that_never_ends_is_released_and_leaves_nothing() {
    with_switches(async |switches| {
        let device = device(switches);
        let mut its = switches.control(&device).await;
        for job in 0..2 {
            switches.admit(&its, job).await;
        }
        its.slot().await;
        tokio::time::sleep(Duration::from_millis(2_800)).await;
        its.finish(2);
        its.slot().await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let report = its.slot().await;
        let [(job, End::Late { iteration: 1, .. })] = report.released[..] else {
            panic!("{report:?}")
        };
        assert_eq!(job, id(1));
        let listed: Vec<_> = its.jobs.list().iter().map(|job| job.placement.job).collect();
        assert_eq!(listed, [id(2)]);
        assert!(its.jobs.room().iter().all(|room| room.free == room.aggregators));
    });
}

#[test]
fn a_killed_controller_goes_on_where_it_was() {
    with_switches(async |switches| {
        let device = device(switches);
        let mut its = switches.control(&device).await;
        for job in 0..2 {
            switches.admit(&its, job).await;
        }
        its.slot().await;
        its.jobs.finish(id(1), 1, 0).unwrap();
        let before: Vec<_> = its
            .jobs
            .list()
            .iter()
            .map(|job| (job.placement.clone(), job.iteration, job.rate))
            .collect();
        let changes = device.changes();
        // Dropped without a word, in the middle of two iterations.
        drop(its);
        let mut its = switches.control(&device).await;
        let after: Vec<_> = its
            .jobs
            .list()
            .iter()
            .map(|job| (job.placement.clone(), job.iteration, job.rate))
            .collect();
        assert_eq!(before, after);
        for session in its.jobs.controller().switches() {
            let found = session.found();
            assert!(found.running && found.orphans.is_empty() && found.updates == 0, "{found:?}");
        }
        // Its segment is not given to others, and the iteration ends with the report that was missing.
        assert_eq!(its.jobs.room()[0].free, 48);
        let report = its.slot().await;
        assert_eq!((report.started.len(), device.changes()), (0, changes), "{report:?}");
        its.jobs.finish(id(1), 1, 1).unwrap();
        assert_eq!(its.slot().await.started, [(id(1), 2)]);
    });
}

#[test]
fn what_a_killed_controller_had_not_recorded_is_cleaned_up() {
    with_switches(async |switches| {
        let device = device(switches);
        let its = switches.control(&device).await;
        switches.admit(&its, 1).await;
        // A job in the switches that the journal does not have, as after a death in an admission.
        let unrecorded = Placement::unassigned(&switches.scenario.jobs[0]);
        let admission = its.jobs.controller().admit_sized(unrecorded, Aggregation::Network, 16);
        admission.await.unwrap();
        drop(its);
        let its = switches.control(&device).await;
        let found: Vec<_> =
            its.jobs.controller().switches().iter().map(|s| s.found().updates).collect();
        assert!(found[0] > 0 && found[2] == 0, "{found:?}");
        assert_eq!(its.jobs.list().len(), 1);
        assert!(its.jobs.room().iter().all(|room| room.free == room.aggregators));
        // The job can be admitted properly now.
        switches.admit(&its, 0).await;
        assert_eq!(its.jobs.list().len(), 2);
    });
}

#[test]
fn a_job_that_has_nowhere_to_wait_is_refused() {
    with_switches(async |switches| {
        let its = switches.control(&device(switches)).await;
        let placement = Placement::unassigned(&switches.scenario.jobs[0]);
        let placement = Placement { ps: None, ..placement };
        let bits = NonZeroU64::MIN;
        let demand =
            Some(Demand { bits, iterations: None, aggregators: 16, update: Duration::ZERO });
        let admission = Admission::new(placement, Aggregation::Network, 16);
        let admission = its.jobs.admit(Admission { demand, ..admission });
        let refusal = admission.await.unwrap_err().to_string();
        assert!(refusal.contains("job 1 needs a parameter server"), "{refusal}");
        assert!(its.jobs.list().is_empty());
    });
}

/// Two units would send to a third one at once, which has one port.
#[test]
fn a_job_that_no_slot_can_carry_is_refused() {
    with_switches(async |switches| {
        let its = switches.control(&device(switches)).await;
        let topology = &switches.scenario.network.topology;
        let host = |name: &str| topology.host_named(name).unwrap();
        let placement = Placement::unassigned(&switches.scenario.jobs[0]);
        let workers = [host("w1"), host("w3")].to_vec();
        let placement = Placement { workers, ps: Some(host("ps3")), ..placement };
        let demand = Some(Demand {
            bits: NonZeroU64::MIN,
            iterations: None,
            aggregators: 16,
            update: Duration::ZERO,
        });
        let admission = Admission::new(placement, Aggregation::Server, 0);
        let admission = its.jobs.admit(Admission { demand, ..admission });
        let refusal = admission.await.unwrap_err().to_string();
        let why =
            "job 1: it needs circuits from unit1, unit2 to its parameter server in unit3 at once";
        assert!(refusal.starts_with(why), "{refusal}");
        assert!(its.jobs.list().is_empty());
    });
}
