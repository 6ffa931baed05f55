//! What the kernel counts at the interfaces of a process's network namespace.

use std::collections::BTreeMap;
use std::fs;

use super::PortCount;

/// The counts of a process's ports, by their interfaces; empty if the process has ended.
pub(super) fn count(process: u32, ports: &[(u16, String)]) -> Vec<(u16, PortCount)> {
    let table = fs::read_to_string(format!("/proc/{process}/net/dev")).unwrap_or_default();
    let counts = parse(&table);
    let of = |(port, interface): &(u16, String)| Some((*port, *counts.get(interface.as_str())?));
    ports.iter().filter_map(of).collect()
}

/// The counts in the kernel's table, by interface.
fn parse(table: &str) -> BTreeMap<&str, PortCount> {
    fn row(line: &str) -> Option<(&str, PortCount)> {
        let (name, numbers) = line.split_once(':')?;
        let numbers: Vec<u64> =
            numbers.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        // Eight columns of received frames, and then those of sent ones.
        let [received, _, _, _, _, _, _, _, sent, _, _, drops, ..] = *numbers.as_slice() else {
            return None;
        };
        Some((name.trim(), PortCount { received, sent, drops }))
    }
    // The first two lines are headings.
    table.lines().skip(2).filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_table_is_read() {
        let table = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0
 port1: 1234567    1000    0    7    0     0          0         0  7654321    2000    0    3    0     0       0          0
";
        let counts = parse(table);
        assert_eq!(counts["port1"], PortCount { received: 1_234_567, sent: 7_654_321, drops: 3 });
        assert_eq!(counts.len(), 2);
        assert!(parse("no table").is_empty());
    }
}
