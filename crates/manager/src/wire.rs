//! Conversion between protobuf messages and the manager's types.

use tonic::Status;
use tributary_api::placement::v1;

use crate::job::{Exit, Moment, Outcome, Phase, Record, Request, Task, TaskId};
use crate::manager::{Dismissal, ProcessState, Refusal};

impl From<TaskId> for v1::TaskId {
    fn from(TaskId { job, attempt, worker }: TaskId) -> Self {
        Self { job_id: job, attempt, worker: worker.into() }
    }
}

impl From<Exit> for v1::Exit {
    fn from(Exit { outcome, detail, values, verified }: Exit) -> Self {
        let outcome = match outcome {
            Outcome::Success => v1::exit::Outcome::Success,
            Outcome::Failure => v1::exit::Outcome::Failure,
            Outcome::Lost => v1::exit::Outcome::Lost,
        };
        Self { outcome: outcome.into(), detail, values, verified }
    }
}

impl From<v1::Exit> for Exit {
    fn from(exit: v1::Exit) -> Self {
        let outcome = match exit.outcome() {
            v1::exit::Outcome::Success => Outcome::Success,
            v1::exit::Outcome::Lost => Outcome::Lost,
            v1::exit::Outcome::Failure | v1::exit::Outcome::Unspecified => Outcome::Failure,
        };
        let v1::Exit { detail, values, verified, .. } = exit;
        Self { outcome, detail, values, verified }
    }
}

impl From<ProcessState> for v1::Report {
    fn from(ProcessState { task, exit }: ProcessState) -> Self {
        Self { id: Some(task.into()), exit: exit.map(Into::into) }
    }
}

/// A message lacks a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a message names no process")]
pub struct Nameless;

impl TryFrom<Option<v1::TaskId>> for TaskId {
    type Error = Nameless;

    fn try_from(id: Option<v1::TaskId>) -> Result<Self, Nameless> {
        let v1::TaskId { job_id, attempt, worker } = id.ok_or(Nameless)?;
        let worker = u8::try_from(worker).map_err(|_| Nameless)?;
        Ok(Self { job: job_id, attempt, worker })
    }
}

impl TryFrom<v1::Report> for ProcessState {
    type Error = Nameless;

    fn try_from(report: v1::Report) -> Result<Self, Nameless> {
        Ok(Self { task: report.id.try_into()?, exit: report.exit.map(Into::into) })
    }
}

impl From<v1::SubmitRequest> for Request {
    fn from(request: v1::SubmitRequest) -> Self {
        Self {
            key: request.key,
            name: request.name,
            model: request.model,
            gpus: request.gpus,
            value: request.value,
            iterations: request.iterations,
            compute_us: request.compute_us,
            gradient_bytes: request.gradient_bytes,
            retries: request.retries,
            command: request.command,
            directory: request.directory,
            // The service knows them.
            tenant: None,
            max_rate: None,
        }
    }
}

impl From<&Request> for v1::SubmitRequest {
    fn from(request: &Request) -> Self {
        Self {
            key: request.key.clone(),
            name: request.name.clone(),
            model: request.model.clone(),
            gpus: request.gpus,
            value: request.value,
            iterations: request.iterations,
            compute_us: request.compute_us,
            gradient_bytes: request.gradient_bytes,
            retries: request.retries,
            command: request.command.clone(),
            directory: request.directory.clone(),
        }
    }
}

impl From<&Moment> for v1::Moment {
    fn from(Moment { at_ms, what }: &Moment) -> Self {
        Self { at_ms: *at_ms, what: what.clone() }
    }
}

impl From<&Record> for v1::Job {
    fn from(record: &Record) -> Self {
        use v1::job::State;
        let (state, run) = match &record.phase {
            Phase::Waiting => (State::Waiting, None),
            Phase::Running(run) => (State::Running, Some(run)),
            Phase::Ending(run, _) => (State::Ending, Some(run)),
            Phase::Finished(run) => (State::Finished, Some(run)),
            Phase::Failed(_) => (State::Failed, None),
            Phase::Cancelled => (State::Cancelled, None),
        };
        let task = |task: &Task| v1::Task {
            id: Some(record.task(task.worker).into()),
            server: task.server.clone(),
            gpus: task.gpus,
            exit: task.exit.clone().map(Into::into),
        };
        Self {
            job_id: record.id,
            request: Some((&record.request).into()),
            state: state.into(),
            submitted_ms: record.submitted_ms,
            attempts: record.attempts,
            tasks: run.into_iter().flat_map(|run| &run.tasks).map(task).collect(),
            server: run.and_then(|run| run.ps.clone()).unwrap_or_default(),
            // A view of the manager knows it.
            reason: String::new(),
            tenant: record.request.tenant.clone().unwrap_or_default(),
            packet_id: record.phase.run().and_then(|run| run.wire).unwrap_or_default().into(),
            // Most readers do not want it.
            history: Vec::new(),
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let text = refusal.to_string();
        match refusal {
            Refusal::Invalid(_) => Self::invalid_argument(text),
            Refusal::Unknown(_) => Self::not_found(text),
            Refusal::Taken(_) => Self::already_exists(text),
            Refusal::Quota { .. } => Self::resource_exhausted(text),
            Refusal::Over(..) | Refusal::NoLog(_) => Self::failed_precondition(text),
        }
    }
}

impl From<Dismissal> for Status {
    fn from(dismissal: Dismissal) -> Self {
        let text = dismissal.to_string();
        match dismissal {
            Dismissal::NoSuchServer(_) => Self::not_found(text),
            Dismissal::Taken(_) | Dismissal::Newer => Self::aborted(text),
        }
    }
}
