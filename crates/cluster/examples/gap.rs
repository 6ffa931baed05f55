//! Prints the distance of NetPack and its baselines from the optimum on small random cases: `cargo
//! run --release -p tributary-cluster --example gap [INSTANCES [SEED]]`.

use std::process::ExitCode;

use tributary_cluster::Policy;
use tributary_cluster::placement::netpack::exact::{Cases, Make, gaps};
use tributary_cluster::placement::netpack::{
    Epsilon, HotSpot, Oversubscribed, Plain, Readings, Servers, Surplus,
};
use tributary_cluster::placement::{NAMES, by_name};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u32>());
    let instances = arguments.next().unwrap_or(Ok(200));
    let seed = arguments.next().unwrap_or(Ok(1));
    let (Ok(instances), Ok(seed)) = (instances, seed) else {
        eprintln!("usage: gap [INSTANCES [SEED]]");
        return ExitCode::from(2);
    };
    let named = NAMES.iter().chain(&["netpack-printed"]).map(|name| {
        let make = move || by_name(name).expect("a name that is listed");
        ((*name).to_owned(), Box::new(make) as Box<dyn Fn() -> Box<dyn Policy>>)
    });
    let read = Readings::default();
    let readings = [
        ("ε as printed", Readings { epsilon: Epsilon::Elsewhere, ..read }),
        ("sign as printed", Readings { hot_spot: HotSpot::Subtracted, ..read }),
        ("least surplus", Readings { surplus: Surplus::Least, ..read }),
        ("penalty alone", Readings { oversubscribed: Oversubscribed::Penalty, ..read }),
        ("reviewed", Readings { servers: Servers::Reviewed, ..read }),
        (
            "least surplus, reviewed",
            Readings { surplus: Surplus::Least, servers: Servers::Reviewed, ..read },
        ),
    ];
    let read_otherwise = readings.into_iter().map(|(name, readings)| {
        let make = move || Box::new(Plain { readings, ..Plain::default() }) as Box<dyn Policy>;
        (format!("netpack, {name}"), Box::new(make) as Box<dyn Fn() -> Box<dyn Policy>>)
    });
    let policies: Vec<_> = named.chain(read_otherwise).collect();
    let policies: Vec<(&str, Make<'_>)> =
        policies.iter().map(|(name, make)| (name.as_str(), make.as_ref() as Make<'_>)).collect();
    let cases = Cases { instances, seed: u64::from(seed) };
    match gaps(&cases, &policies) {
        Ok(gaps) => {
            println!(
                "policy                            Σ d/v, s  over optimum  over best placement  best in  worst"
            );
            for gap in gaps {
                println!(
                    "{:32} {:9.3} {:12.1} % {:18.1} % {:8} {:5.1} ×",
                    gap.policy,
                    gap.cost_s,
                    gap.above_optimum * 100.0,
                    gap.above_fairest * 100.0,
                    gap.best_in,
                    gap.worst + 1.0,
                );
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
