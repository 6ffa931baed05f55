//! Small ESA systems with a completely known course: the paper's figures 3 and 4, and the five
//! cases of loss of its §5.3. Tests follow them, and the documentation's charts show them.

use tributary_controller::programs::Source;
use tributary_model::Scenario;
use tributary_model::jobfile::parse;
use tributary_protocol::Tensor;
use tributary_protocol::priority::Priority;
use tributary_protocol::rtt::RttConfig;
use tributary_sim::{Chart, Inputs, Options, Outcome, Program, Run, Trace, What};
use tributary_wire::agg::{Kind, Repr};

use crate::exact::{check_exact, describe};

/// A job of a walk: one fragment per worker, sent after its pause.
pub(crate) struct WalkJob {
    pub(crate) workers: &'static [&'static str],
    /// In microseconds.
    pub(crate) pauses: &'static [u32],
    pub(crate) priority: u8,
}

/// A packet that is lost between two neighbours.
pub(crate) struct Loss {
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
    pub(crate) packet: fn(&Repr) -> bool,
}

/// A system and its losses.
pub(crate) struct Walk {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) jobs: Vec<WalkJob>,
    pub(crate) losses: Vec<Loss>,
    /// Whether workers wait so long that the parameter server notices a loss first.
    pub(crate) patient: bool,
}

const JOB_1: u16 = 1;

fn gradient(packet: &Repr) -> bool {
    packet.kind == Kind::Gradient
}

fn gradient_1(packet: &Repr) -> bool {
    gradient(packet) && packet.job.get() == JOB_1
}

fn gradient_2(packet: &Repr) -> bool {
    gradient(packet) && packet.job.get() != JOB_1
}

fn parameter(packet: &Repr) -> bool {
    packet.kind == Kind::Parameter
}

/// Three workers of a single job.
fn undisturbed() -> Vec<WalkJob> {
    vec![WalkJob { workers: &["w1", "w2", "w3"], pauses: &[0, 20, 40], priority: 10 }]
}

/// Job 1 has two stragglers; job 2 has the higher priority.
fn stragglers() -> Vec<WalkJob> {
    let workers = &["w1", "w2", "w3", "w4"];
    vec![
        WalkJob { workers, pauses: &[0, 20, 400, 420], priority: 10 },
        WalkJob { workers: &["w5", "w6"], pauses: &[100, 120], priority: 200 },
    ]
}

/// Figure 3: a task of higher priority preempts one that waits for stragglers.
pub(crate) fn figure_3() -> Walk {
    Walk {
        name: "esa-figure-3",
        title: "Figure 3: job 2 preempts the aggregator of job 1, whose hosts w3 and w4 are late",
        jobs: stragglers(),
        losses: Vec::new(),
        patient: true,
    }
}

/// Figure 4: one contribution lost its aggregator, and the others wait for it there.
pub(crate) fn figure_4() -> Walk {
    Walk {
        name: "esa-figure-4",
        title: "Figure 4: the reminder fetches what waits in the switch for a contribution that has passed",
        jobs: vec![
            WalkJob { workers: &["w1", "w2", "w3"], pauses: &[0, 200, 220], priority: 10 },
            WalkJob { workers: &["w4", "w5"], pauses: &[100, 120], priority: 200 },
        ],
        losses: Vec::new(),
        patient: true,
    }
}

/// §5.3, case 1.
pub(crate) fn loss_1() -> Walk {
    Walk {
        name: "esa-loss-1",
        title: "Loss, case 1: a gradient is lost on its way to the switch",
        jobs: undisturbed(),
        losses: vec![Loss { from: "w1", to: "s1", packet: gradient }],
        patient: false,
    }
}

/// §5.3, the first half of case 2.
pub(crate) fn loss_2_some() -> Walk {
    Walk {
        name: "esa-loss-2-some",
        title: "Loss, case 2: one worker misses the result",
        jobs: undisturbed(),
        losses: vec![Loss { from: "s1", to: "w2", packet: parameter }],
        patient: false,
    }
}

/// §5.3, the second half of case 2.
pub(crate) fn loss_2_all() -> Walk {
    let loss = |to| Loss { from: "s1", to, packet: parameter };
    Walk {
        name: "esa-loss-2-all",
        title: "Loss, case 2: all workers miss the result",
        jobs: undisturbed(),
        losses: vec![loss("w1"), loss("w2"), loss("w3")],
        patient: false,
    }
}

/// §5.3, case 3.
pub(crate) fn loss_3() -> Walk {
    Walk {
        name: "esa-loss-3",
        title: "Loss, case 3: a gradient that failed to preempt is lost on its way to the parameter server",
        jobs: vec![
            WalkJob { workers: &["w1", "w2"], pauses: &[0, 200], priority: 200 },
            WalkJob { workers: &["w3", "w4"], pauses: &[100, 300], priority: 10 },
        ],
        losses: vec![Loss { from: "s1", to: "ps2", packet: gradient_2 }],
        patient: false,
    }
}

/// §5.3, case 4.
pub(crate) fn loss_4() -> Walk {
    Walk {
        name: "esa-loss-4",
        title: "Loss, case 4: an evicted partial sum is lost on its way to the parameter server",
        jobs: stragglers(),
        losses: vec![Loss { from: "s1", to: "ps1", packet: gradient_1 }],
        patient: false,
    }
}

/// §5.3, case 5, with an entry at the parameter server.
pub(crate) fn loss_5_entry() -> Walk {
    Walk {
        name: "esa-loss-5-entry",
        title: "Loss, case 5: after a preemption another gradient is lost; the parameter server knows of the task",
        jobs: stragglers(),
        losses: vec![Loss { from: "w3", to: "s1", packet: gradient }],
        patient: true,
    }
}

/// §5.3, case 5, without an entry.
pub(crate) fn loss_5_no_entry() -> Walk {
    Walk {
        name: "esa-loss-5-no-entry",
        title: "Loss, case 5: after a preemption the partial sum and another gradient are lost",
        jobs: stragglers(),
        losses: vec![
            Loss { from: "s1", to: "ps1", packet: gradient_1 },
            Loss { from: "w3", to: "s1", packet: gradient },
        ],
        patient: false,
    }
}

/// All walks.
pub(crate) fn all() -> Vec<Walk> {
    vec![
        figure_3(),
        figure_4(),
        loss_1(),
        loss_2_some(),
        loss_2_all(),
        loss_3(),
        loss_4(),
        loss_5_entry(),
        loss_5_no_entry(),
    ]
}

impl Walk {
    fn scenario(&self) -> Scenario {
        let hosts: usize = self.jobs.iter().map(|job| job.workers.len()).sum();
        let mut file = format!(
            "[topology]\nkind = \"star\"\nworkers = {hosts}\n\
             [protocol]\nkind = \"esa\"\nvalues_per_packet = 32\nrecovery = \"papers\"\n[switch]\npool = 1\n"
        );
        for job in &self.jobs {
            file += &format!("[[job]]\nworkers = {:?}\n", job.workers);
            for (worker, pause) in job.pauses.iter().enumerate().filter(|(_, pause)| **pause > 0) {
                file += &format!("[[job.straggler]]\nworker = {worker}\ndelay = \"{pause}us\"\n");
            }
        }
        parse(&file, "walk.toml").unwrap()
    }

    fn inputs(&self) -> Inputs {
        let tensor = |job: usize, worker: usize| {
            Tensor::F32((0..32).map(|at| (100 * job + 10 * worker + at) as f32 / 4.0).collect())
        };
        let jobs = self.jobs.iter().enumerate();
        jobs.map(|(job, its)| (0..its.workers.len()).map(|w| vec![tensor(job, w)]).collect())
            .collect()
    }

    /// Runs the walk, and checks what holds in every walk: the sums are exact, the chosen packets
    /// were lost, every worker left, and the switch is empty.
    pub(crate) fn run(&self) -> Outcome {
        let scenario = self.scenario();
        let program =
            Program::compile(&Source::built_in("esa").unwrap(), &scenario.network.switch).unwrap();
        let inputs = self.inputs();
        let mut options = Options { trace: true, ..Options::seeded(1) };
        if self.patient {
            options.worker_rtt =
                Some(RttConfig { initial: RttConfig::default().max, ..RttConfig::default() });
        }
        let mut run = Run::start(&scenario, &program, inputs.clone(), &options).unwrap();
        let priority = |job: &WalkJob| vec![Priority::new(job.priority).unwrap()];
        run.prioritize(self.jobs.iter().map(priority).collect());
        for Loss { from, to, packet } in &self.losses {
            run.system.network.lose(from, to, 0, *packet);
        }
        while run.step().unwrap() {}
        let outcome = run.finish().unwrap();
        assert!(outcome.complete, "{}", describe(&outcome));
        check_exact(&scenario, &inputs, &outcome.sums).unwrap();
        assert_eq!(outcome.undismissed, 0, "{}", describe(&outcome));
        assert_eq!(outcome.losses_to_come, 0, "{}", describe(&outcome));
        assert_eq!(outcome.left_behind, 0, "{}", describe(&outcome));
        outcome
    }

    pub(crate) fn chart(&self) -> Chart {
        let outcome = self.run();
        let workers = self.jobs.iter().flat_map(|job| job.workers);
        let columns: Vec<&str> = workers.chain(&["s1", "ps", "ps1", "ps2"]).copied().collect();
        Chart::new(self.title, &columns, &seen(&outcome))
    }
}

/// The trace without the workers' goodbyes.
fn seen(outcome: &Outcome) -> Trace {
    let goodbye = |what: &What| match what {
        What::Message(_, text) => text.starts_with("finished") || text.starts_with("dismissed"),
        What::Event(text) => text.starts_with("the connection breaks"),
        What::Packet(_) | What::Frame => false,
    };
    outcome.trace.as_ref().unwrap().without(|sighting| goodbye(&sighting.what))
}

/// The course of a run, one line per frame and message.
pub(crate) fn course(outcome: &Outcome) -> Vec<String> {
    seen(outcome).sightings().iter().map(ToString::to_string).collect()
}
