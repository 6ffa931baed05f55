//! ns-3 beside this simulator: the same number of hosts around one node, and packets of the same
//! size.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use tributary_run::report::table;

use crate::bench::{Args, Spread};

/// The program, for the ns-3 of Debian 12.
const STAR: &str = include_str!("star.cc");

/// Bytes of a packet: those of ESA's paper (§7.2.1).
const PACKET_BYTES: u32 = 306;

/// Linked by name, because Debian's files for pkg-config name libraries that it does not install.
const LIBRARIES: [&str; 6] =
    ["applications", "internet", "network", "point-to-point", "traffic-control", "core"];

/// Hosts around the node. Each sends to the next.
pub(super) const HOSTS: u32 = 64;

/// Packets of each host.
const PACKETS: u32 = 2_000;

/// `ours` are the rates of ATP on as many hosts, with all values and with timing only.
pub(super) fn run(args: &Args, ours: [Spread; 2]) -> Result<()> {
    let Some(version) = version() else {
        println!("Skipped the comparison with ns-3: install libns3-dev, g++ and pkg-config");
        return Ok(());
    };
    let packets = if args.quick { PACKETS / 10 } else { PACKETS };
    println!(
        "\nns-3 {version}, as installed: {HOSTS} hosts around one node, links of 100 Gb/s and 1 µs, \
         {packets} UDP packets of {PACKET_BYTES} bytes from each host to the next. Million arrivals \
         of packets at hosts and node per second of processor time, median (range)"
    );
    let directory = tempfile::tempdir()?;
    let source = directory.path().join("star.cc");
    let program = directory.path().join("star");
    std::fs::write(&source, STAR)?;
    let mut compiler = Command::new("g++");
    compiler.arg("-O2").arg("-o").arg(&program).arg(&source);
    compiler.args(LIBRARIES.map(|library| format!("-lns3-{library}")));
    let output = compiler.output().context("cannot start g++")?;
    if !output.status.success() {
        bail!("g++ cannot compile the ns-3 program:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    let rates = (0..args.repeat).map(|_| measure(&program, packets));
    let rate = Spread::of(rates.collect::<Result<_>>()?);
    let mut rows = table(&["simulator", "million hops/s", "times ns-3"]);
    let all = [
        ("ns-3, UDP", rate),
        ("this one, ATP with 62 values per packet", ours[0]),
        ("this one, ATP with timing only", ours[1]),
    ];
    for (name, one) in all {
        rows.add_row([name, &one.text(3), &format!("{:.1}", one.median / rate.median)]);
    }
    println!("{rows}");
    Ok(())
}

/// Million arrivals of packets per second of processor time.
fn measure(program: &Path, packets: u32) -> Result<f64> {
    let begun = children()?;
    let numbers = [HOSTS, packets, PACKET_BYTES].map(|number| number.to_string());
    let output = Command::new(program).args(numbers).output().context("cannot run ns-3")?;
    let took = children()? - begun;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    let (Some(Ok(received)), Some(Ok(hops))) = (numbers.next(), numbers.next()) else {
        bail!("ns-3 printed {text:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let sent = u64::from(HOSTS) * u64::from(packets);
    ensure!(received == sent, "ns-3 delivered {received} of {sent} packets");
    Ok(hops as f64 / took / 1e6)
}

/// The installed version of ns-3, if it can be compiled against.
fn version() -> Option<String> {
    let output = Command::new("pkg-config").args(["--modversion", "ns3-core"]).output().ok()?;
    let compiler = Command::new("g++").arg("--version").output().ok()?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && compiler.status.success()).then_some(version)
}

/// Processor seconds of all child processes that have ended.
fn children() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}
