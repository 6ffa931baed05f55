//! The processes of parameter servers and reminder agents. One that dies is started again: workers keep what
//! the next one needs, so the sums stay exact.

use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::testbed::{Output, Process, Stream, Testbed};
use anyhow::Result;
use tokio::sync::mpsc::UnboundedSender;
use tributary_base::restarts::{Restarts, is_death};
use tributary_netio::FrameCount;
use tributary_ps::report::Event;

use super::{Note, ending};

/// Time limit for a server that was started again to be ready, before it is asked to end.
const READY_TIME: Duration = Duration::from_secs(5);

/// Takes the frames at the host of a server so far.
pub(super) type Count = Arc<dyn Fn(FrameCount) + Send + Sync>;

/// All servers of a run.
#[derive(Default)]
pub(super) struct Servers(Vec<Server>);

struct Server {
    what: String,
    node: String,
    command: Command,
    process: Process,
    since: Instant,
    /// Whether it has said that it serves.
    ready: Arc<AtomicBool>,
    restarts: Restarts,
    state: State,
    count: Count,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Running,
    /// It is started again at this time.
    Dead(Instant),
    /// Its end was reported.
    Over,
}

impl Servers {
    /// Starts the servers of a host.
    pub(super) fn add(
        &mut self,
        node: &str,
        what: &str,
        command: Command,
        testbed: &Testbed,
        notes: &UnboundedSender<Note>,
        count: Count,
    ) -> Result<()> {
        let (process, ready) = start(node, &command, testbed, notes, &count)?;
        self.0.push(Server {
            what: format!("the {what} on {node}"),
            node: node.to_owned(),
            command,
            process,
            since: Instant::now(),
            ready,
            restarts: Restarts::default(),
            state: State::Running,
            count,
        });
        Ok(())
    }

    /// Starts the dead ones again. Returns what is to be said about one of them.
    pub(super) fn attend(
        &mut self,
        testbed: &Testbed,
        notes: &UnboundedSender<Note>,
    ) -> Option<Note> {
        self.0.iter_mut().find_map(|server| match server.attend(testbed, notes) {
            Ok(note) => note,
            Err(error) => Some(Note::Broken(format!("{}: {error:#}", server.what))),
        })
    }

    /// The names and processes.
    pub(super) fn processes(&self) -> impl Iterator<Item = (&str, &Process)> {
        self.0.iter().map(|server| (server.what.as_str(), &server.process))
    }

    /// Processor time of all so far; `None` if one has ended.
    pub(super) fn cpu_time(&self) -> Option<Duration> {
        self.0.iter().map(|server| server.process.cpu_time().ok()).sum()
    }

    /// The processes, which are about to end. One that has died is started again first, because all
    /// report at their end.
    pub(super) fn finish(
        &mut self,
        testbed: &Testbed,
        notes: &UnboundedSender<Note>,
    ) -> Vec<Process> {
        for server in &mut self.0 {
            if let State::Dead(at) = &mut server.state {
                *at = Instant::now();
                if let Err(error) = server.attend(testbed, notes) {
                    tracing::warn!("{}: {error:#}", server.what);
                }
            }
            let deadline = Instant::now() + READY_TIME;
            while server.restarts != Restarts::default()
                && server.state == State::Running
                && !server.process.is_stopped()
                && !server.ready.load(Ordering::Relaxed)
                && Instant::now() < deadline
            {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        self.0.drain(..).map(|server| server.process).collect()
    }
}

impl Server {
    fn attend(&mut self, testbed: &Testbed, notes: &UnboundedSender<Note>) -> Result<Option<Note>> {
        match self.state {
            State::Running => {
                let status = self.process.wait(Some(Duration::ZERO))?;
                Ok(status.and_then(|status| self.ended(status)))
            }
            State::Dead(at) if at <= Instant::now() => {
                let started = start(&self.node, &self.command, testbed, notes, &self.count);
                (self.process, self.ready) = started?;
                (self.since, self.state) = (Instant::now(), State::Running);
                Ok(None)
            }
            State::Dead(_) | State::Over => Ok(None),
        }
    }

    fn ended(&mut self, status: ExitStatus) -> Option<Note> {
        self.state = State::Over;
        if status.success() {
            return None;
        }
        let ending = ending(&self.process, status);
        let pause = is_death(status).then(|| self.restarts.died(self.since.elapsed())).flatten();
        let Some(pause) = pause else {
            return Some(Note::Broken(format!("{} {ending}", self.what)));
        };
        self.state = State::Dead(Instant::now() + pause);
        Some(Note::Warning(format!("{} {ending}; it is started again", self.what)))
    }
}

/// Starts a process. The flag is raised when it is ready.
fn start(
    node: &str,
    command: &Command,
    testbed: &Testbed,
    notes: &UnboundedSender<Note>,
    count: &Count,
) -> Result<(Process, Arc<AtomicBool>)> {
    let ready = Arc::<AtomicBool>::default();
    let (sink, flag, count) = (notes.clone(), Arc::clone(&ready), Arc::clone(count));
    let lines = Output::Lines(Arc::new(move |stream, line: &str| {
        if stream == Stream::Out
            && let Ok(event) = serde_json::from_str::<Event>(line)
        {
            match event {
                Event::Frames(frames) => return count(frames),
                Event::Ready => flag.store(true, Ordering::Relaxed),
                _ => {}
            }
            drop(sink.send(Note::Servers(event)));
        }
    }));
    Ok((testbed.spawn(node, again(command), lines)?, ready))
}

/// A copy of a command line, because a command that was started carries settings of its first start.
fn again(command: &Command) -> Command {
    let mut copy = Command::new(command.get_program());
    copy.args(command.get_args());
    copy
}
