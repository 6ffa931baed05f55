//! Roles of this program when a test starts it as a separate process.

use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;

use tributary_run::testbed::Output;

use super::*;

const ROLE: &str = "TRIBUTARY_TESTBED_ROLE";

/// This program in a role.
pub(crate) fn command(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(ROLE, role).stdin(Stdio::null());
    command
}

/// Plays the requested role, if any.
pub(crate) fn play() -> Option<ExitCode> {
    let role = std::env::var(ROLE).ok()?;
    match &role[..] {
        "hold" => hold(),
        "hold xdp" => hold_xdp(),
        "open without rights" => open_without_rights(),
        "build without rights" => println!("{}", Testbed::build(&star(1)).unwrap_err()),
        "enter too late" => {
            let (_leave, stay) = std::sync::mpsc::channel::<()>();
            thread::spawn(move || stay.recv());
            println!("{}", enter_user_namespace_if_needed().unwrap_err());
        }
        other => panic!("there is no role `{other}`"),
    }
    Some(ExitCode::SUCCESS)
}

/// Holds a testbed with processes until killed; prints `process PID` and `namespace net:[NUMBER]`.
fn hold() {
    let testbed = Testbed::build(&star(2)).unwrap();
    for node in ["h1", "h2", "s"] {
        let mut sleep = Command::new("sleep");
        sleep.arg("1000");
        let process = testbed.spawn(node, sleep, Output::Inherit).unwrap();
        let namespace = std::fs::read_link(testbed.namespace_path(node).unwrap()).unwrap();
        println!("process {}\nnamespace {}", process.id(), namespace.display());
    }
    println!("ready");
    loop {
        thread::park();
    }
}

/// Holds an AF_XDP socket on `eth0` until killed; prints its program's ID.
fn hold_xdp() {
    let socket = XdpSocket::open(&Config::switch_port("eth0")).unwrap();
    println!("{}", socket.program_id().unwrap());
    loop {
        thread::park();
    }
}

/// In a new user namespace this process has no privileges over its network namespace.
fn open_without_rights() {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWUSER).unwrap();
    println!("{}", PacketSocket::open(&Config::endpoint("lo", PORT)).unwrap_err());
    println!("{}", XdpSocket::open(&Config::endpoint("lo", PORT)).unwrap_err());
}

/// Starts a holder and returns its output until it was ready.
pub(crate) fn start_holder() -> (Child, Vec<String>) {
    use std::io::{BufRead, BufReader};
    let mut holder = command("hold").stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let lines: Vec<String> = lines.map(Result::unwrap).take_while(|line| line != "ready").collect();
    (holder, lines)
}
