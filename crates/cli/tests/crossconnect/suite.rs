//! What every cross-connect does.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tributary_model::circuits::{Circuits, Invalid, Port};
use tributary_optical::crossconnect::{CrossConnect, Error};

use crate::devices::{Device, Kind, LIMIT};
use crate::lab::{Lab, PORTS};

/// A case and its name.
type Case = (&'static str, fn(Kind));

/// The cases.
pub(crate) const ALL: [Case; 6] = [
    ("frames_pass_along_circuits_only", frames_pass_along_circuits_only),
    ("a_circuit_that_stays_loses_no_frame", a_circuit_that_stays_loses_no_frame),
    ("circuits_outlive_their_controller", circuits_outlive_their_controller),
    ("a_restarted_device_is_dark_and_usable", a_restarted_device_is_dark_and_usable),
    ("a_device_that_does_not_answer_is_reported", a_device_that_does_not_answer_is_reported),
    ("impossible_circuits_are_refused", impossible_circuits_are_refused),
];

/// Runs `work` in a runtime that keeps connections alive beside it.
pub(crate) fn run(work: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new().unwrap().block_on(work);
}

pub(crate) fn circuits(pairs: &[(u16, u16)]) -> Circuits {
    Circuits::new(pairs.iter().map(|&(a, b)| (Port(a), Port(b)))).unwrap()
}

/// A device may still be starting.
pub(crate) async fn await_ports(driver: &mut dyn CrossConnect) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match driver.ports().await {
            Ok(PORTS) => return,
            other => assert!(Instant::now() < deadline, "{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn frames_pass_along_circuits_only(kind: Kind) {
    let mut lab = Lab::new();
    let device = Device::start(kind, &lab);
    run(async {
        let mut driver = device.driver();
        await_ports(driver.as_mut()).await;
        assert_eq!(driver.circuits().await, Ok(Circuits::DARK));
        lab.expect(&Circuits::DARK, Duration::ZERO);
        for pairs in [&[(1, 2), (3, 4)][..], &[(1, 3), (2, 5)], &[(2, 5)], &[(1, 2), (3, 5)], &[]] {
            let next = circuits(pairs);
            driver.change(&next).await.unwrap();
            assert_eq!(driver.circuits().await, Ok(next.clone()));
            lab.expect(&next, kind.patience());
        }
    });
}

fn a_circuit_that_stays_loses_no_frame(kind: Kind) {
    let lab = Lab::new();
    let device = Device::start(kind, &lab);
    run(async {
        let mut driver = device.driver();
        await_ports(driver.as_mut()).await;
        driver.change(&circuits(&[(1, 2), (3, 4)])).await.unwrap();
        let there = lab.stream(Port(1), Port(2));
        let back = lab.stream(Port(2), Port(1));
        for pairs in [[(1, 2), (3, 5)], [(1, 2), (4, 5)], [(1, 2), (3, 4)]] {
            driver.change(&circuits(&pairs)).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for stream in [there, back] {
            let streamed = stream.end();
            assert!(streamed.sent.len() > 50, "{} frames", streamed.sent.len());
            let all: Vec<usize> = (0..streamed.sent.len()).collect();
            assert_eq!(streamed.arrived, all);
        }
    });
}

fn circuits_outlive_their_controller(kind: Kind) {
    let mut lab = Lab::new();
    let device = Device::start(kind, &lab);
    let joined = circuits(&[(1, 5), (2, 4)]);
    run(async {
        let mut first = device.driver();
        await_ports(first.as_mut()).await;
        first.change(&joined).await.unwrap();
    });
    lab.expect(&joined, kind.patience());
    run(async {
        let mut second = device.driver();
        assert_eq!(second.circuits().await, Ok(joined.clone()));
        let next = circuits(&[(1, 5), (3, 4)]);
        second.change(&next).await.unwrap();
        lab.expect(&next, kind.patience());
    });
}

fn a_restarted_device_is_dark_and_usable(kind: Kind) {
    let mut lab = Lab::new();
    let mut device = Device::start(kind, &lab);
    run(async {
        let mut driver = device.driver();
        await_ports(driver.as_mut()).await;
        let joined = circuits(&[(1, 2), (3, 4)]);
        driver.change(&joined).await.unwrap();
        device.kill();
        let error = driver.change(&circuits(&[(1, 3)])).await.unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
        assert!(error.to_string().contains(&device.address()), "{error}");
        lab.expect(&Circuits::DARK, Duration::ZERO);
        device.restart(&lab);
        await_ports(driver.as_mut()).await;
        assert_eq!(driver.circuits().await, Ok(Circuits::DARK), "it forgets its circuits");
        lab.expect(&Circuits::DARK, Duration::ZERO);
        driver.change(&joined).await.unwrap();
        lab.expect(&joined, kind.patience());
    });
}

fn a_device_that_does_not_answer_is_reported(kind: Kind) {
    let mut lab = Lab::new();
    let device = Device::start(kind, &lab);
    run(async {
        let mut driver = device.driver();
        await_ports(driver.as_mut()).await;
        let joined = circuits(&[(1, 2), (3, 4)]);
        driver.change(&joined).await.unwrap();
        device.signal(Signal::SIGSTOP);
        let begun = Instant::now();
        let silent = Err(Error::Silent { device: device.address(), limit: LIMIT });
        assert_eq!(driver.circuits().await, silent);
        assert!(begun.elapsed() < 2 * LIMIT);
        device.signal(Signal::SIGCONT);
        assert_eq!(driver.circuits().await, Ok(joined));
        let next = circuits(&[(1, 4), (3, 2)]);
        driver.change(&next).await.unwrap();
        lab.expect(&next, kind.patience());
    });
}

fn impossible_circuits_are_refused(kind: Kind) {
    let lab = Lab::new();
    let device = Device::start(kind, &lab);
    run(async {
        let mut driver = device.driver();
        await_ports(driver.as_mut()).await;
        driver.change(&circuits(&[(1, 2)])).await.unwrap();
        let reason = Invalid::Unknown { port: Port(6), ports: PORTS };
        let invalid = Err(Error::Invalid { device: device.address(), reason });
        assert_eq!(driver.change(&circuits(&[(1, 6)])).await, invalid);
        let error = driver.set(&circuits(&[(1, 6)])).await.unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "the device checks, too: {error}");
        assert_eq!(driver.circuits().await, Ok(circuits(&[(1, 2)])), "nothing has changed");
    });
}
