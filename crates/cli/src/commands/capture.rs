//! `tributary capture`: the frames of a network interface, for Wireshark.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tributary_netio::Watch;
use tributary_netio::capture::{Direction, Frame, Interface, Recorder};
use tributary_netio::packet::Sniffer;

use crate::args::CaptureArgs;
use tributary_base::program::stop_flag;

/// Interval of checks for the end.
const TICK: Duration = Duration::from_millis(100);

/// Bytes of frames that may wait in the kernel, in each direction.
const ROOM: usize = 32 << 20;

/// Captures until Ctrl-C, or until a limit is reached, and prints counts.
///
/// # Errors
/// One line that describes the problem. What was captured before stays in the file.
pub(crate) fn run(args: &CaptureArgs) -> Result<()> {
    let stop = stop_flag()?;
    let port = (!args.all).then_some(tributary_wire::PORT);
    // Opened before the file is created, so that an error leaves no empty file.
    let mut sniffer = Sniffer::open(&args.interface, port, ROOM)?;
    let what = match port {
        Some(port) => format!("UDP to port {port}"),
        None => "all frames".into(),
    };
    let interface = Interface { name: args.interface.clone(), description: what.clone() };
    let comment = format!("tributary capture of {what} on {}", args.interface);
    let output = args.out.display();
    let recorder = Recorder::queued(open(&args.out)?, &comment, &[interface])
        .with_context(|| format!("cannot write {output}"))?;
    let followed = follow(&mut sniffer, &recorder, args, &stop);
    let (summary, written) = recorder.finish();
    let counters = sniffer.statistics().context("cannot read the counters of the socket")?;
    // Standard output may be the capture itself.
    eprintln!(
        "{} frames captured; {} dropped by the kernel, {} not written in time, {} not understood",
        summary.written, counters.dropped, summary.dropped, counters.unusable
    );
    match written {
        // A reader that has seen enough closes the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        other => other.with_context(|| format!("cannot write {output}"))?,
    }
    followed
}

/// Opens the output: a new file, or standard output.
fn open(path: &Path) -> Result<Box<dyn Write + Send>> {
    if path == Path::new("-") {
        ensure!(!io::stdout().is_terminal(), "a capture is not text; name a file with --out");
        return Ok(Box::new(io::stdout()));
    }
    match File::create_new(path) {
        Ok(file) => Ok(Box::new(file)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            bail!("{} exists; choose another name, or remove it", path.display())
        }
        Err(error) => Err(error).with_context(|| format!("cannot write {}", path.display())),
    }
}

/// Records frames until the end.
fn follow(
    sniffer: &mut Sniffer,
    recorder: &Recorder,
    args: &CaptureArgs,
    stop: &AtomicBool,
) -> Result<()> {
    let end = args.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds.into()));
    let most = args.count.unwrap_or(u64::MAX);
    let mut seen = 0;
    let mut watch = Watch::new();
    while seen < most && !stop.load(Ordering::Relaxed) && !recorder.has_failed() {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            break;
        }
        let more = sniffer.receive(&mut |passing| {
            if seen == most {
                return;
            }
            seen += 1;
            let direction = if passing.outgoing { Direction::Outbound } else { Direction::Inbound };
            let (time, bytes) = (passing.time, passing.frame);
            recorder.frame(&Frame { time, interface: 0, direction, bytes, comment: None });
        })?;
        if !more && seen < most {
            sniffer.watch(&mut watch);
            watch
                .sleep(Some(left.map_or(TICK, |left| left.min(TICK))))
                .context("cannot wait for frames")?;
        }
    }
    Ok(())
}
