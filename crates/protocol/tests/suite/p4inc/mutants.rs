//! Switches that break a rule: the tests detect each one.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tributary_protocol::{ConfigError, Worker};

use crate::p4inc::exact::{Case, iterate};
use crate::p4inc::setup::{LOCAL, PARTIAL, SWITCHML, Setup};
use crate::p4inc::switch::Flaw;

/// Whether one of the usual runs fails.
fn is_caught(flaw: Option<Flaw>, base: Setup) -> bool {
    (0..60).any(|seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let case = Case::random(&mut rng, base);
        let tensors = case.tensors(&mut rng);
        let mut net = case.start(seed, flaw);
        iterate(&mut net, &mut rng, &tensors, &case.setup).is_err()
    })
}

#[test]
fn broken_switches_are_caught() {
    for (flaw, base) in [
        (Flaw::NoCopy, LOCAL),
        (Flaw::NoCopy, SWITCHML),
        (Flaw::CopyEndsEarly, LOCAL),
        (Flaw::CopyIsOverwritten, LOCAL),
        (Flaw::CountsTwice, LOCAL),
        (Flaw::CountsTwice, PARTIAL),
        (Flaw::CountsTwice, SWITCHML),
        (Flaw::TakesOldRounds, LOCAL),
        (Flaw::TakesOldRounds, SWITCHML),
        (Flaw::PartialIsFinal, PARTIAL),
        (Flaw::ForgetsOverflow, LOCAL),
        (Flaw::ForgetsOverflow, PARTIAL),
        (Flaw::HalfTheCells, LOCAL),
    ] {
        assert!(is_caught(Some(flaw), base), "{flaw:?} with {base:?}");
    }
}

#[test]
fn whole_switches_are_not_blamed() {
    for base in [LOCAL, PARTIAL, SWITCHML] {
        assert!(!is_caught(None, base), "{base:?}");
    }
}

#[test]
fn a_window_of_twice_the_segment_is_refused() {
    let build = |setup: Setup| Worker::new(setup.worker(0)).map(|_| ());
    assert_eq!(build(LOCAL), Ok(()));
    let error = ConfigError::Window { slots: 16, needed: 16, size: 8 };
    assert_eq!(build(Setup { slots: 16, ..LOCAL }), Err(error));
    let error = ConfigError::Window { slots: 16, needed: 32, size: 16 };
    assert_eq!(build(Setup { slots: 16, ..SWITCHML }), Err(error));
    assert_eq!(build(Setup { slots: 16, ..PARTIAL }), Ok(()));
}
