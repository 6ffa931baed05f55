//! Sunflow's schedules are valid, and end before twice the bound.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_optical::{Demand, Order, UnitId, circuit_bound, parse, sunflow};

/// Checks all reservations, and returns the end of the last one in seconds.
fn checked(demands: &[Demand], order: Order, port_rate: f64, setup: f64) -> f64 {
    let reservations = sunflow(demands, order, port_rate, setup);
    let crossing = demands.iter().filter(|demand| demand.from != demand.to).count();
    assert_eq!(reservations.len(), crossing, "one circuit for each flow");
    // By port, the times in which it is reserved. Receiving ports follow the sending ones.
    let mut ports = vec![Vec::new(); 2 * 1_000];
    for reservation in &reservations {
        let Demand { from, to, bits } = demands[reservation.demand];
        assert_ne!(from, to);
        let carried = (reservation.end - reservation.start - setup) * port_rate;
        assert!((carried / bits - 1.0).abs() < 1e-6, "{carried} of {bits} bits");
        ports[from.0].push((reservation.start, reservation.end));
        ports[1_000 + to.0].push((reservation.start, reservation.end));
    }
    for times in &mut ports {
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(times.windows(2).all(|pair| pair[0].1 <= pair[1].0), "two circuits at one port");
    }
    reservations.iter().map(|reservation| reservation.end).fold(0.0, f64::max)
}

fn random_coflow(random: &mut ChaCha8Rng) -> Vec<Demand> {
    let units = random.random_range(2..=20);
    let density = random.random_range(0.05..=1.0);
    let mut demands = Vec::new();
    for (from, to) in (0..units).flat_map(|from| (0..units).map(move |to| (from, to))) {
        if random.random_bool(density) {
            let bits = 10.0_f64.powf(random.random_range(6.0..10.0));
            demands.push(Demand { from: UnitId(from), to: UnitId(to), bits });
        }
    }
    demands
}

#[test]
fn a_coflow_ends_before_twice_the_bound() {
    let mut greatest = 1.0_f64;
    for seed in 0..500 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let demands = random_coflow(&mut random);
        let setup = [0.0, 0.01, 1.0][seed as usize % 3];
        let bound = circuit_bound(&demands, 1e9, setup);
        for order in [Order::Given, Order::Largest] {
            let end = checked(&demands, order, 1e9, setup);
            assert!(bound <= end * (1.0 + 1e-9), "seed {seed}: {end} below the bound {bound}");
            assert!(end <= 2.0 * bound, "seed {seed}: {end} above twice the bound {bound}");
            if bound > 0.0 {
                greatest = greatest.max(end / bound);
            }
        }
    }
    assert!(greatest > 1.2, "no coflow is hard: at most {greatest} times the bound");
}

/// The name of a trace's file is in `TRIBUTARY_COFLOWS`.
#[test]
fn every_coflow_of_a_trace_ends_before_twice_the_bound() {
    let Some(file) = std::env::var_os("TRIBUTARY_COFLOWS") else {
        eprintln!("skipped: TRIBUTARY_COFLOWS does not name a trace");
        return;
    };
    let trace = parse(&std::fs::read_to_string(file).expect("a readable file")).expect("a trace");
    for shuffle in &trace {
        let demands = shuffle.demands(150);
        let bound = circuit_bound(&demands, 1e9, 0.01);
        for order in [Order::Given, Order::Largest] {
            let end = checked(&demands, order, 1e9, 0.01);
            assert!(bound <= end * (1.0 + 1e-9), "coflow {}: {end} of {bound}", shuffle.id);
            assert!(end <= 2.0 * bound, "coflow {}: {end} of {bound}", shuffle.id);
        }
    }
}

#[test]
fn flows_through_one_port_follow_each_other_without_a_gap() {
    let demand = |to, bits| Demand { from: UnitId(0), to: UnitId(to), bits };
    let demands = [demand(1, 1e9), demand(2, 3e9), demand(0, 9e9)];
    // A second, three seconds, and two set-ups; what stays in the unit takes no time.
    assert_eq!(circuit_bound(&demands, 1e9, 0.5), 5.0);
    assert_eq!(checked(&demands, Order::Given, 1e9, 0.5), 5.0);
    assert_eq!(sunflow(&demands, Order::Largest, 1e9, 0.5)[0].demand, 1);
}

#[test]
fn the_order_can_cost_time() {
    let demand = |from, to| Demand { from: UnitId(from), to: UnitId(to), bits: 10e9 };
    // With the last flow first, each port has always a circuit.
    let mut demands = vec![demand(0, 1), demand(2, 4), demand(2, 3), demand(0, 3)];
    assert_eq!(circuit_bound(&demands, 1e9, 0.0), 20.0);
    assert_eq!(checked(&demands, Order::Given, 1e9, 0.0), 30.0);
    demands.rotate_right(1);
    assert_eq!(checked(&demands, Order::Given, 1e9, 0.0), 20.0);
}
