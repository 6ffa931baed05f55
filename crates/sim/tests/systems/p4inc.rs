//! P4INC and SwitchML: local jobs, jobs over two units, and everything that must not harm them.

use std::time::Duration;

use tributary_controller::outcomes::Outcome as Fate;
use tributary_model::{HostId, LinkId, Scenario, SummedAt};
use tributary_protocol::{Mode, Tensor, Time};
use tributary_sim::{Act, Inputs, Options, Outcome, Process, Run};
use tributary_wire::agg::{Kind, Repr};
use tributary_wire::{
    AggregatorIndex, Audience, Bitmap, Ecn, Envelope, Flags, Host, JobId, Rack, Round, Service,
    emit_frame,
};

use crate::cases::{bombard, inputs, packets, program, scenario};
use crate::exact::{check_exact, describe};

const VALUES: usize = 32;

/// A job file for one of the two protocols. `windows` is both slots and window.
fn file(protocol: &str, windows: u32, topology: &str, pool: u32, rest: &str) -> String {
    format!(
        "[topology]\n{topology}\n[protocol]\nkind = \"{protocol}\"\nvalues_per_packet = {VALUES}\n\
         slots = {windows}\nwindow = {windows}\nscale = 1000.0\n[switch]\npool = {pool}\n{rest}"
    )
}

const STAR: &str = "kind = \"star\"\nworkers = 4\nps_hosts = 0";
/// Two units: w1, w2 and the parameter server in one, w3 and w4 in the other.
const UNITS: &str = "kind = \"racks\"\nracks = 2\nhosts_per_rack = 2\nps_hosts = 1\nps_rack = 1";

const EVERYBODY: &str = "[[job]]\nworkers = [\"w1\", \"w2\", \"w3\", \"w4\"]\n";

fn start<'a>(scenario: &'a Scenario, inputs: &Inputs) -> Run<'a> {
    let options = Options::seeded(scenario.seed);
    Run::start(scenario, &program(scenario), inputs.clone(), &options).unwrap()
}

/// Runs to the end, and checks what must hold in every case: exact sums, and empty switches.
fn finish(mut run: Run<'_>, scenario: &Scenario, inputs: &Inputs) -> Outcome {
    while run.step().unwrap() {}
    let outcome = run.finish().unwrap();
    assert!(outcome.complete, "{}", describe(&outcome));
    check_exact(scenario, inputs, &outcome.sums).unwrap();
    assert_eq!((outcome.left_behind, &outcome.leaks), (0, &vec![]), "{}", describe(&outcome));
    outcome
}

/// Packets of a job with an outcome, at all switches.
fn total(outcome: &Outcome, job: usize, fate: Fate) -> u64 {
    outcome.outcomes[job].iter().map(|at| packets(at, fate)).sum()
}

fn mode(run: &Run<'_>, job: usize) -> Mode {
    run.assignment(job).mode
}

fn job_id(job: usize) -> JobId {
    JobId::new(u16::try_from(job + 1).unwrap()).unwrap()
}

fn micros(microseconds: u64) -> Duration {
    Duration::from_micros(microseconds)
}

// --- What they do when nothing goes wrong -----------------------------------------------------

#[test]
fn a_local_job_needs_no_parameter_server() {
    const FRAGMENTS: u64 = 200;
    for protocol in ["p4inc", "switchml"] {
        let scenario = scenario(&file(protocol, 16, STAR, 256, EVERYBODY));
        assert!(scenario.jobs[0].ps.is_none());
        let inputs = inputs(&scenario, 2, VALUES * 100);
        let run = start(&scenario, &inputs);
        assert_eq!(mode(&run, 0), Mode::Local);
        let outcome = finish(run, &scenario, &inputs);
        let at = |fate| total(&outcome, 0, fate);
        assert_eq!((at(Fate::Absorbed), at(Fate::Completed)), (FRAGMENTS, FRAGMENTS));
        assert_eq!(at(Fate::Added), 2 * FRAGMENTS);
        assert!(outcome.workers[0].iter().all(|own| own.resent == 0 && own.results == FRAGMENTS));
        assert_eq!(outcome.swept, [0], "no aggregator waits for anybody");
    }
}

#[test]
fn two_units_add_their_workers_and_the_server_adds_the_units() {
    let scenario = scenario(&file("p4inc", 16, UNITS, 64, EVERYBODY));
    let inputs = inputs(&scenario, 1, VALUES * 200);
    let run = start(&scenario, &inputs);
    assert_eq!(mode(&run, 0), Mode::Partial);
    let outcome = finish(run, &scenario, &inputs);
    let servers = &outcome.servers[0];
    assert_eq!((servers.completed, servers.complete_on_arrival), (200, 0), "{servers:?}");
    for unit in &outcome.outcomes[0] {
        assert_eq!((packets(unit, Fate::Absorbed), packets(unit, Fate::Completed)), (200, 200));
    }
    // The sum of the other unit passes the server's unit.
    assert_eq!(total(&outcome, 0, Fate::Bypassed), 200);
}

#[test]
fn a_local_job_and_one_over_two_units_share_a_switch() {
    let topology = "kind = \"racks\"\nracks = 2\nhosts_per_rack = 3\nps_hosts = 1\nps_rack = 2";
    let jobs = "[[job]]\nworkers = [\"w1\", \"w2\"]\n[[job]]\nworkers = [\"w3\", \"w4\", \"w5\"]\n";
    let scenario = scenario(&file("p4inc", 8, topology, 64, jobs));
    let inputs = inputs(&scenario, 2, VALUES * 150);
    let run = start(&scenario, &inputs);
    assert_eq!((mode(&run, 0), mode(&run, 1)), (Mode::Local, Mode::Partial));
    let outcome = finish(run, &scenario, &inputs);
    assert_eq!(total(&outcome, 0, Fate::Completed), 300);
    assert_eq!(outcome.servers[1].completed, 300);
    assert_eq!(outcome.servers[0].completed, 0);
}

#[test]
fn switches_only_forward_a_job_at_its_server() {
    let jobs = "[[job]]\nworkers = [\"w1\", \"w2\", \"w3\", \"w4\"]\naggregation = \"server\"\n";
    let scenario = scenario(&file("p4inc", 16, UNITS, 64, jobs));
    let inputs = inputs(&scenario, 1, VALUES * 100);
    let run = start(&scenario, &inputs);
    assert_eq!(mode(&run, 0), Mode::Forwarded);
    let outcome = finish(run, &scenario, &inputs);
    assert_eq!(outcome.servers[0].gradients, 400);
    assert_eq!(total(&outcome, 0, Fate::Absorbed) + total(&outcome, 0, Fate::Added), 0);
}

// --- Losses -----------------------------------------------------------------------------------

/// Loses a fragment's result on its way to some workers of a local job.
fn lose_result(protocol: &str, fragment: u32, losers: &[usize]) -> Outcome {
    // The window has as many fragments as the job has aggregators: workers with the result use the
    // aggregator for a later fragment.
    let rest = format!("{}segment = 4\n", EVERYBODY);
    let rest = if protocol == "p4inc" { &rest } else { EVERYBODY };
    let scenario = scenario(&file(protocol, 4, STAR, 64, rest));
    let inputs = inputs(&scenario, 1, VALUES * 40);
    let mut run = start(&scenario, &inputs);
    let result = move |packet: &Repr| {
        packet.kind == Kind::Parameter && Round::of(packet.sequence) == Round::first(fragment)
    };
    for loser in losers {
        run.system.network.lose("s1", &format!("w{}", loser + 1), 0, result);
    }
    let outcome = finish(run, &scenario, &inputs);
    assert_eq!(outcome.losses_to_come, 0);
    assert_eq!(outcome.faults.lost, 0, "nothing else is lost");
    outcome
}

#[test]
fn a_result_that_some_or_all_miss_is_repaired_from_the_copy() {
    for protocol in ["p4inc", "switchml"] {
        for fragment in [0, 13, 39] {
            for losers in [&[2][..], &[0, 3], &[0, 1, 2, 3]] {
                let outcome = lose_result(protocol, fragment, losers);
                let lost = losers.len() as u64;
                assert_eq!(total(&outcome, 0, Fate::Repeated), lost, "{protocol} {losers:?}");
                assert_eq!(total(&outcome, 0, Fate::Completed), 40);
                for (worker, own) in outcome.workers[0].iter().enumerate() {
                    let lost = u64::from(losers.contains(&worker));
                    assert_eq!((own.resent, own.replies), (lost, lost), "worker {worker}");
                }
            }
        }
    }
}

#[test]
fn lossy_links_and_a_straggler() {
    for (protocol, topology) in [("p4inc", STAR), ("p4inc", UNITS), ("switchml", STAR)] {
        let rest = format!(
            "[faults]\nloss = 0.1\nduplicate = 0.05\nreorder = 0.1\njitter = \"20us\"\n\
             {EVERYBODY}[[job.straggler]]\nworker = 2\ndelay = \"20ms\"\n"
        );
        let scenario = scenario(&file(protocol, 16, topology, 256, &rest));
        let inputs = inputs(&scenario, 3, VALUES * 200);
        let outcome = finish(start(&scenario, &inputs), &scenario, &inputs);
        assert!(outcome.faults.lost > 100 && outcome.faults.duplicated > 50);
        assert!(total(&outcome, 0, Fate::Repeated) > 0);
    }
}

// --- Asynchronous errors ----------------------------------------------------------------------

#[test]
fn a_window_beyond_the_segment_meets_asynchronous_errors_and_halves() {
    let rest = format!("[faults]\njitter = \"20us\"\n{EVERYBODY}segment = 4\n");
    let scenario = scenario(&file("p4inc", 16, UNITS, 64, &rest));
    let inputs = inputs(&scenario, 2, VALUES * 200);
    let mut run = start(&scenario, &inputs);
    let watched = |run: &Run<'_>| {
        let worker = run.system.network.worker(HostId(0), job_id(0))?;
        Some((worker.stats().asynchronous, worker.stats().marked, worker.window()))
    };
    let mut halved = 0;
    loop {
        let before = watched(&run);
        if !run.step().unwrap() {
            break;
        }
        if let (Some((errors, marked, window)), Some((now, still, new))) = (before, watched(&run))
            && now > errors
        {
            assert_eq!(marked, still, "no result is marked");
            // The window is halved once per window of fragments.
            assert!(new == (window / 2).max(1) || new == window, "{window} became {new}");
            halved += u32::from(new < window);
        }
    }
    assert!(halved > 0);
    let outcome = finish(run, &scenario, &inputs);
    let returned: u64 = outcome.workers[0].iter().map(|own| own.asynchronous).sum();
    assert_eq!(total(&outcome, 0, Fate::Asynchronous), returned, "all came back to their senders");
    assert!(returned > 10, "{returned}");
}

#[test]
fn a_window_within_the_segment_never_meets_asynchronous_errors() {
    for (topology, jitter) in [(STAR, 0), (UNITS, 0), (UNITS, 20)] {
        let rest = format!("[faults]\njitter = \"{jitter}us\"\n{EVERYBODY}segment = 16\n");
        let scenario = scenario(&file("p4inc", 16, topology, 64, &rest));
        let inputs = inputs(&scenario, 1, VALUES * 300);
        let outcome = finish(start(&scenario, &inputs), &scenario, &inputs);
        assert_eq!(total(&outcome, 0, Fate::Asynchronous), 0);
    }
}

// --- Reconfiguration of the link between the units --------------------------------------------

/// The link between the two units.
fn between(scenario: &Scenario) -> LinkId {
    let links = &scenario.network.topology.links;
    let hosts = |link: &tributary_model::Link| {
        link.ends.iter().filter(|end| matches!(end, tributary_model::End::Host(_))).count()
    };
    LinkId(links.iter().position(|link| hosts(link) == 0).unwrap())
}

#[test]
fn the_link_between_the_units_is_reconfigured_again_and_again() {
    let mut cut_off = 0;
    for seed in 0..24_u64 {
        let rest = format!("{EVERYBODY}segment = 8\n");
        let scenario = scenario(&format!("seed = {seed}\n{}", file("p4inc", 8, UNITS, 64, &rest)));
        let inputs = inputs(&scenario, 4, VALUES * 100);
        let mut run = start(&scenario, &inputs);
        let link = between(&scenario);
        // A number for every seed and position, without a pattern.
        let draw = |place: u64, below: u64| {
            let mixed = (seed * 31 + place + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33) % below
        };
        let mut time = 0;
        for outage in 0..3 + seed % 3 {
            let down = time + 10 + draw(2 * outage, 150);
            time = down + 1_000 + draw(2 * outage + 1, 99_001);
            run.at(micros(down), Act::Down(link));
            run.at(micros(time), Act::Up(link));
        }
        let outcome = finish(run, &scenario, &inputs);
        assert!(outcome.time > Duration::from_millis(1), "the job had to wait");
        cut_off += outcome.faults.cut_off;
    }
    assert!(cut_off > 24 * 20, "{cut_off} packets met a link that was down");
}

// --- Values that are too great ----------------------------------------------------------------

#[test]
fn a_fragment_that_overflows_is_repeated_at_a_coarser_scale_by_all() {
    for (protocol, topology) in [("p4inc", STAR), ("switchml", STAR), ("p4inc", UNITS)] {
        // Four workers: at most 2^29 each, with a scale of 1000. Divided by 2^4, 2^8, … 2^128.
        for (value, rungs) in [(5e5, 0), (6e5, 1), (1e9, 3), (1e15, 4), (1e38, 7)] {
            let scenario = scenario(&file(protocol, 8, topology, 128, EVERYBODY));
            let mut inputs = inputs(&scenario, 1, VALUES * 20);
            if let Tensor::F32(values) = &mut inputs[0][2][0] {
                values[VALUES * 7 + 3] = value;
            }
            let outcome = finish(start(&scenario, &inputs), &scenario, &inputs);
            for own in &outcome.workers[0] {
                assert_eq!((own.coarser, own.results), (rungs, 20), "{protocol} {value}");
            }
            let too_great: u64 = outcome.workers[0].iter().map(|own| own.overflow_packets).sum();
            // Some fragments may have been considered lost after answers to later ones.
            assert!((rungs..=2 * rungs).contains(&too_great), "of one worker's values only");
            let completed = total(&outcome, 0, Fate::Completed);
            let units = scenario.network.topology.switches.len() as u64;
            assert_eq!(completed, (20 + rungs) * units);
        }
    }
}

#[test]
fn several_fragments_overflow_while_packets_are_lost() {
    for (protocol, topology) in [("p4inc", STAR), ("switchml", STAR), ("p4inc", UNITS)] {
        let rest = format!("[faults]\nloss = 0.1\nduplicate = 0.1\nreorder = 0.1\n{EVERYBODY}");
        let scenario = scenario(&file(protocol, 8, topology, 128, &rest));
        let mut inputs = inputs(&scenario, 2, VALUES * 40);
        for worker in 0..4 {
            if let Tensor::F32(values) = &mut inputs[0][worker][worker % 2] {
                for fragment in (worker..40).step_by(5) {
                    values[VALUES * fragment + worker] = 10_f32.powi(4 * (fragment as i32 % 9));
                }
            }
        }
        let outcome = finish(start(&scenario, &inputs), &scenario, &inputs);
        assert!(outcome.workers[0].iter().all(|own| own.coarser > 20));
    }
}

// --- What must not harm a job -----------------------------------------------------------------

#[test]
fn a_worker_that_addresses_outside_its_segment_changes_no_neighbours_sums() {
    for protocol in ["p4inc", "switchml"] {
        let jobs = "[[job]]\nworkers = [\"w1\", \"w2\"]\n[[job]]\nworkers = [\"w3\", \"w4\"]\n";
        let pool = if protocol == "p4inc" { 16 } else { 128 };
        let scenario = scenario(&file(protocol, 8, STAR, pool, jobs));
        let inputs = inputs(&scenario, 1, VALUES * 300);
        let mut run = start(&scenario, &inputs);
        let segments = [0, 1].map(|job| run.assignment(job).segment);
        assert_eq!(segments[0].end(), Some(segments[1].offset), "they are neighbours");
        let size = segments[0].size;
        let mut strays = 0;
        for microsecond in 0..30_u32 {
            for worker in 0..2 {
                // Sometimes with a fragment that the neighbour is working on.
                let (behind, fragment) = ((microsecond * 5) % size, microsecond * 3 / 2);
                let stray = Act::Stray { job: 0, worker, behind, fragment };
                run.at(micros(microsecond.into()), stray);
                strays += 1;
            }
        }
        let outcome = finish(run, &scenario, &inputs);
        assert_eq!(packets(&outcome.outcomes[0][0], Fate::Outside), strays, "{protocol}");
        assert_eq!(packets(&outcome.outcomes[1][0], Fate::Outside), 0);
    }
}

/// A packet of a job, from one of its workers or to all of them.
fn packet(scenario: &Scenario, job: usize, kind: Kind, service: Service, index: u32) -> Vec<u8> {
    let own = &scenario.jobs[job];
    let everyone = Bitmap::first(u8::try_from(own.workers.len()).unwrap());
    let repr = Repr {
        protocol: own.protocol,
        kind,
        flags: Flags::NONE,
        priority: service.get(),
        job: own.id,
        epoch: own.epoch,
        values: VALUES as u16,
        sequence: Round::first(index).sequence(),
        bitmap: if kind == Kind::Gradient { Bitmap::of(0) } else { everyone },
        rack: Rack::NONE,
        audience: Audience::ALL,
        index: AggregatorIndex(index),
    };
    let worker = scenario.network.topology.host(own.workers[0]).address;
    let envelope = Envelope { source: worker, destination: Host::service(own.id), ecn: Ecn::Ect0 };
    let mut frame = Vec::new();
    emit_frame(&mut frame, &envelope, &repr).fill(1);
    frame
}

#[test]
fn packets_of_another_service_are_refused() {
    for (protocol, topology) in [("p4inc", STAR), ("p4inc", UNITS), ("switchml", STAR)] {
        let scenario = scenario(&file(protocol, 8, topology, 128, EVERYBODY));
        let inputs = inputs(&scenario, 1, VALUES * 100);
        let mut run = start(&scenario, &inputs);
        let service = run.assignment(0).service;
        let (mut at, mut to_switch) = (0_u8, 0);
        while run.step().unwrap() {
            at = at.wrapping_add(1);
            if at == service.get() {
                continue;
            }
            let other = |kind| packet(&scenario, 0, kind, Service::new(at), u32::from(at % 8));
            let (switch, port) = scenario.network.topology.attachment(scenario.jobs[0].workers[0]);
            run.system.network.inject(switch, port, &other(Kind::Gradient));
            to_switch += 1;
            // Results that a switch would reject, arriving by another path.
            run.system.network.inject_host(HostId(0), &other(Kind::Parameter));
            run.system.network.inject_host(HostId(1), &other(Kind::Reply));
            if let Some(ps) = scenario.jobs[0].ps {
                run.system.network.inject_host(ps, &other(Kind::Gradient));
            }
        }
        let outcome = finish(run, &scenario, &inputs);
        assert_eq!(total(&outcome, 0, Fate::Rejected), to_switch, "{protocol}");
        for worker in 0..2 {
            assert!(outcome.workers[0][worker].rejected.other_service > 100);
        }
        if scenario.jobs[0].ps.is_some() {
            assert!(outcome.servers[0].rejected.other_service > 100);
        }
    }
}

// --- Moves, and jobs that are killed ----------------------------------------------------------

/// Moves a job between the network and its server repeatedly, with late packets of earlier modes.
fn move_again_and_again(topology: &str, faults: &str, network: Mode) {
    let ps = "ps = \"ps\"\n";
    let jobs = format!("{faults}{EVERYBODY}{ps}segment = 8\n");
    let scenario = scenario(&file("p4inc", 8, topology, 16, &jobs));
    let inputs = inputs(&scenario, 24, VALUES * 32);
    let mut run = start(&scenario, &inputs);
    assert_eq!(mode(&run, 0), network);
    let mut modes = Vec::new();
    let (mut begun, mut planned) = (0, false);
    let (mut step, mut late) = (0_u32, 0);
    while run.step().unwrap() {
        step += 1;
        let assignment = run.assignment(0);
        let results =
            run.system.network.worker(HostId(0), job_id(0)).map_or(0, |own| own.stats().results);
        if modes.last() != Some(&assignment) {
            modes.push(assignment);
            (begun, planned) = (results, modes.len() == 7);
        } else if results > begun && !planned {
            // Requested in the middle of an iteration, the move happens at its end.
            let network = assignment.mode == Mode::Forwarded;
            let to = if network { SummedAt::Network } else { SummedAt::Server };
            run.at(micros(0), Act::Move(0, to));
            planned = true;
        }
        for old in &modes[..modes.len() - 1] {
            if step % 7 != 0 || old.service == assignment.service {
                continue;
            }
            let cell = old.segment.offset.0 + step % 8;
            let frame = packet(&scenario, 0, Kind::Gradient, old.service, cell);
            let (switch, port) = scenario.network.topology.attachment(HostId(0));
            run.system.network.inject(switch, port, &frame);
            run.system
                .network
                .inject_host(HostId(1), &packet(&scenario, 0, Kind::Reply, old.service, cell));
            late += 1;
        }
    }
    let outcome = finish(run, &scenario, &inputs);
    assert_eq!(modes.len(), 7, "{modes:?}");
    for (number, assignment) in modes.iter().enumerate() {
        let expected = if number % 2 == 0 { network } else { Mode::Forwarded };
        assert_eq!(assignment.mode, expected);
    }
    let services: Vec<u8> = modes.iter().map(|assignment| assignment.service.get()).collect();
    assert_eq!(services, [1, 0, 2, 0, 3, 0, 4]);
    assert!(late > 100 && total(&outcome, 0, Fate::Rejected) >= late);
    assert!(outcome.workers[0][1].rejected.other_service > 100);
    assert!(outcome.servers[0].completed >= 3 * 32);
}

#[test]
fn a_local_job_moves_to_its_server_and_back() {
    let topology = "kind = \"star\"\nworkers = 4\nps_hosts = 1";
    move_again_and_again(topology, "", Mode::Local);
    move_again_and_again(topology, FAULTS, Mode::Local);
}

#[test]
fn a_job_over_two_units_moves_to_its_server_and_back() {
    move_again_and_again(UNITS, "", Mode::Partial);
    move_again_and_again(UNITS, FAULTS, Mode::Partial);
}

const FAULTS: &str = "[faults]\nloss = 0.05\nduplicate = 0.2\nreorder = 0.2\njitter = \"30us\"\n";

#[test]
fn the_next_job_in_the_segment_of_one_that_was_killed_is_exact() {
    for (protocol, topology) in [("p4inc", STAR), ("p4inc", UNITS), ("switchml", STAR)] {
        let pool = if protocol == "p4inc" { 8 } else { 128 };
        let rest = format!("{FAULTS}{EVERYBODY}");
        let scenario = scenario(&file(protocol, 8, topology, pool, &rest));
        let inputs = inputs(&scenario, 1, VALUES * 40);
        let mut unfinished = 0;
        for killed in (0..240).step_by(12) {
            let mut run = start(&scenario, &inputs);
            let first = run.assignment(0);
            run.at(micros(killed), Act::Again(0));
            while run.assignment(0) == first && run.step().unwrap() {}
            let second = run.assignment(0);
            assert_eq!(second.segment, first.segment, "it is free again");
            assert_ne!(second.service, first.service);
            assert!(run.held().is_empty(), "{protocol}, killed after {killed} µs");
            unfinished += run.freed(0);
            let outcome = finish(run, &scenario, &inputs);
            assert_eq!(outcome.workers[0].len(), 4);
        }
        assert!(unfinished > 20, "{unfinished} aggregators waited for somebody");
    }
}

#[test]
fn a_killed_job_leaves_its_neighbour_alone() {
    let jobs = "[[job]]\nworkers = [\"w1\", \"w2\"]\n[[job]]\nworkers = [\"w3\", \"w4\"]\n";
    for protocol in ["p4inc", "switchml"] {
        let scenario = scenario(&file(protocol, 8, STAR, 128, &format!("{FAULTS}{jobs}")));
        let inputs = inputs(&scenario, 1, VALUES * 60);
        for killed in (0..240).step_by(20) {
            let mut run = start(&scenario, &inputs);
            run.at(micros(killed), Act::End(0));
            while run.step().unwrap() {
                let own = |held: &tributary_sim::Held| held.job == Some(job_id(0));
                assert!(!run.has_ended(0) || !run.held().iter().any(own));
            }
            let outcome = run.finish().unwrap();
            assert!(outcome.complete, "{}", describe(&outcome));
            assert_eq!((outcome.left_behind, outcome.leaks.len()), (0, 0));
            assert!(outcome.workers[1].iter().all(|own| own.results == 60));
        }
    }
}

// --- Foreign frames ---------------------------------------------------------------------------

#[test]
fn foreign_and_mutated_frames_change_no_sum() {
    let jobs = "[[job]]\nworkers = [\"w1\", \"w2\", \"w3\"]\n";
    for protocol in ["p4inc", "switchml"] {
        let scenario = scenario(&file(protocol, 8, STAR, 128, jobs));
        let inputs = inputs(&scenario, 1, VALUES * 200);
        let mut run = start(&scenario, &inputs);
        bombard(&mut run, &scenario);
        let outcome = finish(run, &scenario, &inputs);
        let unattributed = &outcome.unattributed[0];
        assert!(packets(unattributed, Fate::Rejected) > 0);
        assert!(packets(unattributed, Fate::Malformed) > 0);
    }
}

#[test]
fn local_jobs_have_no_process_but_the_workers() {
    let scenario = scenario(&file("p4inc", 8, STAR, 64, EVERYBODY));
    let inputs = inputs(&scenario, 1, VALUES);
    let run = start(&scenario, &inputs);
    let hosts = scenario.network.topology.host_ids();
    let processes: Vec<&Process> =
        hosts.flat_map(|host| run.system.network.processes(host)).collect();
    assert_eq!(processes.len(), 4);
    assert!(processes.iter().all(|process| matches!(process, Process::Worker(..))));
    assert_eq!(run.system.network.now(), Time::ZERO);
}
