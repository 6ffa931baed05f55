//! `tributary switch --explain`: explains live packets.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tributary_switch::explained::forks::Fork;
use tributary_switch::explained::{Node, json, text, tree};
use tributary_switch::runtime::Control;
use tributary_switch::trace::{Budget, Filter, Recording, Tracing};
use tributary_switch::{Forwarding, Switch};

use crate::args::SwitchArgs;

/// Time between two looks for traces, each of which interrupts the switch.
const EVERY: Duration = Duration::from_millis(200);

/// Where traces go.
enum Out {
    Text(Box<dyn Write>),
    /// One document per line.
    Json(File),
}

/// The traces of a running switch.
pub(super) struct Traces {
    filter: Filter,
    budget: Arc<Budget>,
    out: Out,
    looked: Instant,
    done: bool,
}

impl Traces {
    /// `None` if no packet is to be traced.
    pub(super) fn new(args: &SwitchArgs, program: Option<&Forwarding>) -> Result<Option<Self>> {
        let Some(filter) = &args.explain else { return Ok(None) };
        let filter = Filter::parse(filter).context("--explain")?;
        if let Some(program) = program {
            filter.check(program.pipeline()).context("--explain")?;
        }
        let out = match &args.explain_out {
            None => Out::Text(Box::new(io::stdout())),
            Some(path) => Out::open(path)?,
        };
        let budget = Arc::new(Budget::new(args.explain_count, args.explain_rate));
        Ok(Some(Self { filter, budget, out, looked: Instant::now(), done: false }))
    }

    pub(super) fn start(&mut self, control: &Control) -> Result<()> {
        let tracing = Tracing::new(self.filter.clone(), Arc::clone(&self.budget));
        control.call(|switch, _| switch.set_tracing(Some(tracing)))?;
        Ok(())
    }

    /// Calls [`Self::write`] from time to time.
    pub(super) fn look(&mut self, control: &Control) -> Result<()> {
        if self.done || self.looked.elapsed() < EVERY {
            return Ok(());
        }
        self.looked = Instant::now();
        self.write(control)
    }

    /// Writes the traces that are complete.
    pub(super) fn write(&mut self, control: &Control) -> Result<()> {
        // Once no packet can be traced any more, the switch is left alone.
        let last = self.budget.is_spent();
        let Ok((trees, idle)) = control.call(|switch, _| {
            let trees = trees(switch);
            (trees, !switch.is_tracing())
        }) else {
            return Ok(());
        };
        for (tree, source, cut) in trees {
            self.out.write(&tree, &source, cut)?;
        }
        self.done = last && idle;
        Ok(())
    }
}

/// The trees of all complete traces, each with the program's name and whether it is cut.
fn trees(switch: &mut Switch) -> Vec<(Node, String, bool)> {
    let recordings: Vec<Recording> = std::iter::from_fn(|| switch.poll_trace()).collect();
    let Some(forwarding) = switch.forwarding().filter(|_| !recordings.is_empty()) else {
        return Vec::new();
    };
    let program = forwarding.pipeline().program();
    let explain = |recording: Recording| {
        let Recording { port, frame, steps, cut, .. } = recording;
        (tree(program, port, &frame, &Fork::straight(steps)), program.source.clone(), cut)
    };
    recordings.into_iter().map(explain).collect()
}

impl Out {
    fn open(path: &Path) -> Result<Self> {
        let file =
            File::create(path).with_context(|| format!("--explain-out {}", path.display()))?;
        let json = path.extension().is_some_and(|extension| extension == "json");
        Ok(if json { Self::Json(file) } else { Self::Text(Box::new(file)) })
    }

    fn write(&mut self, node: &Node, source: &str, cut: bool) -> Result<()> {
        let failed = "cannot write a trace";
        match self {
            Self::Text(out) => {
                let more = if cut { "(more steps than are kept)\n" } else { "" };
                writeln!(out, "{}{more}", text(node, false, true))
                    .and_then(|()| out.flush())
                    .context(failed)
            }
            Self::Json(out) => {
                let document = json(node, source, 1, cut);
                writeln!(out, "{document}").context(failed)
            }
        }
    }
}
