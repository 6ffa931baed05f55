//! Memory per packet in flight, from the peak memory of two runs.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tributary_model::Protocol;
use tributary_run::report::table;

use crate::bench::Args;

/// Workers of the job.
const WORKERS: u64 = 8;

/// Windows of the two runs: all of these packets are in flight at once, because links are long.
const WINDOWS: [u64; 2] = [2048, 8192];

/// Time between two looks at the peak.
const TICK: Duration = Duration::from_millis(2);

pub(super) fn run(args: &Args) -> Result<()> {
    let windows = if args.quick { WINDOWS.map(|window| window / 4) } else { WINDOWS };
    println!(
        "\nMemory: peak resident memory of `tributary run --fabric sim` with windows of {} and {} \
         packets, for {WORKERS} workers with links of 20 ms. The difference per packet in flight \
         counts the frame on its link with 64 values, and the endpoints' state of its slot",
        windows[0], windows[1]
    );
    let mut rows = table(&["protocol", "window", "packets in flight", "peak", "bytes per packet"]);
    for protocol in [Protocol::Atp, Protocol::Esa] {
        let peaks = [peak(protocol, windows[0])?, peak(protocol, windows[1])?];
        let packets = windows.map(|window| window * WORKERS);
        let per_packet = (peaks[1] as f64 - peaks[0] as f64) / (packets[1] - packets[0]) as f64;
        for at in 0..2 {
            rows.add_row([
                protocol.name().into(),
                windows[at].to_string(),
                packets[at].to_string(),
                format!("{:.1} MiB", peaks[at] as f64 / 1048576.0),
                if at == 1 { format!("{per_packet:.0}") } else { String::new() },
            ]);
        }
    }
    println!("{rows}");
    Ok(())
}

/// Peak resident memory in bytes of a run whose tensor is as long as the larger window.
fn peak(protocol: Protocol, window: u64) -> Result<u64> {
    let file = format!(
        "[topology]\nkind = \"star\"\nworkers = {WORKERS}\n\
         [protocol]\nkind = \"{}\"\nslots = {window}\nwindow = {window}\n\
         [switch]\npool = {}\nqueue_capacity = 65536\necn_threshold = 65535\n\
         [faults]\ndelay = \"20ms\"\n\
         [[job]]\nworkload = {{ kind = \"random\", tensors = 1, elements = {} }}\n",
        protocol.name(),
        2 * WINDOWS[1],
        64 * WINDOWS[1],
    );
    let job = tempfile::Builder::new().suffix(".toml").tempfile()?;
    fs::write(job.path(), file)?;
    let mut child = Command::new(tributary_base::programs::path("tributary")?)
        .arg("run")
        .arg(job.path())
        .args(["--fabric", "sim"])
        .stdout(Stdio::null())
        .spawn()
        .context("cannot run the job file")?;
    // The peak never shrinks, so the last look before the end has it.
    let mut peak = 0;
    let status = loop {
        peak = high_water(child.id()).unwrap_or(peak);
        if let Some(status) = child.try_wait()? {
            break status;
        }
        thread::sleep(TICK);
    };
    ensure!(status.success() && peak > 0, "the run of {} ended with {status}", protocol.name());
    Ok(peak)
}

/// Peak resident memory of a running process in bytes.
fn high_water(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(1024 * line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?)
}
