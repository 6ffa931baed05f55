//! Training in virtual time: the timing-only mode, repeatability, and ESA against its former rules.

use std::thread;
use std::time::Duration;

use tributary_controller::outcomes::Outcome;
use tributary_lab::studies::training::{
    Delays, Model, Ranking, Run, Setup, Trained, TrainedJob, train,
};
use tributary_model::{Aggregation, Preemption, Protocol};
use tributary_protocol::{LaterResults, Readings, Recovery};

const PROTOCOLS: [Protocol; 4] =
    [Protocol::Atp, Protocol::Esa, Protocol::P4inc, Protocol::SwitchMl];

/// Two jobs of three workers with so little memory that they collide.
fn small(protocol: Protocol, seed: u64) -> Setup {
    let models = vec![Model::a().scaled_down(200), Model::b().scaled_down(100)];
    let mut setup = Setup::esa(protocol, models, 3, seed);
    setup.memory = 40_000;
    setup.slots = 128;
    setup.window = 64;
    setup.iterations = 2;
    setup.start = Duration::from_micros(5);
    setup.jitter = Duration::from_micros(5);
    setup
}

fn digested(setup: &Setup) -> Trained {
    let mut run = Run::start(setup).unwrap();
    run.digest_frames();
    while run.step().unwrap() {}
    run.finish().unwrap()
}

/// A result without what depends on the number of values: the switch's counters of bytes.
fn without_values(trained: &mut Trained) -> Vec<Vec<u64>> {
    let packets = |job: &mut TrainedJob| {
        let outcomes = std::mem::take(&mut job.outcomes);
        outcomes.iter().map(|(_, count)| count.packets).collect()
    };
    trained.jobs.iter_mut().map(packets).collect()
}

#[test]
fn one_value_per_packet_changes_no_time_and_no_counter() {
    for protocol in PROTOCOLS {
        for recovery in Recovery::ALL {
            for (seed, loss) in [(1, 0.0), (2, 0.002), (3, 0.01)] {
                let setup = Setup { recovery, loss, ..small(protocol, seed) };
                let full = Setup { timing_only: false, ..setup.clone() };
                let [mut thin, mut full] = [&setup, &full].map(|setup| train(setup).unwrap());
                let context = format!("{protocol:?}, {recovery:?}, loss {loss}");
                assert_eq!(without_values(&mut thin), without_values(&mut full), "{context}");
                assert_eq!(thin, full, "{context}");
                assert!(thin.hops > 1000, "{context}");
            }
        }
    }
}

#[test]
fn a_seed_gives_the_same_frames_everywhere() {
    // A change of a protocol, of a program or of the simulator changes these on purpose only.
    let expected: [u64; 4] = [
        0x8e9e_eb15_f983_e3a7,
        0xfd1e_7384_af3d_dad4,
        0x9669_c311_4910_a2cf,
        0xd515_e2d3_be94_7e30,
    ];
    let of = |protocol| move || digested(&Setup { loss: 0.002, ..small(protocol, 7) }).digest;
    // All at the same time, and again one after the other.
    let threads = PROTOCOLS.map(|protocol| thread::spawn(of(protocol)));
    let parallel = threads.map(|thread| thread.join().unwrap().unwrap());
    let serial = PROTOCOLS.map(|protocol| of(protocol)().unwrap());
    assert_eq!(parallel, serial);
    assert_eq!(serial, expected, "{serial:#x?}");
    let other = digested(&Setup { loss: 0.002, ..small(Protocol::Atp, 8) }).digest;
    assert_ne!(other, Some(serial[0]));
}

#[test]
fn collisions_do_not_stop_a_job_of_esa() {
    // With the former rules, a collision cost half a window and a timeout.
    let setup = |readings| {
        let models = vec![Model::a().scaled_down(20); 4];
        Setup { readings, ..Setup::esa(Protocol::Esa, models, 4, 1) }
    };
    let mean = |setup: &Setup| {
        let trained = train(setup).unwrap();
        let sum: Duration = trained.jobs.iter().map(TrainedJob::jct).sum();
        (sum / 4, trained.jobs.iter().map(|job| job.esa.server.completed).sum::<u64>())
    };
    let (now, repaired) = mean(&setup(Readings::default()));
    let former = Readings {
        later_results: LaterResults::Halve,
        reminders_wait: true,
        ..Readings::default()
    };
    let (before, _) = mean(&setup(former));
    assert!(repaired > 0, "nothing collided");
    assert!(now * 3 < before * 2, "{now:?} against {before:?}");
}

/// The mean completion time of all jobs, in seconds.
fn mean_jct(trained: &Trained) -> f64 {
    let times = trained.jobs.iter().map(|job| job.jct().as_secs_f64());
    times.sum::<f64>() / trained.jobs.len() as f64
}

#[test]
fn collisions_do_not_shrink_windows_of_esa_with_our_rules() {
    // The pool has no room for the places of eight jobs with windows of 4096 packets. When collisions counted
    // as losses, this was 0.85: each halved a window, which then grew by a packet in a round trip.
    let mean = |protocol| {
        let models = vec![Model::a().scaled_down(16); 8];
        let mut setup = Setup::esa(protocol, models, 8, 1).with_default_rules();
        (setup.memory, setup.slots, setup.iterations) = (2_500_000, 4096, 1);
        setup.start /= 4;
        setup.jitter /= 4;
        mean_jct(&train(&setup).unwrap())
    };
    let (switchml, esa) = (mean(Protocol::SwitchMl), mean(Protocol::Esa));
    assert!(switchml / esa > 0.9, "{switchml} s against {esa} s");
}

#[test]
fn delays_before_each_tensor_add_up() {
    let jct = |delays| {
        // Memory for all: nothing collides.
        let (memory, jitter) = (5_000_000, Duration::from_micros(50));
        let setup = Setup { delays, memory, jitter, ..small(Protocol::Esa, 1) };
        train(&setup).unwrap().jobs.iter().map(TrainedJob::jct).sum::<Duration>()
    };
    let (once, each) = (jct(Delays::PerIteration), jct(Delays::PerTensor));
    assert!(each > once, "four tensors: {each:?} against {once:?}");
}

#[test]
fn priorities_that_jobs_do_not_choose_change_who_evicts_whom() {
    let preempted = |ranking| {
        let trained = train(&Setup { ranking, ..small(Protocol::Esa, 1) }).unwrap();
        let of = |job: &TrainedJob| job.outcomes[Outcome::Preempted].packets;
        trained.jobs.iter().map(of).collect::<Vec<_>>()
    };
    let [formula, equal, apart] = [Ranking::Formula, Ranking::Equal, Ranking::Apart].map(preempted);
    assert!(equal != apart && formula != apart, "{formula:?} {equal:?} {apart:?}");
    // With priorities far apart, the first job evicts more than the second.
    assert!(apart[0] > apart[1], "{apart:?}");
}

#[test]
fn p4inc_can_leave_all_sums_to_a_server_that_is_slower_than_its_link() {
    let network =
        Setup { jobs: small(Protocol::P4inc, 1).jobs[..1].to_vec(), ..small(Protocol::P4inc, 1) };
    let server = Setup { aggregation: Aggregation::Server, ..network.clone() };
    let slow = Setup { server_rate: Some(1_000_000_000), ..server.clone() };
    let of = |setup: &Setup| train(setup).unwrap().jobs.remove(0);
    let [network, server, slow] = [&network, &server, &slow].map(of);
    assert_eq!(network.server.gradients, 0);
    assert!(server.server.completed > 0);
    // Three workers share the server's link.
    let seconds = |gbps: f64| 3.0 * slow.bytes as f64 * 8.0 / (gbps * 1e9);
    assert!(server.jct() > network.jct());
    assert!(slow.jct().as_secs_f64() > seconds(1.0), "{:?}", slow.jct());
}

#[test]
fn an_invalid_setup_is_one_clear_line() {
    let setup = small(Protocol::Esa, 1);
    let bad = [
        (Setup { jobs: vec![], ..setup.clone() }, "at least one job"),
        (Setup { iterations: 0, ..setup.clone() }, "at least one measured iteration"),
        (Setup { loss: 1.0, ..setup.clone() }, "probability of a loss"),
        (Setup { loss: f64::NAN, ..setup.clone() }, "probability of a loss"),
        (Setup { values: 0, ..setup.clone() }, "at least one value"),
        (Setup { server_rate: Some(1), ..setup.clone() }, "rate"),
        (Setup { slots: 100, ..setup.clone() }, "power of two"),
        (Setup { ecn_threshold: 9999, ..setup.clone() }, "queue_capacity"),
    ];
    for (setup, expected) in bad {
        let error = train(&setup).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let mut slow = setup.clone();
    slow.cable.bandwidth = 0.0;
    assert!(train(&slow).unwrap_err().to_string().contains("rate above zero"));
    let always = Setup { preemption: Preemption::Always, ..setup };
    assert!(train(&always).is_ok());
}
