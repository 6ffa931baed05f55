//! Client of the switches' controller.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::mpsc::Sender;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tributary_access::{Remote, remote};
use tributary_api::jobs::v1;
use tributary_api::jobs::v1::jobs_client::JobsClient;
use tributary_base::Backoff;
use tributary_wire::Epoch;

use crate::manager::{Action, Admission, Event};
use crate::shell::Input;

/// Interval at which the client lists the served jobs, because the controller may have restarted.
const INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time for an answer. A sweep visits all aggregators.
const PATIENCE: Duration = Duration::from_secs(40);

/// Maximum time between two attempts for one job.
const PAUSE_MAX: Duration = Duration::from_secs(16);

/// Carries out the manager's requests to the switches until the manager ends. A failed request is
/// repeated until it is no longer needed. If the controller does not answer, requests wait until it
/// does. If one job fails, its request is repeated with exponential backoff up to a bound, while
/// requests for other jobs continue.
pub async fn follow(
    controller: Remote,
    mut wishes: UnboundedReceiver<Action>,
    inputs: Sender<Input>,
) {
    let channel = controller.with_timeout(PATIENCE).connect_lazy();
    let mut switches = Switches { client: JobsClient::new(channel), inputs };
    // By job; a newer request replaces an older one.
    let mut open: BTreeMap<u16, Wish> = BTreeMap::new();
    let mut problem: Option<String> = None;
    loop {
        match tokio::time::timeout(INTERVAL, wishes.recv()).await {
            Ok(Some(wish)) => note(&mut open, wish),
            Ok(None) => return,
            Err(_) => {}
        }
        while let Ok(wish) = wishes.try_recv() {
            note(&mut open, wish);
        }
        let found = switches.meet(&mut open).await.err().map(|status| remote::reason(&status));
        if found != problem {
            match &found {
                None => tracing::info!("the switches' controller answers again"),
                Some(why) => tracing::warn!("the switches' controller: {why}"),
            }
            problem.clone_from(&found);
            switches.tell(Event::Controller(found));
        }
    }
}

/// The manager's request for one job.
#[derive(Debug)]
struct Wish {
    action: Action,
    /// When it is next attempted.
    due: Instant,
    /// Pauses after attempts that fail.
    backoff: Backoff,
}

impl Wish {
    /// Records a failed attempt.
    fn put_off(&mut self, wire: u16, status: &Status) {
        let pause = self.backoff.next_pause();
        if pause == INTERVAL {
            let reason = remote::reason(status);
            tracing::warn!(job = wire, "the controller: {reason}; it is asked again");
        }
        self.due = Instant::now() + pause;
    }
}

fn note(open: &mut BTreeMap<u16, Wish>, action: Action) {
    match &action {
        Action::Admit(Admission { wire, .. }) | Action::Release(wire) => {
            let wire = *wire;
            let backoff = Backoff::new(INTERVAL, PAUSE_MAX);
            open.insert(wire, Wish { action, due: Instant::now(), backoff });
        }
        _ => {}
    }
}

/// A job that the switches serve.
struct Served {
    workers: Vec<String>,
    ps: String,
    epoch: u32,
}

impl Served {
    /// Whether it is in a run that was begun with this epoch, or in a later one.
    fn is_of(&self, first: Option<u32>) -> bool {
        let (own, first) = (Epoch::new(self.epoch), first.and_then(Epoch::new));
        own.zip(first).is_some_and(|(own, first)| own == first || own.is_after(first))
    }
}

struct Switches {
    client: JobsClient<Channel>,
    inputs: Sender<Input>,
}

impl Switches {
    /// Reports the served jobs, and then carries out the requests.
    async fn meet(&mut self, open: &mut BTreeMap<u16, Wish>) -> Result<(), Status> {
        let serving = self.list().await?;
        self.tell(Event::Serving(serving.keys().copied().collect()));
        let now = Instant::now();
        let due: Vec<u16> =
            open.iter().filter(|(_, wish)| wish.due <= now).map(|(&wire, _)| wire).collect();
        for wire in due {
            let Some(wish) = open.get_mut(&wire) else { continue };
            let outcome = match &wish.action {
                Action::Admit(admission) => self.admit(admission, serving.get(&wire)).await,
                _ => self.release(wire).await,
            };
            match outcome {
                Ok(event) => {
                    open.remove(&wire);
                    self.tell(event);
                }
                Err(status) => {
                    wish.put_off(wire, &status);
                    if matches!(wish.action, Action::Admit(_)) {
                        let reason = remote::reason(&status);
                        self.tell(Event::Delayed { wire, reason });
                    }
                }
            }
        }
        Ok(())
    }

    fn tell(&self, event: Event) {
        // The manager may have ended.
        let _ = self.inputs.send(Input::Event(event));
    }

    /// Lists all served jobs.
    async fn list(&mut self) -> Result<BTreeMap<u16, Served>, Status> {
        let jobs = self.client.list(v1::ListRequest {}).await?.into_inner().jobs;
        // One with a lease is no manager's, but of the processes of a job.
        let jobs = jobs.into_iter().filter(|job| job.lease.is_none());
        let described = jobs.filter_map(|job| {
            let wire = u16::try_from(job.job_id).ok()?;
            let v1::Job { workers, parameter_server: ps, epoch, .. } = job;
            Some((wire, Served { workers, ps, epoch }))
        });
        Ok(described.collect())
    }

    async fn admit(
        &mut self,
        admission: &Admission,
        served: Option<&Served>,
    ) -> Result<Event, Status> {
        let Admission { wire, ref workers, ref ps, epoch, max_rate, .. } = *admission;
        let there = |served: &Served| {
            served.workers == *workers && ps.as_ref().is_none_or(|ps| *ps == served.ps)
        };
        match served {
            // Its workers may have begun another run.
            Some(served) if served.is_of(epoch) && there(served) => {
                let ps = Some(served.ps.clone()).filter(|ps| !ps.is_empty());
                return Ok(Event::Admitted { wire, epoch: served.epoch, ps });
            }
            // The job stems from a manager that lost its database, or from an admission whose
            // answer was lost.
            Some(_) => drop(self.release(wire).await?),
            None => {}
        }
        let request = v1::AdmitRequest {
            job_id: wire.into(),
            name: admission.name.clone(),
            workers: workers.clone(),
            parameter_server: ps.clone().unwrap_or_default(),
            aggregation: match admission.at_server {
                true => v1::Aggregation::Server.into(),
                false => v1::Aggregation::Unspecified.into(),
            },
            epoch: epoch.unwrap_or_default(),
            max_rate: max_rate.map_or(0, NonZeroU64::get),
            tenant: admission.tenant.clone().unwrap_or_default(),
            settings: admission.settings.clone(),
            key: admission.key.0.to_vec(),
            ..v1::AdmitRequest::default()
        };
        match self.client.admit(request).await {
            Ok(admitted) => {
                let v1::AdmitResponse { epoch, parameter_server, .. } = admitted.into_inner();
                let ps = Some(parameter_server).filter(|ps| !ps.is_empty());
                Ok(Event::Admitted { wire, epoch, ps })
            }
            Err(status) => match status.code() {
                Code::Unavailable | Code::Aborted | Code::DeadlineExceeded | Code::Cancelled => {
                    Err(status)
                }
                // The request was repeated because the first answer was lost. The next list will
                // show the job.
                Code::AlreadyExists => Err(status),
                code => {
                    let passing = matches!(code, Code::ResourceExhausted | Code::Internal);
                    let reason = status.message().to_owned();
                    Ok(Event::Refused { wire, reason, passing })
                }
            },
        }
    }

    async fn release(&mut self, wire: u16) -> Result<Event, Status> {
        match self.client.release(v1::ReleaseRequest { job_id: wire.into() }).await {
            Ok(_) => Ok(Event::Released(wire)),
            Err(status) if status.code() == Code::NotFound => Ok(Event::Released(wire)),
            Err(status) => Err(status),
        }
    }
}
