//! The switch with threads for several cores: packets of ATP through its ports, without a network.
//!
//! Each thread has ports of its own that make packets and count what comes out, so that nothing
//! but the switch takes time. The packets arrive at the core of their aggregator, or at another
//! one, or half of them: the difference is the cost of handing packets over.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tributary_dataplane::{EngineKind, ROW_BITS};
use tributary_netio::{FrameIo, Watch};
use tributary_run::report::table;
use tributary_switch::SwitchConfig;
use tributary_switch::runtime::{Runtime, SwitchHandle};
use tributary_wire::agg::{OFFSET, field};

use super::super::Spread;
use super::super::engine::{self, Case, Template, parts, templates};
use crate::bench::{Args, Program};

/// Neighbouring aggregators of one core.
const ROWS: u32 = 1 << ROW_BITS;

/// Such groups for each core, of each kind.
const GROUPS: u32 = 4;

/// Fragments under way, per core that their packets arrive at.
const WINDOW: u64 = 2 * ROWS as u64;

const WARM_UP: Duration = Duration::from_millis(300);
const TIME: Duration = Duration::from_millis(700);

/// Where packets arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Arrival {
    Right,
    Half,
    Wrong,
}

impl Arrival {
    const ALL: [Self; 3] = [Self::Right, Self::Half, Self::Wrong];

    fn name(self) -> &'static str {
        match self {
            Self::Right => "at the right core",
            Self::Half => "half of them",
            Self::Wrong => "at a wrong core",
        }
    }
}

/// The rows of the packets that arrive at one core.
#[derive(Clone, Copy, Debug)]
struct Rows {
    core: u32,
    cores: u32,
    arrival: Arrival,
}

impl Rows {
    /// The row of a core's fragment with this number.
    fn row(self, number: u64) -> u32 {
        let group = (number / u64::from(ROWS)) as u32;
        let wrong = match self.arrival {
            Arrival::Right => 0,
            Arrival::Half => group % 2,
            Arrival::Wrong => 1,
        };
        let group = group % GROUPS;
        // Right and wrong ones are different rows, so that no row has packets from two cores.
        let block = (2 * group + wrong) * self.cores + (self.core + wrong) % self.cores;
        block * ROWS + (number % u64::from(ROWS)) as u32
    }

    /// The core at which the packets of a row arrive.
    fn origin(cores: u32, row: u32) -> u32 {
        let block = row / ROWS;
        let wrong = block / cores % 2;
        (block % cores + cores - wrong) % cores
    }
}

/// Numbers of fragments whose packets arrive at one core.
#[derive(Default)]
struct Progress {
    /// How many may be begun, besides those that are over: none before the program runs.
    window: AtomicU64,
    begun: AtomicU64,
    over: AtomicU64,
}

/// A port's part: it makes the packets of one kind, and takes all packets.
struct Port {
    frame: Vec<u8>,
    rows: Rows,
    /// Whether its packets begin fragments, and it sees their results.
    first: bool,
    number: u64,
    progress: Arc<[Progress]>,
}

impl FrameIo for Port {
    fn receive(&mut self, max: usize, sink: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let own = &self.progress[self.rows.core as usize];
        let end = match self.first {
            true => own.over.load(Ordering::Relaxed) + own.window.load(Ordering::Relaxed),
            false => own.begun.load(Ordering::Relaxed),
        };
        let count = end.saturating_sub(self.number).min(max as u64);
        for number in self.number..self.number + count {
            let row = self.rows.row(number).to_be_bytes();
            for place in [field::INDEX, field::SEQUENCE] {
                self.frame[OFFSET + place.start..OFFSET + place.end].copy_from_slice(&row);
            }
            sink(&self.frame);
        }
        self.number += count;
        if self.first {
            own.begun.store(self.number, Ordering::Relaxed);
        }
        Ok(count as usize)
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<bool> {
        let index = frame.get(OFFSET + field::INDEX.start..).and_then(|rest| rest.first_chunk());
        if let Some(index) = index.filter(|_| self.first) {
            let origin = Rows::origin(self.rows.cores, u32::from_be_bytes(*index));
            self.progress[origin as usize].over.fetch_add(1, Ordering::Relaxed);
        }
        Ok(true)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn watch(&mut self, watch: &mut Watch) -> io::Result<()> {
        watch.ready();
        Ok(())
    }
}

/// Measures and prints.
pub(super) fn run(args: &Args) -> Result<()> {
    let available = thread::available_parallelism().map_or(1, usize::from) as u16;
    let counts: Vec<u16> = std::iter::successors(Some(1), |cores| Some(2 * cores))
        .take_while(|cores| *cores <= available)
        .collect();
    println!(
        "\nThe switch with a thread per core, ATP without a network: million packets per second of \
         processor time of each thread, all threads together"
    );
    let mut header = vec!["values a packet", "cores"];
    header.extend(Arrival::ALL.map(Arrival::name));
    let mut rows = table(&header);
    for values in [64, 256] {
        for &cores in &counts {
            // There is no wrong core among one.
            let arrivals = if cores == 1 { &Arrival::ALL[..1] } else { &Arrival::ALL };
            let mut rates = vec![Vec::new(); arrivals.len()];
            for _ in 0..args.repeat {
                for (rates, &arrival) in rates.iter_mut().zip(arrivals) {
                    rates.push(measure(values, cores, arrival)?);
                }
            }
            let mut cells = vec![values.to_string(), cores.to_string()];
            cells.extend(rates.into_iter().map(|rates| Spread::of(rates).text(2)));
            cells.resize(header.len(), "–".to_owned());
            rows.add_row(cells);
        }
    }
    println!("{rows}");
    Ok(())
}

/// Millions of packets per second.
fn measure(values: u16, cores: u16, arrival: Arrival) -> Result<f64> {
    let handle = start(values, cores, arrival)?;
    let received = || -> Result<u64> {
        let (_, ports) = handle.control().statistics()?;
        Ok(ports.iter().map(|(_, port)| port.received).sum())
    };
    thread::sleep(WARM_UP);
    let (before, begun) = (received()?, process_time());
    thread::sleep(TIME);
    let (after, ended) = (received()?, process_time());
    let report = handle.stop();
    anyhow::ensure!(report.switch.handover_drops == 0, "packets were dropped between cores");
    let seconds = (ended - begun).as_secs_f64() / f64::from(cores);
    Ok((after - before) as f64 / 1e6 / seconds)
}

/// Starts a switch with its ports.
fn start(values: u16, cores: u16, arrival: Arrival) -> Result<SwitchHandle> {
    let cells = 2 * GROUPS * u32::from(cores) * ROWS;
    let scenario = engine::scenario(Program::Atp, values, cells)?;
    let config = SwitchConfig { cores, engine: EngineKind::Compiled, ..SwitchConfig::default() };
    let mut runtime = Runtime::new(config);
    let progress: Arc<[Progress]> = (0..cores).map(|_| Progress::default()).collect();
    let templates = templates(Program::Atp, &scenario);
    for port in 1..=scenario.network.topology.hosts.len() as u16 {
        let of_port =
            |template: &&Template| template.port == port && template.case != Some(Case::Collide);
        let template = templates.iter().find(of_port);
        let part = |core| -> Box<dyn FrameIo> {
            let rows = Rows { core, cores: cores.into(), arrival };
            let frame = template.map(|template| template.frame.clone()).unwrap_or_default();
            let first = template.is_some_and(|template| template.case == Some(Case::Absorb));
            // The other job's ports make no packets.
            let number = if template.is_some() { 0 } else { u64::MAX };
            Box::new(Port { frame, rows, first, number, progress: Arc::clone(&progress) })
        };
        runtime.add_parts(port, (0..cores.into()).map(part).collect(), None);
    }
    let (mut forwarding, entries) = parts(&scenario)?;
    forwarding.fill_cores(cores.into()).map_err(|error| anyhow!("{error}"))?;
    let (handle, _packets_in) = runtime.start().context("cannot start a thread")?;
    let written = handle.control().call(move |switch, _| {
        switch.commit(forwarding);
        switch.write(&entries)
    })?;
    for result in written.map_err(|error| anyhow!("{error}"))? {
        result.map_err(|error| anyhow!("{error}"))?;
    }
    progress.iter().for_each(|own| own.window.store(WINDOW, Ordering::Relaxed));
    Ok(handle)
}

/// Processor time of this process.
fn process_time() -> Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID);
    time.expect("every Linux has this clock").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_one_origin_and_the_owner_that_it_should_have() {
        for cores in 1..6 {
            for (core, arrival) in (0..cores).flat_map(|core| Arrival::ALL.map(|a| (core, a))) {
                let rows = Rows { core, cores, arrival };
                let mut wrong = 0;
                for number in 0..1024 {
                    let row = rows.row(number);
                    assert_eq!(Rows::origin(cores, row), core);
                    wrong += u32::from((row >> ROW_BITS) % cores != core);
                }
                let expected = match arrival {
                    _ if cores == 1 => 0,
                    Arrival::Right => 0,
                    Arrival::Half => 512,
                    Arrival::Wrong => 1024,
                };
                assert_eq!(wrong, expected);
            }
        }
    }
}
