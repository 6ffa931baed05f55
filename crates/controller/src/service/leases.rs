//! Leases: a job that has one is released by itself when no client holds it.
//!
//! Each change of the holder is a turn with a number. A grace period ends the job only if the turn in which
//! it began still lasts: then no client has held the lease in between.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tonic::Status;
use tributary_model::job::{Event, Served};
use tributary_proto::jobs::v1;
use tributary_wire::{Epoch, Run};

use super::admission::carry_through;
use super::{Admitted, Jobs, Phase, Refusal, State};

/// How long a job stays admitted while no client holds its lease.
pub const GRACE: Duration = Duration::from_secs(10);

/// Who holds the lease of a job.
#[derive(Debug)]
pub(super) struct Lease {
    /// That of the job's first run, which names the lease: it lasts longer than a run.
    pub(super) epoch: Epoch,
    turn: watch::Sender<u64>,
    is_held: bool,
}

impl Lease {
    pub(super) fn new(epoch: Epoch) -> Self {
        Self { epoch, turn: watch::Sender::default(), is_held: false }
    }

    pub(super) fn is_held(&self) -> bool {
        self.is_held
    }

    /// Begins another turn.
    fn pass(&mut self, is_held: bool) -> u64 {
        self.is_held = is_held;
        self.turn.send_modify(|turn| *turn += 1);
        *self.turn.borrow()
    }
}

/// What a holder is told.
pub(super) type Told = mpsc::Receiver<Result<v1::HoldResponse, Status>>;

impl Jobs {
    /// Begins the grace periods of all leases.
    pub(super) fn begin_grace_periods(&self) {
        let leased: Vec<Run> = {
            let state = self.state();
            let admitted = state.jobs.values().filter_map(|entry| entry.admitted.as_ref());
            let leased =
                admitted.filter_map(|job| Some(job.placement.job.run(job.lease.as_ref()?.epoch)));
            leased.collect()
        };
        leased.into_iter().for_each(|run| self.begin_grace(run));
    }

    /// Holds the lease of a job, named by its first run, until the returned channel is closed.
    ///
    /// # Errors
    /// [`Refusal::Unknown`] if the lease is over; [`Refusal::Unleased`], [`Refusal::Broken`].
    pub(super) fn hold(&self, run: Run) -> Result<Told, Refusal> {
        let (turn, mut turns, mut watched) = {
            let mut state = self.state();
            let admitted = state.leased(run)?;
            let lease = admitted.lease.as_mut().expect("it is leased");
            let turn = lease.pass(true);
            (turn, lease.turn.subscribe(), admitted.watched.subscribe())
        };
        let (sender, told) = mpsc::channel(2);
        let grace_ms = u32::try_from(self.0.grace.as_millis()).unwrap_or(u32::MAX);
        let own = self.clone();
        tokio::spawn(async move {
            // The channel has room, and a holder that is gone is noticed below.
            drop(sender.try_send(Ok(v1::HoldResponse { grace_ms })));
            let released = async { while watched.changed().await.is_ok() {} };
            let passed = async { turns.wait_for(|now| *now != turn).await.is_ok() };
            tokio::select! {
                () = sender.closed() => own.let_go(run, turn),
                () = released => {}
                true = passed => {
                    let text = format!("another client holds the lease of job {}", run.job);
                    drop(sender.try_send(Err(Status::already_exists(text))));
                }
            }
        });
        Ok(told)
    }

    /// The holder of a turn is gone.
    fn let_go(&self, run: Run, turn: u64) {
        {
            let mut state = self.state();
            let Some(lease) = state.lease(run).filter(|lease| *lease.turn.borrow() == turn) else {
                return;
            };
            lease.pass(false);
        }
        tracing::info!(%run, "no client holds the lease now");
        self.begin_grace(run);
    }

    /// Releases a job after the grace period, unless its lease is held by then.
    pub(super) fn begin_grace(&self, run: Run) {
        let turn = match self.state().lease(run) {
            Some(lease) => *lease.turn.borrow(),
            None => return,
        };
        let own = self.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(own.0.grace).await;
                match own.expire(run, turn).await {
                    Ok(()) => return,
                    Err(refusal) => tracing::warn!(
                        "job {} is not released yet, though no client holds its lease: {refusal}; trying \
                         again in {:?}",
                        run.job,
                        own.0.grace
                    ),
                }
            }
        });
    }

    /// Begins another run of a leased job, all of whose workers have all results of the run that is `over`.
    /// Completes even if the returned future is dropped. Returns the epoch of the next run, also if it has
    /// begun already.
    ///
    /// # Errors
    /// As of [`hold`](Self::hold); [`Refusal::Busy`], [`Refusal::Controller`], [`Refusal::Unrecorded`]. After
    /// the last two the job can only be released.
    pub(super) async fn renew(&self, lease: Run, over: Epoch) -> Result<Epoch, Refusal> {
        if let Some(next) = self.state().begin_renewal(lease, over)? {
            return Ok(next);
        }
        let own = self.clone();
        carry_through(async move {
            let renewed = own.0.controller.renew(lease.job).await;
            let mut state = own.state();
            let unknown = Refusal::Unknown(lease.job);
            let entry = state.jobs.get_mut(&lease.job).ok_or(unknown.clone())?;
            entry.phase = Phase::Broken;
            let epoch = renewed?;
            let admitted = entry.admitted.as_mut().ok_or(unknown)?;
            admitted.epochs.insert(epoch, vec![epoch]);
            let served = Served { epoch, begun: true, handover: None, ..admitted.life.served() };
            let recorded = own.record(admitted, entry.tenant.as_deref(), served);
            recorded.map_err(Refusal::Unrecorded)?;
            admitted.epochs = BTreeMap::from([(epoch, vec![epoch])]);
            own.handle_in(&mut state, lease.job, Event::Renewed(epoch));
            own.settle(&mut state, lease.job, Phase::Settled);
            Ok(epoch)
        })
        .await
    }

    /// Releases a job if a turn still lasts.
    async fn expire(&self, run: Run, turn: u64) -> Result<(), Refusal> {
        let begun = self.state().begin_expiry(run, turn)?;
        if begun {
            self.finish_release(run.job).await?;
            tracing::warn!(%run, "released, because no client holds its lease");
        }
        Ok(())
    }
}

impl State {
    /// A job whose lease its first run names. It may be about to begin another run.
    fn leased(&mut self, run: Run) -> Result<&mut Admitted, Refusal> {
        let entry = self.jobs.get_mut(&run.job).ok_or(Refusal::Unknown(run.job))?;
        match (entry.phase, &mut entry.admitted) {
            (Phase::Broken, _) => Err(Refusal::Broken(run.job)),
            (_, Some(admitted)) => match &admitted.lease {
                Some(lease) if lease.epoch == run.epoch => Ok(admitted),
                None if admitted.life.served().epoch == run.epoch => {
                    Err(Refusal::Unleased(run.job))
                }
                _ => Err(Refusal::Unknown(run.job)),
            },
            _ => Err(Refusal::Busy(run.job)),
        }
    }

    fn lease(&mut self, run: Run) -> Option<&mut Lease> {
        self.admitted_mut(run.job)?.lease.as_mut().filter(|lease| lease.epoch == run.epoch)
    }

    /// Begins another run of a leased job after this one, unless it has begun already: then its epoch is
    /// returned.
    fn begin_renewal(&mut self, lease: Run, over: Epoch) -> Result<Option<Epoch>, Refusal> {
        let now = self.leased(lease)?.life.served().epoch;
        let (phase, admitted) = self.settled(lease.job)?;
        if admitted.life.is_taken_part_in() {
            // Their controller begins runs.
            return Err(Refusal::TakenPartIn(lease.job));
        }
        if now == over {
            *phase = Phase::Changing;
            return Ok(None);
        }
        // The answer to an earlier request was lost.
        if now.is_after(over) { Ok(Some(now)) } else { Err(Refusal::Unknown(lease.job)) }
    }

    /// Begins the release of a job if a turn without a holder still lasts, and returns whether it does.
    fn begin_expiry(&mut self, run: Run, turn: u64) -> Result<bool, Refusal> {
        // A holder may have come before the grace period began, which then has the holder's turn.
        let lasts = |lease: &mut Lease| !lease.is_held && *lease.turn.borrow() == turn;
        let lasts = self.lease(run).is_some_and(lasts);
        if lasts {
            self.begin_release(run.job)?;
        }
        Ok(lasts)
    }
}
