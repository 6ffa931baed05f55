//! Metrics that every process has, under the names of Prometheus's own client libraries.

use std::fmt;
use std::fs;

use crate::page::{Page, Source};

/// The process as a whole.
#[derive(Debug)]
pub(crate) struct Process;

/// What the kernel tells in `/proc/self/stat`.
#[derive(PartialEq, Debug)]
struct Stat {
    /// Seconds, in user and kernel mode.
    cpu: f64,
    threads: f64,
    /// Seconds after the machine's boot.
    start: f64,
    virtual_bytes: f64,
    resident_bytes: f64,
}

impl Stat {
    /// Fields by proc(5), counted from the one after the name, which may contain anything.
    fn parse(text: &str, ticks_per_second: f64, page_bytes: f64) -> Option<Self> {
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        // The first of them is the third of proc(5), the state.
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        Some(Self {
            cpu: (field(14)? + field(15)?) / ticks_per_second,
            threads: field(20)?,
            start: field(22)? / ticks_per_second,
            virtual_bytes: field(23)?,
            resident_bytes: field(24)? * page_bytes,
        })
    }
}

/// When the machine was booted, in seconds since 1970.
fn booted() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

/// The limit of open descriptors.
fn most_descriptors() -> Option<f64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

impl Source for Process {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        let version = [("version", env!("CARGO_PKG_VERSION").to_owned())];
        page.gauge("tributary_build_info", "Version of Tributary; always 1", [(version, 1.0)])?;
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let bytes = rustix::param::page_size() as f64;
        let stat = fs::read_to_string("/proc/self/stat").ok();
        let stat = stat.and_then(|text| Stat::parse(&text, ticks, bytes));
        let of = |what: fn(&Stat) -> f64| stat.as_ref().map(|stat| ([], what(stat)));
        page.counter_of_seconds(
            "process_cpu_seconds_total",
            "Processor time of all threads, in user and kernel mode",
            of(|stat| stat.cpu),
        )?;
        let start = stat.as_ref().zip(booted()).map(|(stat, booted)| ([], booted + stat.start));
        page.gauge("process_start_time_seconds", "Start, in seconds since 1970", start)?;
        page.gauge(
            "process_resident_memory_bytes",
            "Memory of the process in RAM",
            of(|stat| stat.resident_bytes),
        )?;
        page.gauge(
            "process_virtual_memory_bytes",
            "Size of the process's address space",
            of(|stat| stat.virtual_bytes),
        )?;
        page.gauge("process_threads", "Threads", of(|stat| stat.threads))?;
        // The directory itself is open while it is read.
        let open = fs::read_dir("/proc/self/fd").ok().map(|all| all.count().saturating_sub(1));
        let open = open.map(|open| ([], open as f64));
        page.gauge("process_open_fds", "Open file descriptors", open)?;
        let most = most_descriptors().map(|most| ([], most));
        page.gauge("process_max_fds", "Most file descriptors that the process may open", most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line_is_read_whatever_the_process_is_called() {
        let text = "17 (a) b (c) S 1 17 17 0 -1 4194560 900 0 0 0 250 50 0 0 20 0 6 0 4200 8192000 300 \
                    18446744073709551615 1";
        let stat = Stat::parse(text, 100.0, 4096.0).unwrap();
        let expected = Stat {
            cpu: 3.0,
            threads: 6.0,
            start: 42.0,
            virtual_bytes: 8_192_000.0,
            resident_bytes: 1_228_800.0,
        };
        assert_eq!(stat, expected);
        assert_eq!(Stat::parse("17 (a) S 1", 100.0, 4096.0), None);
    }
}
