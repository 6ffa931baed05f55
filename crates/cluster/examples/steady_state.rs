//! Measures the time to keep the steady state up to date while a batch of jobs is placed. Jobs
//! start one after the other, and before each job that needs several servers the network is
//! queried.
//!
//! ```sh
//! cargo run --release -p tributary-cluster --example steady_state
//! ```

use std::time::Duration;

use tributary_cluster::{Cluster, Job, JobId, Plan, ServerIndex, Shape, State};

/// Distribution of the number of GPUs per job.
#[derive(Clone, Copy)]
enum Mix {
    /// Mostly one, as in the Philly trace: of 20 jobs, 14 request 1, 3 request 2 or 4, and 3
    /// request 8 or 16.
    Philly,
    /// Always 8: two servers and a parameter server.
    Eight,
}

impl Mix {
    const fn gpus(self, job: u32) -> u32 {
        match self {
            Self::Philly => match job % 20 {
                0..14 => 1,
                14 | 15 => 2,
                16 => 4,
                17 | 18 => 8,
                _ => 16,
            },
            Self::Eight => 8,
        }
    }
}

/// The placement of a job's servers.
#[derive(Clone, Copy)]
enum Spread {
    /// Neighbouring servers: most jobs are within one rack.
    Packed,
    /// As many racks as the job has servers.
    Scattered,
}

/// Places jobs as fast as possible, so that mostly the network is measured.
struct Placer<'c> {
    state: State<'c>,
    next: u32,
    stride: u32,
}

impl Placer<'_> {
    fn server(&mut self) -> ServerIndex {
        let servers = self.state.cluster().servers().len() as u32;
        let server = ServerIndex(self.next);
        self.next = (self.next + self.stride) % servers;
        server
    }

    /// The next server with a free GPU.
    fn free_server(&mut self) -> (ServerIndex, u32) {
        loop {
            let server = self.server();
            let free = self.state.free(server);
            if free > 0 {
                return (server, free);
            }
        }
    }

    fn plan(&mut self, gpus: u32) -> Plan {
        let mut shares = Vec::new();
        let mut missing = gpus;
        while missing > 0 {
            let (server, free) = self.free_server();
            let taken = free.min(missing);
            // A server may be returned twice.
            if shares.iter().all(|&(other, _)| other != server) {
                shares.push((server, taken));
                missing -= taken;
            }
        }
        if let [(server, _)] = shares[..] {
            return Plan::on_one(server, gpus);
        }
        // The parameter server goes to the server after the last worker's.
        let ps = self.server();
        Plan::spread(self.state.cluster(), &shares, ps)
    }
}

/// CPU time of this thread, so that other load on the machine does not count.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.expect("the first is a time"))
}

/// The time to place the jobs, and the number of queries to the network.
fn measure(shape: &Shape, jobs: u32, mix: Mix, spread: Spread) -> (Duration, u32) {
    let cluster = Cluster::uniform(shape);
    let servers = cluster.servers().len() as u32;
    let stride = match spread {
        Spread::Packed => 1,
        // A stride that changes the rack each time and visits all servers before repeating one.
        Spread::Scattered => (shape.servers_per_rack + 1..)
            .find(|&stride| gcd(stride, servers) == 1)
            .expect("a prime"),
    };
    let mut placer = Placer { state: State::new(&cluster), next: 0, stride };
    let mut asked = 0;
    let start = cpu_time();
    for id in 0..jobs {
        let gpus = mix.gpus(id);
        if placer.state.free_total() < gpus {
            break;
        }
        let plan = placer.plan(gpus);
        let job = Job {
            id: JobId(id),
            submit_s: 0.0,
            gpus,
            iterations: 1.0,
            compute_s: 1.0,
            gradient_bytes: 1e9,
            value: 1.0,
        };
        placer.state.start(&job, plan).expect("it fits");
        if gpus > shape.gpus_per_server {
            std::hint::black_box(placer.state.network().available_gbps(ServerIndex(0)));
            asked += 1;
        }
    }
    (cpu_time() - start, asked)
}

const fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn main() {
    println!(
        "{:>8} {:>6} {:>10} {:>10} {:>8} {:>12} {:>10}",
        "servers", "racks", "GPUs", "servers", "asked", "in all (ms)", "each (us)"
    );
    for (servers, racks) in [(96, 16), (1_008, 16), (10_000, 16), (10_000, 625)] {
        for (mix, name) in [(Mix::Philly, "Philly"), (Mix::Eight, "8 each")] {
            for (spread, where_) in [(Spread::Packed, "packed"), (Spread::Scattered, "scattered")] {
                let shape = Shape { racks, servers_per_rack: servers / racks, ..Shape::default() };
                let (time, asked) = measure(&shape, 4_000, mix, spread);
                let (all, each) =
                    (time.as_secs_f64() * 1e3, time.as_secs_f64() * 1e6 / f64::from(asked));
                println!(
                    "{servers:>8} {racks:>6} {name:>10} {where_:>10} {asked:>8} {all:>12.1} {each:>10.1}"
                );
            }
        }
    }
}
