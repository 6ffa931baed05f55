//! All workers receive exact sums, whatever the network does (I1, I2, I5, I7).

use std::time::Duration;

use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_protocol::{Tensor, Worker};

use crate::esa::network::{Faults, Net};
use crate::esa::setup::job;

/// Sums computed independently.
fn sum(inputs: &[Vec<i32>]) -> Vec<i32> {
    (0..inputs[0].len()).map(|i| inputs.iter().map(|input| input[i]).sum()).collect()
}

fn integers(rng: &mut ChaCha8Rng, len: usize) -> Vec<i32> {
    (0..len).map(|_| rng.random_range(-1_000_000..1_000_000)).collect()
}

/// All workers submit their tensors, the PS is replaced occasionally, and finally all workers
/// leave.
fn check(seed: u64, workers: u8, lengths: &[usize], faults: Faults, restarts: u32) -> Net {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x5eed);
    let mut net = Net::new(seed, job(workers), faults);
    let mut expected = vec![];
    for &len in lengths {
        let inputs: Vec<Vec<i32>> = (0..workers).map(|_| integers(&mut rng, len)).collect();
        expected.push(Tensor::I32(sum(&inputs).into()));
        for (worker, input) in net.workers.iter_mut().zip(inputs) {
            worker.submit(Tensor::I32(input.into())).unwrap();
        }
    }
    for _ in 0..restarts {
        let pause = Duration::from_micros(rng.random_range(0..30_000));
        let end = net.now + pause;
        net.run_until("before a restart", |net| net.now >= end || idle(net));
        net.stop_ps();
        let end = net.now + pause / 2;
        net.run_until("without a PS", |net| net.now >= end || idle(net));
        net.start_ps();
    }
    net.run_until("all sums", idle);
    for result in &net.results {
        assert_eq!(result, &expected);
    }
    net.workers.iter_mut().for_each(Worker::leave);
    net.run_until("farewell", |net| net.workers.iter().all(Worker::is_dismissed));
    net
}

fn idle(net: &Net) -> bool {
    net.workers.iter().all(Worker::is_idle)
}

#[test]
fn chaos_does_all_that_it_may() {
    let faults =
        Faults { loss: 0.05, duplicate: 0.05, late: 0.02, jitter: Duration::from_micros(50) };
    let net = check(1, 4, &[400, 400], faults, 1);
    let c = net.chaos.counters;
    for count in [c.added, c.completed, c.evicted, c.forgotten, c.fetched, c.absent] {
        assert!(count > 0, "{c:?}");
    }
    let ps = net.ps.as_ref().unwrap();
    let server = ps.servers()[0].stats();
    assert!(server.completed > 0 && server.deliveries > 0, "{server:?}");
}

#[test]
fn a_lone_worker_gets_its_own_numbers() {
    check(3, 1, &[50, 1, 7], Faults { loss: 0.2, ..Faults::default() }, 0);
}

#[test]
fn workers_continue_when_the_ps_returns_after_a_long_outage() {
    let mut net = Net::new(5, job(3), Faults { loss: 0.3, ..Faults::default() });
    net.stop_ps();
    for worker in &mut net.workers {
        worker.submit(Tensor::I32(vec![5; 200].into())).unwrap();
    }
    let end = net.now + Duration::from_secs(30);
    net.run_until("30 s", |net| net.now >= end);
    assert!(!idle(&net), "some of 200 numbers are lost at 30 %");
    net.start_ps();
    net.run_until("all sums", idle);
    assert!(net.results.iter().all(|r| r == &[Tensor::I32(vec![15; 200].into())]));
}

#[test]
fn great_values_are_summed_as_floats() {
    let faults =
        Faults { loss: 0.1, duplicate: 0.1, late: 0.02, jitter: Duration::from_micros(30) };
    for seed in 0..40 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut net = Net::new(seed, job(3), faults);
        let inputs: Vec<Vec<f32>> = (0..3)
            .map(|_| {
                let great = |rng: &mut ChaCha8Rng| rng.random_bool(0.02);
                (0..100)
                    .map(|_| if great(&mut rng) { 3e9 } else { rng.random_range(-1.0..1.0) })
                    .collect()
            })
            .collect();
        for (worker, input) in net.workers.iter_mut().zip(&inputs) {
            worker.submit(Tensor::F32(input.clone().into())).unwrap();
        }
        net.run_until("all sums", idle);
        let fits = |i: usize| inputs.iter().all(|input| input[i].abs() < 1e6);
        for i in 0..100 {
            // A fragment has two values, and both decide how it is sent.
            let other = i ^ 1;
            let expected = if fits(i) && fits(other) {
                let rounded = |x: f32| (f64::from(x) * 1000.0).round_ties_even();
                (inputs.iter().map(|input| rounded(input[i])).sum::<f64>() / 1000.0) as f32
            } else {
                inputs.iter().map(|input| f64::from(input[i])).sum::<f64>() as f32
            };
            for result in &net.results {
                let Tensor::F32(sums) = &result[0] else { panic!("floats became integers") };
                assert_eq!(sums[i].to_bits(), expected.to_bits(), "seed {seed}, value {i}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_faults_any_restarts(
        seed: u64,
        workers in 1u8..=6,
        lengths in prop::collection::vec(0usize..120, 1..4),
        loss in 0.0..0.25,
        duplicate in 0.0..0.2,
        late in 0.0..0.05,
        jitter in 0u64..300,
        restarts in 0u32..3,
    ) {
        let jitter = Duration::from_micros(jitter);
        check(seed, workers, &lengths, Faults { loss, duplicate, late, jitter }, restarts);
    }
}
