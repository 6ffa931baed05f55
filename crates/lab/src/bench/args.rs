//! Arguments of `tributary-lab bench`.

use std::path::PathBuf;

use clap::ValueEnum;
use tributary_netio::device::Kind as Io;
use tributary_run::fabric::Kind as Fabric;

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Benchmark {
    /// Packets per second of the engine alone, by values per packet.
    Engine,
    /// The engine and its goals: interpreter and machine code, a plain loop over the same
    /// registers, lookups by match kind and number of entries, the time from source to first
    /// packet, and BMv2 if it is installed.
    Switch,
    /// Goodput of all-reduce, by workers and tensor size; with `--peers`, beside OpenMPI and Gloo.
    Allreduce,
    /// BMv2 and the embedded switch: packets, goodput and processor time of one all-reduce, in
    /// network namespaces. Only if named: it needs BMv2 and p4c.
    Bmv2,
    /// The simulator beside the `--fabric`s of this machine: 30 job files on both. Only if named.
    Calibration,
    /// Fixed-point conversion and addition, compared with memcpy, in caches and in memory.
    Fixed,
    /// ESA and ATP: throughput of jobs that share a pool too small for them, over tensor sizes and
    /// numbers of jobs (figure 7 of ESA's paper).
    Esa,
    /// AF_PACKET and AF_XDP, and the switch and a plain forwarder: packets and processor time, by
    /// packet size.
    Io,
    /// P4INC, ATP, ESA and SwitchML: throughput of one to eight local jobs, with the same bytes of
    /// switch memory.
    Protocols,
    /// Recovery on a machine that others use, on each `--fabric`: the time of an all-reduce at 0, 1 and
    /// 10 % loss beside 0, 2 and 8 busy loops. Fails if one takes longer than the loops explain. Only if
    /// named.
    Load,
    /// Cost of loss for each protocol, in virtual time: the fraction of the goodput that remains at
    /// 0.1 to 20 %, with both rules of recovery. Then the same jobs on each `--fabric` of this
    /// machine.
    Loss,
    /// The simulator: packet hops per second of one core, by protocol and number of hosts, beside
    /// ns-3 if it is installed; the growth of its run time with workers; memory per packet.
    Sim,
    /// One worker alone, on one core and without I/O: elements per second and time per fragment.
    Worker,
}

/// A P4 program of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Program {
    /// First come, first served.
    Atp,
    /// Preemptive, with priorities.
    Esa,
}

/// What to measure, and how.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to measure; everything by default.
    #[arg(value_enum)]
    pub what: Vec<Benchmark>,
    /// Fabrics to measure all-reduce, sharing, load and loss on, and to compare the simulator with.
    #[arg(long, value_enum, default_values_t = [Fabric::default()])]
    pub fabric: Vec<Fabric>,
    /// Repetitions of each measurement; the spread is printed.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub repeat: u32,
    /// Use smaller tensors, and fewer numbers of workers, jobs and values.
    #[arg(long)]
    pub quick: bool,
    /// Programs for the engine.
    #[arg(long, value_enum, default_values_t = [Program::Atp, Program::Esa])]
    pub program: Vec<Program>,
    /// For `calibration`, `esa` and `protocols`: longest random pause before each tensor, in microseconds.
    #[arg(long, value_name = "US", default_value_t = 300)]
    pub jitter: u32,
    /// For `esa`: aggregators shared by all jobs.
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub pool: u32,
    /// For `protocols`: memory of the switch for aggregators, in KiB.
    ///
    /// With 133, eight jobs of P4INC or SwitchML have 32 slots each.
    #[arg(long, value_name = "KIB", default_value_t = 133)]
    pub memory: u32,
    /// For `loss`: busy loops that run beside the jobs on fabrics, at most 1024.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1024))]
    pub busy: u32,
    /// For `allreduce --peers`, `calibration`, `esa`, `load`, `loss`, `protocols` and `switch`: also write every
    /// measurement as JSON.
    #[arg(long, value_name = "FILE")]
    pub json_out: Option<PathBuf>,
    /// For `calibration`, `esa`, `loss` and `protocols`: also draw the plots, as SVG into this directory.
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
    /// For `switch`: also measure SAI P4, from this folder: `sai_p4` of sonic-pins.
    #[arg(long, value_name = "DIR")]
    pub sai: Option<PathBuf>,
    /// For `switch`: also write the entries and keys of the tables of masks into this directory, to
    /// measure another classifier with them.
    #[arg(long, value_name = "DIR")]
    pub rules: Option<PathBuf>,
    /// Options of `allreduce --peers`.
    #[command(flatten)]
    pub peers: Peers,
}

/// Options of `allreduce --peers`.
#[derive(Debug, clap::Args)]
pub struct Peers {
    /// For `allreduce`: measure our protocols in network namespaces, and in turns with them OpenMPI
    /// and Gloo (through PyTorch), over TCP and a bridge between namespaces.
    #[arg(long, conflicts_with = "fabric")]
    pub peers: bool,
    /// For `--peers`: a Python interpreter that can import torch.
    #[arg(long, value_name = "PYTHON", default_value = "python3", requires = "peers")]
    pub python: PathBuf,
    /// For `--peers`: how our protocols send and receive frames.
    #[arg(long, value_name = "KIND", default_value_t = Io::Gso, requires = "peers")]
    pub io: Io,
    /// For `--peers`: numbers of workers, 2 to 32 (one switch).
    ///
    /// Default 2,4,8; with `--quick` 2,4.
    #[arg(long, value_name = "N", value_delimiter = ',', requires = "peers",
        value_parser = clap::value_parser!(u32).range(2..=32))]
    pub workers: Vec<u32>,
    /// For `--peers`: sizes of a worker's tensor, 4 B to 1 GiB.
    ///
    /// Default 64KiB,1MiB,4MiB,64MiB,256MiB; with `--quick` 64KiB,4MiB.
    #[arg(long, value_name = "SIZE", value_delimiter = ',', requires = "peers",
        value_parser = tensor_size)]
    pub sizes: Vec<u64>,
    /// For `--peers`: MTUs of all links, 1500 to 9000 bytes. Default 1500,9000.
    #[arg(long, value_name = "BYTES", value_delimiter = ',', requires = "peers",
        value_parser = clap::value_parser!(u32).range(1500..=9000))]
    pub mtu: Vec<u32>,
}

/// Largest tensor of `allreduce --peers`, in bytes.
const LARGEST: u64 = 1 << 30;

fn tensor_size(text: &str) -> Result<u64, String> {
    let size =
        tributary_base::document::size(text).ok_or("write a size with its unit, such as 64KiB")?;
    if !size.is_multiple_of(4) || !(4..=LARGEST).contains(&size) {
        return Err("choose a multiple of 4 bytes, from 4B to 1GiB".to_owned());
    }
    Ok(size)
}
