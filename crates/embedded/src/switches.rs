//! The numbers of embedded switches in this process, for metrics and live views.
//!
//! They are read on demand from the running switch, in steps between batches of frames.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tokio::runtime::Handle;
use tonic::Status;
use tributary_controller::census::{Census, InUse};
use tributary_controller::outcomes::{Count, Outcomes};
use tributary_metrics::{Page, Source};
use tributary_p4runtime::p4::v1::Entity;
use tributary_switch::runtime::Control;
use tributary_switch::server::Service;
use tributary_switch::{PortStatistics, SwitchStatistics};
use tributary_wire::JobId;

/// How long a switch may take to answer before it is left out.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a switch tells about itself.
#[derive(Clone, Debug, Default)]
pub struct SwitchNumbers {
    /// Counters of the whole switch.
    pub switch: SwitchStatistics,
    /// Its ports by number, with the CPU port last.
    pub ports: Vec<(u16, PortStatistics)>,
    /// Tables whose entries can change, and how many each has.
    pub tables: Vec<(String, usize)>,
    /// Open P4Runtime streams.
    pub streams: usize,
    /// What the program tells, if it is one of ours.
    pub program: Option<ProgramNumbers>,
}

/// What a program of ours tells.
#[derive(Clone, Debug, Default)]
pub struct ProgramNumbers {
    /// Outcomes of packets that belong to no job.
    pub plain: Outcomes,
    /// Outcomes of the jobs' packets, and their partial sums that others evicted.
    pub jobs: BTreeMap<JobId, (Outcomes, Count)>,
    /// Number of aggregators.
    pub pool: Option<u32>,
    /// Aggregators in use, by job; `None` for those that no present job has.
    pub in_use: InUse,
}

/// Reads the numbers of a running switch.
#[derive(Clone, Debug)]
pub struct Reader {
    control: Control,
    service: Service,
}

impl Reader {
    /// Of this switch.
    #[must_use]
    pub fn new(control: Control, service: Service) -> Self {
        Self { control, service }
    }

    /// The numbers now.
    ///
    /// # Errors
    /// If the switch has stopped, or is given another program meanwhile.
    pub async fn read(&self) -> Result<SwitchNumbers, Status> {
        let look = |switch: &mut tributary_switch::Switch, _| {
            let info = switch.forwarding().map(|forwarding| forwarding.p4info().clone());
            (switch.statistics(), ports(switch), switch.table_sizes(), info)
        };
        let looked = self.control.run(look).await;
        let (switch, ports, tables, info) =
            looked.map_err(|stopped| Status::unavailable(stopped.to_string()))?;
        let program = match info.as_ref().and_then(Census::new) {
            Some(census) => Some(self.take(&census).await?),
            None => None,
        };
        Ok(SwitchNumbers { switch, ports, tables, streams: self.service.streams(), program })
    }

    async fn take(&self, census: &Census) -> Result<ProgramNumbers, Status> {
        let present = census.jobs(&self.all(census.jobs_request()).await?);
        let plain = census.outcomes(None, &self.all(census.outcomes_request(None)).await?);
        let evictions = match census.evictions_request() {
            request if request.is_empty() => Vec::new(),
            request => self.all(request).await?,
        };
        let mut jobs = BTreeMap::new();
        for (run, &slot) in &present.runs {
            let answer = self.all(census.outcomes_request(Some(slot))).await?;
            let outcomes = census.outcomes(Some(slot), &answer);
            jobs.insert(run.job, (outcomes, census.evictions(run.epoch, &evictions)));
        }
        let mut in_use: InUse = present.runs.keys().map(|run| (Some(run.job), 0)).collect();
        let request = census.aggregators_request();
        if !request.is_empty() {
            let count = |part: Vec<Entity>| census.count(&present, &part, &mut in_use);
            self.service.read_parts(request, count).await?;
        }
        Ok(ProgramNumbers { plain, jobs, pool: census.pool(), in_use })
    }

    async fn all(&self, request: Vec<Entity>) -> Result<Vec<Entity>, Status> {
        let mut all = Vec::new();
        self.service.read_parts(request, |part| all.extend(part)).await?;
        Ok(all)
    }
}

fn ports(switch: &tributary_switch::Switch) -> Vec<(u16, PortStatistics)> {
    let ports = switch.config().ports.iter().copied().chain([switch.cpu_port()]);
    ports.filter_map(|port| Some((port, switch.port_statistics(port)?))).collect()
}

/// The metrics of switches.
#[derive(Debug)]
pub struct Switches(Vec<(String, Reader)>);

impl Switches {
    /// Those with these names.
    pub fn new(switches: impl IntoIterator<Item = (String, Reader)>) -> Self {
        Self(switches.into_iter().collect())
    }

    /// What all switches tell that answer.
    fn read(&self) -> Vec<(String, SwitchNumbers)> {
        // The page is written in a thread that may block.
        let Ok(runtime) = Handle::try_current() else { return Vec::new() };
        let read = |(name, reader): &(String, Reader)| {
            let read = async { tokio::time::timeout(PATIENCE, reader.read()).await };
            match runtime.block_on(read) {
                Ok(Ok(numbers)) => Some((name.clone(), numbers)),
                Ok(Err(status)) => {
                    tracing::debug!(switch = name, %status, "no metrics of a switch");
                    None
                }
                Err(_) => {
                    tracing::debug!(switch = name, "a switch does not answer");
                    None
                }
            }
        };
        self.0.iter().filter_map(read).collect()
    }
}

type Label = (&'static str, String);

fn switch(name: &str) -> Label {
    ("switch", name.to_owned())
}

impl Source for Switches {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        let all = self.read();
        write_program(page, &all)?;
        write_ports(page, &all)?;
        for (name, help, what) in COUNTERS {
            page.counter(
                name,
                help,
                all.iter().map(|(name, numbers)| ([switch(name)], what(&numbers.switch))),
            )?;
        }
        let drops = all.iter().flat_map(|(name, numbers)| {
            DROPS.map(|(reason, what)| {
                ([switch(name), ("reason", reason.to_owned())], what(&numbers.switch))
            })
        });
        page.counter(
            "tributary_switch_drops_total",
            "Packets that were dropped before a queue, by reason",
            drops,
        )?;
        let entries = all.iter().flat_map(|(name, numbers)| {
            let tables = numbers.tables.iter();
            tables
                .map(move |(table, size)| ([switch(name), ("table", table.clone())], *size as f64))
        });
        page.gauge("tributary_switch_table_entries", "Entries of a table", entries)?;
        page.gauge(
            "tributary_switch_p4runtime_streams",
            "Open P4Runtime streams: controllers that are connected",
            all.iter().map(|(name, numbers)| ([switch(name)], numbers.streams as f64)),
        )
    }
}

fn write_program(page: &mut Page<'_>, all: &[(String, SwitchNumbers)]) -> fmt::Result {
    let programs: Vec<_> =
        all.iter().filter_map(|(name, numbers)| Some((name, numbers.program.as_ref()?))).collect();
    // A job has all outcomes from its admission on, so that none begins in the middle of a graph.
    let packets = programs.iter().flat_map(|&(name, program)| {
        let jobs =
            program.jobs.iter().map(|(job, (outcomes, _))| (job.get().to_string(), outcomes));
        let all = jobs.chain([(String::from("none"), &program.plain)]);
        all.flat_map(move |(job, outcomes)| {
            outcomes.iter().map(move |(outcome, count)| {
                let outcome = outcome.name().to_owned();
                ([switch(name), ("job_id", job.clone()), ("outcome", outcome)], count.packets)
            })
        })
    });
    page.counter(
        "tributary_switch_packets_total",
        "Packets by job and outcome; `none` has those that belong to no job",
        packets,
    )?;
    let evicted = programs.iter().flat_map(|&(name, program)| {
        program.jobs.iter().map(move |(job, (_, evicted))| {
            ([switch(name), ("job_id", job.get().to_string())], evicted.packets)
        })
    });
    page.counter(
        "tributary_switch_evicted_partial_sums_total",
        "Partial sums of a job that packets of others evicted (ESA)",
        evicted,
    )?;
    let in_use = programs.iter().flat_map(|&(name, program)| {
        let used = program.in_use.iter();
        used.map(move |(job, count)| {
            let job = job.map_or(String::from("none"), |job| job.get().to_string());
            ([switch(name), ("job_id", job)], f64::from(*count))
        })
    });
    page.gauge(
        "tributary_switch_aggregators_in_use",
        "Aggregators that hold a partial sum of a job; `none` has those of jobs that are over",
        in_use,
    )?;
    let pools = programs
        .iter()
        .filter_map(|&(name, program)| Some(([switch(name)], f64::from(program.pool?))));
    page.gauge("tributary_switch_aggregators", "Aggregators of the program", pools)
}

fn write_ports(page: &mut Page<'_>, all: &[(String, SwitchNumbers)]) -> fmt::Result {
    let ports = || {
        all.iter().flat_map(|(name, numbers)| {
            let port = move |port: &u16| [switch(name), ("port", port.to_string())];
            numbers.ports.iter().map(move |(number, statistics)| (port(number), statistics))
        })
    };
    for (name, help, what) in PORT_COUNTERS {
        page.counter(name, help, ports().map(|(port, statistics)| (port, what(statistics))))?;
    }
    let drops = ports().flat_map(|([switch, port], statistics)| {
        [("queue_full", statistics.queue_drops), ("program", statistics.egress_drops)].map(
            |(reason, count)| {
                ([switch.clone(), port.clone(), ("reason", reason.to_owned())], count)
            },
        )
    });
    page.counter(
        "tributary_switch_port_drops_total",
        "Packets that were dropped at an egress queue because it was full, or by the program after it",
        drops,
    )?;
    page.gauge(
        "tributary_switch_queue_packets",
        "Packets in the egress queue of a port",
        ports().map(|(port, statistics)| (port, statistics.depth as f64)),
    )?;
    page.gauge(
        "tributary_switch_queue_longest_packets",
        "Most packets in the egress queue of a port since the switch was started",
        ports().map(|(port, statistics)| (port, statistics.max_depth as f64)),
    )
}

/// A counter: its name, what it counts, and where it is.
type Counter<S> = (&'static str, &'static str, fn(&S) -> u64);

const PORT_COUNTERS: [Counter<PortStatistics>; 4] = [
    ("tributary_switch_port_received_frames_total", "Frames received", |it| it.received),
    ("tributary_switch_port_received_bytes_total", "Bytes received", |it| it.received_bytes),
    ("tributary_switch_port_sent_frames_total", "Frames sent", |it| it.sent),
    ("tributary_switch_port_sent_bytes_total", "Bytes sent", |it| it.sent_bytes),
];

const COUNTERS: [Counter<SwitchStatistics>; 3] = [
    ("tributary_switch_resubmitted_total", "Packets that were processed again", |it| {
        it.resubmitted
    }),
    ("tributary_switch_recirculated_total", "Packets that were recirculated", |it| it.recirculated),
    (
        "tributary_switch_handed_over_total",
        "Packets handed over to the core that has their registers",
        |it| it.handed_over,
    ),
];

/// A reason to drop, and how often it occurred.
type Drops = (&'static str, fn(&SwitchStatistics) -> u64);

const DROPS: [Drops; 11] = [
    ("program", |it| it.ingress_drops),
    ("no_pipeline", |it| it.no_pipeline),
    ("no_such_port", |it| it.no_such_port),
    ("no_such_queue", |it| it.no_such_queue),
    ("no_such_group", |it| it.no_such_group),
    ("no_such_session", |it| it.no_such_session),
    ("resubmitted_too_often", |it| it.resubmit_drops),
    ("recirculation_full", |it| it.recirculation_drops),
    ("controller_queue_full", |it| it.packet_in_drops + it.digest_drops),
    ("pipeline_replaced", |it| it.replaced),
    ("handover_full", |it| it.handover_drops),
];
