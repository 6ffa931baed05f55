//! Processes in testbeds; nothing is left when a testbed or its holder ends.

use std::collections::BTreeSet;
use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use tributary_netio::interface;
use tributary_run::testbed::{Output, Stream};

use super::*;
use crate::roles;

pub(crate) const TESTS: &[Test] = &[
    ("a_process_runs_in_its_node", a_process_runs_in_its_node),
    ("output_is_handed_on_line_by_line", output_is_handed_on_line_by_line),
    ("a_bridge_joins_its_hosts", a_bridge_joins_its_hosts),
    ("a_thread_runs_in_its_node_and_others_do_not", threads),
    ("processes_are_asked_and_then_forced_to_end", processes_are_asked_and_then_forced_to_end),
    ("children_of_children_end_too", children_of_children_end_too),
    ("nothing_is_left_after_a_drop", nothing_is_left_after_a_drop),
    ("nothing_is_left_after_sigkill", || nothing_is_left_after(Signal::SIGKILL)),
    ("nothing_is_left_after_ctrl_c", || nothing_is_left_after(Signal::SIGINT)),
    ("what_is_not_there_is_named", what_is_not_there_is_named),
    ("a_missing_right_is_named", a_missing_right_is_named),
    ("all_this_works_for_an_ordinary_user", all_this_works_for_an_ordinary_user),
];

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

fn a_process_runs_in_its_node() {
    let testbed = Testbed::build(&star(2)).unwrap();
    for (node, interfaces) in [("h1", vec!["lo", "eth0"]), ("s", vec!["lo", "port0", "port1"])] {
        let process = testbed.spawn(node, shell("cat /proc/net/dev; echo oops >&2"), Output::Keep);
        let process = process.unwrap();
        assert!(process.wait(Some(LONG)).unwrap().unwrap().success());
        let listed = process.output(Stream::Out);
        let mut names: Vec<&str> =
            listed.lines().skip(2).map(|line| line.split_once(':').unwrap().0.trim()).collect();
        names.sort_unstable();
        let mut expected = interfaces;
        expected.sort_unstable();
        assert_eq!(names, expected);
        assert_eq!(process.output(Stream::Err), "oops\n");
    }
    let failed = testbed.spawn("h1", shell("exit 7"), Output::Inherit).unwrap();
    assert_eq!(failed.wait(None).unwrap().unwrap().code(), Some(7));
    assert_eq!(failed.wait(None).unwrap().unwrap().code(), Some(7), "asked again");
}

fn output_is_handed_on_line_by_line() {
    let testbed = two_hosts(1_500);
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    let output = Output::Lines(Arc::new(move |stream, line: &str| {
        sink.lock().unwrap().push((stream, line.to_owned()));
    }));
    let process = testbed.spawn("h1", shell("echo one; echo; printf last"), output).unwrap();
    process.wait(Some(LONG)).unwrap().unwrap();
    assert_eq!(process.output(Stream::Out), "one\n\nlast");
    let expected = ["one", "", "last"].map(|line| (Stream::Out, line.to_owned()));
    assert_eq!(*lines.lock().unwrap(), expected);
    // The output of a process with much output is bounded, and its end is kept.
    let chatty = shell("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end");
    let chatty = testbed.spawn("h1", chatty, Output::Keep).unwrap();
    chatty.wait(Some(LONG)).unwrap().unwrap();
    let kept = chatty.output(Stream::Out);
    assert!(kept.len() <= 256 << 10 && kept.ends_with("x\nend\n"), "{} bytes", kept.len());
}

fn a_bridge_joins_its_hosts() {
    let mut topology = star(3);
    topology.links.iter_mut().for_each(|link| link.mtu = 9_000);
    let testbed = Testbed::build_bridged(&topology).unwrap();
    let bind = |host: u8| {
        let socket = testbed.run_in(&format!("h{host}"), move || UdpSocket::bind((ip(host), PORT)));
        let socket = socket.unwrap().unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        socket
    };
    let sockets = [1, 2, 3].map(bind);
    for (from, to) in [(0, 1), (1, 2), (2, 0)] {
        // Frames of the full MTU, without the headers of IP and UDP.
        let sent = vec![from as u8; 9_000 - 28];
        sockets[from].send_to(&sent, (ip(to as u8 + 1), PORT)).unwrap();
        let mut received = vec![0; 9_001];
        let (length, sender) = sockets[to].recv_from(&mut received).unwrap();
        assert_eq!((&received[..length], sender), (&sent[..], (ip(from as u8 + 1), PORT).into()));
    }
}

fn threads() {
    let testbed = two_hosts(1_500);
    let here = interface::names();
    let mut there = testbed.run_in("h1", interface::names).unwrap();
    there.sort_unstable();
    assert_eq!(there, ["eth0", "lo"]);
    let thread = testbed.thread_in("h2", || {
        (thread::current().name().map(str::to_owned), interface::Interface::find("eth0").unwrap())
    });
    let (name, found) = thread.unwrap().join().unwrap();
    assert_eq!(name.as_deref(), Some("h2"));
    assert_eq!((found.mac, found.mtu, found.up), (mac(2), 1_500, true));
    assert_eq!(interface::names(), here, "this thread stayed where it was");
    let panicked = testbed.thread_in("h2", || panic!("on purpose")).unwrap().join();
    assert!(panicked.is_err());
}

fn processes_are_asked_and_then_forced_to_end() {
    let testbed = two_hosts(1_500);
    let polite = "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.01; done";
    let polite = testbed.spawn("h1", shell(polite), Output::Keep).unwrap();
    let stubborn = "trap '' TERM; echo up; while :; do sleep 0.01; done";
    let stubborn = testbed.spawn("h2", shell(stubborn), Output::Keep).unwrap();
    for process in [&polite, &stubborn] {
        while process.output(Stream::Out) != "up\n" {
            thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(process.wait(Some(Duration::ZERO)).unwrap(), None);
    }
    testbed.end_processes(Duration::from_millis(300));
    let status = polite.wait(None).unwrap().unwrap();
    assert_eq!((status.code(), &polite.output(Stream::Out)[..]), (Some(3), "up\nbye\n"));
    let status = stubborn.wait(None).unwrap().unwrap();
    assert_eq!(status.signal(), Some(Signal::SIGKILL as i32));
}

/// Whether a process exists and is not a zombie.
fn lives(process: &str) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{process}/stat")) else { return false };
    !status.rsplit_once(')').unwrap().1.trim().starts_with(['Z', 'X'])
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn children_of_children_end_too() {
    let testbed = two_hosts(1_500);
    let parent = testbed.spawn("h1", shell("sleep 1000 & echo $!; wait"), Output::Keep).unwrap();
    wait_until("the child is named", || parent.output(Stream::Out).ends_with('\n'));
    let grandchild = parent.output(Stream::Out).trim().to_owned();
    assert!(lives(&grandchild));
    drop(testbed);
    wait_until("the child of the child ends", || !lives(&grandchild));
}

/// What keeps a namespace: the threads in it, the descriptors and the mount that hold it open.
fn holders(namespace: &str) -> BTreeSet<PathBuf> {
    let points_there =
        |link: &PathBuf| fs::read_link(link).is_ok_and(|to| to.as_os_str() == namespace);
    let entries = |directory: &Path| {
        fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
    };
    let mounts = PathBuf::from("/proc/self/mountinfo");
    let mounted = fs::read_to_string(&mounts).unwrap().contains(namespace);
    entries(Path::new("/proc"))
        .flat_map(|process| {
            let threads = entries(&process.join("task")).map(|thread| thread.join("ns/net"));
            threads.chain(entries(&process.join("fd"))).filter(points_there).collect::<Vec<_>>()
        })
        .chain(mounted.then_some(mounts))
        .collect()
}

/// Namespaces with what kept them when this was made. The kernel gives the number of a namespace
/// that is gone to the next one that anyone makes, another test perhaps, so that "nothing holds
/// this number" would prove too much: what held it then must not hold it now.
struct Held(Vec<(String, BTreeSet<PathBuf>)>);

impl Held {
    fn new(namespaces: impl IntoIterator<Item = String>) -> Self {
        let held = namespaces.into_iter().map(|name| (holders(&name), name));
        Self(
            held.map(|(holders, name)| {
                assert!(!holders.is_empty(), "{name}: the check finds what is there");
                (name, holders)
            })
            .collect(),
        )
    }

    /// What still keeps one of them.
    fn left(&self) -> Vec<PathBuf> {
        let still = |(name, then): &(String, BTreeSet<PathBuf>)| -> Vec<PathBuf> {
            holders(name).intersection(then).cloned().collect()
        };
        self.0.iter().flat_map(still).collect()
    }
}

fn nothing_is_left_after_a_drop() {
    let here = interface::names();
    let testbed = Testbed::build(&star(2)).unwrap();
    let process = testbed.spawn("h1", shell("sleep 1000"), Output::Inherit).unwrap();
    let held = Held::new(testbed.nodes().map(|node| {
        let namespace = fs::read_link(testbed.namespace_path(node).unwrap()).unwrap();
        namespace.to_str().unwrap().to_owned()
    }));
    assert_eq!(held.0.len(), 3);
    assert_eq!(interface::names(), here, "links never appear outside");
    drop(testbed);
    assert!(!lives(&process.id().to_string()));
    assert_eq!(held.left(), Vec::<PathBuf>::new());
    assert_eq!(interface::names(), here);
}

fn nothing_is_left_after(signal: Signal) {
    let here = interface::names();
    let (mut holder, made) = roles::start_holder();
    let of_kind = |kind: &str| -> Vec<String> {
        made.iter().filter_map(|line| line.strip_prefix(kind).map(str::to_owned)).collect()
    };
    let (processes, namespaces) = (of_kind("process "), of_kind("namespace "));
    assert_eq!((processes.len(), namespaces.len()), (3, 3), "{made:?}");
    assert!(processes.iter().all(|process| lives(process)));
    let held = Held::new(namespaces);
    assert_eq!(interface::names(), here);
    kill(Pid::from_raw(holder.id().cast_signed()), signal).unwrap();
    assert_eq!(holder.wait().unwrap().signal(), Some(signal as i32));
    wait_until("processes end with their holder", || !processes.iter().any(|id| lives(id)));
    wait_until("namespaces go with their holder", || held.left().is_empty());
    assert_eq!(interface::names(), here);
}

fn what_is_not_there_is_named() {
    let testbed = two_hosts(1_500);
    let error = testbed.spawn("h9", shell("true"), Output::Inherit).unwrap_err();
    assert_eq!(error.to_string(), "the testbed has no node `h9`");
    let error = testbed.spawn("h1", Command::new("/no/such/program"), Output::Inherit).unwrap_err();
    assert!(error.to_string().starts_with("cannot start `/no/such/program` in node `h1`: No such"));
    let opened = testbed.run_in("h1", || PacketSocket::open(&Config::endpoint("eth7", PORT)));
    let error = opened.unwrap().unwrap_err().to_string();
    assert!(error.starts_with("there is no network interface `eth7` here; there are: "), "{error}");
    assert!(error.contains("eth0") && error.contains("lo"), "{error}");
}

fn a_missing_right_is_named() {
    let said = |mut command: Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let error = said(roles::command("open without rights"));
    let (packet, xdp) = error.split_once('\n').unwrap();
    assert!(packet.contains("`lo`") && packet.contains("CAP_NET_RAW"), "{packet}");
    assert!(xdp.contains("`lo`") && xdp.contains("CAP_BPF"), "{xdp}");
    if geteuid().is_root() && is_initial_user_namespace() {
        let error = as_ordinary_user(|program| said(ordinary(program, "build without rights")));
        assert!(error.contains("needs root") && error.contains("user namespace"), "{error}");
        let error = as_ordinary_user(|program| said(ordinary(program, "enter too late")));
        assert!(error.contains("before any thread is started, and there are 2"), "{error}");
    }
}

/// Whether root here is the machine's root, which can become any user.
fn is_initial_user_namespace() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// The usual ID of the user `nobody`.
const NOBODY: u32 = 65_534;

fn ordinary(program: &Path, role: &str) -> Command {
    let mut command = Command::new(program);
    let role = roles::command(role)
        .get_envs()
        .map(|(k, v)| (k.to_owned(), v.unwrap().to_owned()))
        .collect::<Vec<_>>();
    command.envs(role).current_dir("/").uid(NOBODY).gid(NOBODY);
    command
}

/// Calls `work` with a copy of this program that every user may run.
fn as_ordinary_user<T>(work: impl FnOnce(&Path) -> T) -> T {
    let directory = std::env::temp_dir().join(format!(
        "tributary-testbed-{}-{:?}",
        std::process::id(),
        thread::current().id()
    ));
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    let program = directory.join("namespaces");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let result = work(&program);
    fs::remove_dir_all(&directory).unwrap();
    result
}

fn all_this_works_for_an_ordinary_user() {
    if !(geteuid().is_root() && is_initial_user_namespace()) {
        // This process already is an ordinary user's.
        return;
    }
    let output = as_ordinary_user(|program| {
        let mut command = Command::new(program);
        command.args(["--skip", "ordinary_user", "--test-threads=2"]);
        command.current_dir("/").uid(NOBODY).gid(NOBODY).output().unwrap()
    });
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if err.lines().any(|line| line.starts_with("skipped: ")) {
        println!("{err}");
        return;
    }
    assert!(output.status.success(), "{out}\n{err}");
    // All but those of AF_XDP, for which a line gives the reason.
    let own =
        [crate::frames::TESTS.len(), crate::outages::TESTS.len(), crate::sockets::TESTS.len()];
    let xdp = own.iter().sum::<usize>();
    assert!(out.contains(&format!(" {xdp} ignored")), "{out}");
    assert!(err.contains("AF_XDP skipped: ") && err.contains("CAP_BPF"), "{err}");
}
