//! `tributary place slurm` with Slurm itself: slurmctld and three slurmd in network namespaces, and
//! jobs whose workers sum over the switch.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tributary_api::jobs::v1;
use tributary_api::jobs::v1::jobs_client::JobsClient;
use tributary_base::programs;
use tributary_run::testbed::{Process, Stream};

use crate::by_hand::{DEADLINE, Net, until};
use crate::command::{JobFile, fail, failure, namespaces, root, succeed, text, tributary};

/// The nodes of Slurm. The host `ctl` has the controllers of Slurm and of the switch.
const NODES: [&str; 3] = ["w1", "w2", "w3"];

const TOPOLOGY: &str = "SwitchName=s1 Nodes=w[1-3]\n";

/// What Slurm does not know: the host of the controllers, and the switch's settings.
const REST: &str = "\n[[topology.host]]\nname = \"ctl\"\nrole = \"ps\"\n\n[[topology.link]]\n\
                    between = [\"ctl\", \"s1\"]\n\n[switch]\npool = 512\n\n";

/// The address of the switches' controller, which nodes reach through the switch.
const CONTROLLER: &str = "10.0.1.4:9641";

/// Whether Slurm is installed, and this process may run its daemons; prints a message if not.
fn slurm() -> bool {
    let mut needed = ["slurmctld", "slurmd", "sbatch", "unshare"].into_iter();
    let missing = needed.find(|name| programs::on_path(name).is_none());
    if let Some(program) = missing {
        println!("skipped: {program} not found (Debian's slurm-wlm)");
        return false;
    }
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: Slurm's daemons need root here");
        return false;
    }
    namespaces()
}

/// A cluster of Slurm, whose daemons end with it.
struct Cluster {
    net: Net,
    controller: Option<Process>,
    slurmctld: Option<Process>,
    placer: Option<Process>,
    _slurmd: Vec<Process>,
    _servers: Vec<Process>,
}

impl Cluster {
    fn start() -> Self {
        Self::of("atp")
    }

    /// A cluster whose jobs have this protocol.
    fn of(protocol: &str) -> Self {
        let net = Net::with("", &["w1", "w2", "w3", "ctl"]);
        let mut cluster = Self {
            net,
            controller: None,
            slurmctld: None,
            placer: None,
            _slurmd: Vec::new(),
            _servers: Vec::new(),
        };
        cluster.configure();
        // Slurm's own packets pass the switch too, which forwards them once it is programmed.
        cluster.make_files(protocol);
        cluster.start_controller();
        cluster._servers = NODES
            .map(|node| {
                let args = ["ps", "--controller", CONTROLLER, "--interface", "eth0"];
                cluster.net.start(node, &args)
            })
            .into();
        cluster.start_slurmctld();
        cluster._slurmd = NODES.map(|node| cluster.start_slurmd(node)).into();
        cluster.until_idle();
        cluster.start_placer();
        cluster
    }

    fn path(&self, name: &str) -> PathBuf {
        self.net.file.path(name)
    }

    fn configure(&self) {
        let directory = self.path("");
        let directory = directory.display().to_string();
        let directory = directory.trim_end_matches('/');
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let host = host.trim();
        let nodes = (1..).zip(NODES).map(|(number, node): (u8, _)| {
            format!(
                "NodeName={node} NodeHostname={host} NodeAddr=10.0.1.{number} Port=6818 CPUs=4 \
                 RealMemory=100 Gres=gpu:2\n"
            )
        });
        let config = format!(
            "ClusterName=test\nSlurmctldHost={host}(10.0.1.4)\nSlurmUser=root\nAuthType=auth/none\n\
             CredType=cred/none\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nGresTypes=gpu\n\
             TopologyPlugin=topology/tree\nSlurmdParameters=config_overrides\nReturnToService=2\n\
             JobAcctGatherType=jobacct_gather/none\nSwitchType=switch/none\nMpiDefault=none\nKillWait=1\n\
             CompleteWait=0\nSchedulerParameters=sched_interval=1,bf_interval=1\n\
             StateSaveLocation={directory}/state\nSlurmdSpoolDir={directory}/spool-%n\n\
             SlurmctldPidFile={directory}/slurmctld.pid\nSlurmdPidFile={directory}/slurmd-%n.pid\n\
             SlurmctldLogFile={directory}/slurmctld.log\nSlurmdLogFile={directory}/slurmd-%n.log\n\
             PrologSlurmctld={directory}/prolog.sh\nEpilogSlurmctld={directory}/epilog.sh\n{}\
             PartitionName=main Nodes=ALL Default=YES State=UP\n",
            nodes.collect::<String>()
        );
        let write = |name: &str, text: &str| std::fs::write(self.path(name), text).unwrap();
        write("slurm.conf", &config);
        // Slurm wants a device for each GPU, and these are everywhere.
        let gpus =
            "NodeName=w[1-3] Name=gpu File=/dev/null\nNodeName=w[1-3] Name=gpu File=/dev/zero\n";
        write("gres.conf", gpus);
        write("topology.conf", TOPOLOGY);
        for name in
            NODES.map(|node| format!("spool-{node}")).iter().map(String::as_str).chain(["state"])
        {
            std::fs::create_dir_all(self.path(name)).unwrap();
        }
        for hook in ["prolog.sh", "epilog.sh"] {
            self.hook(hook, &std::fs::read_to_string(example(hook)).unwrap());
        }
    }

    /// Writes a hook, with the paths of this test.
    fn hook(&self, name: &str, text: &str) {
        let program = Path::new(env!("CARGO_BIN_EXE_tributary")).parent().unwrap().display();
        let directory = self.path("").display().to_string();
        let text = text
            .replace("/usr/local/bin", &program.to_string())
            .replace("127.0.0.1:9641", CONTROLLER)
            .replace("/var/log/slurm/", &directory)
            .replace("export PATH", &format!("export SLURM_CONF={directory}slurm.conf PATH"));
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// The network file and the site file.
    fn make_files(&self, protocol: &str) {
        self.topology("site", &["--gpus", "2"]);
        let network = self.path("site/network.toml");
        let text = std::fs::read_to_string(&network).unwrap();
        let (topology, job) = text.split_once("[[job]]").unwrap();
        std::fs::write(
            &network,
            format!("protocol = \"{protocol}\"\n{topology}{REST}[[job]]{job}"),
        )
        .unwrap();
    }

    /// Makes both files in a directory.
    fn topology(&self, directory: &str, options: &[&str]) {
        let topology = self.path("topology.conf").display().to_string();
        let out = self.path(directory).display().to_string();
        let args = ["place", "slurm", "topology", &topology, "--out", &out];
        self.call(&[&args[..], options].concat());
    }

    fn network(&self) -> String {
        self.path("site/network.toml").display().to_string()
    }

    fn start_slurmctld(&mut self) {
        self.slurmctld = Some(self.daemon("ctl", "slurmctld", &["-D"]));
    }

    fn start_slurmd(&self, node: &str) -> Process {
        // Everything that it starts ends with its process namespace, however the test ends.
        let args =
            ["--pid", "--fork", "--mount-proc", "--kill-child=KILL", "slurmd", "-D", "-N", node];
        self.daemon(node, "unshare", &args)
    }

    fn daemon(&self, node: &str, program: &str, args: &[&str]) -> Process {
        let mut command = Command::new(program);
        command.args(args).env("SLURM_CONF", self.path("slurm.conf"));
        self.net.spawn(node, command)
    }

    fn start_controller(&mut self) {
        let at = format!("s1={}", self.net.socket());
        let args = [
            "controller",
            &self.network(),
            "--switch",
            &at,
            "--on-demand",
            "--listen",
            CONTROLLER,
            "--allow-anyone",
        ];
        let controller = self.net.start("ctl", &args);
        until(&controller, "end with Ctrl-C");
        self.controller = Some(controller);
    }

    fn start_placer(&mut self) {
        let site = self.path("site/site.toml").display().to_string();
        let mut command =
            tributary(&["place", "slurm", &site, "--controller", CONTROLLER, "--period", "300"]);
        command.env("SLURM_CONF", self.path("slurm.conf"));
        let placer = self.net.spawn("ctl", command);
        until(&placer, "end with Ctrl-C");
        self.placer = Some(placer);
    }

    fn kill(process: &mut Option<Process>) {
        process.take().unwrap().kill().unwrap();
    }

    /// What the placer has printed since it was started.
    fn said(&self) -> String {
        self.placer.as_ref().unwrap().output(Stream::Out)
    }

    /// Runs a command on the host of the controllers.
    fn finish(&self, mut command: Command) -> String {
        command.env("SLURM_CONF", self.path("slurm.conf")).current_dir(self.path(""));
        let output = self.net.run_in("ctl", || command.output().unwrap());
        assert!(output.status.success(), "{command:?}: {}{}", text(&output.stderr), self.logs());
        text(&output.stdout)
    }

    fn slurm(&self, args: &[&str]) -> String {
        let mut command = Command::new(args[0]);
        command.args(&args[1..]);
        self.finish(command)
    }

    fn call(&self, args: &[&str]) -> String {
        self.finish(tributary(args))
    }

    /// Submits the example with options. Returns the job's ID.
    fn submit(&self, tensors: u32, options: &[&str]) -> u32 {
        let program = Path::new(env!("CARGO_BIN_EXE_tributary")).parent().unwrap();
        let path = std::env::join_paths(
            [program.to_owned()]
                .into_iter()
                .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
        );
        let mut command = Command::new("sbatch");
        command
            .args(["--parsable", "--no-requeue", "--output", "job-%j.log"])
            .arg(format!("--comment=tributary gradients=200000 sums={tensors}"))
            .args(options)
            .arg(example("sum.sbatch"))
            .env("PATH", path.unwrap())
            .env("CONTROLLER", CONTROLLER);
        self.finish(command).trim().parse().unwrap()
    }

    fn state(&self, job: u32) -> String {
        let shown = self.slurm(&["scontrol", "show", "job", &job.to_string()]);
        let state = shown.split_whitespace().find_map(|word| word.strip_prefix("JobState="));
        state.unwrap().to_owned()
    }

    fn log(&self, job: u32) -> String {
        std::fs::read_to_string(self.path(&format!("job-{job}.log"))).unwrap_or_default()
    }

    /// Runs of the jobs that the switch serves, by number.
    fn served(&self) -> BTreeMap<u32, u32> {
        let list = || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let address = format!("http://{CONTROLLER}");
                let mut client = JobsClient::connect(address).await.unwrap();
                client.list(v1::ListRequest {}).await.unwrap().into_inner().jobs
            })
        };
        let jobs = self.net.run_in("ctl", list);
        jobs.into_iter().map(|job| (job.job_id, job.epoch)).collect()
    }

    fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !done(self) {
            assert!(Instant::now() < deadline, "not within {DEADLINE:?}: {what}\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until no node is used or down. A node that was down returns when it registers.
    fn until_idle(&self) {
        self.until("all nodes are idle", |cluster| {
            let states = cluster.slurm(&["sinfo", "--noheader", "-N", "-o", "%T"]);
            states.lines().filter(|state| *state == "idle").count() == NODES.len()
        });
    }

    /// Waits until a job's workers sum.
    fn until_summing(&self, job: u32) {
        self.until("the workers sum", |cluster| cluster.log(job).contains("round 5 of"));
    }

    fn until_released(&self, job: u32) {
        self.until("the job is released", |cluster| !cluster.served().contains_key(&job));
    }

    fn logs(&self) -> String {
        let end = |name: &str| {
            let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
            let from = text.len().saturating_sub(1500);
            format!("== {name}\n{}\n", text.get(from..).unwrap_or_default())
        };
        let files = ["slurmctld.log", "slurmd-w1.log", "tributary.log", "job-1.log", "job-2.log"];
        let placer = self.placer.as_ref().map(|placer| placer.output(Stream::Out));
        files.map(end).concat() + &placer.unwrap_or_default()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.slurm(&["scancel", "--user=root"]);
        self.until("all jobs have ended", |cluster| {
            cluster.slurm(&["squeue", "--noheader"]).trim().is_empty()
        });
    }
}

fn example(name: &str) -> PathBuf {
    root().join("examples/slurm").join(name)
}

#[test]
fn jobs_of_slurm_sum_in_the_network_and_leave_nothing() {
    if !slurm() {
        return;
    }
    let mut cluster = Cluster::start();
    cluster.topology("asked", &["--data-network", "10.0.1.0/24"]);
    let read = |name: &str| std::fs::read_to_string(cluster.path(name)).unwrap();
    assert_eq!(read("asked/site.toml"), read("site/site.toml"), "Slurm knows the GPUs");
    assert!(read("asked/network.toml").contains("ip = \"10.0.1.3\""), "and the addresses");

    // Three nodes, then one node.
    let spread = cluster.submit(30, &["--gpus=5", "--ntasks=5"]);
    cluster.until("it has finished", |cluster| cluster.state(spread) == "COMPLETED");
    let log = cluster.log(spread);
    assert_eq!(log.matches("1500000 values summed, 1500000 of them compared").count(), 3, "{log}");
    cluster.until_released(spread);
    let said = cluster.said();
    assert!(said.contains(&format!("job {spread}: placed on w1 (")), "{said}");
    assert!(said.contains("summed in the network"), "{said}");
    let alone = cluster.submit(1, &["--gpus=2", "--ntasks=2"]);
    cluster.until("it has finished", |cluster| cluster.state(alone) == "COMPLETED");
    assert!(cluster.log(alone).contains("sends nothing"), "{}", cluster.logs());

    // A job that cannot be placed, and one that only waits.
    let refused = cluster.submit(1, &["--gpus=7", "--ntasks=7"]);
    let long = cluster.submit(100_000, &["--gpus=4", "--ntasks=4"]);
    cluster.until_summing(long);
    let waiting = cluster.submit(1, &["--gpus=3", "--ntasks=3"]);
    cluster.until("both are left", |cluster| {
        let said = cluster.said();
        said.contains(&format!("job {refused}: it asks for 7 GPUs; the site has 6"))
            && said.contains(&format!("job {waiting}: it waits for 3 GPUs in partition main"))
    });
    cluster.slurm(&["scancel", &refused.to_string(), &waiting.to_string()]);

    // A job outlives its placer, slurmctld and the switch's controller. It keeps its run.
    let run = cluster.served()[&long];
    Cluster::kill(&mut cluster.placer);
    Cluster::kill(&mut cluster.controller);
    // Killed, slurmctld would forget the changes of its last seconds.
    let slurmctld = cluster.slurmctld.take().unwrap();
    slurmctld.ask_to_end();
    slurmctld.end(DEADLINE).unwrap();
    cluster.start_slurmctld();
    cluster.start_controller();
    cluster.start_placer();
    cluster.until("it is admitted again", |cluster| cluster.served().get(&long) == Some(&run));
    assert_eq!(cluster.state(long), "RUNNING", "{}", cluster.logs());
    cluster.slurm(&["scancel", &long.to_string()]);
    cluster.until_released(long);

    // A node fails.
    let failing = cluster.submit(100_000, &["--gpus=6", "--ntasks=6"]);
    cluster.until_summing(failing);
    cluster.slurm(&["scontrol", "update", "NodeName=w2", "State=DOWN", "Reason=test"]);
    cluster.until_released(failing);
    cluster.until("Slurm says why", |cluster| cluster.state(failing) == "NODE_FAIL");
    cluster.until_idle();

    // The epilog does nothing, so the placer releases the job.
    cluster.hook("epilog.sh", "#!/bin/sh\n");
    let kept = cluster.submit(100_000, &["--gpus=4", "--ntasks=4"]);
    cluster.until_summing(kept);
    cluster.slurm(&["scancel", &kept.to_string()]);
    cluster.until_released(kept);
    let what = format!("job {kept}: released at the controller: Slurm has ended it");
    cluster.until("the placer tells", |cluster| cluster.said().contains(&what));
}

#[test]
fn jobs_of_slurm_may_be_of_other_protocols() {
    if !slurm() {
        return;
    }
    for protocol in ["esa", "p4inc"] {
        let cluster = Cluster::of(protocol);
        let spread = cluster.submit(30, &["--gpus=4", "--ntasks=4"]);
        cluster.until("it has finished", |cluster| cluster.state(spread) == "COMPLETED");
        let log = cluster.log(spread);
        assert_eq!(log.matches("1500000 of them compared").count(), 2, "{protocol}: {log}");
        cluster.until_released(spread);
    }
}

/// Runs ten jobs. Returns the time until the last one has ended, the mean time until one has, and
/// how many ran on several nodes.
fn ten_jobs(cluster: &Cluster, released: bool) -> (f64, f64, usize) {
    let began = Instant::now();
    let jobs = [4_u32, 2, 3, 1, 4, 2, 5, 3, 2, 4].map(|gpus| {
        let gpus = gpus.to_string();
        let job = cluster.submit(60, &["--gpus", &gpus, "--ntasks", &gpus]);
        if released {
            cluster.slurm(&["scontrol", "release", &job.to_string()]);
        }
        job
    });
    let mut ended = BTreeMap::new();
    while ended.len() < jobs.len() {
        let states = cluster.slurm(&["squeue", "--noheader", "--states=all", "-o", "%i %T"]);
        for (job, state) in states.lines().filter_map(|line| line.trim().split_once(' ')) {
            let job: u32 = job.parse().unwrap();
            assert!(
                !["FAILED", "CANCELLED"].contains(&state) || !jobs.contains(&job),
                "{job}: {state}"
            );
            if state == "COMPLETED" && jobs.contains(&job) {
                ended.entry(job).or_insert_with(|| began.elapsed().as_secs_f64());
            }
        }
        assert!(began.elapsed() < 5 * DEADLINE, "{}", cluster.logs());
        std::thread::sleep(Duration::from_millis(50));
    }
    let logs = jobs.map(|job| cluster.log(job));
    let spread = logs.iter().filter(|log| log.contains("3000000 of them compared")).count();
    let alone = logs.iter().filter(|log| log.contains("sends nothing")).count();
    assert_eq!(spread + alone, jobs.len(), "{}", logs.concat());
    let last = ended.values().copied().fold(0.0, f64::max);
    (last, ended.values().sum::<f64>() / jobs.len() as f64, spread)
}

#[test]
#[ignore = "a measurement"]
fn ten_small_jobs_by_netpack_and_by_slurm() {
    if !slurm() {
        return;
    }
    let mut cluster = Cluster::start();
    for _ in 0..3 {
        let (last, mean, spread) = ten_jobs(&cluster, false);
        println!("NetPack: {last:.1} s, mean {mean:.1} s, {spread} on several nodes");
        Cluster::kill(&mut cluster.placer);
        let (last, mean, spread) = ten_jobs(&cluster, true);
        println!("Slurm:   {last:.1} s, mean {mean:.1} s, {spread} on several nodes");
        cluster.start_placer();
    }
}

#[test]
fn files_are_made_from_slurms_topology() {
    for file in ["topology.conf", "topology.yaml"] {
        let file = example(file).display().to_string();
        let scratch = JobFile::new("");
        let out = scratch.path("out").display().to_string();
        let args = ["place", "slurm", "topology", &file, "--gpus", "4", "--out", &out];
        let said = succeed(&args);
        assert!(said.contains("3 switches and 4 hosts") && said.contains("16 GPUs"), "{said}");
        let network = scratch.path("out/network.toml");
        let shown = succeed(&["network", &network.display().to_string()]);
        assert!(shown.contains("rack2"), "{shown}");
        let line = fail(&args);
        assert!(line.contains("network.toml exists; remove it"), "{line}");
    }
}

#[test]
fn bad_input_is_refused_in_one_line() {
    let file = JobFile::new("SwitchName=s1 Nodes=n[1-2\n");
    let (name, out) = (file.name(), file.path("out").display().to_string());
    let line = fail(&["place", "slurm", "topology", &name, "--gpus", "4", "--out", &out]);
    assert!(line.contains("job.toml: line 1: Nodes: `n[1-2`: a bracket"), "{line}");
    std::fs::write(file.path("network.toml"), "[topology]\nkind = \"star\"\n[[job]]\n").unwrap();
    let site = file.path("site.toml").display().to_string();
    std::fs::write(&site, "network = \"network.toml\"\n[[server]]\nhost = \"w1\"\ngpus = 1\n")
        .unwrap();
    let line = fail(&["place", "slurm", &site, "--policy", "best"]);
    assert!(line.contains("there is no such policy; there are netpack"), "{line}");
    let hook = |variables: &[(&str, &str)], args: &[&str]| {
        let args = [&["place", "slurm"], args].concat();
        let mut command = tributary(&args);
        for name in ["SLURM_JOB_ID", "SLURM_JOB_NODELIST"] {
            command.env_remove(name);
        }
        failure(&args, &command.envs(variables.iter().copied()).output().unwrap())
    };
    assert!(hook(&[], &["prolog"]).contains("SLURM_JOB_ID is not set"));
    assert!(hook(&[("SLURM_JOB_ID", "x")], &["prolog"]).contains("SLURM_JOB_ID=x: it is not"));
    let job = [("SLURM_JOB_ID", "1"), ("SLURM_JOB_NODELIST", "n[1-2]")];
    let line = hook(&job, &["epilog", "--controller", "nowhere"]);
    assert!(line.contains("nowhere: it is not an address"), "{line}");
    let line = hook(&job, &["epilog", "--controller", "127.0.0.1:1", "--timeout", "0"]);
    assert!(line.contains("job 1: the switches' controller: it does not answer"), "{line}");
}
