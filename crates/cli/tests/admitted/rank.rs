//! A rank of a group, as a process of its own: sums and compares until the first one is told to stop.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tributary_collective::{
    Call, Communicator, Description, Group as _, Members, Station, Values, admission,
};
use tributary_protocol::buffer::Buffer;

/// Number of the rank in the environment; the other variables are those of the Python package.
pub(crate) const NUMBER: &str = "TRIBUTARY_TEST_RANK";
/// Names of the hosts of all ranks.
pub(crate) const HOSTS: &str = "TRIBUTARY_TEST_HOSTS";
/// The directory through which ranks find each other.
pub(crate) const DIRECTORY: &str = "TRIBUTARY_TEST_DIRECTORY";
/// More settings of the group's job.
pub(crate) const SETTINGS: &str = "TRIBUTARY_TEST_SETTINGS";
/// Fragments after which the job begins another run, if not those of the default.
pub(crate) const FRAGMENTS: &str = "TRIBUTARY_TEST_FRAGMENTS_PER_RUN";

/// Values of a sum, without the one that tells to stop.
const ELEMENTS: usize = 20_000;
const PATIENCE: Duration = Duration::from_secs(60);

/// The rank that this process is.
pub(crate) fn number() -> Option<u16> {
    std::env::var(NUMBER).ok()?.parse().ok()
}

pub(crate) fn run(rank: u16) -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    match take_part(rank) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn required(name: &str) -> Result<String> {
    variable(name).with_context(|| format!("{name} is not set"))
}

fn take_part(rank: u16) -> Result<()> {
    let directory = PathBuf::from(required(DIRECTORY)?);
    let hosts: Vec<String> = required(HOSTS)?.split(',').map(str::to_owned).collect();
    let station = Station::find(&variable)?;
    if rank == 0 {
        admit(&station, &hosts, &directory)?;
    }
    let description = Description::parse(&read(&directory.join("description"))?)?;
    let communicator = Communicator::join_at(&description, rank, &station, PATIENCE)?;
    for call in 0.. {
        let stop = rank == 0 && directory.join("stop").exists();
        if sum(&communicator, rank, call, hosts.len(), stop)? {
            break;
        }
        println!("sum {call}");
    }
    communicator.close();
    Ok(())
}

fn admit(station: &Station, hosts: &[String], directory: &Path) -> Result<()> {
    let group = match variable(FRAGMENTS) {
        Some(fragments) => format!("[group]\nfragments_per_run = {fragments}\n"),
        None => String::new(),
    };
    let more = variable(SETTINGS).unwrap_or_default();
    let settings = format!("[job]\nslots = 32\nwindow = 16\n{more}{group}");
    let members = Members::each_alone(u16::try_from(hosts.len())?);
    let description = match admission::given(&variable, &group, &members)? {
        Some(given) => given,
        None => admission::admit(station, &settings, "groups", &members, hosts)?,
    };
    let (partial, whole) = (directory.join("partial"), directory.join("description"));
    std::fs::write(&partial, description.to_text())?;
    std::fs::rename(partial, whole)?;
    Ok(())
}

/// The text of a file, once it is there.
fn read(path: &Path) -> Result<String> {
    let begin = Instant::now();
    while !path.exists() {
        ensure!(begin.elapsed() < PATIENCE, "{} does not come", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(std::fs::read_to_string(path)?)
}

/// Sums integers, which must be exact. Returns whether the first rank stops.
fn sum(
    communicator: &Communicator,
    rank: u16,
    call: usize,
    ranks: usize,
    stop: bool,
) -> Result<bool> {
    let value = |rank: usize, at: usize| ((at * 31 + call * 17 + rank * 7) % 2003) as f32 - 1000.0;
    let mut values: Vec<f32> = (0..ELEMENTS).map(|at| value(rank.into(), at)).collect();
    values.push(if stop { 1.0 } else { 0.0 });
    let start = std::ptr::NonNull::new(values.as_mut_ptr()).context("a vector has memory")?;
    // SAFETY: the values are used only after the call.
    let lent = unsafe { Buffer::lent(start, values.len(), std::sync::Arc::new(())) };
    let values_lent = Values::Single(lent);
    let pending =
        communicator.call(Call::Reduce { values: values_lent, average: false, layer: None });
    let result = pending.wait(PATIENCE).context("no result in time");
    if let Ok(Err(error)) = &result {
        anyhow::bail!("{error}");
    }
    result?.context("a failed sum")?;
    for (at, sum) in values[..ELEMENTS].iter().enumerate() {
        let exact: f32 = (0..ranks).map(|rank| value(rank, at)).sum();
        ensure!(*sum == exact, "call {call}, value {at}: {sum}, not {exact}");
    }
    Ok(values[ELEMENTS] > 0.0)
}
