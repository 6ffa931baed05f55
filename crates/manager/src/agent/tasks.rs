//! An agent's state of its processes, without I/O.

use std::collections::BTreeMap;

use crate::job::{Exit, TaskId};
use crate::manager::ProcessState;

/// The processes of one server during one life of its agent.
///
/// A process is started at most once: a process that was started before, whether it has ended or
/// not, is not started again until the manager has acknowledged its end. After that the manager
/// does not request it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tasks(BTreeMap<TaskId, State>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum State {
    Running,
    /// The agent was told to end it.
    Stopping,
    Exited(Exit),
}

/// The effect of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Start the process.
    Spawn(TaskId),
    /// End the process: first SIGTERM, then SIGKILL.
    Terminate(TaskId),
    /// Report to the manager.
    Report(ProcessState),
}

impl Tasks {
    /// The running processes, and those that ended without an acknowledgement.
    #[must_use]
    pub fn processes(&self) -> Vec<ProcessState> {
        let process = |(&task, state): (&TaskId, &State)| match state {
            State::Running | State::Stopping => ProcessState { task, exit: None },
            State::Exited(exit) => ProcessState { task, exit: Some(exit.clone()) },
        };
        self.0.iter().map(process).collect()
    }

    /// The manager requests a process.
    pub fn start(&mut self, task: TaskId) -> Vec<Effect> {
        if let Some(state) = self.0.get(&task) {
            let exit = match state {
                State::Exited(exit) => Some(exit.clone()),
                _ => None,
            };
            return vec![Effect::Report(ProcessState { task, exit })];
        }
        self.0.insert(task, State::Running);
        vec![Effect::Spawn(task), Effect::Report(ProcessState { task, exit: None })]
    }

    /// The manager does not need a process any more.
    pub fn stop(&mut self, task: TaskId) -> Vec<Effect> {
        let exit = match self.0.get_mut(&task) {
            Some(state @ State::Running) => {
                *state = State::Stopping;
                return vec![Effect::Terminate(task)];
            }
            Some(State::Stopping) => return Vec::new(),
            Some(State::Exited(exit)) => exit.clone(),
            None => Exit::lost("it was never started"),
        };
        vec![Effect::Report(ProcessState { task, exit: Some(exit) })]
    }

    /// The manager has recorded the end of a process.
    pub fn acknowledge(&mut self, task: TaskId) {
        if matches!(self.0.get(&task), Some(State::Exited(_))) {
            self.0.remove(&task);
        }
    }

    /// A process has ended, or could not be started.
    pub fn exited(&mut self, task: TaskId, exit: Exit) -> Vec<Effect> {
        match self.0.get_mut(&task) {
            Some(state @ (State::Running | State::Stopping)) => {
                *state = State::Exited(exit.clone());
                vec![Effect::Report(ProcessState { task, exit: Some(exit) })]
            }
            _ => Vec::new(),
        }
    }
}
