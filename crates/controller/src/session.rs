//! A switch kept as it should be.
//!
//! A [`Session`] knows what its switch should run and hold. When it connects, and whenever a lost
//! connection comes back, it compares and writes only the difference: a switch that kept its state
//! is left in peace, one that was restarted gets all of it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, broadcast, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tributary_p4runtime_proto::p4::v1::{
    Entity, MulticastGroupEntry, TableEntry, Update, entity, update,
};
use tributary_wire::{Protocol, Run};

use crate::catalogue::Catalogue;
use crate::client::{Client, Event, PacketSender, Running, Stream, SwitchConfig};
use crate::entries;
use crate::error::Error;
use crate::programs::Pipeline;
use crate::reconcile::Desired;

/// Pause before the first attempt to reconnect; doubled after each that fails.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long another controller may have our election ID before we give up.
const GRACE: Duration = Duration::from_secs(1);
/// Frames from a switch that a slow reader may leave waiting.
const PACKETS_WAITING: usize = 256;

/// A switch kept as it should be. Dropping it closes the connection and changes nothing in the
/// switch.
#[derive(Debug)]
pub struct Session {
    shared: Arc<Shared>,
    supervisor: JoinHandle<()>,
    found: Found,
}

/// A connection to a switch that we are the primary controller of, before anything was changed in it.
#[derive(Debug)]
pub struct Opened {
    shared: Arc<Shared>,
    client: Client,
    stream: Stream,
}

/// What a connection found in the switch, and did about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Runs of jobs that it had entries of which are not desired.
    pub orphans: Vec<Run>,
    /// The cookie of the pipeline that it ran; `None` if it ran none.
    pub before: Option<u64>,
    /// Whether it ran the pipeline already, and so may have something in its registers.
    pub running: bool,
    /// Entries and groups that were inserted, changed or deleted.
    pub updates: usize,
}

#[derive(Debug)]
struct Shared {
    config: Arc<SwitchConfig>,
    pipeline: Pipeline,
    catalogue: Catalogue,
    desired: Mutex<Desired>,
    /// Held by whoever changes the switch.
    changes: AsyncMutex<()>,
    link: watch::Sender<Link>,
    /// The connection by which the switch did not answer in time.
    doubted: watch::Sender<u64>,
    packets: broadcast::Sender<Vec<u8>>,
}

/// The state of the connection.
#[derive(Clone, Debug)]
enum Link {
    /// The switch is as it should be. The number counts connections.
    Up(u64, Client, PacketSender),
    /// It is not, for this reason; the supervisor is at it.
    Down(u64, Error),
}

impl Session {
    /// Connects, becomes primary, and makes the switch run `pipeline` and hold `entities` and
    /// nothing else in the tables that are the controller's.
    ///
    /// # Errors
    /// Whatever keeps the switch from being as it should be. Later losses are repaired behind the
    /// scenes; this first time they are reported.
    pub async fn connect(
        config: SwitchConfig,
        pipeline: Pipeline,
        entities: &[Entity],
    ) -> Result<Self, Error> {
        Self::open(config, pipeline).await?.establish(entities).await
    }

    /// The first half of [`connect`](Self::connect): becomes primary and changes nothing yet. Whoever
    /// has several switches opens all of them before they change one.
    ///
    /// # Errors
    /// [`Error::Program`] if the pipeline is none for the controller; whatever keeps us from being
    /// primary.
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

    /// The protocol that the switch's program speaks.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.shared.catalogue.protocol()
    }

    /// The switch's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.config.name
    }

    /// The program's names as numbers.
    #[must_use]
    pub fn catalogue(&self) -> &Catalogue {
        &self.shared.catalogue
    }

    /// Whether the switch is connected and as it should be; else why not.
    ///
    /// # Errors
    /// What is wrong right now. The session keeps trying to mend it.
    pub fn health(&self) -> Result<(), Error> {
        match &*self.shared.link.borrow() {
            Link::Up(..) => Ok(()),
            Link::Down(_, error) => Err(error.clone()),
        }
    }

    /// How often a connection was made.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.link.borrow().generation()
    }

    /// Installs entities, after the updates `first` (which leave no entity, such as counter
    /// resets).
    ///
    /// # Errors
    /// What kept the switch from taking them; it then holds none of them.
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
                // The session does it as soon as it can: the entities are not desired any more.
                tracing::warn!("{error}");
            }
        }
        outcome
    }

    /// Removes entities.
    ///
    /// # Errors
    /// What kept the switch from removing them. They stay unwanted: they go as soon as the switch
    /// is back.
    pub async fn remove(&self, entities: &[Entity]) -> Result<(), Error> {
        let updates = entries::delete(entities.to_vec());
        let deadline = self.shared.deadline();
        self.shared.change(deadline, |desired| desired.remove(entities), &updates).await
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

    /// Sends a frame into the switch by its controller's port.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub async fn packet_out(&self, frame: Vec<u8>) -> Result<(), Error> {
        let (_, _, sender) = self.shared.up(self.shared.deadline(), 0).await?;
        sender.send(frame).await
    }

    /// Frames that the switch sends to its controller from now on.
    #[must_use]
    pub fn packets_in(&self) -> broadcast::Receiver<Vec<u8>> {
        self.shared.packets.subscribe()
    }

    /// What the first connection found, and did about it.
    #[must_use]
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// Runs whose entries were in the switch at the first connection, and were removed: another run
    /// of the controller left them. Their aggregators may still be taken.
    #[must_use]
    pub fn orphans(&self) -> &[Run] {
        &self.found.orphans
    }

    /// Whether the switch ran the pipeline already at the first connection: then there may be
    /// something in its registers.
    #[must_use]
    pub fn was_running(&self) -> bool {
        self.found.running
    }

    /// Calls until it works, or fails for another reason than a lost connection.
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

    /// Makes the switch run the pipeline and hold `entities` and nothing else in the tables that are
    /// the controller's.
    ///
    /// # Errors
    /// Whatever keeps the switch from being as it should be.
    pub async fn establish(self, entities: &[Entity]) -> Result<Session, Error> {
        let Self { shared, client, stream } = self;
        lock(&shared.desired).add(entities);
        let found = shared.settle(1, client, &stream).await?;
        let supervisor = tokio::spawn(supervise(shared.clone(), stream));
        Ok(Session { shared, supervisor, found })
    }

    /// What the switch runs so far.
    ///
    /// # Errors
    /// [`Error::Request`], [`Error::Lost`].
    pub async fn running(&self) -> Result<Option<Running>, Error> {
        self.client.running().await
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

    /// The connection, once there is one made after the given one.
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

    /// Changes what is desired, and the switch with it.
    async fn change(
        &self,
        deadline: Instant,
        desire: impl FnOnce(&mut Desired),
        updates: &[Update],
    ) -> Result<(), Error> {
        let guard = self.changes.lock().await;
        // Whenever a connection comes back, the switch is made to hold what is desired by then.
        desire(&mut lock(&self.desired));
        let current = self.link.borrow().clone();
        let after = match current {
            Link::Up(generation, client, _) => {
                let lost = match client.write(updates).await {
                    Ok(()) => return Ok(()),
                    Err(Error::Lost { .. }) => true,
                    // An update may fail because it is done already: the difference decides.
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

    /// A request by this connection was not answered: nobody knows what came of it. Only a new
    /// connection, which compares, tells.
    fn doubt(&self, generation: u64) {
        self.doubted.send_if_modified(|doubted| {
            let later = generation > *doubted;
            *doubted = generation.max(*doubted);
            later
        });
    }

    /// Ends when this connection is doubted.
    async fn doubted(&self, generation: u64) -> Error {
        // The sender is ours, and does not go.
        let _ = self.doubted.subscribe().wait_for(|doubted| *doubted >= generation).await;
        self.config.lost("a request was not answered in time")
    }

    /// Looks from time to time whether the switch answers and is as it should be, and mends it; ends
    /// when that is not to be had by this connection.
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

    /// The first connection. A controller that was just stopped may have had our election ID: the
    /// switch needs a moment to notice that it is gone.
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

    /// Makes the switch as it should be, and from then on the connection the one that is used.
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

    /// A connection in place of a lost one.
    async fn establish(&self, generation: u64) -> Result<Stream, Error> {
        let (client, stream) = self.open().await?;
        self.settle(generation, client, &stream).await?;
        Ok(stream)
    }

    /// Writes the difference between what the switch has and what is desired. The caller holds
    /// `changes`.
    async fn reconcile(&self, client: &Client) -> Result<Found, Error> {
        let before = client.running().await?;
        let running = before.as_ref().is_some_and(|at| at.is(&self.pipeline, &self.catalogue));
        if !running {
            tracing::info!(switch = %self.config.name, "pushing the pipeline");
            client.set_pipeline(&self.pipeline).await?;
        }
        let tables = self.catalogue.tables().map(|table_id| {
            let entry = TableEntry { table_id, ..TableEntry::default() };
            entries::entity(entity::Entity::TableEntry(entry))
        });
        let groups = entries::group_entity(MulticastGroupEntry::default());
        let present = client.read(tables.chain([groups]).collect()).await?;
        let updates = lock(&self.desired).difference(&present);
        if !updates.is_empty() {
            tracing::info!(switch = %self.config.name, updates = updates.len(), "reconciling");
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

/// Passes on what comes from the switch; reconnects when it ends.
async fn supervise(shared: Arc<Shared>, mut stream: Stream) {
    let mut generation = 1;
    loop {
        let error = tokio::select! {
            error = pump(&shared, &mut stream) => error,
            error = shared.doubted(generation) => error,
            error = shared.audit() => error,
        };
        tracing::warn!("{error}");
        shared.link.send_replace(Link::Down(generation, error));
        drop(stream);
        let mut pause = FIRST_PAUSE;
        stream = loop {
            tokio::time::sleep(pause).await;
            match shared.establish(generation + 1).await {
                Ok(stream) => break stream,
                Err(error) => {
                    tracing::debug!("{error}");
                    shared.link.send_replace(Link::Down(generation, error));
                }
            }
            pause = (2 * pause).min(LONGEST_PAUSE);
        };
        generation += 1;
        tracing::info!(switch = %shared.config.name, "connected again");
    }
}

/// Passes on what comes from the switch until the stream ends; says why it did.
async fn pump(shared: &Shared, stream: &mut Stream) -> Error {
    loop {
        match stream.next().await {
            Ok(Event::Primary) => {}
            Ok(Event::Vacant(_)) => {
                return shared.config.lost("the switch has no primary controller");
            }
            Ok(Event::PacketIn(frame)) => {
                // An error means that nobody listens.
                let _ = shared.packets.send(frame);
            }
            Ok(Event::Complaint(text)) => {
                tracing::warn!(switch = %shared.config.name, "the switch complains: {text}");
            }
            Err(error) => return error,
        }
    }
}

/// No holder of these locks can panic half-way through a change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
