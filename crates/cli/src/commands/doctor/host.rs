//! The machine: kernel, privileges, memory, processors. Facts are read from a root directory with
//! `/proc` and `/sys` below it; judging them needs no machine.

use std::fs;
use std::io;
use std::path::Path;

use super::check::{Area, Check};

/// Linux 5.10: an interface's program is removed with the process that holds its link, and all
/// required features of AF_XDP exist.
const XDP_KERNEL: (u32, u32) = (5, 10);
/// Receive buffer that fits bursts of a window from every worker.
const RECEIVE_BUFFER: u64 = 4 << 20;

// linux/capability.h
const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_BPF: u32 = 39;

/// Whether packet sockets take super-frames.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum SuperFrames {
    Taken,
    Refused,
    Untried(String),
}

impl SuperFrames {
    /// What the kernel said to one.
    pub(super) fn of(tried: io::Result<()>) -> Self {
        match tried {
            Ok(()) => Self::Taken,
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Self::Refused,
            Err(error) => Self::Untried(error.to_string()),
        }
    }
}

impl Default for SuperFrames {
    fn default() -> Self {
        Self::Untried("it was not asked for".into())
    }
}

/// The facts. `None` if the system does not report them.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// Such as `6.1.0-18-amd64`.
    pub(super) release: Option<String>,
    /// Bits of this process's effective capabilities.
    pub(super) capabilities: Option<u64>,
    pub(super) packet_sockets: bool,
    pub(super) network_namespaces: bool,
    /// Whether an AF_XDP socket can be created: `Err` has the reason.
    pub(super) xdp_sockets: Option<Result<(), String>>,
    pub(super) super_frames: SuperFrames,
    pub(super) bpf: bool,
    pub(super) virtual_pairs: bool,
    pub(super) user_namespaces: Option<u64>,
    /// The settings of Debian and Ubuntu: whether ordinary users may create user namespaces.
    pub(super) unprivileged_user_namespaces: bool,
    pub(super) receive_buffer: Option<u64>,
    pub(super) send_buffer: Option<u64>,
    /// Total number of huge pages, and bytes per page.
    pub(super) huge_pages: Option<(u64, u64)>,
    /// Bytes that may be locked; the inner `None` means no limit.
    pub(super) locked: Option<Option<u64>>,
    pub(super) processors: usize,
    /// Scaling governors of the processors that report one.
    pub(super) governors: Vec<String>,
    pub(super) clock: Option<String>,
}

/// Reads the facts below `root`, which is `/` except in tests.
pub(super) fn gather(root: &Path) -> Facts {
    let text = |path: &str| -> Option<String> {
        fs::read_to_string(root.join(path)).ok().map(|text| text.trim().to_owned())
    };
    let number = |path: &str| text(path)?.parse::<u64>().ok();
    let release = text("proc/sys/kernel/osrelease");
    let built_in = |module: &str| {
        let file = release.as_ref().map(|release| format!("lib/modules/{release}/modules.builtin"));
        let listed = file.and_then(|file| text(&file)).is_some_and(|list| list.contains(module));
        listed || root.join("sys/module").join(module).exists()
    };
    let meminfo = text("proc/meminfo").unwrap_or_default();
    let memory = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let governors = fs::read_dir(root.join("sys/devices/system/cpu")).into_iter().flatten();
    let governors = governors
        .flatten()
        .filter_map(|cpu| fs::read_to_string(cpu.path().join("cpufreq/scaling_governor")).ok());
    let off = |path: &str, value: u64| number(path) == Some(value);
    Facts {
        capabilities: status_field(&text("proc/self/status").unwrap_or_default(), "CapEff")
            .and_then(|hex| u64::from_str_radix(hex, 16).ok()),
        packet_sockets: root.join("proc/net/packet").exists(),
        network_namespaces: root.join("proc/self/ns/net").exists(),
        xdp_sockets: None,
        super_frames: SuperFrames::default(),
        bpf: root.join("proc/sys/kernel/unprivileged_bpf_disabled").exists(),
        virtual_pairs: built_in("veth")
            || module_file(root, release.as_deref(), "veth")
            || text("proc/kallsyms").is_some_and(|symbols| symbols.contains(" veth_newlink")),
        user_namespaces: number("proc/sys/user/max_user_namespaces"),
        unprivileged_user_namespaces: !off("proc/sys/kernel/unprivileged_userns_clone", 0)
            && !off("proc/sys/kernel/apparmor_restrict_unprivileged_userns", 1),
        receive_buffer: number("proc/sys/net/core/rmem_max"),
        send_buffer: number("proc/sys/net/core/wmem_max"),
        huge_pages: memory("HugePages_Total")
            .map(|pages| (pages, 1024 * memory("Hugepagesize").unwrap_or(0))),
        locked: locked(&text("proc/self/limits").unwrap_or_default()),
        processors: text("proc/cpuinfo")
            .unwrap_or_default()
            .lines()
            .filter(|line| line.starts_with("processor"))
            .count(),
        governors: governors.map(|governor| governor.trim().to_owned()).collect(),
        clock: text("sys/devices/system/clocksource/clocksource0/current_clocksource"),
        release,
    }
}

fn status_field<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// The soft limit.
fn locked(limits: &str) -> Option<Option<u64>> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(None),
        bytes => bytes.parse().ok().map(Some),
    }
}

fn module_file(root: &Path, release: Option<&str>, module: &str) -> bool {
    let Some(release) = release else { return false };
    let list = fs::read_to_string(root.join(format!("lib/modules/{release}/modules.dep")));
    list.is_ok_and(|list| list.contains(&format!("/{module}.ko")))
}

/// The first two numbers of the version.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Judges the facts for hosts.
pub(super) fn judge(facts: &Facts) -> Vec<Check> {
    let mut all = kernel(facts);
    all.extend(rights(facts));
    all.extend(memory(facts));
    all.extend(processors(facts));
    all
}

fn kernel(facts: &Facts) -> Vec<Check> {
    let mut area = Area::new("kernel");
    let release = facts.release.as_deref().unwrap_or("unknown");
    match facts.release.as_deref().and_then(version) {
        Some(found) if found >= XDP_KERNEL => area.ok("version", release),
        Some(_) => area.warn(
            "version",
            format!("{release}, older than 5.10: no AF_XDP for Tributary"),
            "use --io packet, or a newer kernel",
        ),
        None => area.note("version", "cannot be read"),
    }
    match facts.packet_sockets {
        true => area.ok("AF_PACKET", "there"),
        false => area.fail(
            "AF_PACKET",
            "the kernel has no packet sockets",
            "load the module: modprobe af_packet",
        ),
    }
    match &facts.xdp_sockets {
        Some(Ok(())) => area.ok("AF_XDP", "there"),
        Some(Err(reason)) => area.note_with(
            "AF_XDP",
            format!("no socket can be made: {reason}"),
            "--io xdp needs a kernel with CONFIG_XDP_SOCKETS, and CAP_NET_RAW; --io packet does not",
        ),
        None => area.note("AF_XDP", "not tried"),
    }
    match &facts.super_frames {
        SuperFrames::Taken => area.ok("super-frames", "packet sockets take them"),
        SuperFrames::Refused => area.note_with(
            "super-frames",
            "packet sockets do not take them: --io gso sends frames one by one, which takes several \
             times as long",
            "use Linux 6.2 or newer",
        ),
        SuperFrames::Untried(reason) => area.note("super-frames", format!("not tried: {reason}")),
    }
    match facts.bpf {
        true => area.ok("bpf", "there"),
        false => area.note_with(
            "bpf",
            "the kernel has no bpf system call",
            "--io xdp needs CONFIG_BPF_SYSCALL; --io packet does not",
        ),
    }
    match (facts.network_namespaces, facts.virtual_pairs) {
        (true, true) => area.ok("namespaces", "network namespaces and veth are there"),
        (true, false) => area.note_with(
            "namespaces",
            "no module veth is found",
            "--fabric netns needs it: modprobe veth",
        ),
        (false, _) => area.note_with(
            "namespaces",
            "the kernel has no network namespaces",
            "--fabric netns needs CONFIG_NET_NS; real hosts do not",
        ),
    }
    match facts.user_namespaces {
        Some(0) => area.note_with(
            "user namespaces",
            "none are allowed",
            "--fabric netns without root needs them: sysctl user.max_user_namespaces=10000",
        ),
        Some(_) if !facts.unprivileged_user_namespaces => area.note_with(
            "user namespaces",
            "for root only",
            "--fabric netns without root needs sysctl kernel.unprivileged_userns_clone=1, or \
             kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        Some(number) => area.ok("user namespaces", format!("up to {number}")),
        None => area.note("user namespaces", "the kernel has none"),
    }
    area.into_checks()
}

fn rights(facts: &Facts) -> Vec<Check> {
    let mut area = Area::new("rights");
    let Some(bits) = facts.capabilities else {
        area.note("capabilities", "cannot be read");
        return area.into_checks();
    };
    let has = |capability: u32| bits & (1 << capability) != 0;
    match has(CAP_NET_RAW) {
        true => area.ok("raw sockets", "CAP_NET_RAW is there"),
        false => area.fail(
            "raw sockets",
            "CAP_NET_RAW is missing: workers and parameter servers cannot open their interface",
            "use --io udp, run as root, or once: setcap cap_net_raw+ep $(command -v tributary)",
        ),
    }
    let bpf = has(CAP_BPF) || has(CAP_SYS_ADMIN);
    match has(CAP_NET_RAW) && has(CAP_NET_ADMIN) && bpf {
        true => area.ok("AF_XDP", "CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF are there"),
        false => area.note_with(
            "AF_XDP",
            "not all of CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF are there",
            "--io xdp needs them: setcap cap_net_raw,cap_net_admin,cap_bpf+ep $(command -v tributary)",
        ),
    }
    area.into_checks()
}

fn memory(facts: &Facts) -> Vec<Check> {
    let mut area = Area::new("memory");
    let admin = facts.capabilities.is_some_and(|bits| bits & (1 << CAP_NET_ADMIN) != 0);
    match facts.receive_buffer {
        Some(bytes) if bytes >= RECEIVE_BUFFER => {
            area.ok("receive buffers", format!("net.core.rmem_max = {bytes}"));
        }
        // Root may exceed the limit.
        Some(bytes) if admin => area.ok(
            "receive buffers",
            format!("net.core.rmem_max = {bytes}, which CAP_NET_ADMIN may exceed"),
        ),
        Some(bytes) => area.warn(
            "receive buffers",
            format!("net.core.rmem_max = {bytes}: a burst of all workers does not fit"),
            format!("sysctl net.core.rmem_max={RECEIVE_BUFFER}"),
        ),
        None => area.note("receive buffers", "net.core.rmem_max cannot be read"),
    }
    match facts.send_buffer {
        Some(bytes) => area.note("send buffers", format!("net.core.wmem_max = {bytes}")),
        None => area.note("send buffers", "net.core.wmem_max cannot be read"),
    }
    match facts.huge_pages {
        Some((0, _)) | None => area.note_with(
            "huge pages",
            "none, and hosts need none",
            "only a Tofino's own machine does, under Stratum: sysctl vm.nr_hugepages=128",
        ),
        Some((pages, bytes)) => {
            area.ok("huge pages", format!("{pages} of {} KiB", bytes / 1024));
        }
    }
    match facts.locked {
        Some(None) => area.ok("locked memory", "without limit"),
        Some(Some(bytes)) => area.note_with(
            "locked memory",
            format!("up to {bytes} bytes"),
            "kernels before 5.11 count AF_XDP's memory against it: ulimit -l unlimited",
        ),
        None => area.note("locked memory", "cannot be read"),
    }
    area.into_checks()
}

fn processors(facts: &Facts) -> Vec<Check> {
    let mut area = Area::new("processors");
    match facts.processors {
        0 => area.note("cores", "cannot be counted"),
        1 => area.warn(
            "cores",
            "1: packets and everything else share it",
            "expect less than was measured; use a host with two or more",
        ),
        cores => area.ok("cores", cores.to_string()),
    }
    let slow = facts.governors.iter().filter(|governor| *governor != "performance").count();
    match (facts.governors.len(), slow) {
        (0, _) => area.note("frequency", "no governor: the hypervisor or the chip decides"),
        (all, 0) => area.ok("frequency", format!("governor performance on {all} cores")),
        (all, slow) => area.warn(
            "frequency",
            format!("{slow} of {all} cores are not under the governor performance"),
            "cpupower frequency-set -g performance",
        ),
    }
    match facts.clock.as_deref() {
        Some(
            clock @ ("tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page"),
        ) => {
            area.ok("clock", clock);
        }
        Some(clock) => area.warn(
            "clock",
            format!(
                "{clock}: reading it takes a system call, and endpoints read it for each batch"
            ),
            "choose tsc, where the machine has it, in \
             /sys/devices/system/clocksource/clocksource0/current_clocksource",
        ),
        None => area.note("clock", "cannot be read"),
    }
    area.into_checks()
}

#[cfg(test)]
mod tests {
    use super::super::check::Verdict;
    use super::super::check::tests::named;
    use super::*;

    /// A machine without problems.
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
            ("proc/self/status", "Name:\tx\nCapPrm:\t0\nCapEff:\t000001ffffffffff\n"),
            ("proc/net/packet", "sk\n"),
            ("proc/self/ns/net", ""),
            ("proc/sys/kernel/unprivileged_bpf_disabled", "2\n"),
            ("proc/sys/user/max_user_namespaces", "63000\n"),
            ("proc/sys/net/core/rmem_max", "212992\n"),
            ("proc/sys/net/core/wmem_max", "212992\n"),
            ("proc/meminfo", "MemTotal: 8 kB\nHugePages_Total:     128\nHugepagesize:  2048 kB\n"),
            (
                "proc/self/limits",
                "Limit  Soft  Hard\nMax locked memory   8388608  8388608  bytes\n",
            ),
            ("proc/cpuinfo", "processor\t: 0\nmodel\t: x\n\nprocessor\t: 1\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
            ("lib/modules/6.1.0-18-amd64/modules.dep", "kernel/drivers/net/veth.ko.xz:\n"),
        ] {
            write(root.path(), path, text);
        }
        root
    }

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn judged(root: &Path) -> Vec<Check> {
        judge(&Facts { xdp_sockets: Some(Ok(())), ..gather(root) })
    }

    #[test]
    fn a_good_machine_has_no_warning() {
        let root = machine();
        let checks = judged(root.path());
        let worst = checks.iter().map(|check| check.verdict).max();
        assert_eq!(worst, Some(Verdict::Note), "{checks:#?}");
        assert_eq!(named(&checks, "version").found, "6.1.0-18-amd64");
        assert_eq!(named(&checks, "cores").found, "2");
        assert_eq!(named(&checks, "huge pages").found, "128 of 2048 KiB");
        assert_eq!(named(&checks, "locked memory").found, "up to 8388608 bytes");
        assert!(named(&checks, "namespaces").found.contains("veth are there"));
    }

    #[test]
    fn each_problem_is_detected_separately() {
        for (path, text, name, verdict, says) in [
            ("proc/sys/kernel/osrelease", "5.4.0", "version", Verdict::Warn, "older than 5.10"),
            ("proc/sys/kernel/osrelease", "new", "version", Verdict::Note, "cannot be read"),
            ("proc/self/status", "CapEff:\t0\n", "raw sockets", Verdict::Fail, "CAP_NET_RAW is"),
            ("proc/sys/user/max_user_namespaces", "0", "user namespaces", Verdict::Note, "none"),
            (
                "proc/sys/kernel/unprivileged_userns_clone",
                "0",
                "user namespaces",
                Verdict::Note,
                "root",
            ),
            (
                "proc/sys/kernel/apparmor_restrict_unprivileged_userns",
                "1",
                "user namespaces",
                Verdict::Note,
                "root",
            ),
            ("proc/meminfo", "HugePages_Total: 0", "huge pages", Verdict::Note, "none"),
            ("proc/cpuinfo", "processor : 0", "cores", Verdict::Warn, "1: packets"),
            (
                "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor",
                "powersave",
                "frequency",
                Verdict::Warn,
                "1 of 2 cores",
            ),
            (
                "sys/devices/system/clocksource/clocksource0/current_clocksource",
                "hpet",
                "clock",
                Verdict::Warn,
                "hpet",
            ),
        ] {
            let root = machine();
            write(root.path(), path, text);
            let checks = judged(root.path());
            let check = named(&checks, name);
            assert_eq!(check.verdict, verdict, "{path} = {text}: {check:?}");
            assert!(check.found.contains(says), "{check:?}");
        }
    }

    #[test]
    fn missing_facts() {
        for (path, name, verdict) in [
            ("proc/net/packet", "AF_PACKET", Verdict::Fail),
            ("proc/sys/kernel/unprivileged_bpf_disabled", "bpf", Verdict::Note),
            ("proc/self/ns/net", "namespaces", Verdict::Note),
            ("lib/modules/6.1.0-18-amd64/modules.dep", "namespaces", Verdict::Note),
            ("proc/self/status", "capabilities", Verdict::Note),
            ("proc/sys/net/core/rmem_max", "receive buffers", Verdict::Note),
        ] {
            let root = machine();
            fs::remove_file(root.path().join(path)).unwrap();
            assert_eq!(named(&judged(root.path()), name).verdict, verdict, "{path}");
        }
        // A kernel without modules that has it built in.
        let root = machine();
        fs::remove_file(root.path().join("lib/modules/6.1.0-18-amd64/modules.dep")).unwrap();
        write(root.path(), "proc/kallsyms", "0000000000000000 t veth_newlink\n");
        assert_eq!(named(&judged(root.path()), "namespaces").verdict, Verdict::Ok);
        // Nothing can be read: no panic, and only packet sockets fail.
        let empty = tempfile::tempdir().unwrap();
        let checks = judge(&gather(empty.path()));
        let failed: Vec<_> = checks.iter().filter(|c| c.verdict == Verdict::Fail).collect();
        assert_eq!(failed.len(), 1, "{failed:?}");
    }

    #[test]
    fn small_buffers_matter_to_users_who_cannot_exceed_the_limit() {
        let root = machine();
        assert_eq!(named(&judged(root.path()), "receive buffers").verdict, Verdict::Ok);
        // CAP_NET_RAW alone.
        write(root.path(), "proc/self/status", "CapEff:\t0000000000002000\n");
        let checks = judged(root.path());
        let buffers = named(&checks, "receive buffers");
        assert_eq!(buffers.verdict, Verdict::Warn);
        assert_eq!(buffers.fix.as_deref(), Some("sysctl net.core.rmem_max=4194304"));
        assert_eq!(named(&checks, "raw sockets").verdict, Verdict::Ok);
        write(root.path(), "proc/sys/net/core/rmem_max", "8000000");
        assert_eq!(named(&judged(root.path()), "receive buffers").verdict, Verdict::Ok);
    }

    #[test]
    fn sockets_that_cannot_be_created_are_reported() {
        let root = machine();
        let facts = Facts { xdp_sockets: Some(Err("not supported".into())), ..gather(root.path()) };
        let checks = kernel(&facts);
        assert!(named(&checks, "AF_XDP").found.ends_with("not supported"), "{checks:?}");
    }

    #[test]
    fn only_a_refusal_means_that_the_kernel_has_no_super_frames() {
        let root = tempfile::tempdir().unwrap();
        let found = |tried: io::Result<()>| {
            let facts = Facts { super_frames: SuperFrames::of(tried), ..gather(root.path()) };
            let check = named(&judge(&facts), "super-frames").clone();
            (check.verdict, check.found, check.fix)
        };
        assert_eq!(found(Ok(())).0, Verdict::Ok);
        let (verdict, _, fix) = found(Err(io::ErrorKind::InvalidInput.into()));
        assert_eq!((verdict, fix.as_deref()), (Verdict::Note, Some("use Linux 6.2 or newer")));
        let (verdict, what, fix) = found(Err(io::ErrorKind::PermissionDenied.into()));
        assert_eq!((verdict, fix), (Verdict::Note, None));
        assert_eq!(what, "not tried: permission denied");
    }
}
