//! Cross-connects between hosts in network namespaces: the same cases for the emulated one and for Open
//! vSwitch, and some for each.
//!
//! Open vSwitch runs in user space, with files and sockets in a temporary directory.

mod devices;
mod lab;
mod suite;

use std::net::SocketAddr;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use tributary_model::circuits::{Circuits, Port};
use tributary_optical::crossconnect::openflow::OpenFlow;
use tributary_optical::crossconnect::{CrossConnect, Error};
use tributary_run::testbed::{OpenVSwitch, Output, enter_user_namespace_if_needed};

use devices::{Device, Kind, LIMIT};
use lab::{Lab, NODE};
use suite::{await_ports, circuits, run};

const EMULATED: [(&str, fn()); 7] = [
    ("a_cable_is_a_circuit", a_cable_is_a_circuit),
    ("a_device_that_dies_during_a_change_is_lost", a_device_that_dies_during_a_change_is_lost),
    ("an_interface_that_was_down_is_used_again", an_interface_that_was_down_is_used_again),
    ("frames_are_lost_for_the_outage", frames_are_lost_for_the_outage),
    ("a_stuck_port_is_reported", a_stuck_port_is_reported),
    ("the_command_shows_and_changes_circuits", the_command_shows_and_changes_circuits),
    ("bad_input_is_one_line", bad_input_is_one_line),
];

const OPENFLOW: [(&str, fn()); 3] = [
    ("frames_soon_follow_a_change", frames_soon_follow_a_change),
    ("flows_of_others_are_reported_and_removed", flows_of_others_are_reported_and_removed),
    ("a_switch_connects_to_its_controller", a_switch_connects_to_its_controller),
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    // This must happen before any thread is started.
    let obstacle = enter_user_namespace_if_needed().err().map(|refusal| refusal.to_string());
    let missing = OpenVSwitch::check().err().map(|error| error.to_string());
    // A test adds flows with it.
    let ofctl = tributary_base::programs::on_path("ovs-ofctl").is_none();
    let missing = missing.or(ofctl.then(|| "ovs-ofctl is not on the PATH".to_owned()));
    let mut trials = Vec::new();
    for (kind, own, obstacle) in [
        (Kind::Emulated, &EMULATED[..], obstacle.clone()),
        (Kind::OpenFlow, &OPENFLOW[..], obstacle.or(missing)),
    ] {
        if let (Some(obstacle), false) = (&obstacle, arguments.list) {
            eprintln!("skipped: {kind:?}: {obstacle}");
        }
        let runs = obstacle.is_none();
        let trial = |name: &str, case: Box<dyn FnOnce() + Send>| {
            Trial::test(format!("{kind:?}::{name}"), move || {
                if runs {
                    case();
                }
                Ok(())
            })
        };
        trials.extend(suite::ALL.map(|(name, case)| trial(name, Box::new(move || case(kind)))));
        trials.extend(own.iter().map(|&(name, case)| trial(name, Box::new(case))));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn frames_are_lost_for_the_outage() {
    let lab = Lab::new();
    let device = Device::start(Kind::Emulated, &lab);
    let outage = Duration::from_millis(100);
    run(async {
        let mut driver = device.driver();
        driver.change(&circuits(&[(1, 2)])).await.unwrap();
        let stream = lab.stream(Port(1), Port(3));
        let begun = Instant::now();
        driver.change(&circuits(&[(1, 3)])).await.unwrap();
        let took = begun.elapsed();
        assert!(took >= outage, "the answer came after {took:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
        let streamed = stream.end();
        let first = *streamed.arrived.first().expect("frames pass after the outage");
        let dark = streamed.sent[first] - begun;
        assert!(dark >= outage, "a frame of {dark:?} after the change arrived");
        let all: Vec<usize> = (first..streamed.sent.len()).collect();
        assert_eq!(streamed.arrived, all, "with light, nothing is lost");
        println!("change of {took:?} with an outage of {outage:?}, {first} frames lost");
    });
}

fn a_cable_is_a_circuit() {
    let mut lab = Lab::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
    command.args(["cable", "--between", "port2", "port4"]);
    let _cable = lab.testbed.spawn(NODE, command, Output::Keep).unwrap();
    lab.expect(&circuits(&[(2, 4)]), Duration::from_secs(20));
    lab.expect(&circuits(&[(2, 4)]), Duration::ZERO);
}

fn a_device_that_dies_during_a_change_is_lost() {
    let lab = Lab::new();
    let device = Device::emulated(&lab, &["--outage", "60s"]);
    run(async {
        let mut driver = device.driver();
        let change = tokio::spawn(async move { driver.change(&circuits(&[(1, 2)])).await });
        tokio::time::sleep(LIMIT / 4).await;
        device.kill();
        let error = change.await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    });
}

fn an_interface_that_was_down_is_used_again() {
    let mut lab = Lab::new();
    let device = Device::start(Kind::Emulated, &lab);
    let joined = circuits(&[(1, 2), (3, 4)]);
    run(async { device.driver().change(&joined).await.unwrap() });
    for (state, lit) in [("down", circuits(&[(1, 2)])), ("up", joined)] {
        let mut command = Command::new("ip");
        command.args(["link", "set", "port3", state]);
        let Ok(ip) = lab.testbed.spawn(NODE, command, Output::Keep) else {
            println!("skipped: ip not found on the PATH");
            return;
        };
        assert!(ip.wait(None).unwrap().unwrap().success());
        lab.expect(&lit, Duration::from_secs(5));
    }
}

fn a_stuck_port_is_reported() {
    let mut lab = Lab::new();
    let device = Device::emulated(&lab, &["--outage", "0s", "--stuck", "2"]);
    run(async {
        let mut driver = device.driver();
        let wrong = Error::Wrong {
            device: device.address(),
            ports: vec![Port(1), Port(2)],
            found: circuits(&[(3, 4)]),
        };
        assert_eq!(driver.change(&circuits(&[(1, 2), (3, 4)])).await, Err(wrong));
        lab.expect(&circuits(&[(3, 4)]), Duration::ZERO);
    });
}

fn tributary(args: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_tributary")).args(args).output().unwrap()
}

fn the_command_shows_and_changes_circuits() {
    let mut lab = Lab::new();
    let device = Device::start(Kind::Emulated, &lab);
    let address = device.address();
    let run = |args: &[&str]| {
        let output = tributary(&[&["crossconnect"], args].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(run(&["show", &address]), "5 ports, circuits none\n");
    assert_eq!(run(&["change", &address, "1-3", "5-4"]), "");
    assert_eq!(run(&["show", &address]), "5 ports, circuits 1-3 4-5\n");
    lab.expect(&circuits(&[(1, 3), (4, 5)]), Duration::ZERO);
    assert_eq!(run(&["change", &address]), "");
    lab.expect(&Circuits::DARK, Duration::ZERO);
}

fn bad_input_is_one_line() {
    let nowhere = "emulated:unix:/nowhere/oxc";
    for (args, says) in [
        (&["--port", "1@lo", "--port", "1@other"][..], "--port 1@other: the port or the interface"),
        (&["--port", "1@lo", "--port", "2@lo"], "--port 2@lo: the port or the interface is taken"),
        (&["--port", "1@lo", "--port", "3@other"], "there is no port 2; number the ports from 1"),
        (&["--port", "lo"], "--port lo: write PORT@INTERFACE"),
        (&["--port", "0@lo"], "--port 0@lo: write PORT@INTERFACE"),
        (&["--port", "1@no-such"], "there is no network interface `no-such` here"),
        (
            &["show", "netconf:host:830"],
            "`netconf:host:830` names no cross-connect: write emulated",
        ),
        (&["show", nowhere], "cannot reach the cross-connect emulated:unix:/nowhere/oxc: "),
        (&["change", nowhere, "1"], "circuit 1: write two ports, such as 1-3"),
        (&["change", nowhere, "1-2", "3-2"], "circuit 3-2: port 2 is joined with port 1 already"),
        (&["change", nowhere, "4-4"], "circuit 4-4: port 4 cannot be joined with itself"),
    ] {
        let output = tributary(&[&["crossconnect"], args].concat());
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {errors}");
        assert!(errors.starts_with("error: ") && errors.contains(says), "{args:?}: {errors}");
        assert_eq!(errors.lines().count(), 1, "{args:?}: {errors}");
    }
    let output = tributary(&["crossconnect", "--port", "1@lo", "--outage", "20"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("write a time of at most one hour, such as 20ms"), "{errors}");
}

fn frames_soon_follow_a_change() {
    let lab = Lab::new();
    let device = Device::start(Kind::OpenFlow, &lab);
    run(async {
        let mut driver = device.driver();
        await_ports(driver.as_mut()).await;
        driver.change(&circuits(&[(1, 2)])).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        let streams = [2, 3].map(|to| lab.stream(Port(1), Port(to)));
        tokio::time::sleep(Duration::from_millis(200)).await;
        let begun = Instant::now();
        driver.change(&circuits(&[(1, 3)])).await.unwrap();
        let took = begun.elapsed();
        tokio::time::sleep(Duration::from_millis(200)).await;
        let [old, new] = streams.map(lab::Stream::end);
        let late = old.sent[*old.arrived.last().unwrap()].saturating_duration_since(begun);
        let early = new.sent[*new.arrived.first().unwrap()].saturating_duration_since(begun);
        println!(
            "change of {took:?}; last frame on the old way {late:?}, first on the new {early:?}"
        );
        assert!(late < Kind::OpenFlow.patience(), "{late:?}");
        assert!(early < Kind::OpenFlow.patience(), "{early:?}");
    });
}

fn flows_of_others_are_reported_and_removed() {
    let mut lab = Lab::new();
    let device = Device::start(Kind::OpenFlow, &lab);
    run(async {
        let mut driver = device.driver();
        await_ports(driver.as_mut()).await;
        let joined = circuits(&[(1, 2)]);
        driver.change(&joined).await.unwrap();
        // Floods, mirrors a circuit to a third port, and joins another pair in one direction.
        device.add_flow("priority=0,actions=NORMAL");
        device.add_flow(
            "priority=40000,in_port=1,dl_type=0x88b5,cookie=0xbad,actions=output:2,output:3",
        );
        device.add_flow("table=7,priority=5,in_port=4,actions=output:5");
        let error = driver.circuits().await.unwrap_err();
        let Error::Foreign { found, circuits: besides, .. } = &error else { panic!("{error}") };
        assert_eq!((found.len(), besides), (3, &joined), "{error}");
        let flow = "a flow in table 0 with priority 40000 and cookie 0xbad";
        assert!(error.to_string().contains(flow), "{error}");
        driver.change(&joined).await.unwrap();
        assert_eq!(driver.circuits().await, Ok(joined.clone()));
        lab.expect(&joined, Kind::OpenFlow.patience());
    });
}

fn a_switch_connects_to_its_controller() {
    let mut lab = Lab::new();
    run(async {
        let runtime = tokio::runtime::Handle::current();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let listen = || {
            let _runtime = runtime.enter();
            OpenFlow::listen(any, LIMIT).unwrap()
        };
        let mut driver = lab.testbed.run_in(NODE, listen).unwrap();
        let error = driver.ports().await.unwrap_err();
        assert!(error.to_string().ends_with("it has not connected within 2s"), "{error}");
        let controller = driver.name().strip_prefix("openflow:listen:").unwrap().to_owned();
        let mut device = Device::calling(&lab, &controller);
        await_ports(&mut driver).await;
        let joined = circuits(&[(1, 4), (2, 3)]);
        driver.change(&joined).await.unwrap();
        lab.expect(&joined, Kind::OpenFlow.patience());
        device.kill();
        device.restart(&lab);
        await_ports(&mut driver).await;
        assert_eq!(driver.circuits().await, Ok(Circuits::DARK));
        driver.change(&joined).await.unwrap();
        lab.expect(&joined, Kind::OpenFlow.patience());
    });
}
