//! What to run, and how.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use tributary_controller::targets::Kind as Target;
use tributary_dataplane::EngineKind;
use tributary_metrics::Metrics;
use tributary_netio::device::Kind as Io;
use tributary_p4::Architecture;
use tributary_sim::Processing;

use crate::capture::Capture;
use crate::fabric::{CrossConnectKind, Kind};
use crate::live::Hub;

/// What to run, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The job file.
    pub job_file: PathBuf,
    /// The fabric.
    pub fabric: Kind,
    /// Kind of the switches.
    pub target: Target,
    /// What joins units, on the fabric `netns`.
    pub cross_connect: CrossConnectKind,
    /// Architecture of the program.
    pub arch: Architecture,
    /// Seed that replaces the file's.
    pub seed: Option<u64>,
    /// P4 program that replaces the built-in one.
    pub p4: Option<PathBuf>,
    /// How frames are sent and received on interfaces, on the fabric `netns`.
    pub io: Io,
    /// Execution engine of embedded switches.
    pub engine: EngineKind,
    /// Whether each switch gets a core of its own, and the hosts the others, on the fabric `netns`.
    pub pin: bool,
    /// Threads of each embedded switch, at least one.
    pub switch_threads: u16,
    /// Whether to record every frame, message and event, on the fabric `sim`.
    pub trace: bool,
    /// Where to capture every frame.
    pub capture: Option<Capture>,
    /// What shows the run while it lasts.
    pub watch: Option<Hub>,
    /// Processor time of hosts and switches, on the fabric `sim`; `None` for none.
    pub processing: Option<Processing>,
    /// Gets the metrics of all parts, on the fabrics that run in real time.
    pub metrics: Metrics,
}

impl Options {
    /// Embedded switches in memory, with the job file's settings.
    #[must_use]
    pub fn new(job_file: PathBuf) -> Self {
        Self {
            job_file,
            fabric: Kind::default(),
            target: Target::default(),
            cross_connect: CrossConnectKind::default(),
            arch: Architecture::V1model,
            seed: None,
            p4: None,
            io: Io::default(),
            engine: EngineKind::default(),
            pin: false,
            switch_threads: 1,
            trace: false,
            capture: None,
            watch: None,
            processing: None,
            metrics: Metrics::off(),
        }
    }

    /// How frames are sent and received if nobody says how: over UDP sockets at the hosts where they
    /// can serve, which is between network namespaces that a run makes. Where the kernel refuses to
    /// carry many datagrams in one buffer, they go one by one.
    #[must_use]
    pub fn default_io(fabric: Kind, target: Target, cross_connect: CrossConnectKind) -> Io {
        match (fabric, target, cross_connect) {
            (Kind::Netns, Target::Embedded, CrossConnectKind::Emulated) => Io::UdpGso,
            _ => Io::Packet,
        }
    }

    /// Refuses options that exclude each other.
    pub(crate) fn check(&self) -> Result<()> {
        let Self { fabric, target, arch, io, engine, .. } = self;
        ensure!(
            !self.pin || (*fabric == Kind::Netns && *target == Target::Embedded),
            "--pin is for our own processes: it needs --fabric netns, and no --target"
        );
        ensure!(
            *io == Io::Packet || *fabric == Kind::Netns,
            "--io {io}: the fabric `{fabric}` has no network interfaces; add `--fabric netns`"
        );
        let traced = self.trace || self.capture == Some(Capture::Memory);
        ensure!(
            !traced || *fabric == Kind::Sim,
            "--frames: the fabric `{fabric}` records nothing; add `--fabric sim`"
        );
        ensure!(
            self.capture.is_none() || *io != Io::Xdp,
            "--capture: frames that AF_XDP takes cannot be captured; choose another --io"
        );
        if self.switch_threads > 1 {
            ensure!(
                *fabric != Kind::Sim && *target == Target::Embedded,
                "--switch-threads: only embedded switches in real time have threads; leave it out, \
                 or choose --fabric memory or netns, and no --target"
            );
            ensure!(
                matches!(io.of_ports(), Io::Packet | Io::Gso),
                "--switch-threads: the threads share a port's frames with --io packet, gso, udp or \
                 udp-gso only"
            );
        }
        self.check_cross_connect()?;
        match target {
            Target::Embedded => {}
            Target::Stratum => bail!(
                "--target {target}: a run starts its switches by itself; use `tributary controller \
                 --target {target}` for switches that run already"
            ),
            Target::Bmv2 => {
                ensure!(
                    io.of_ports() != Io::Gso,
                    "--io {io}: BMv2 takes datagrams one by one; use --io packet or udp"
                );
                ensure!(
                    *engine == EngineKind::Automatic,
                    "--engine {engine}: BMv2 has its own; leave --engine or --target out"
                );
                ensure!(
                    *fabric == Kind::Netns,
                    "--target bmv2 needs --fabric netns: BMv2's ports are network interfaces"
                );
                ensure!(
                    *arch == Architecture::V1model,
                    "--target bmv2 runs programs for v1model, not for {arch}: leave --target out"
                );
            }
        }
        Ok(())
    }

    fn check_cross_connect(&self) -> Result<()> {
        let Self { fabric, io, cross_connect, .. } = self;
        if *cross_connect == CrossConnectKind::Emulated {
            return Ok(());
        }
        ensure!(
            *fabric == Kind::Netns,
            "--cross-connect openvswitch needs --fabric netns: its ports are network interfaces"
        );
        ensure!(
            io.of_ports() != Io::Gso,
            "--io {io}: Open vSwitch takes datagrams one by one; use --io packet or udp"
        );
        ensure!(
            !self.pin,
            "--pin is for our own processes: leave it or --cross-connect openvswitch out"
        );
        Ok(())
    }
}
