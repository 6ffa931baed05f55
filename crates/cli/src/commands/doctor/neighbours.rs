//! The other hosts of a job in this kernel's neighbour table. Each address is resolved, and the
//! result is compared with the MAC address in the job file.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use super::check::{Area, Check};

/// Time limit for neighbours to answer: the kernel gives up after three seconds, and only then
/// retries an address that failed before.
const PATIENCE: Duration = Duration::from_millis(3500);
/// Pause between two reads of the table.
const PAUSE: Duration = Duration::from_millis(100);
/// The discard service: the datagram only makes the kernel resolve the address.
const DISCARD: u16 = 9;

/// A host of the job file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Neighbour {
    pub(super) name: String,
    pub(super) ip: Ipv4Addr,
    pub(super) mac: String,
}

/// Makes the kernel resolve all addresses, and returns its table: `/proc/net/arp`.
pub(super) fn gather(root: &Path, interface: &str, neighbours: &[Neighbour]) -> String {
    let table = || std::fs::read_to_string(root.join("proc/net/arp")).unwrap_or_default();
    let socket = UdpSocket::bind("0.0.0.0:0").ok();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let now = table();
        let unknown = |other: &&Neighbour| entry(&now, interface, other.ip).is_none();
        let unknown: Vec<&Neighbour> = neighbours.iter().filter(unknown).collect();
        if unknown.is_empty() || Instant::now() >= deadline {
            return now;
        }
        for neighbour in unknown {
            // The table shows if there is no route to them.
            let _ = socket.as_ref().map(|socket| socket.send_to(&[], (neighbour.ip, DISCARD)));
        }
        std::thread::sleep(PAUSE);
    }
}

/// The MAC address of an address in the table; `None` if it is incomplete.
fn entry<'t>(table: &'t str, interface: &str, ip: Ipv4Addr) -> Option<&'t str> {
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace();
        let address: Ipv4Addr = fields.next()?.parse().ok()?;
        let (_, flags, mac) = (fields.next()?, fields.next()?, fields.next()?);
        let device = fields.nth(1)?;
        let flags = u32::from_str_radix(flags.strip_prefix("0x")?, 16).ok()?;
        (address == ip && device == interface && flags & 2 != 0).then_some(mac)
    })
}

/// Judges the table.
pub(super) fn judge(table: &str, interface: &str, neighbours: &[Neighbour]) -> Vec<Check> {
    let mut area = Area::new(format!("hosts through {interface}"));
    let mut silent = Vec::new();
    let mut right = 0;
    for Neighbour { name, ip, mac } in neighbours {
        match entry(table, interface, *ip) {
            Some(found) if found.eq_ignore_ascii_case(mac) => right += 1,
            Some(found) => area.fail(
                "address",
                format!("{name} ({ip}) has {found}, and the job file says {mac}"),
                "correct the job file: frames for that host are sent to its MAC address",
            ),
            None => silent.push(format!("{name} ({ip})")),
        }
    }
    if right > 0 {
        area.ok("neighbours", format!("{right} answer, with the addresses of the job file"));
    }
    if !silent.is_empty() {
        area.warn(
            "silent",
            format!("no answer from {}", silent.join(", ")),
            "switches forward once a controller has installed its entries; then see cable, address \
             (ip address add) and firewall there",
        );
    }
    area.into_checks()
}

#[cfg(test)]
mod tests {
    use super::super::check::Verdict;
    use super::super::check::tests::named;
    use super::*;

    const TABLE: &str = "\
IP address       HW type     Flags       HW address            Mask     Device
10.0.1.2         0x1         0x2         02:00:0a:00:01:02     *        eth0
10.0.1.3         0x1         0x0         00:00:00:00:00:00     *        eth0
10.0.1.4         0x1         0x2         02:00:0a:00:01:04     *        eth1
10.0.1.5         0x1         0x6         02:00:0A:00:01:05     *        eth0
";

    fn neighbour(last: u8) -> Neighbour {
        Neighbour {
            name: format!("w{last}"),
            ip: Ipv4Addr::new(10, 0, 1, last),
            mac: format!("02:00:0a:00:01:{last:02x}"),
        }
    }

    #[test]
    fn answers_are_compared_with_the_job_file() {
        let all = [neighbour(2), neighbour(5)];
        let checks = judge(TABLE, "eth0", &all);
        assert_eq!(checks.len(), 1);
        assert_eq!(named(&checks, "neighbours").verdict, Verdict::Ok);

        let wrong = Neighbour { mac: "02:00:0a:00:01:99".into(), ..neighbour(2) };
        let checks = judge(TABLE, "eth0", &[wrong]);
        assert_eq!(named(&checks, "address").verdict, Verdict::Fail);

        // Incomplete, at another interface, missing.
        let checks = judge(TABLE, "eth0", &[neighbour(3), neighbour(4), neighbour(9)]);
        let silent = named(&checks, "silent");
        assert_eq!(silent.verdict, Verdict::Warn);
        assert_eq!(silent.found, "no answer from w3 (10.0.1.3), w4 (10.0.1.4), w9 (10.0.1.9)");
    }

    #[test]
    fn an_invalid_table_has_no_neighbours() {
        for table in ["", "x\n1 2 3\n", "header\n10.0.1.2 0x1 zz 02 * eth0\n"] {
            assert_eq!(entry(table, "eth0", Ipv4Addr::new(10, 0, 1, 2)), None, "{table}");
        }
    }
}
