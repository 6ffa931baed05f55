//! What all studies have in common: protocols, models, and the setup of §7.2.1.

use crate::studies::training::{Model, Ranking, Setup};
use tributary_model::{Preemption, Protocol};
use tributary_protocol::priority::Code;
use tributary_protocol::{Addressing, LaterResults};

use super::measured::Quantity;
use super::study::Panel;

/// How much to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// Repetitions with other start times and delays.
    pub seeds: u64,
    /// Measured iterations of each job, after one that is not measured.
    pub iterations: u32,
    /// Smaller models and fewer points, as a quick test. The numbers mean little.
    pub quick: bool,
}

/// A protocol with its rule of preemption, under a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Series(pub(super) &'static str, pub(super) Protocol, pub(super) Preemption);

pub(super) const SWITCHML: Series = Series("SwitchML", Protocol::SwitchMl, Preemption::Priority);
pub(super) const ATP: Series = Series("ATP", Protocol::Atp, Preemption::Priority);
pub(super) const ESA: Series = Series("ESA", Protocol::Esa, Preemption::Priority);
pub(super) const ALWAYS: Series = Series("always", Protocol::Esa, Preemption::Always);
pub(super) const COIN: Series = Series("coin", Protocol::Esa, Preemption::Coin);

impl Series {
    /// The experiment with this protocol. What does not matter in it is reset, so that equal
    /// experiments are run once.
    pub(super) fn of(self, setup: &Setup) -> Setup {
        let Self(_, protocol, preemption) = self;
        let mut setup = Setup { protocol, preemption, ..setup.clone() };
        if protocol != Protocol::Esa {
            setup.shift = false;
            setup.readings.reminders_wait = false;
            setup.readings.blind = false;
        }
        if protocol != Protocol::Esa || preemption != Preemption::Priority {
            setup.priorities = Code::default();
            setup.ranking = Ranking::default();
        }
        let usual = LaterResults::default();
        if setup.readings.later_results.halve(protocol) == usual.halve(protocol) {
            setup.readings.later_results = usual;
        }
        if protocol == Protocol::SwitchMl {
            setup.addressing = Addressing::default();
            setup.readings.later_results = usual;
        }
        setup
    }
}

/// The models of a panel: the name, and the model of each job.
pub(super) type Mix = (&'static str, fn(u32) -> Model);

pub(super) const MIXES: [Mix; 3] = [
    ("A", |_| Model::a()),
    ("B", |_| Model::b()),
    ("A and B", |job| if job.is_multiple_of(2) { Model::a() } else { Model::b() }),
];

impl Effort {
    /// The setup of §7.2.1. Sizes and times shrink together in a quick test.
    pub(super) fn setup(self, mix: Mix, jobs: u32, workers: u32) -> Setup {
        let model = |job| if self.quick { mix.1(job).scaled_down(16) } else { mix.1(job) };
        let mut setup = Setup::esa(Protocol::Esa, (0..jobs).map(model).collect(), workers, 1);
        setup.iterations = self.iterations;
        if self.quick {
            setup.start /= 16;
            setup.jitter /= 16;
        }
        setup
    }

    /// Not more than this, for studies of many experiments.
    pub(super) fn at_most(self, seeds: u64, iterations: u32) -> Self {
        Self {
            seeds: self.seeds.min(seeds),
            iterations: self.iterations.min(iterations),
            quick: self.quick,
        }
    }

    /// Some values of a parameter; in a quick test the first and the last.
    pub(super) fn some<T: Clone>(self, values: &[T]) -> Vec<T> {
        match values {
            [first, .., last] if self.quick => vec![first.clone(), last.clone()],
            all => all.to_vec(),
        }
    }

    /// A title that says if this is a quick test.
    pub(super) fn title(self, title: &str) -> String {
        if self.quick {
            format!("QUICK TEST, its numbers mean little: {title}")
        } else {
            title.to_owned()
        }
    }
}

/// A value of a parameter, its place on an axis, and how it is shown.
pub(super) type Value<T> = (T, f64, String);

/// A panel whose parameter changes the setup, for all series or for each in its own way.
pub(super) fn panel<T: Copy>(
    name: &str,
    x: &'static str,
    quantity: Quantity,
    series: &[Series],
    values: &[Value<T>],
    setup: impl Fn(T, Series) -> Setup,
) -> Panel {
    let of = |&(value, ..): &Value<T>| {
        series.iter().map(|&series| series.of(&setup(value, series))).collect()
    };
    Panel {
        name: name.to_owned(),
        x,
        values: values.iter().map(|(_, at, shown)| (*at, shown.clone())).collect(),
        setups: values.iter().map(of).collect(),
        jobs: None,
        quantity,
    }
}

pub(super) fn numbers(values: &[u32]) -> Vec<Value<u32>> {
    values.iter().map(|&value| (value, f64::from(value), value.to_string())).collect()
}

/// Values by their names.
pub(super) fn named<T: Copy>(values: &[(&str, T)]) -> Vec<Value<T>> {
    let number = |(at, &(name, value)): (u32, &(&str, T))| (value, f64::from(at), name.to_owned());
    (0..).zip(values).map(number).collect()
}

pub(super) fn names(series: &[Series]) -> Vec<String> {
    series.iter().map(|series| series.0.to_owned()).collect()
}

pub(super) fn notes(own: &[&str]) -> Vec<String> {
    let common = "A ratio above 1 means that the first is better. ± is half of the width of the 95 % confidence \
                  interval over the seeds (Student's t); a ratio is taken for each seed.";
    own.iter().copied().chain([common]).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_that_differ_in_nothing_that_matters_are_one() {
        let effort = Effort { seeds: 1, iterations: 1, quick: true };
        let setup = effort.setup(MIXES[0], 2, 2);
        let equal = Setup { ranking: Ranking::Equal, ..setup.clone() };
        for series in [SWITCHML, ATP, ALWAYS, COIN] {
            assert_eq!(series.of(&setup), series.of(&equal), "{}", series.0);
        }
        assert_ne!(ESA.of(&setup), ESA.of(&equal));
        let mut halved = setup.clone();
        halved.readings.later_results = LaterResults::Halve;
        let mut left = setup;
        left.readings.later_results = LaterResults::Ignore;
        assert_eq!(SWITCHML.of(&left), SWITCHML.of(&halved));
        for series in [ATP, ESA] {
            assert_ne!(series.of(&left), series.of(&halved), "{}", series.0);
        }
    }

    #[test]
    fn a_study_of_many_experiments_does_not_do_more_than_asked() {
        let effort = Effort { seeds: 2, iterations: 10, quick: false };
        assert_eq!(effort.at_most(5, 3), Effort { seeds: 2, iterations: 3, quick: false });
    }
}
