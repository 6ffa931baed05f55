//! The ports of a switch: numbers, interfaces, rates, and a capture of their frames.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use tributary_base::document;
use tributary_netio::FrameIo;
use tributary_netio::capture::{Interface, Recorder, Tap};
use tributary_netio::device::{Config, Device};

use crate::args::SwitchArgs;
use tributary_embedded::share;

/// Opens the interface of each port, once for each thread.
pub(super) fn open(args: &SwitchArgs, ports: &[(u16, &str)]) -> Result<Vec<Vec<Device>>> {
    let configs: Vec<Config> =
        ports.iter().map(|(_, interface)| Config::switch_port(*interface)).collect();
    let threads = usize::from(args.threads);
    if threads == 1 {
        let devices = Device::open_all(args.io, &configs)?;
        return Ok(devices.into_iter().map(|device| vec![device]).collect());
    }
    let open = |config| Device::open_group(args.io, config, threads, share());
    configs.iter().map(open).collect::<Result<_, _>>().context("--threads")
}

/// Parses ports and interfaces, which must be unique.
pub(super) fn parse(texts: &[String]) -> Result<Vec<(u16, &str)>> {
    let mut ports: Vec<(u16, &str)> = Vec::with_capacity(texts.len());
    for text in texts {
        let (number, interface) = parse_port(text)?;
        if ports.iter().any(|&(known, at)| known == number || at == interface) {
            bail!("--port {text}: the port or the interface is taken; give each port its own");
        }
        ports.push((number, interface));
    }
    Ok(ports)
}

/// `N@IFACE`.
fn parse_port(text: &str) -> Result<(u16, &str)> {
    let parsed = text.split_once('@').and_then(|(number, interface)| {
        let number = number.parse().ok().filter(|number| (1..510).contains(number))?;
        (!interface.is_empty()).then_some((number, interface))
    });
    parsed.with_context(|| {
        format!("--port {text}: write PORT@INTERFACE with a port from 1 to 509, such as 1@eth0")
    })
}

/// Parses the rates of ports, in bits per second.
pub(super) fn rates(texts: &[String], ports: &[(u16, &str)]) -> Result<BTreeMap<u16, u64>> {
    let mut rates = BTreeMap::new();
    for text in texts {
        let parsed = text.split_once('=').and_then(|(port, rate)| {
            let rate = document::rate(rate).filter(|rate| *rate > 0)?;
            Some((port.trim().parse::<u16>().ok()?, rate))
        });
        let (port, rate) =
            parsed.with_context(|| format!("--rate {text}: write PORT=RATE, such as 2=10Mb/s"))?;
        let known = ports.iter().any(|&(number, _)| number == port);
        ensure!(known, "--rate {text}: there is no port {port}; add --port {port}@INTERFACE");
        ensure!(
            rates.insert(port, rate).is_none(),
            "--rate {text}: port {port} has a rate already"
        );
    }
    Ok(rates)
}

/// A capture of the frames of all ports.
pub(super) struct Capture {
    recorder: Recorder,
    path: PathBuf,
}

impl Capture {
    /// Begins a file, which must not exist.
    pub(super) fn start(path: &Path, ports: &[(u16, &str)]) -> Result<Self> {
        let interface = |&(number, interface): &(u16, &str)| Interface {
            name: interface.to_owned(),
            description: format!("port {number}"),
        };
        let interfaces: Vec<Interface> = ports.iter().map(interface).collect();
        let recorder = Recorder::create(path, "tributary switch", &interfaces);
        let recorder = recorder.map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => anyhow::anyhow!(
                "--capture: {} exists; choose another name, or remove it",
                path.display()
            ),
            _ => anyhow::Error::new(error)
                .context(format!("--capture: cannot write {}", path.display())),
        })?;
        Ok(Self { recorder, path: path.to_owned() })
    }

    /// The port with this place in the list, captured.
    pub(super) fn tap(&self, at: usize, io: Box<dyn FrameIo>) -> Box<dyn FrameIo> {
        let interface = u32::try_from(at).expect("there are fewer ports");
        Box::new(Tap::new(io, self.recorder.clone(), interface))
    }

    /// Writes the rest. Returns what the file has, in words.
    pub(super) fn finish(&self) -> Result<String> {
        let (summary, written) = self.recorder.finish();
        let path = self.path.display();
        written.with_context(|| format!("--capture: cannot write {path}"))?;
        let missing = match summary.dropped {
            0 => String::new(),
            missing => format!("; {missing} are missing, which came too fast to be written"),
        };
        Ok(format!("{} frames captured in {path}{missing}", summary.written))
    }
}
