//! Prints the time to place jobs, by size of the cluster: `cargo run --release -p
//! tributary-cluster --example speed [POLICY…]`.

use tributary_cluster::placement::by_name;
use tributary_cluster::placement::speed::{Batch, Demand};

fn main() {
    let mut names: Vec<_> = std::env::args().skip(1).collect();
    if names.is_empty() {
        names.push("netpack".to_owned());
    }
    println!("policy                servers  racks  demand  jobs  spread  ms in all  ms on CPU");
    for name in &names {
        for demand in [Demand::Trace, Demand::Spread] {
            for (servers, racks) in [(100, 10), (1000, 50), (10_000, 16), (10_000, 625)] {
                for oversubscription in [1.0, 4.0] {
                    let jobs = 4000;
                    let batch = Batch { servers, racks, oversubscription, jobs, demand, seed: 1 };
                    let Some(mut policy) = by_name(name) else {
                        eprintln!("no policy is called {name}");
                        std::process::exit(2);
                    };
                    let placed = batch.place(&mut *policy);
                    println!(
                        "{name:20} {servers:8} {racks:6}  {demand:6?} {oversubscription}:1 {:6} {:7} {:10.1} {:10.1}",
                        placed.jobs,
                        placed.distributed,
                        placed.took.as_secs_f64() * 1e3,
                        placed.on_cpu.map_or(f64::NAN, |on_cpu| on_cpu.as_secs_f64() * 1e3),
                    );
                }
            }
        }
    }
}
