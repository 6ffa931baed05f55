//! Prints CT-BTI of the lower bounds, of the refining scheduler, and of the exact model for random
//! instances with 8 units.
//!
//! Arguments: the number of jobs, and the time limit of the exact model in seconds (0 to leave it out).

use std::time::{Duration, Instant};

use tributary_optical::{Exact, Refine, bound, check, quick_bound};

#[path = "../tests/instances/mod.rs"]
mod instances;

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let &[jobs, limit] = &numbers[..] else {
        panic!("usage: gaps JOBS SECONDS");
    };
    for seed in 0..10 {
        let (network, jobs) = instances::instance(instances::table_i(jobs as usize), seed);
        let quick = quick_bound(&network, &jobs).expect("possible jobs");
        let start = Instant::now();
        let linear = bound(&network, &jobs).expect("possible jobs");
        let bound_ms = start.elapsed().as_secs_f64() * 1e3;
        let start = Instant::now();
        let schedule = Refine::default().schedule(&network, &jobs).expect("possible jobs");
        let ms = start.elapsed().as_secs_f64() * 1e3;
        let checked = check(&network, &jobs, &schedule).expect("a valid schedule");
        print!(
            "{} jobs, seed {seed}: bounds {quick:.3} and {linear:.3} s ({bound_ms:.1} ms), refine {:.3} s \
             ({ms:.1} ms, {} circuits set up)",
            jobs.len(),
            checked.completion,
            checked.reconfigured
        );
        if limit > 0 {
            let start = Instant::now();
            let exact = Exact { initial: None, limit: Duration::from_secs(limit) };
            let solved = exact.solve(&network, &jobs, schedule).expect("a solution");
            let seconds = start.elapsed().as_secs_f64();
            print!(
                ", exact {:.3} s, bound {:.3} s ({seconds:.1} s, gap {:.1} %), refine is {:.1} % above",
                solved.completion,
                solved.bound,
                solved.gap() * 100.0,
                (checked.completion / solved.completion - 1.0) * 100.0
            );
        }
        println!();
    }
}
