//! A network interface: facts from the kernel and `/sys/class/net`, and their judgement.

use std::fs;
use std::path::Path;

use tributary_netio::ethtool::Offloads;
use tributary_netio::interface::{self, Interface};
use tributary_wire::Mac;

use super::check::{Area, Check};

/// Drivers that run XDP programs before the kernel makes a packet buffer, and whether they support
/// AF_XDP's zero copy mode. From the kernel's sources; the driver of virtual pairs accepts frames
/// up to 3506 bytes in this mode.
const XDP_DRIVERS: &[(&str, bool)] = &[
    ("bnxt_en", false),
    ("ena", false),
    ("gve", true),
    ("i40e", true),
    ("ice", true),
    ("idpf", false),
    ("igb", true),
    ("igc", true),
    ("ixgbe", true),
    ("ixgbevf", false),
    ("mana", false),
    ("mlx4_en", false),
    ("mlx5_core", true),
    ("mvneta", false),
    ("nfp", true),
    ("qede", false),
    ("sfc", false),
    ("stmmac", true),
    ("tun", false),
    ("veth", false),
    ("virtio_net", true),
];

/// A job's requirements for an interface.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    /// Bytes of a packet from the IP header on, and its number of values.
    pub(super) packet: Option<(u32, u32)>,
    /// The host's address in the job file, if this host is known.
    pub(super) mac: Option<Mac>,
    /// Whether the job has a TCP channel in addition to its packets (ESA).
    pub(super) tcp: bool,
}

/// The facts.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// `None` if there is no such interface in this process's network namespace.
    pub(super) interface: Option<Interface>,
    pub(super) driver: Option<String>,
    /// `up`, `down`, `unknown`.
    pub(super) state: String,
    pub(super) speed_mbps: Option<i64>,
    pub(super) receive_queues: usize,
    pub(super) send_queues: usize,
    /// Names of the existing interfaces, as suggestions for a wrong name.
    pub(super) others: Vec<String>,
    pub(super) offloads: Offloads,
    /// Whether the kernel delivers packets from the interface's own address.
    pub(super) accepts_own: Option<bool>,
}

/// Adds the facts below `root`, which is `/` except in tests. They are dropped if `/sys` shows
/// another network namespace.
pub(super) fn gather(root: &Path, found: Option<Interface>, offloads: Offloads) -> Facts {
    let Some(found) = found else {
        return Facts { others: interface::names(), ..Facts::default() };
    };
    let name = found.name.clone();
    let own = root.join("sys/class/net").join(&name);
    let text = |name: &str| -> Option<String> {
        fs::read_to_string(own.join(name)).ok().map(|text| text.trim().to_owned())
    };
    let here = text("address") == Some(Mac(found.mac).to_string());
    let state = if found.running { "up" } else { "down" }.to_owned();
    let facts = Facts { interface: Some(found), state, offloads, ..Facts::default() };
    if !here {
        return facts;
    }
    let queues = |prefix: &str| {
        let entries = fs::read_dir(own.join("queues")).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix)).count()
    };
    // Virtual devices have no driver link: a virtual pair is recognised by its peer's index.
    let driver = fs::read_link(own.join("device/driver"))
        .ok()
        .and_then(|link| Some(link.file_name()?.to_string_lossy().into_owned()));
    let link = text("iflink").zip(text("ifindex")).is_some_and(|(peer, index)| peer != index);
    let virtual_pair = driver.is_none() && link && text("type").as_deref() == Some("1");
    Facts {
        driver: driver.or_else(|| virtual_pair.then(|| "veth".into())),
        state: text("operstate").unwrap_or(facts.state),
        speed_mbps: text("speed").and_then(|speed| speed.parse().ok()),
        receive_queues: queues("rx-"),
        send_queues: queues("tx-"),
        accepts_own: interface::accepts_own(root, &name),
        ..facts
    }
}

/// Judges the facts.
pub(super) fn judge(interface: &str, facts: &Facts, wanted: &Wanted) -> Vec<Check> {
    let mut area = Area::new(format!("interface {interface}"));
    let Some(found) = &facts.interface else {
        area.fail(
            "presence",
            "there is no such interface",
            format!("name one of {}", facts.others.join(", ")),
        );
        return area.into_checks();
    };
    match found.kind {
        1 => {}
        772 => area.fail(
            "presence",
            "the loopback joins no host and switch",
            "name the interface towards the switch",
        ),
        kind => area.fail(
            "presence",
            format!("is not Ethernet (type {kind})"),
            "name an Ethernet interface",
        ),
    }
    link(&mut area, interface, facts);
    address(&mut area, interface, Mac(found.mac), wanted);
    mtu(&mut area, interface, found.mtu, wanted);
    offloads(&mut area, interface, facts, wanted);
    own_packets(&mut area, interface, facts, wanted);
    xdp(&mut area, facts);
    area.into_checks()
}

fn link(area: &mut Area, interface: &str, facts: &Facts) {
    let speed = match facts.speed_mbps {
        Some(speed @ 1..) => format!(", {speed} Mbit/s"),
        _ => String::new(),
    };
    match facts.state.as_str() {
        "up" => area.ok("link", format!("up{speed}")),
        // These drivers never report it.
        "unknown" => area.note("link", format!("not told by the driver{speed}")),
        state => area.fail(
            "link",
            state,
            format!("ip link set {interface} up; see cable and switch port"),
        ),
    }
}

fn address(area: &mut Area, interface: &str, own: Mac, wanted: &Wanted) {
    match wanted.mac {
        Some(wanted) if own == wanted => area.ok("address", own.to_string()),
        Some(wanted) => area.fail(
            "address",
            format!("{own}, and the job file gives this host {wanted}"),
            format!("correct the job file, or ip link set {interface} address {wanted}"),
        ),
        None => area.note("address", own.to_string()),
    }
}

fn mtu(area: &mut Area, interface: &str, mtu: usize, wanted: &Wanted) {
    match wanted.packet {
        Some((needed, values)) if mtu < needed as usize => area.fail(
            "MTU",
            format!("{mtu}, and packets with {values} values need {needed}"),
            format!("ip link set {interface} mtu {needed}"),
        ),
        Some((needed, _)) => area.ok("MTU", format!("{mtu}; packets need {needed}")),
        None => area.note("MTU", mtu.to_string()),
    }
}

fn offloads(area: &mut Area, interface: &str, facts: &Facts, wanted: &Wanted) {
    let Offloads { tx_checksum, gro, lro, udp_segmentation } = facts.offloads;
    match udp_segmentation {
        Some(true) => area.ok("super-frames", "the interface takes UDP super-frames"),
        Some(false) => area.note_with(
            "super-frames",
            "the kernel cuts UDP super-frames before this interface, and adds checksums, with which \
             switches refuse packets",
            format!(
                "before --io gso or udp-gso: ethtool -K {interface} tx on sg on tx-udp-segmentation on"
            ),
        ),
        None => area.note("super-frames", "not told by the driver"),
    }
    let virtual_driver =
        matches!(facts.driver.as_deref(), Some("veth" | "virtio_net" | "tun") | None);
    match tx_checksum {
        // A network card fills them in; a virtual interface may omit them permanently.
        Some(true) if wanted.tcp && virtual_driver => area.warn(
            "checksum offload",
            "on: TCP frames may leave without their checksum, which only switch ports with --io gso \
             fill in",
            format!("unless the switch runs with --io gso: ethtool -K {interface} tx off"),
        ),
        Some(true) => area.ok("checksum offload", "on; the job's own packets have none"),
        Some(false) => area.ok("checksum offload", "off"),
        None => area.note("checksum offload", "not told by the driver"),
    }
    match (gro, lro) {
        (_, Some(true)) => area.note_with(
            "merging",
            "LRO is on",
            format!("at a switch's port: ethtool -K {interface} gro off lro off"),
        ),
        (Some(true), _) => area.note_with(
            "merging",
            "GRO is on, which is right for a host and for a switch's port with --io gso",
            format!("at a switch's port without --io gso: ethtool -K {interface} gro off"),
        ),
        (Some(false), _) => area.ok("merging", "off"),
        (None, _) => area.note("merging", "not told by the driver"),
    }
}

fn own_packets(area: &mut Area, interface: &str, facts: &Facts, wanted: &Wanted) {
    match facts.accepts_own {
        Some(false) if wanted.tcp => area.note_with(
            "own packets",
            "the kernel drops packets from its own address, in which the switch may announce a sum",
            format!(
                "before --io udp or udp-gso: sysctl -w net.ipv4.conf.{interface}.accept_local=1"
            ),
        ),
        Some(true) if wanted.tcp => area.ok("own packets", "come back"),
        _ => {}
    }
}

fn xdp(area: &mut Area, facts: &Facts) {
    let (receive, send) = (facts.receive_queues, facts.send_queues);
    match receive {
        0 => area.note("queues", "not told by the driver"),
        1 => area.ok("queues", format!("1 to receive, {send} to send")),
        _ => area.ok(
            "queues",
            format!("{receive} to receive, {send} to send; with --io xdp each has a socket"),
        ),
    }
    let Some(driver) = facts.driver.as_deref() else {
        area.note("XDP", "no driver is told; TRIBUTARY_LOG=info shows what --io xdp gets");
        return;
    };
    match XDP_DRIVERS.iter().find(|(name, _)| *name == driver) {
        Some((_, true)) => {
            area.ok("XDP", format!("{driver}: native, zero copy with recent kernels"))
        }
        Some((_, false)) => area.ok("XDP", format!("{driver}: native, in copy mode")),
        None => area
            .note("XDP", format!("{driver}: not known to run XDP natively; generic, in copy mode")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Verdict;
    use super::super::check::tests::named;
    use super::*;

    /// An interface `eth0` with the given files.
    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("sys/class/net/eth0");
        for queue in ["rx-0", "tx-0"] {
            fs::create_dir_all(own.join("queues").join(queue)).unwrap();
        }
        fs::create_dir_all(root.path().join("sys/class/net/lo")).unwrap();
        fs::create_dir_all(root.path().join("drivers/ice")).unwrap();
        fs::create_dir_all(own.join("device")).unwrap();
        std::os::unix::fs::symlink(root.path().join("drivers/ice"), own.join("device/driver"))
            .unwrap();
        let usual = [
            ("type", "1\n"),
            ("address", "02:00:00:00:00:01\n"),
            ("operstate", "up\n"),
            ("speed", "100000\n"),
            ("ifindex", "3\n"),
            ("iflink", "3\n"),
        ];
        for (name, text) in usual.iter().chain(files) {
            fs::write(own.join(name), text).unwrap();
        }
        root
    }

    /// The kernel's data about it.
    fn eth0() -> Interface {
        let mac = [2, 0, 0, 0, 0, 1];
        let name = "eth0".to_owned();
        Interface { name, index: 3, mac, kind: 1, mtu: 1500, up: true, running: true }
    }

    fn wanted() -> Wanted {
        Wanted { packet: Some((312, 64)), mac: Some(Mac(eth0().mac)), tcp: false }
    }

    fn judged(files: &[(&str, &str)], found: Interface, wanted: &Wanted) -> Vec<Check> {
        let root = machine(files);
        let offloads = Offloads {
            tx_checksum: Some(false),
            gro: Some(false),
            lro: Some(false),
            udp_segmentation: Some(true),
        };
        judge("eth0", &gather(root.path(), Some(found), offloads), wanted)
    }

    #[test]
    fn a_good_interface_passes() {
        let checks = judged(&[], eth0(), &wanted());
        assert!(checks.iter().all(|check| check.verdict == Verdict::Ok), "{checks:#?}");
        assert_eq!(named(&checks, "link").found, "up, 100000 Mbit/s");
        assert!(named(&checks, "XDP").found.starts_with("ice: native, zero copy"));
    }

    #[test]
    fn problems_that_prevent_jobs_fail() {
        let down = judged(&[("operstate", "down")], eth0(), &wanted());
        let own = |found| judged(&[], found, &wanted());
        for (checks, name, says) in [
            (down, "link", "down"),
            (
                own(Interface { mac: [2, 0, 0, 0, 0, 9], ..eth0() }),
                "address",
                "02:00:00:00:00:09, and the job file",
            ),
            (
                own(Interface { mtu: 300, ..eth0() }),
                "MTU",
                "300, and packets with 64 values need 312",
            ),
            (own(Interface { kind: 772, ..eth0() }), "presence", "the loopback joins"),
            (own(Interface { kind: 65534, ..eth0() }), "presence", "is not Ethernet"),
        ] {
            let check = named(&checks, name);
            assert_eq!(check.verdict, Verdict::Fail, "{check:?}");
            assert!(check.found.starts_with(says), "{check:?}");
        }
        let short = Interface { mtu: 300, ..eth0() };
        let checks = own(short.clone());
        assert_eq!(named(&checks, "MTU").fix.as_deref(), Some("ip link set eth0 mtu 312"));
        // Without a job there is nothing to compare.
        let checks = judged(&[], short, &Wanted::default());
        assert!(checks.iter().all(|check| check.verdict <= Verdict::Note), "{checks:#?}");
    }

    #[test]
    fn a_missing_interface_is_reported_with_the_others() {
        let facts = gather(machine(&[]).path(), None, Offloads::default());
        assert!(facts.others.contains(&"lo".to_owned()), "{facts:?}");
        let facts = Facts { others: vec!["eth0".into(), "lo".into()], ..facts };
        let checks = judge("eth9", &facts, &wanted());
        let check = named(&checks, "presence");
        assert_eq!(check.verdict, Verdict::Fail);
        assert_eq!(check.fix.as_deref(), Some("name one of eth0, lo"));
        assert_eq!(checks.len(), 1);
    }

    #[test]
    fn offloads_matter_to_a_tcp_channel_over_virtual_interfaces() {
        let on = Offloads {
            tx_checksum: Some(true),
            gro: Some(true),
            lro: Some(false),
            udp_segmentation: Some(false),
        };
        let judged = |driver: Option<&str>, tcp| {
            let root = machine(&[]);
            let facts = gather(root.path(), Some(eth0()), on);
            let facts = Facts { driver: driver.map(Into::into), ..facts };
            judge("eth0", &facts, &Wanted { tcp, ..wanted() })
        };
        for (driver, tcp, expected) in [
            (Some("veth"), true, Verdict::Warn),
            (Some("veth"), false, Verdict::Ok),
            (Some("ice"), true, Verdict::Ok),
            (None, true, Verdict::Warn),
        ] {
            let checks = judged(driver, tcp);
            assert_eq!(named(&checks, "checksum offload").verdict, expected, "{driver:?} {tcp}");
            assert_eq!(named(&checks, "merging").verdict, Verdict::Note);
            let fix = named(&checks, "super-frames").fix.as_deref().unwrap();
            assert!(fix.ends_with("ethtool -K eth0 tx on sg on tx-udp-segmentation on"), "{fix}");
        }
    }

    #[test]
    fn packets_from_the_own_address_matter_to_announced_sums() {
        let root = machine(&[]);
        let settings = root.path().join("proc/sys/net/ipv4/conf");
        let judged = |all: &str, own: &str, tcp| {
            for (which, value) in [("all", all), ("eth0", own)] {
                fs::create_dir_all(settings.join(which)).unwrap();
                fs::write(settings.join(which).join("accept_local"), format!("{value}\n")).unwrap();
            }
            let facts = gather(root.path(), Some(eth0()), Offloads::default());
            judge("eth0", &facts, &Wanted { tcp, ..wanted() })
        };
        for (all, own, expected) in
            [("0", "0", Verdict::Note), ("1", "0", Verdict::Ok), ("0", "1", Verdict::Ok)]
        {
            assert_eq!(
                named(&judged(all, own, true), "own packets").verdict,
                expected,
                "{all} {own}"
            );
        }
        let without = judged("0", "0", false);
        assert!(without.iter().all(|check| check.name != "own packets"), "{without:#?}");
    }

    #[test]
    fn drivers_and_queues_are_reported() {
        let root = machine(&[("iflink", "7")]);
        let own = root.path().join("sys/class/net/eth0");
        fs::create_dir_all(own.join("queues/rx-1")).unwrap();
        fs::remove_file(own.join("device/driver")).unwrap();
        let facts = gather(root.path(), Some(eth0()), Offloads::default());
        assert_eq!(facts.driver.as_deref(), Some("veth"), "told by its peer");
        let checks = judge("eth0", &facts, &wanted());
        assert!(named(&checks, "queues").found.starts_with("2 to receive, 1 to send"));
        assert!(named(&checks, "XDP").found.contains("copy mode"));
        let unknown = Facts { driver: Some("weird".into()), ..facts };
        assert_eq!(named(&judge("eth0", &unknown, &wanted()), "XDP").verdict, Verdict::Note);
    }

    #[test]
    fn interfaces_of_another_namespace_do_not_count() {
        let root = machine(&[]);
        let of = |found| gather(root.path(), Some(found), Offloads::default());
        let same = of(Interface { running: false, ..eth0() });
        assert_eq!((same.driver.as_deref(), same.state.as_str()), (Some("ice"), "up"));
        let other = of(Interface { mac: [2, 0, 0, 0, 0, 7], running: false, ..eth0() });
        assert_eq!((other.driver, other.receive_queues), (None, 0));
        assert_eq!(other.state, "down");
    }

    #[test]
    fn the_list_of_drivers_is_sorted_without_duplicates() {
        assert!(XDP_DRIVERS.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
