//! Decisions of the manager: what it logs of them, and how it explains them.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};

use tributary_api::placement::v1;
use tributary_base::DECISIONS;
use tributary_cluster::placement::by_name;
use tributary_manager::durable::Durable;
use tributary_manager::job::{MOMENTS, Phase, Request};
use tributary_manager::manager::{Action, Event, Manager, Quota, Refusal, Settings, Wait};
use tributary_manager::site::Site;
use tributary_wire::channel::{TOKEN_LEN, Token};

const NETWORK: &str = "[topology]\nkind = \"star\"\nworkers = 3\nps_hosts = 1\n";
const SERVERS: [&str; 3] = ["w1", "w2", "w3"];
const PERIOD_MS: u64 = 100;

fn manager(policy: &str, durable: Durable) -> Manager {
    manager_with(20.0, policy, durable)
}

/// A manager whose switch aggregates at most `pat_gbps`.
fn manager_with(pat_gbps: f64, policy: &str, durable: Durable) -> Manager {
    let server = |name: &str| format!("[[server]]\nhost = \"{name}\"\ngpus = 2\n");
    let servers: String = SERVERS.map(server).concat();
    let site = format!("network = \"n.toml\"\nlink_gbps = 10\npat_gbps = {pat_gbps}\n{servers}");
    let site = Site::parse(&site, NETWORK).unwrap();
    let settings = Settings { period_ms: PERIOD_MS, ..Settings::default() };
    let draw = || Token([7; TOKEN_LEN]);
    let (mut manager, _) =
        Manager::start(site, settings, by_name(policy).unwrap(), draw, durable, 0);
    for (connection, server) in (0..).zip(SERVERS) {
        let (server, processes) = (server.to_owned(), Vec::new());
        manager.handle(0, Event::Registered { connection, server, incarnation: 1, processes });
    }
    manager
}

fn request(name: &str, gpus: u32, value: f64) -> Request {
    Request {
        key: String::new(),
        name: name.into(),
        model: String::new(),
        gpus,
        value,
        iterations: 1,
        compute_us: 0,
        gradient_bytes: 1_000_000,
        retries: 0,
        command: Vec::new(),
        directory: String::new(),
        tenant: Some("blue".into()),
        max_rate: None,
    }
}

fn submit(manager: &mut Manager, request: Request, quota: Quota) -> Result<u32, Refusal> {
    let actions = manager.handle(0, Event::Submit(1, Box::new(request), quota));
    let answer = actions.into_iter().find_map(|action| match action {
        Action::Answer(_, answer) => Some(answer),
        _ => None,
    });
    answer.unwrap()
}

/// Has this round take place, from 1.
fn round(manager: &mut Manager, number: u64) -> Vec<Action> {
    manager.handle_timeout(number * PERIOD_MS)
}

/// A log in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The lines about decisions that a call logs.
fn logged(call: impl FnOnce()) -> Vec<String> {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .without_time()
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, call);
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once(&format!("{DECISIONS}: ")));
    lines.map(|(_, line)| line.to_owned()).collect()
}

#[test]
fn each_decision_is_one_line_of_the_log() {
    let mut manager = manager("netpack:apart", Durable::default());
    let lines = logged(|| {
        submit(&mut manager, request("big", 4, 3.0), Quota::default()).unwrap();
        round(&mut manager, 1);
        submit(&mut manager, request("next", 4, 1.0), Quota::default()).unwrap();
        submit(&mut manager, request("small", 1, 1.0), Quota::default()).unwrap();
        for number in 2..6 {
            round(&mut manager, number);
        }
        manager.handle(600, Event::Cancel(2, 2));
    });
    let expected = [
        "accepted: 4 GPUs, value 3 job=1 name=\"big\" tenant=\"blue\"",
        "placed job=1 name=\"big\" tenant=\"blue\" attempt=1 workers=\"w2×2 w3×2\" ps=\"w1\" aggregating=\"s1\" \
         rate_gbps=10.0 value=6.0 policy=\"netpack\"",
        "accepted: 4 GPUs, value 1 job=2 name=\"next\" tenant=\"blue\"",
        "accepted: 1 GPU, value 1 job=3 name=\"small\" tenant=\"blue\"",
        "placed on one server: it sends nothing job=3 name=\"small\" tenant=\"blue\" attempt=1 \
         workers=\"w1×1\" value=3.0 policy=\"netpack\"",
        "waits: it wants 4 GPUs, and 1 is free job=2 name=\"next\" tenant=\"blue\" value=3.0 policy=\"netpack\"",
        "cancelled job=2 name=\"next\" tenant=\"blue\"",
    ];
    assert_eq!(lines, expected, "four rounds pass the job over, for one reason");
}

#[test]
fn a_job_is_admitted_under_its_own_number_for_its_tenant() {
    let mut manager = manager("netpack:apart", Durable::default());
    submit(&mut manager, request("small", 1, 5.0), Quota::default()).unwrap();
    let job = submit(&mut manager, request("wide", 4, 1.0), Quota::default()).unwrap();
    let admitted = round(&mut manager, 1).into_iter().find_map(|action| match action {
        Action::Admit(admission) => Some(admission),
        _ => None,
    });
    let admitted = admitted.unwrap();
    assert_eq!((u32::from(admitted.wire), admitted.tenant.as_deref()), (job, Some("blue")));
    let (wire, epoch, ps) = (admitted.wire, 7, admitted.ps);
    let lines = logged(|| {
        manager.handle(100, Event::Admitted { wire, epoch, ps });
        manager.handle(200, Event::Serving([wire].into()));
        manager.handle(300, Event::Serving([].into()));
    });
    let expected = [
        "the switches serve it job=2 name=\"wide\" tenant=\"blue\" packet_id=2 run=7",
        "the switches no longer serve it job=2 name=\"wide\" tenant=\"blue\"",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_job_that_is_passed_over_names_those_that_took_its_gpus() {
    let mut manager = manager("netpack", Durable::default());
    let low = submit(&mut manager, request("low", 6, 1.0), Quota::default()).unwrap();
    let high = submit(&mut manager, request("high", 5, 4.0), Quota::default()).unwrap();
    round(&mut manager, 1);
    assert!(matches!(manager.durable().jobs[&high].phase, Phase::Running(_)));
    assert_eq!(
        manager.waits()[&low].to_string(),
        "passed over: it wants 6 GPUs for a value of 2.000; of the 6 that were free, others took 5: job 2 \
         (value 8.000)"
    );
    round(&mut manager, 2);
    assert_eq!(manager.waits()[&low], Wait::Busy { wanted: 6, free: 1 });
}

#[test]
fn tenants_do_not_learn_of_each_others_jobs() {
    let mut manager = manager("netpack", Durable::default());
    let of = |tenant: Option<&str>, request: Request| Request {
        tenant: tenant.map(str::to_owned),
        ..request
    };
    let low = of(Some("red"), request("low", 6, 1.0));
    let unseen = of(None, request("unseen", 6, 1.0));
    let [low, unseen] =
        [low, unseen].map(|request| submit(&mut manager, request, Quota::default()).unwrap());
    submit(&mut manager, request("high", 5, 8.0), Quota::default()).unwrap();
    round(&mut manager, 1);
    let why = |job| manager.waits()[&job].to_string();
    assert!(why(low).ends_with("others took 5: 1 job of other tenants"), "{}", why(low));
    assert!(why(unseen).ends_with("others took 5: job 3 (value 16.000)"), "{}", why(unseen));
}

#[test]
fn a_tenants_values_have_a_limit_of_their_own() {
    let mut manager = manager("netpack", Durable::default());
    let mut ask = |value, max_value| {
        let quota = Quota { max_value, ..Quota::default() };
        submit(&mut manager, request("valued", 1, value), quota).map_err(|error| error.to_string())
    };
    let refused = Err("a value of 1.1e1: choose at most 10 for tenant `blue`".to_owned());
    assert_eq!(ask(11.0, Some(10.0)), refused);
    assert_eq!(ask(10.0, Some(10.0)), Ok(1));
    let usual = ask(1e308, None).unwrap_err();
    assert_eq!(usual, "a value of 1e308: choose at most 1000 for tenant `blue`");
    assert_eq!(ask(5000.0, Some(5000.0)), Ok(2), "more than others may have");
}

/// NetPack §5.2, step 4.
#[test]
fn a_job_for_which_the_switch_has_no_memory_left_is_summed_by_its_parameter_server() {
    let mut manager = manager_with(1.0, "netpack", Durable::default());
    for name in ["one", "two"] {
        submit(&mut manager, request(name, 3, 1.0), Quota::default()).unwrap();
    }
    let actions = round(&mut manager, 1);
    let admitted = actions.into_iter().filter_map(|action| match action {
        Action::Admit(admission) => Some((admission.at_server, admission.ps.is_some())),
        _ => None,
    });
    let mut admitted: Vec<_> = admitted.collect();
    admitted.sort_unstable();
    assert_eq!(admitted, [(false, true), (true, true)]);
    let mut adding = [1, 2].map(|job| manager.explain(PERIOD_MS, job).unwrap().switches.len());
    adding.sort_unstable();
    assert_eq!(adding, [0, 1]);
}

fn workers(place: &v1::Place) -> Vec<(&str, u32)> {
    place.workers.iter().map(|worker| (worker.server.as_str(), worker.gpus)).collect()
}

#[test]
fn a_job_is_explained_by_the_plans_of_its_round_and_its_share_of_the_network() {
    let mut manager = manager("netpack:apart", Durable::default());
    let job = submit(&mut manager, request("big", 4, 1.0), Quota::default()).unwrap();
    let waiting = manager.explain(50, job).unwrap();
    assert_eq!((waiting.rate_gbps, waiting.decided, waiting.value), (None, false, 1.0));
    round(&mut manager, 1);
    let explained = manager.explain(900, job).unwrap();
    assert_eq!((explained.rate_gbps, explained.value), (Some(10.0), 2.0));
    assert_eq!(explained.policy, "netpack");
    let best = &explained.plans[0];
    let place = best.place.as_ref().unwrap();
    assert_eq!((workers(place), &*place.parameter_server), (vec![("w2", 2), ("w3", 2)], "w1"));
    // Idle links are worth 10 Gb/s each. The candidate has three servers, and the job gives back the GPUs
    // of the first: its link counts as one that a worker and the parameter server share.
    let terms = [best.worth_gbps, best.workers_gbps, best.ps_gbps, best.hot_spot_gbps];
    assert_eq!(terms, [45.0, 30.0, 10.0, 5.0]);
    assert_eq!(explained.switches[0].switch, "s1");
    assert_eq!(
        (explained.switches[0].aggregated_gbps, explained.switches[0].left_gbps),
        (10.0, 10.0)
    );
    let links: Vec<_> = explained.links.iter().map(|at| (&*at.server, at.flows)).collect();
    assert_eq!(links, [("w1", 1), ("w2", 1), ("w3", 1)]);
    let distance = explained.distance.as_ref().unwrap();
    assert_eq!((distance.skipped, distance.cost_s), (0, distance.least_s));
    assert!(explained.decided);
    // What a job would get now, if it waited.
    assert_eq!(waiting.plans, explained.plans);

    // The next manager does not know what its predecessor weighed.
    let mut next = self::manager("netpack:apart", manager.durable().clone());
    let again = next.explain(900, job).unwrap();
    assert_eq!(again, v1::ExplainResponse { decided: false, ..explained });
    assert_eq!(next.explain(900, 9), Err(Refusal::Unknown(9)));
}

/// What happened to a job, with the times.
fn history(durable: &Durable, job: u32) -> Vec<(u64, &str)> {
    durable.jobs[&job].history.iter().map(|moment| (moment.at_ms, &*moment.what)).collect()
}

#[test]
fn a_job_keeps_what_happened_to_it_over_restarts() {
    let mut first = manager("netpack:apart", Durable::default());
    submit(&mut first, request("wide", 4, 1.0), Quota::default()).unwrap();
    round(&mut first, 1);
    first.handle(130, Event::Admitted { wire: 1, epoch: 5, ps: None });
    // A repeated answer is no news.
    first.handle(140, Event::Admitted { wire: 1, epoch: 5, ps: None });
    first.handle(150, Event::Serving(BTreeSet::new()));
    first.handle(160, Event::Admitted { wire: 1, epoch: 5, ps: None });
    let mut second = manager("netpack:apart", first.durable().clone());
    second.handle(165, Event::Admitted { wire: 1, epoch: 5, ps: None });
    second.handle(170, Event::Cancel(2, 1));
    assert_eq!(
        history(second.durable(), 1),
        [
            (0, "accepted: 4 GPUs, value 1"),
            (100, "attempt 1 on w2×2 w3×2, parameter server on w1"),
            (130, "the switches serve it as number 1 in packets"),
            (150, "the switches no longer serve it"),
            (160, "the switches serve it as number 1 in packets"),
            (170, "attempt 1 ends: a client cancels the job"),
        ]
    );
}

#[test]
fn a_history_has_a_bound_and_keeps_the_submission() {
    let mut manager = manager("netpack:apart", Durable::default());
    submit(&mut manager, request("wide", 4, 1.0), Quota::default()).unwrap();
    round(&mut manager, 1);
    for at in 0..200 {
        manager.handle(200 + at, Event::Admitted { wire: 1, epoch: 5, ps: None });
        manager.handle(200 + at, Event::Serving(BTreeSet::new()));
    }
    let history = history(manager.durable(), 1);
    assert_eq!(history.len(), MOMENTS);
    assert_eq!(history[0], (0, "accepted: 4 GPUs, value 1"));
    assert_eq!(history[MOMENTS - 1], (399, "the switches no longer serve it"));
}
