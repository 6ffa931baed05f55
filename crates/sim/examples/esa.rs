//! Scratch.
use std::time::Instant;

use tributary_jobfile::{Preemption, Protocol};
use tributary_sim::training::{Model, Setup, train};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let jobs: u32 = args[1].parse().unwrap();
    let model =
        if args[2] == "A" { Model::a() } else { Model::b() }.scaled_down(args[3].parse().unwrap());
    for (name, protocol, preemption) in [
        ("switchml", Protocol::SwitchMl, Preemption::Priority),
        ("atp", Protocol::Atp, Preemption::Priority),
        ("esa", Protocol::Esa, Preemption::Priority),
        ("always", Protocol::Esa, Preemption::Always),
    ] {
        if args.len() > 4 && args[4] != name && args[4] != "all" {
            continue;
        }
        let mut setup = Setup::esa(protocol, vec![model.clone(); jobs as usize], 8, 1);
        setup.preemption = preemption;
        if let Some(slots) = args.get(5) {
            setup.slots = slots.parse().unwrap();
        }
        if let Some(memory) = args.get(6) {
            setup.memory = memory.parse().unwrap();
        }
        if let Some(iterations) = args.get(7) {
            setup.iterations = iterations.parse().unwrap();
        }
        let var = |name: &str| std::env::var(name).ok();
        use tributary_protocol::{Addressing, Recovery};
        if let Some(a) = var("ADDR") {
            setup.addressing = match a.as_str() {
                "h" => Addressing::Hashed,
                "s" => Addressing::Spread,
                _ => Addressing::Default,
            };
        }
        setup.readings.later_results_halve = var("HALVE").is_some();
        setup.readings.reminders_wait = var("WAIT").is_some();
        setup.shift = var("SHIFT").is_some();
        if let Some(u) = var("LINEAR") {
            setup.priorities =
                tributary_protocol::priority::Code::Linear { unit: u.parse().unwrap() };
            setup.shift = true;
        }
        if var("RACK").is_some() {
            setup.recovery = Recovery::Rack;
        }
        if let Some(ms) = var("INIT") {
            setup.timeouts.initial = std::time::Duration::from_millis(ms.parse().unwrap());
        }
        if let Some(us) = var("JITTER") {
            setup.jitter = std::time::Duration::from_micros(us.parse().unwrap());
        }
        if let Some(e) = var("ECN") {
            setup.ecn_threshold = e.parse().unwrap();
        }
        let begun = Instant::now();
        match train(&setup) {
            Ok(t) => {
                let jct: f64 = t.jobs.iter().map(|j| j.jct().as_secs_f64() * 1e3).sum::<f64>()
                    / f64::from(jobs);
                let gbps: f64 =
                    t.jobs.iter().map(|j| j.throughput() / 1e9).sum::<f64>() / f64::from(jobs);
                let sent: u64 = t.jobs.iter().flat_map(|j| &j.workers).map(|w| w.sent).sum();
                let resent: u64 = t.jobs.iter().flat_map(|j| &j.workers).map(|w| w.resent).sum();
                let wall = begun.elapsed().as_secs_f64();
                println!(
                    "{name:9} jct {jct:.3} ms  {gbps:.1} Gb/s  sent {sent} resent {resent} hops {} wall {wall:.2} {:.2} M/s virt {:?}",
                    t.hops,
                    t.hops as f64 / wall / 1e6,
                    t.elapsed
                );
                use tributary_controller::outcomes::Outcome;
                let mut line = String::new();
                for o in Outcome::ALL {
                    let n: u64 = t.jobs.iter().map(|j| j.outcomes[o].packets).sum();
                    if n > 0 {
                        line += &format!(" {}={n}", o.name());
                    }
                }
                println!("  {line}");
                let w = |f: fn(&tributary_protocol::worker::Stats) -> u64| -> u64 {
                    t.jobs.iter().flat_map(|j| &j.workers).map(f).sum()
                };
                println!(
                    "   fast {} timeouts {} marked {} reminders {} dup {} replies {}",
                    w(|s| s.fast_resends),
                    w(|s| s.timeouts),
                    w(|s| s.marked),
                    w(|s| s.reminders),
                    w(|s| s.duplicates),
                    w(|s| s.replies)
                );
                let a = |f: fn(&tributary_protocol::esa::agent::Stats) -> u64| -> u64 {
                    t.jobs.iter().map(|j| f(&j.esa.agent)).sum()
                };
                println!(
                    "   agent: reminded {} watched {} timeouts {} dupacks {} urgent {} reminders {} fetched {} absent {} queries {} values {}",
                    a(|s| s.reminded),
                    a(|s| s.watched),
                    a(|s| s.timeouts),
                    a(|s| s.dup_acks),
                    a(|s| s.urgent),
                    a(|s| s.reminders),
                    a(|s| s.fetched),
                    a(|s| s.absent),
                    a(|s| s.queries),
                    a(|s| s.values)
                );
                let all: Vec<f64> = t
                    .jobs
                    .iter()
                    .flat_map(|j| &j.iterations)
                    .map(|d| (d.as_secs_f64() * 1e5).round() / 1e2)
                    .collect();
                println!("   {all:?}");
            }
            Err(error) => println!("{name} {error}"),
        }
    }
}
