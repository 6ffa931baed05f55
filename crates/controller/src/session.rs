//! Keeps a switch in the desired state.
//!
//! A [`Session`] knows what its switch should run and hold. When it connects, and whenever a lost
//! connection comes back, it writes only the difference: a switch that kept its state is not
//! changed, and a restarted switch gets the whole state.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, broadcast, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{Instrument as _, info_span};
use tributary_base::{Backoff, DECISIONS, counted};
use tributary_p4runtime::p4::v1::{
    CloneSessionEntry, Entity, MeterConfig, MulticastGroupEntry, TableEntry, Update, entity, update,
};
use tributary_wire::{Protocol, Run};

use crate::catalogue::Catalogue;
use crate::client::{Client, Event, PacketSender, Stream, SwitchConfig};
use crate::entries;
use crate::error::Error;
use crate::programs::Pipeline;
use crate::reconcile::{self, Desired};

/// Pause before the first attempt to reconnect; doubled after each failure.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long to tolerate that another controller has our election ID.
const GRACE: Duration = Duration::from_secs(1);
/// Frames from a switch that may wait for a slow reader.
const PACKETS_WAITING: usize = 256;

/// Keeps a switch in the desired state. Dropping it only closes the connection.
#[derive(Debug)]
pub struct Session {
    shared: Arc<Shared>,
    supervisor: JoinHandle<()>,
    found: Found,
}

/// A connection to a switch as its primary controller, before any change.
#[derive(Debug)]
pub struct Opened {
    shared: Arc<Shared>,
    client: Client,
    stream: Stream,
}

/// What the first connection found in the switch, and changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Runs of jobs with entries in the switch that are not desired.
    pub orphans: Vec<Run>,
    /// The cookie of the previous pipeline; `None` if there was none.
    pub before: Option<u64>,
    /// Whether the switch already ran the pipeline, so that registers may be in use.
    pub running: bool,
    /// Number of entries and groups that were inserted, changed or deleted.
    pub updates: usize,
}

#[derive(Debug)]
struct Shared {
    config: Arc<SwitchConfig>,
    pipeline: Pipeline,
    catalogue: Catalogue,
    desired: Mutex<Desired>,
    /// Held while the switch is changed.
    changes: AsyncMutex<()>,
    link: watch::Sender<Link>,
    /// The last connection on which the switch did not answer in time.
    doubted: watch::Sender<u64>,
    packets: broadcast::Sender<Vec<u8>>,
}

/// The state of the connection.
#[derive(Clone, Debug)]
enum Link {
    /// The switch has the desired state. The number counts connections.
    Up(u64, Client, PacketSender),
    /// The switch does not have the desired state, for this reason; the supervisor is repairing it.
    Down(u64, Error),
}

impl Session {
    /// Connects, becomes primary, and makes the switch run `pipeline` and hold exactly `entities`
    /// in the tables that belong to the controller.
    ///
    /// # Errors
    /// Any error of this first connection. Later losses are repaired in the background.
    pub async fn connect(
        config: SwitchConfig,
        pipeline: Pipeline,
        entities: &[Entity],
    ) -> Result<Self, Error> {
        Self::open(config, pipeline).await?.establish(entities).await
    }

    /// The first half of [`connect`](Self::connect): becomes primary and changes nothing yet. With
    /// several switches, open all before changing one.
    ///
    /// # Errors
    /// [`Error::Program`] if the controller cannot use the pipeline; any error of becoming primary.
    pub async fn open(config: SwitchConfig, pipeline: Pipeline) -> Result<Opened, Error> {
        let catalogue = Catalogue::new(&pipeline.p4info)?;
        let config = Arc::new(config);
        let shared = Arc::new(Shared {
            desired: Mutex::default(),
            changes: AsyncMutex::new(()),
            link: watch::Sender::new(Link::Down(0, config.lost("not connected yet"))),
            doubted: watch::Sender::new(0),
            packets: broadcast::Sender::new(PACKETS_WAITING),
            catalogue,
            pipeline,
            config,
        });
        let (client, stream) = shared.open_first().await?;
        Ok(Opened { shared, client, stream })
    }

    /// The protocol of the switch's program.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.shared.catalogue.protocol()
    }

    /// The switch's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.config.name
    }

    /// The numbers of the program's names.
    #[must_use]
    pub fn catalogue(&self) -> &Catalogue {
        &self.shared.catalogue
    }

    /// Whether the switch is connected and in the desired state.
    ///
    /// # Errors
    /// The current problem. The session keeps trying to repair it.
    pub fn health(&self) -> Result<(), Error> {
        match &*self.shared.link.borrow() {
            Link::Up(..) => Ok(()),
            Link::Down(_, error) => Err(error.clone()),
        }
    }

    /// Number of connections so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.link.borrow().generation()
    }

    /// Installs entities, after the updates `first` (such as counter resets).
    ///
    /// # Errors
    /// The switch's error; it then holds none of the entities.
    pub async fn install(&self, first: &[Update], entities: &[Entity]) -> Result<(), Error> {
        let shared = &*self.shared;
        let deadline = shared.deadline();
        self.retry(deadline, |client| async move { client.write(first).await }).await?;
        let updates = entries::insert(entities.to_vec());
        let outcome = shared.change(deadline, |desired| desired.add(entities), &updates).await;
        if outcome.is_err() {
            let undo = entries::delete(entities.to_vec());
            let undone = shared.change(deadline, |desired| desired.remove(entities), &undo).await;
            if let Err(error) = undone {
                // The session removes them as soon as it can, because they are no longer desired.
                tracing::warn!("{error}");
            }
        }
        outcome
    }

    /// Removes entities.
    ///
    /// # Errors
    /// The switch's error. The session removes the entities when the switch is back.
    pub async fn remove(&self, entities: &[Entity]) -> Result<(), Error> {
        let updates = entries::delete(entities.to_vec());
        let deadline = self.shared.deadline();
        self.shared.change(deadline, |desired| desired.remove(entities), &updates).await
    }

    /// Replaces entities by others, of which many may be the same: these are not touched.
    ///
    /// # Errors
    /// The switch's error. The session replaces the entities when the switch is back.
    pub async fn replace(&self, before: &[Entity], after: &[Entity]) -> Result<(), Error> {
        let updates = reconcile::changes(before, after);
        if updates.is_empty() {
            return Ok(());
        }
        let desire = |desired: &mut Desired| {
            desired.remove(before);
            desired.add(after);
        };
        self.shared.change(self.shared.deadline(), desire, &updates).await
    }

    /// Reads entities.
    ///
    /// # Errors
    /// [`Error::Request`], [`Error::Lost`].
    pub async fn read(&self, request: Vec<Entity>) -> Result<Vec<Entity>, Error> {
        let deadline = self.shared.deadline();
        let read = |client: Client| {
            let request = request.clone();
            async move { client.read(request).await }
        };
        self.retry(deadline, read).await
    }

    /// Sends a frame into the switch at the controller's port.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub async fn packet_out(&self, frame: Vec<u8>) -> Result<(), Error> {
        let (_, _, sender) = self.shared.up(self.shared.deadline(), 0).await?;
        sender.send(frame).await
    }

    /// A receiver of the frames that the switch sends to its controller from now on.
    #[must_use]
    pub fn packets_in(&self) -> broadcast::Receiver<Vec<u8>> {
        self.shared.packets.subscribe()
    }

    /// What the first connection found and changed.
    #[must_use]
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// Runs whose entries the first connection found and removed: an earlier controller left them.
    /// Their aggregators may still be occupied.
    #[must_use]
    pub fn orphans(&self) -> &[Run] {
        &self.found.orphans
    }

    /// Whether the switch already ran the pipeline before, so that registers may be in use.
    #[must_use]
    pub fn was_running(&self) -> bool {
        self.found.running
    }

    /// Repeats a call until it succeeds, or fails for another reason than a lost connection.
    async fn retry<T, F: Future<Output = Result<T, Error>>>(
        &self,
        deadline: Instant,
        call: impl Fn(Client) -> F,
    ) -> Result<T, Error> {
        let mut after = 0;
        loop {
            let (generation, client, _) = self.shared.up(deadline, after).await?;
            let outcome = call(client).await;
            if matches!(outcome, Err(Error::Lost { .. })) {
                self.shared.doubt(generation);
                if Instant::now() < deadline {
                    after = generation;
                    continue;
                }
            }
            return outcome;
        }
    }
}

impl Opened {
    /// The switch's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.config.name
    }

    /// Makes the switch run the pipeline and hold exactly `entities` in the tables that belong to
    /// the controller.
    ///
    /// # Errors
    /// Any error of the switch.
    pub async fn establish(self, entities: &[Entity]) -> Result<Session, Error> {
        let Self { shared, client, stream } = self;
        lock(&shared.desired).add(entities);
        let found = shared.settle(1, client, &stream).await?;
        let span = info_span!(parent: None, "switch", name = shared.config.name);
        let supervisor = tokio::spawn(supervise(shared.clone(), stream).instrument(span));
        Ok(Session { shared, supervisor, found })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.supervisor.abort();
    }
}

impl Link {
    fn generation(&self) -> u64 {
        match self {
            Self::Up(generation, ..) | Self::Down(generation, _) => *generation,
        }
    }
}

impl Shared {
    fn deadline(&self) -> Instant {
        Instant::now() + self.config.patience
    }

    /// Waits for a connection that was made after the given one.
    async fn up(
        &self,
        deadline: Instant,
        after: u64,
    ) -> Result<(u64, Client, PacketSender), Error> {
        let mut link = self.link.subscribe();
        let is_up = |link: &Link| matches!(link, Link::Up(generation, ..) if *generation > after);
        let state = match tokio::time::timeout_at(deadline, link.wait_for(is_up)).await {
            Ok(Ok(state)) => state.clone(),
            _ => self.link.borrow().clone(),
        };
        match state {
            Link::Up(generation, client, packets) if generation > after => {
                Ok((generation, client, packets))
            }
            Link::Down(_, error) => Err(error),
            Link::Up(..) => Err(self.config.lost("the switch does not answer")),
        }
    }

    /// Changes the desired state, and the switch with it.
    async fn change(
        &self,
        deadline: Instant,
        desire: impl FnOnce(&mut Desired),
        updates: &[Update],
    ) -> Result<(), Error> {
        let guard = self.changes.lock().await;
        // A connection that comes back applies the desired state of that time.
        desire(&mut lock(&self.desired));
        let current = self.link.borrow().clone();
        let after = match current {
            Link::Up(generation, client, _) => {
                let lost = match client.write(updates).await {
                    Ok(()) => return Ok(()),
                    Err(Error::Lost { .. }) => true,
                    // An update may fail because it is already applied: compare the state.
                    Err(error) => match self.reconcile(&client).await {
                        Ok(_) => return Ok(()),
                        Err(Error::Lost { .. }) => true,
                        Err(_) => return Err(error),
                    },
                };
                if lost {
                    self.doubt(generation);
                }
                generation
            }
            Link::Down(generation, _) => generation,
        };
        drop(guard);
        self.up(deadline, after).await.map(|_| ())
    }

    /// Records that a request on this connection got no answer, so that its effect is unknown. A
    /// new connection compares the state.
    fn doubt(&self, generation: u64) {
        self.doubted.send_if_modified(|doubted| {
            let later = generation > *doubted;
            *doubted = generation.max(*doubted);
            later
        });
    }

    /// Returns when this connection is doubted.
    async fn doubted(&self, generation: u64) -> Error {
        // `wait_for` fails only without a sender, and `self` has it.
        let _ = self.doubted.subscribe().wait_for(|doubted| *doubted >= generation).await;
        self.config.lost("a request was not answered in time")
    }

    /// Periodically checks that the switch answers and has the desired state, and repairs it.
    /// Returns if that fails on this connection.
    async fn audit(&self) -> Error {
        loop {
            tokio::time::sleep(self.config.audit).await;
            let guard = self.changes.lock().await;
            let current = self.link.borrow().clone();
            if let Link::Up(_, client, _) = current
                && let Err(error) = self.reconcile(&client).await
            {
                return error;
            }
            drop(guard);
        }
    }

    /// The first connection. A controller that was just stopped may have had our election ID, and
    /// the switch takes a moment to notice that it has left.
    async fn open_first(&self) -> Result<(Client, Stream), Error> {
        let deadline = Instant::now() + GRACE;
        loop {
            match self.open().await {
                Err(Error::NotPrimary { primary, own, .. })
                    if primary == own && Instant::now() < deadline =>
                {
                    tokio::time::sleep(FIRST_PAUSE).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// Connects and becomes primary.
    async fn open(&self) -> Result<(Client, Stream), Error> {
        let mut client = Client::connect(self.config.clone()).await?;
        let stream = client.arbitrate().await?;
        Ok((client, stream))
    }

    /// Brings the switch to the desired state, then publishes the connection.
    async fn settle(
        &self,
        generation: u64,
        client: Client,
        stream: &Stream,
    ) -> Result<Found, Error> {
        let _guard = self.changes.lock().await;
        let found = self.reconcile(&client).await?;
        self.link.send_replace(Link::Up(generation, client, stream.packets()));
        Ok(found)
    }

    /// Replaces a lost connection.
    async fn establish(&self, generation: u64) -> Result<(Stream, Found), Error> {
        let (client, stream) = self.open().await?;
        let found = self.settle(generation, client, &stream).await?;
        Ok((stream, found))
    }

    /// Writes the difference between the present and the desired state. The caller holds `changes`.
    async fn reconcile(&self, client: &Client) -> Result<Found, Error> {
        let before = client.running().await?;
        let running = before.as_ref().is_some_and(|at| at.is(&self.pipeline, &self.catalogue));
        if !running {
            tracing::info!("pushing the pipeline");
            client.set_pipeline(&self.pipeline).await?;
        }
        let tables = self.catalogue.tables().map(|table_id| {
            let meter_config = self.catalogue.is_metered(table_id).then(MeterConfig::default);
            let entry = TableEntry { table_id, meter_config, ..TableEntry::default() };
            entries::entity(entity::Entity::TableEntry(entry))
        });
        let groups = entries::group_entity(MulticastGroupEntry::default());
        let sessions = self.catalogue.mirrors.then(CloneSessionEntry::default);
        let sessions = sessions.map(entries::session_entity);
        let present = client.read(tables.chain([groups]).chain(sessions).collect()).await?;
        let updates = lock(&self.desired).difference(&present);
        if !updates.is_empty() {
            tracing::info!(updates = updates.len(), "reconciling");
        }
        client.write(&updates).await?;
        Ok(Found {
            orphans: self.runs_deleted(&updates),
            before: before.map(|before| before.cookie),
            running,
            updates: updates.len(),
        })
    }

    fn runs_deleted(&self, updates: &[Update]) -> Vec<Run> {
        let deleted = updates.iter().filter(|update| update.r#type() == update::Type::Delete);
        let runs: BTreeSet<Run> = deleted
            .filter_map(|update| match update.entity.as_ref()?.entity.as_ref()? {
                entity::Entity::TableEntry(entry) => entries::run_of(&self.catalogue, entry),
                _ => None,
            })
            .collect();
        runs.into_iter().collect()
    }
}

/// Passes on events of the switch; reconnects when the stream ends.
async fn supervise(shared: Arc<Shared>, mut stream: Stream) {
    let mut generation = 1;
    loop {
        let serving = async {
            let error = tokio::select! {
                error = pump(&shared, &mut stream) => error,
                error = shared.doubted(generation) => error,
                error = shared.audit() => error,
            };
            tracing::warn!("{error}");
            error
        };
        let error = serving.instrument(info_span!("stream", connection = generation)).await;
        shared.link.send_replace(Link::Down(generation, error));
        drop(stream);
        let lost = Instant::now();
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let found;
        (stream, found) = loop {
            tokio::time::sleep(backoff.next_pause()).await;
            match shared.establish(generation + 1).await {
                Ok(established) => break established,
                Err(error) => {
                    tracing::debug!("{error}");
                    shared.link.send_replace(Link::Down(generation, error));
                }
            }
        };
        generation += 1;
        let (switch, away) = (&*shared.config.name, lost.elapsed().as_secs_f64());
        let away_s = tracing::field::display(format!("{away:.1}"));
        let kept = if found.running { "it kept its program" } else { "it has its program again" };
        let repaired = counted(found.updates, "update");
        tracing::info!(target: DECISIONS, switch, away_s, "the switch is back: {kept}, {repaired} written");
    }
}

/// Passes on events of the switch until the stream ends; returns why it ended.
async fn pump(shared: &Shared, stream: &mut Stream) -> Error {
    loop {
        match stream.next().await {
            Ok(Event::Primary) => {}
            Ok(Event::Vacant(_)) => {
                return shared.config.lost("the switch has no primary controller");
            }
            Ok(Event::PacketIn(frame)) => {
                // An error means that there is no receiver.
                let _ = shared.packets.send(frame);
            }
            Ok(Event::Complaint(text)) => {
                tracing::warn!(switch = %shared.config.name, "error from the switch: {text}");
            }
            Err(error) => return error,
        }
    }
}

/// Ignores poisoning: no holder of these locks can panic half-way through a change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
