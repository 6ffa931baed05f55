//! A disk that is full, and then has space again.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use tonic::transport::Channel;
use tonic::{Code, Status};
use tributary_access::Remote;
use tributary_api::jobs::v1;
use tributary_api::jobs::v1::jobs_client::JobsClient;

use crate::command::{JobFile, fail, text, tributary};
use crate::on_demand::switch;

/// Time limit of each wait.
const SOON: Duration = Duration::from_secs(30);

const FILE: &str = "protocol = \"p4inc\"\n[topology]\nkind = \"star\"\nworkers = 2\n[switch]\npool = 256\n\
                    [[job]]\nsegment = 16\nwindow = 8\nslots = 8\n\
                    workload = { kind = \"random\", tensors = 1, elements = 10 }\n";

/// A small file system in memory, until it is dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts it at a new directory; prints a message if that is not possible here.
    fn mount(path: PathBuf) -> Option<Self> {
        fs::create_dir(&path).unwrap();
        let options = Some("size=3m");
        match mount(Some("tmpfs"), &path, Some("tmpfs"), MsFlags::empty(), options) {
            Ok(()) => Some(Self(path)),
            Err(error) => {
                println!("skipped: no file system can be mounted here ({error})");
                None
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn fill(&self) {
        let mut file = fs::File::create(self.path("filler")).unwrap();
        let full = loop {
            if let Err(error) = file.write_all(&[1; 512]) {
                break error;
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    }

    fn free(&self) {
        fs::remove_file(self.path("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

struct Controller {
    process: Child,
    log: PathBuf,
    runtime: tokio::runtime::Runtime,
    client: JobsClient<Channel>,
}

impl Drop for Controller {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

impl Controller {
    fn start(file: &JobFile, journal: &Path, log: &str) -> Self {
        let (at, listen) = (
            format!("s1=unix:{}", file.path("switch.sock").display()),
            format!("unix:{}", file.path("jobs.sock").display()),
        );
        let (name, journal) = (file.name(), journal.display().to_string());
        let args =
            ["controller", &name, "--switch", &at, "--listen", &listen, "--journal", &journal];
        let args = [&args[..], &["--on-demand"]].concat();
        let log = file.path(log);
        let mut command = tributary(&args);
        command.stdout(Stdio::null()).stderr(fs::File::create(&log).unwrap());
        let process = command.spawn().unwrap();
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        let client = {
            let _context = runtime.enter();
            JobsClient::new(Remote::new(&listen, None).unwrap().unwrap().connect_lazy())
        };
        let mut own = Self { process, log, runtime, client };
        let deadline = Instant::now() + SOON;
        while own.jobs().is_err() {
            assert!(Instant::now() < deadline, "it does not serve: {}", own.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        own
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    fn jobs(&mut self) -> Result<Vec<u32>, Status> {
        let listed = self.runtime.block_on(self.client.list(v1::ListRequest {}))?;
        Ok(listed.into_inner().jobs.iter().map(|job| job.job_id).collect())
    }

    fn admit(&mut self, job_id: u32) -> Result<(), Status> {
        let request = v1::AdmitRequest {
            stepped: true,
            job_id,
            name: format!("{job_id:064}"),
            workers: vec!["w1".into(), "w2".into()],
            aggregation: v1::Aggregation::Network.into(),
            size: 1,
            ..v1::AdmitRequest::default()
        };
        self.runtime.block_on(self.client.admit(request)).map(drop)
    }

    fn release(&mut self, job_id: u32) -> Result<(), Status> {
        self.runtime.block_on(self.client.release(v1::ReleaseRequest { job_id })).map(drop)
    }
}

#[test]
fn a_controller_goes_on_when_the_disk_of_its_journal_has_space_again() {
    let file = JobFile::new(FILE);
    let Some(disk) = SmallDisk::mount(file.path("disk")) else { return };
    let journal = disk.path("journal.redb");
    let _switch = switch(&file, "switch.sock");
    let mut controller = Controller::start(&file, &journal, "first.log");
    controller.admit(1).unwrap();
    disk.fill();
    // The first ones may find room in what the file has already.
    let mut known = vec![1];
    let refused = loop {
        let next = known.len() as u32 + 1;
        assert!(next < 200, "the disk is not full");
        match controller.admit(next) {
            Ok(()) => known.push(next),
            Err(refused) => break refused,
        }
    };
    for refused in [refused, controller.admit(250).unwrap_err()] {
        let said = "No space left on device (os error 28); free some space on its file system";
        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
        assert!(refused.message().contains(said), "{refused}");
    }
    assert_eq!(controller.jobs().unwrap(), known);
    disk.free();
    controller.release(1).unwrap();
    known.remove(0);
    controller.admit(251).unwrap();
    known.push(251);
    assert_eq!(controller.jobs().unwrap(), known);
    let log = controller.log();
    let count = |said: &str| log.lines().filter(|line| line.contains(said)).count();
    assert_eq!(count("jobs stay as they are until it can be written"), 1, "{log}");
    assert_eq!(count("it can be written again"), 1, "{log}");
    // What it said is what the next one finds.
    drop(controller);
    let mut controller = Controller::start(&file, &journal, "second.log");
    assert_eq!(controller.jobs().unwrap(), known);
}

/// Neither a report that is cut short, nor a part of it under another name.
#[test]
fn an_output_file_on_a_full_disk_stays_as_it_was() {
    let file = JobFile::new(FILE);
    let Some(disk) = SmallDisk::mount(file.path("disk")) else { return };
    let (name, out) = (file.name(), disk.path("report.json"));
    let path = out.display().to_string();
    let args = ["run", &name, "--fabric", "memory", "--json-out", &path];
    let names = || -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let names = fs::read_dir(&disk.0).unwrap().map(|entry| name(entry).into_string().unwrap());
        names.collect()
    };
    disk.fill();
    let line = fail(&args);
    assert!(line.contains("cannot write the report") && line.contains("No space left"), "{line}");
    assert_eq!(names(), ["filler"]);
    disk.free();
    fs::write(&out, "earlier").unwrap();
    disk.fill();
    fail(&args);
    assert_eq!(fs::read(&out).unwrap(), b"earlier");
    disk.free();
    let output = tributary(&args).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(fs::read_to_string(&out).unwrap().ends_with("}\n"));
    assert_eq!(names(), ["report.json"]);
}
