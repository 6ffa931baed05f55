//! Reads `[switch]` and `[[job]]`, and the keys of `[protocol]` that affect both.

mod hosts;
mod lanes;
mod losses;
mod workload;

use std::path::Path;
use std::time::Duration;

use tributary_base::document::{Error, Item, Table};
use tributary_protocol::Rate;
use tributary_protocol::priority::{Code, Priority};
use tributary_wire::{Epoch, FRAGMENTS_MAX, JobId, WORKERS_MAX};

use crate::jobfile::draft::{RATES, Servers};
use crate::jobfile::protocol::{self, ATP_KEYS, Choice, ESA_KEYS, P4INC_KEYS};
use crate::{
    Aggregation, HostId, JobSpec, LONGEST_PAUSE, Lane, Limits, Network, OnUnderflow, SCALES,
    Straggler, SwitchSettings, Topology, Workload, worker_index,
};
use lanes::threads;

/// Numbers of values per packet for which the P4 programs can be built.
const VALUES_PER_PACKET: [u64; 4] = [32, 64, 256, 2048];
/// Bytes of one value.
const VALUE_BYTES: u64 = 4;
/// Maximum memory for the sums of one switch.
const MAX_POOL_BYTES: u64 = 1 << 30;
/// Initial window: bytes of payload in flight (ATP's initial window at 100 Gb/s).
const INITIAL_WINDOW_BYTES: u32 = 60_000;
/// Default of the maximum number of fragments in flight per job.
const SLOTS: u32 = 256;
/// Maximum number of jobs per file: the switch program keeps separate counters for this many.
const MAX_JOBS: usize = 255;
const ON_UNDERFLOW: [(&str, OnUnderflow); 2] =
    [("warn", OnUnderflow::Warn), ("fail", OnUnderflow::Fail)];

/// Default seed of the workload of job number `job`. Jobs differ, runs do not.
fn workload_seed(seed: u64, job: usize) -> u64 {
    seed.wrapping_add(job as u64)
}

const SWITCH_KEYS: [&str; 7] = [
    "pool",
    "partitions",
    "idle_timeout",
    "ecn_threshold",
    "queue_capacity",
    "preemption",
    "other_traffic",
];

/// Reads `[switch] other_traffic`.
pub(crate) fn other_traffic(document: &Table<'_>) -> Result<Option<Rate>, Error> {
    let table = document.table("switch", &SWITCH_KEYS)?;
    table.or("other_traffic", None, |rate| rate.rate(RATES).map(Rate::new))
}

/// Reads the rest of `[switch]`, and the keys of `[protocol]` that are compiled into the switch program.
fn switch_settings(
    document: &Table<'_>,
    protocol: &Table<'_>,
    choice: Choice,
) -> Result<SwitchSettings, Error> {
    let table = document.table("switch", &SWITCH_KEYS)?;
    choice.refuse_atp_keys(&table)?;
    let values_per_packet = protocol.or("values_per_packet", 64, |item| {
        let values = item.integer(0..=u64::from(u16::MAX))?;
        match u16::try_from(values) {
            Ok(values) if VALUES_PER_PACKET.contains(&u64::from(values)) => Ok(values),
            _ => Err(item.fault(
                format!("a packet cannot carry {values} values"),
                "choose 32, 64, 256 or 2048",
            )),
        }
    })?;
    let pool = table.or("pool", 4096, |item| {
        let pool = item.integer32(1..=1 << 24)?;
        let bytes = u64::from(pool) * u64::from(values_per_packet) * VALUE_BYTES;
        if bytes > MAX_POOL_BYTES {
            let most = MAX_POOL_BYTES / VALUE_BYTES / u64::from(values_per_packet);
            return Err(item.fault(
                format!("{pool} aggregators of {values_per_packet} values take {bytes} bytes"),
                format!("choose at most {most}"),
            ));
        }
        Ok(pool)
    })?;
    let queue_capacity = table.or("queue_capacity", 4096, |q| q.integer32(1..=1 << 20))?;
    let default_threshold = 64.min(queue_capacity - 1);
    let ecn_threshold = table.or("ecn_threshold", default_threshold, |item| {
        let threshold = item.integer32(0..=1 << 19)?;
        if threshold >= queue_capacity {
            return Err(item.fault(
                format!(
                    "no queue passes {threshold} packets when it holds {queue_capacity} at most"
                ),
                "choose an ecn_threshold below queue_capacity",
            ));
        }
        Ok(threshold)
    })?;
    let idle = Duration::from_micros(1)..=Duration::from_secs(600);
    let idle_timeout = table.or("idle_timeout", Duration::from_millis(50), |item| {
        let timeout = item.duration(idle)?;
        if timeout.subsec_nanos() % 1000 != 0 {
            return Err(item.fault(
                format!("{timeout:?} is finer than the switch's clock"),
                "write whole microseconds, for example \"50ms\"",
            ));
        }
        Ok(timeout)
    })?;
    let preemption = choice.preemption(&table)?;
    let linear_priorities = choice.priorities(protocol)? != Code::Logarithmic;
    let partitions = choice.partitions(&table, pool)?;
    Ok(SwitchSettings {
        values_per_packet,
        pool,
        idle_timeout,
        ecn_threshold,
        queue_capacity,
        preemption,
        linear_priorities,
        partitions,
    })
}

/// The keys of `[[job]]`.
fn job_keys() -> Vec<&'static str> {
    let keys = [
        "name",
        "id",
        "protocol",
        "workers",
        "ps",
        "workload",
        "scale",
        "max_underflow",
        "on_underflow",
        "slots",
        "window",
        "rate",
        "max_rate",
        "levels",
        "threads",
        "jitter",
        "straggler",
        "on_death",
        "min_workers",
    ];
    keys.into_iter().chain(ATP_KEYS).chain(ESA_KEYS).chain(P4INC_KEYS).collect()
}

/// Keys of `[[job]]` that the settings of a job do not have: its endpoints follow from who takes part, on one port each.
const ENDPOINT_KEYS: [&str; 6] = ["name", "id", "workers", "ps", "agent", "threads"];

/// Those that the settings of a group do not have either: it sums what it is called with.
const WORKLOAD_KEYS: [&str; 4] = ["workload", "straggler", "jitter", "update"];

/// The `[[job]]` tables, before the topology that they refer to is known.
pub(crate) struct Jobs<'a> {
    tables: Vec<Table<'a>>,
    protocol: Table<'a>,
    choice: Choice,
}

impl<'a> Jobs<'a> {
    /// Refuses a protocol whose sums depend on the way of packets, in a network where that changes.
    pub(crate) fn check_re_patching(&self, document: &Table<'_>) -> Result<(), Error> {
        if self.choice.protocol.has_segments() {
            return Ok(());
        }
        Err(document.place_of("topology").fault(
            "units with a cross-connect need jobs of p4inc or switchml: with atp and esa, results \
             return through the switches that hold their sums, and circuits change that way",
            "set protocol = \"p4inc\"",
        ))
    }

    pub(crate) fn open(document: &Table<'a>) -> Result<Self, Error> {
        let items = document.items("job")?;
        if items.is_empty() {
            return Err(document.place_of("job").fault("there is no job", "add a [[job]]"));
        }
        if let Some(extra) = items.get(MAX_JOBS) {
            return Err(extra.fault("there are too many jobs", format!("stay within {MAX_JOBS}")));
        }
        let tables = items
            .iter()
            .map(|item| item.table("[[job]]", &job_keys()))
            .collect::<Result<Vec<_>, _>>()?;
        let choice = Choice::read(document, &tables)?;
        Ok(Self { tables, protocol: protocol::settings(document)?, choice })
    }

    /// The settings of one job, perhaps of a group, for the network of this file.
    pub(crate) fn of_settings(
        file: &Table<'a>,
        settings: &Table<'a>,
        group: bool,
    ) -> Result<Self, Error> {
        let table = settings.table("job", &job_keys())?;
        if let Some(item) = ENDPOINT_KEYS.iter().find_map(|key| table.get(key)) {
            return Err(item.fault(
                format!("{} follows from who takes part in the job", item.name()),
                "leave it out",
            ));
        }
        if let Some(item) = WORKLOAD_KEYS.iter().find_map(|key| table.get(key)).filter(|_| group) {
            return Err(item.fault(
                format!("{} is for workers that sum by themselves", item.name()),
                "leave it out: a group sums what it is called with",
            ));
        }
        let choice = Choice::read(file, &[])?;
        Ok(Self { tables: vec![table], protocol: protocol::settings(file)?, choice })
    }

    /// The only job, at a place of its own.
    pub(crate) fn place(
        &self,
        network: &Network,
        place: Place,
        server: impl FnOnce() -> Option<HostId>,
    ) -> Result<JobSpec, Error> {
        let table = &self.tables[0];
        let context = self.context(&network.topology, &network.switch, None);
        self.choice.check(table)?;
        self.choice.refuse_keys_of_others(table)?;
        let Place { id, name, workers, .. } = place;
        let local = context.is_local(table, protocol::aggregation(table)?, &workers)?;
        let ps = match local {
            true => None,
            false => Some(server().ok_or_else(|| {
                table.fault(
                    "the job needs a parameter server, and no host has one that takes part",
                    "start `tributary ps --controller ADDR --interface IF` on a host without a worker of the job",
                )
            })?),
        };
        let agent = ps.filter(|_| self.choice.protocol.has_reminder_agent());
        let placed = Placed { id, name, workers, ps, agent };
        let job = context.placed(table, placed, 0)?;
        if let Workload::Files(_) = job.workload {
            return Err(table.place_of("workload").fault(
                "only the controller's job file names files that workers read and write",
                "leave `workload` out, or take the kind \"random\" or \"digits\"",
            ));
        }
        Ok(job)
    }

    /// Reads `[switch]`.
    pub(crate) fn switch_settings(&self, document: &Table<'_>) -> Result<SwitchSettings, Error> {
        switch_settings(document, &self.protocol, self.choice)
    }

    /// The network of these parts, with the rules of `[protocol]`.
    pub(crate) fn network(
        &self,
        topology: Topology,
        switch: SwitchSettings,
        worker_timeout: Duration,
    ) -> Result<Network, Error> {
        let (choice, protocol) = (self.choice, &self.protocol);
        let recovery = choice.recovery(protocol)?;
        Ok(Network {
            topology,
            protocol: choice.protocol,
            switch,
            worker_timeout,
            timeouts: choice.timeouts(protocol)?,
            recovery,
            addressing: choice.addressing(protocol)?,
            priorities: choice.priorities(protocol)?,
            readings: choice.readings(protocol, recovery)?,
        })
    }

    /// Number of workers that jobs request by number; 4 for each job that does not specify workers.
    pub(crate) fn workers_wanted(&self) -> Result<u32, Error> {
        let mut sum = 0;
        for table in &self.tables {
            sum += match table.get("workers") {
                Some(item) if item.is_array() => 0,
                Some(item) => worker_count(&item)?,
                None => 4,
            };
        }
        Ok(sum)
    }

    /// Default number of parameter server hosts in the short forms of a topology. In P4INC: one for
    /// each job that names a parameter server or needs one.
    pub(crate) fn servers_wanted(&self) -> Result<Servers, Error> {
        // There are at most hundreds of jobs.
        let count = |jobs: usize| u32::try_from(jobs).unwrap_or(u32::MAX);
        let all = count(self.tables.len());
        if self.choice.protocol.needs_server() {
            return Ok(Servers { at_one_switch: all, at_several: all, least: 1 });
        }
        if !self.choice.protocol.may_have_server() {
            return Ok(Servers { at_one_switch: 0, at_several: 0, least: 0 });
        }
        let mut wanted = 0;
        for table in &self.tables {
            let by_server = protocol::aggregation(table)? == Aggregation::Server;
            wanted += usize::from(by_server || table.get("ps").is_some());
        }
        Ok(Servers { at_one_switch: count(wanted), at_several: all, least: 0 })
    }

    /// Number of jobs that share the pool; each thread of a worker counts.
    fn jobs_in_network(&self) -> Result<u32, Error> {
        let mut jobs = 0;
        for table in &self.tables {
            if protocol::aggregation(table)? == Aggregation::Network {
                jobs += threads(table)?;
            }
        }
        Ok(jobs)
    }

    /// That of a job that has the switches for itself.
    fn context<'t>(
        &'t self,
        topology: &'t Topology,
        switch: &'t SwitchSettings,
        directory: Option<&'t Path>,
    ) -> Context<'t, 'a> {
        Context {
            topology,
            switch,
            share: switch.pool,
            protocol: &self.protocol,
            choice: self.choice,
            directory,
            taken: vec![0; topology.hosts.len()],
            jobs: self.tables.len(),
        }
    }

    /// Reads all jobs.
    pub(crate) fn resolve(
        &self,
        topology: &Topology,
        switch: &SwitchSettings,
        seed: u64,
        directory: Option<&Path>,
    ) -> Result<Vec<JobSpec>, Error> {
        let mut context = self.context(topology, switch, directory);
        context.share = (switch.pool / self.jobs_in_network()?.max(1)).max(1);
        let mut jobs: Vec<JobSpec> = Vec::with_capacity(self.tables.len());
        for (index, table) in self.tables.iter().enumerate() {
            let job = context.job(table, index, workload_seed(seed, index))?;
            if let Some(other) = jobs.iter().position(|other| other.name == job.name) {
                return Err(table.place_of("name").fault(
                    format!("jobs {} and {} are both named `{}`", other + 1, index + 1, job.name),
                    "give each job its own name",
                ));
            }
            if let Some(other) = jobs.iter().position(|other| other.id == job.id) {
                return Err(table.place_of("id").fault(
                    format!("jobs {} and {} both have the ID {}", other + 1, index + 1, job.id),
                    "give each job its own `id`; without one, it is its place in the file",
                ));
            }
            jobs.push(job);
        }
        self.lanes(jobs)
    }
}

/// The epoch of a job in a parsed file.
fn first_epoch(id: JobId) -> Epoch {
    Epoch::new(id.get().into()).expect("no job has the number zero")
}

/// The job ID: from the file, else its position in the file.
fn job_id(table: &Table<'_>, index: usize) -> Result<JobId, Error> {
    // There are at most MAX_JOBS jobs, so the number is a non-zero u16.
    let own = u16::try_from(index + 1).ok().and_then(JobId::new);
    let own = own.expect("jobs are counted in the low hundreds");
    table.or("id", own, |item| {
        let id = item.integer32(1..=u16::MAX.into())?;
        let id = u16::try_from(id).ok().and_then(JobId::new);
        Ok(id.expect("between 1 and the largest u16"))
    })
}

fn job_name(item: &Item<'_>) -> Result<String, Error> {
    let name = item.word("a")?;
    if name.chars().all(|c| c.is_ascii_digit()) {
        return Err(item.fault("a number is the ID of a job, not a name", "add a letter"));
    }
    Ok(name.to_owned())
}

fn pause(item: &Item<'_>) -> Result<Duration, Error> {
    item.duration(Duration::ZERO..=LONGEST_PAUSE)
}

fn worker_count(item: &Item<'_>) -> Result<u32, Error> {
    item.integer32(1..=u32::from(WORKERS_MAX))
}

/// Where a job is, which is not the business of its settings.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its ID.
    pub id: JobId,
    /// Its name.
    pub name: String,
    /// The hosts of its workers.
    pub workers: Vec<HostId>,
    /// Whether its workers are a group, which sums what it is called with, and has no workload.
    pub group: bool,
}

/// The objects to which jobs refer.
struct Context<'t, 'a> {
    topology: &'t Topology,
    switch: &'t SwitchSettings,
    /// Default size of a job's segment: at most this many aggregators.
    share: u32,
    protocol: &'t Table<'a>,
    choice: Choice,
    directory: Option<&'t Path>,
    /// Number of workers placed on each host so far.
    taken: Vec<u32>,
    jobs: usize,
}

/// A job, and where its endpoints are.
struct Placed {
    id: JobId,
    name: String,
    workers: Vec<HostId>,
    ps: Option<HostId>,
    agent: Option<HostId>,
}

impl Context<'_, '_> {
    fn job(&mut self, table: &Table<'_>, index: usize, seed: u64) -> Result<JobSpec, Error> {
        let id = job_id(table, index)?;
        let default_name = format!("job{}", index + 1);
        let name = table.or("name", default_name, job_name)?;
        self.choice.check(table)?;
        self.choice.refuse_keys_of_others(table)?;
        let workers = self.workers(table)?;
        let local = self.is_local(table, protocol::aggregation(table)?, &workers)?;
        let ps = self.parameter_server(table, index, local, &workers)?;
        let agent = self.agent(table, ps, &workers)?;
        self.placed(table, Placed { id, name, workers, ps, agent }, seed)
    }

    fn placed(&self, table: &Table<'_>, placed: Placed, seed: u64) -> Result<JobSpec, Error> {
        let Placed { id, name, workers, ps, agent } = placed;
        let aggregation = protocol::aggregation(table)?;
        let local = self.is_local(table, aggregation, &workers)?;
        let two_levels = table.or("levels", 1, |levels| levels.integer32(1..=2))? == 2;
        let racks = self.topology.racks(&workers, ps, self.choice.protocol, two_levels);
        if let Err(unfit) = racks {
            return Err(table.place_of("workers").fault(
                unfit.to_string(),
                "list the workers of a switch one after another, or spread them over other switches",
            ));
        }
        let profile = protocol::profile(table)?;
        let workload = self.workload(table, workers.len(), seed)?;
        let scale = self.setting(table, "scale", f64::from(1 << 20), |s| s.number(SCALES))?;
        let max_underflow = self.setting(table, "max_underflow", 0.01, |m| m.probability())?;
        let on_underflow =
            self.setting(table, "on_underflow", OnUnderflow::Warn, |o| o.choice(&ON_UNDERFLOW))?;
        let (slots, segment) = self.slots_and_segment(table, local)?;
        let window = self.window(table, slots)?;
        let limits = self.limits(table)?;
        let rate = self.setting(table, "rate", None, |rate| rate.rate(RATES).map(Rate::new))?;
        // A worker keeps the limit by itself: what switches drop it would have to send again.
        let rate = rate.into_iter().chain(limits.rate).min();
        let jitter = table.or("jitter", Duration::ZERO, pause)?;
        let update = self.update(table)?;
        let stragglers = self.stragglers(table, &workers)?;
        let threads = threads(table)?;
        self.check_sequences(table, &workload, threads)?;
        let on_death = losses::on_death(table, workers.len(), threads, &workload)?;
        Ok(JobSpec {
            id,
            epoch: first_epoch(id),
            name,
            lane: Lane { index: 0, count: threads as usize },
            protocol: self.choice.protocol,
            workers,
            ps,
            agent,
            profile,
            workload,
            scale,
            max_underflow,
            on_underflow,
            slots,
            window,
            rate,
            limits: limits.shared(threads),
            aggregation,
            adding: protocol::adding(table, self.topology)?,
            segment,
            two_levels,
            update,
            jitter,
            stragglers,
            on_death,
        })
    }

    /// A key of the job, else of `[protocol]`, else a default.
    fn setting<T>(
        &self,
        table: &Table<'_>,
        key: &str,
        default: T,
        read: impl Fn(&Item<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match table.get(key).or_else(|| self.protocol.get(key)) {
            Some(item) => read(&item),
            None => Ok(default),
        }
    }

    /// Whether a single switch sums the whole job.
    fn is_local(
        &self,
        table: &Table<'_>,
        aggregation: Aggregation,
        workers: &[HostId],
    ) -> Result<bool, Error> {
        let together = self.topology.common_switch(workers).is_some();
        if !self.choice.protocol.spans_switches() && !together {
            return Err(table.place_of("workers").fault(
                "the job's workers are attached to several switches, and with \"switchml\" one sums up alone",
                "choose workers at one switch, or use \"p4inc\"",
            ));
        }
        Ok(self.choice.protocol.has_segments() && together && aggregation == Aggregation::Network)
    }

    /// What switches let the job take.
    fn limits(&self, table: &Table<'_>) -> Result<Limits, Error> {
        let rate = |rate: &Item<'_>| rate.rate(RATES).map(Rate::new);
        let priority = |priority: &Item<'_>| {
            let priority = u8::try_from(priority.integer32(1..=255)?).unwrap_or(u8::MAX);
            Ok(Priority::new(priority).unwrap_or(Priority::HIGHEST))
        };
        Ok(Limits {
            rate: self.setting(table, "max_rate", None, rate)?,
            preemption: self.setting(table, "max_preemption", None, rate)?,
            priority: self.setting(table, "max_priority", Priority::HIGHEST, priority)?,
        })
    }

    /// Window at the start, in packets.
    fn window(&self, table: &Table<'_>, slots: u32) -> Result<u32, Error> {
        let payload = u32::from(self.switch.values_per_packet) * 4;
        let usual = INITIAL_WINDOW_BYTES / payload;
        let default = self.choice.rules().map_or(usual, |rules| rules.window);
        self.setting(table, "window", default.clamp(1, slots), |item| {
            let window = item.integer32(1..=1 << 16)?;
            if window > slots {
                return Err(item.fault(
                    format!("a window of {window} packets is more than the {slots} slots"),
                    "choose a smaller window or more slots",
                ));
            }
            Ok(window)
        })
    }

    /// Maximum number of fragments in flight, and number of the job's own aggregators.
    ///
    /// If a single switch sums the job, results exist only there. A worker must not reuse an
    /// aggregator before it has received the last but one result from it. So there are at most as
    /// many slots as aggregators, or pairs of aggregators in SwitchML.
    fn slots_and_segment(&self, table: &Table<'_>, local: bool) -> Result<(u32, u32), Error> {
        let largest_power = |number: u32| 1 << number.max(1).ilog2();
        let read = |item: &Item<'_>| {
            let slots = item.integer32(1..=1 << 16)?;
            if !slots.is_power_of_two() {
                return Err(item.fault(
                    format!("{slots} slots are not a power of two"),
                    format!("choose for example {}", slots.next_power_of_two()),
                ));
            }
            Ok(slots)
        };
        let usual = self.choice.rules().map_or(SLOTS, |rules| rules.slots);
        let pool = self.switch.pool;
        let own = table.or("segment", None, |s| s.integer32(1..=pool).map(Some))?;
        if !self.choice.protocol.has_segments() {
            return Ok((self.setting(table, "slots", usual, read)?, 0));
        }
        let (room, segment) = match self.choice.protocol.has_partitions() {
            true => (self.switch.partition() / 2, Some(self.switch.partition())),
            false => (own.unwrap_or(self.share), own),
        };
        let default = if local { usual.min(largest_power(room)) } else { usual };
        let slots = self.setting(table, "slots", default, |item| {
            let slots = read(item)?;
            if !local || slots <= room {
                return Ok(slots);
            }
            let (what, fix) = match self.choice.protocol.has_partitions() {
                true => ("pairs of aggregators in its partition", "fewer partitions"),
                false => ("aggregators in its segment", "a larger `segment`"),
            };
            Err(item.fault(
                format!("a job with {slots} slots has only {room} {what}"),
                format!("choose at most {} slots, {fix} or a larger pool", largest_power(room)),
            ))
        })?;
        Ok((slots, segment.unwrap_or(slots.min(room))))
    }

    /// The time between two iterations, which only a control loop looks at.
    fn update(&self, table: &Table<'_>) -> Result<Duration, Error> {
        let Some(item) = table.get("update") else { return Ok(Duration::ZERO) };
        if self.topology.optical.is_none() {
            let problem = "`update` is the time between two iterations that a control loop starts";
            return Err(item.fault(problem, "set `units` in [topology], or remove it"));
        }
        pause(&item)
    }

    fn stragglers(&self, table: &Table<'_>, workers: &[HostId]) -> Result<Vec<Straggler>, Error> {
        let items = table.items("straggler")?;
        items
            .iter()
            .map(|item| {
                let own = item.table("[[job.straggler]]", &["worker", "delay"])?;
                let item = own.require("worker", "0")?;
                let worker = if item.is_string() {
                    let host = self.find_host(&item)?;
                    workers.iter().position(|&worker| worker == host).ok_or_else(|| {
                        let name = &self.topology.host(host).name;
                        item.fault(
                            format!("host `{name}` is not a worker of the job"),
                            "name the host of one of the job's workers",
                        )
                    })?
                } else {
                    let last = u32::try_from(workers.len() - 1).unwrap_or(u32::MAX);
                    item.integer32(0..=last)? as usize
                };
                let delay = own.require("delay", "\"5ms\"")?;
                Ok(Straggler { worker: worker_index(worker), delay: pause(&delay)? })
            })
            .collect()
    }

    /// Rejects a job that would run out of sequence numbers, which never wrap.
    fn check_sequences(
        &self,
        table: &Table<'_>,
        workload: &Workload,
        threads: u32,
    ) -> Result<(), Error> {
        let Workload::Random(random) = workload else { return Ok(()) };
        let each = random.elements.div_ceil(u64::from(self.switch.values_per_packet));
        let all = u128::from(each.div_ceil(threads.into())) * u128::from(random.rounds());
        // Three bits of a sequence number may encode the rung of the scale ladder.
        let numbers = if self.choice.protocol.has_segments() { FRAGMENTS_MAX } else { u32::MAX };
        if all > u128::from(numbers) {
            return Err(table.place_of("workload").fault(
                format!("the job sends {all} fragments, more than there are sequence numbers"),
                "send fewer or smaller tensors",
            ));
        }
        Ok(())
    }
}
