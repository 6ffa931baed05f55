//! The switch without I/O: frames and times go in, frames come out.
//!
//! The path of a frame: [`Switch::receive`] runs parser and ingress (as often as the program
//! resubmits) and puts the packet, or copies of it, into egress queues. [`Switch::transmit`] takes
//! a packet from a port's queue, runs egress and deparser and returns the frame. A packet that the
//! program recirculates in egress joins the end of one internal input queue.
//! [`Switch::run_pending`] takes packets from its front, a bounded number per call, so that a
//! packet with many passes (a sweep has one per aggregator) does not delay other traffic.
//!
//! A TNA program recirculates through a port (68): packets that leave that port's queue join the
//! same input queue. The controller's port has an egress queue like the others;
//! [`Switch::run_pending`] empties it into [`Switch::poll_packet_in`].
//!
//! A core does all this (`core.rs`). Here is what concerns all cores together: programs, entities, links,
//! statistics and traces.

mod core;

use std::collections::BTreeSet;
use std::iter;

use tributary_dataplane::{Changed, TableEntry};
use tributary_p4::ir::TableId;
use tributary_p4runtime::p4::v1::write_request::Atomicity;
use tributary_p4runtime::p4::v1::{Entity, ForwardingPipelineConfig, Update};

pub use self::core::Digest;
pub(crate) use self::core::{Core, Handover};
use crate::config::{PORT_METADATA_BYTES, SwitchConfig};
use crate::entities::{ReadBatch, Refusal, WriteBatch};
use crate::forwarding::Forwarding;
use crate::generator::Application;
use crate::multicast::Groups;
use crate::reconcile;
use crate::statistics::{PortStatistics, SwitchStatistics};
use crate::trace::{Recording, Tracing};

/// A switch: a program with its state, and the traffic manager around it.
///
/// Times are microseconds since the switch started, as programs see them; they must not decrease.
#[derive(Debug)]
pub struct Switch {
    first: Core,
    /// The other cores, in order, while their threads have lent them ([`crate::runtime`]).
    others: Vec<Core>,
    /// Ports without a link.
    down: BTreeSet<u16>,
}

impl Switch {
    /// A switch without a program, which drops all packets.
    #[must_use]
    pub fn new(config: SwitchConfig) -> Self {
        let others = (1..config.cores).map(|core| Core::new(core, config.clone())).collect();
        Self { first: Core::new(0, config), others, down: BTreeSet::new() }
    }

    /// The switch's configuration.
    #[must_use]
    pub fn config(&self) -> &SwitchConfig {
        &self.first.config
    }

    /// The core that processes the packets that [`receive`](Self::receive) gets.
    pub(crate) fn first_mut(&mut self) -> &mut Core {
        &mut self.first
    }

    /// The other cores, to lend or to take back. Without them, only packets may be processed.
    pub(crate) fn others_mut(&mut self) -> &mut Vec<Core> {
        &mut self.others
    }

    fn cores(&self) -> impl Iterator<Item = &Core> {
        iter::once(&self.first).chain(&self.others)
    }

    fn cores_mut(&mut self) -> impl Iterator<Item = &mut Core> {
        iter::once(&mut self.first).chain(&mut self.others)
    }

    /// A program, and the same for each of the other cores.
    fn for_cores(&self, mut forwarding: Forwarding) -> impl Iterator<Item = Forwarding> + use<> {
        forwarding.fill_cores(1 + self.others.len()).expect("the program was loaded before");
        let replicas = forwarding.take_replicas();
        iter::once(forwarding).chain(replicas)
    }

    // --- Pipeline -------------------------------------------------------------------------------

    /// Makes a program active, with its state. Packets in flight are dropped and counted, because
    /// no packet may be processed by two programs.
    pub fn commit(&mut self, forwarding: Forwarding) {
        let mut programs: Vec<Forwarding> = self.for_cores(forwarding).collect();
        for program in &mut programs {
            self.down.iter().for_each(|&port| program.pipeline_mut().set_link(port, false));
        }
        self.cores_mut().zip(programs).for_each(|(core, program)| core.commit(program));
    }

    /// Makes a program active that takes over the state of the active one.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if it cannot hold that state; nothing has changed then.
    pub fn reconcile(&mut self, mut forwarding: Forwarding) -> Result<(), Refusal> {
        self.gather();
        forwarding.fill_cores(1 + self.others.len())?;
        if let Some(active) = self.first.forwarding() {
            let mut replicas = forwarding.take_replicas();
            reconcile::take_over(active, &mut forwarding, self.config())?;
            for replica in &mut replicas {
                reconcile::take_over(active, replica, self.config())?;
                replica.pipeline_mut().clear_counts();
                replica.pipeline_mut().share_meters(forwarding.pipeline());
            }
            forwarding.set_replicas(replicas);
        }
        self.commit(forwarding);
        Ok(())
    }

    /// Gives the other cores what the first one's program has got since it became active, without the other cores,
    /// and starts the program anew with it.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the others cannot hold it; nothing has changed then.
    pub(crate) fn equip_cores(&mut self) -> Result<(), Refusal> {
        let Some(mut first) = self.first.active.take() else { return Ok(()) };
        let filled = first.fill_cores(1 + self.others.len()).and_then(|()| {
            let mut replicas = first.take_replicas();
            for replica in &mut replicas {
                // `fill_cores` has copied the groups, and `take_over` would add them once more.
                *replica.groups_mut() = Groups::default();
                reconcile::take_over(&first, replica, self.config())?;
                replica.pipeline_mut().clear_counts();
                replica.pipeline_mut().share_meters(first.pipeline());
            }
            first.set_replicas(replicas);
            Ok(())
        });
        match filled {
            Ok(()) => self.commit(first),
            Err(_) => self.first.active = Some(first),
        }
        filled
    }

    /// Keeps a program for [`commit_saved`](Self::commit_saved). From now on entities are read from
    /// it and written to it, while the active one still processes packets.
    pub fn save(&mut self, forwarding: Forwarding) {
        let programs = self.for_cores(forwarding);
        self.cores_mut().zip(programs).for_each(|(core, program)| core.saved = Some(program));
    }

    /// Makes the saved program active; false if there is none.
    pub fn commit_saved(&mut self) -> bool {
        let Some(mut saved) = self.first.saved.take() else { return false };
        saved.set_replicas(self.others.iter_mut().filter_map(|core| core.saved.take()).collect());
        self.commit(saved);
        true
    }

    /// The configuration of the control plane's program.
    #[must_use]
    pub fn pipeline_config(&self) -> Option<&ForwardingPipelineConfig> {
        self.control().map(Forwarding::config)
    }

    /// The control plane's program: saved or active.
    pub(crate) fn control(&self) -> Option<&Forwarding> {
        self.first.control()
    }

    /// The program that processes packets.
    #[must_use]
    pub fn forwarding(&self) -> Option<&Forwarding> {
        self.first.forwarding()
    }

    /// The program that processes packets, with access to its pipeline.
    #[must_use]
    pub fn forwarding_mut(&mut self) -> Option<&mut Forwarding> {
        self.first.forwarding_mut()
    }

    /// The controller's port, which depends on the active program's architecture.
    #[must_use]
    pub fn cpu_port(&self) -> u16 {
        self.first.cpu_port()
    }

    /// The tables of the active program, and how many entries each has.
    #[must_use]
    pub fn table_sizes(&self) -> Vec<(String, usize)> {
        let Some(active) = self.forwarding() else { return Vec::new() };
        let size = |(name, at)| (String::from(name), active.pipeline().entries(at).count());
        active.objects().table_places().map(size).collect()
    }

    // --- Entities -------------------------------------------------------------------------------

    /// Makes updates in order, independently (P4Runtime's `CONTINUE_ON_ERROR`). Returns one result
    /// per update; a refused one changes nothing.
    ///
    /// # Errors
    /// If no pipeline is set.
    pub fn write(&mut self, updates: &[Update]) -> Result<Vec<Result<(), Refusal>>, Refusal> {
        self.write_batch(updates, Atomicity::ContinueOnError)
    }

    /// Makes updates in order, without packets in between. In modes other than `CONTINUE_ON_ERROR`
    /// a refused update undoes all: then every result is an error, `ABORTED` for the others.
    ///
    /// # Errors
    /// If no pipeline is set.
    pub fn write_batch(
        &mut self,
        updates: &[Update],
        atomicity: Atomicity,
    ) -> Result<Vec<Result<(), Refusal>>, Refusal> {
        let mut batch = WriteBatch::new(updates.to_vec(), atomicity);
        while !self.step_write(&mut batch, updates.len())? {}
        Ok(batch.finish())
    }

    /// Sets the time of the control plane's program: entries age from their last change.
    pub(crate) fn set_time(&mut self, now_us: u64) {
        if let Some(control) = self.first.control_mut() {
            control.pipeline_mut().set_time(now_us);
        }
    }

    /// Continues a batch of updates. Returns true when it is done.
    pub(crate) fn step_write(
        &mut self,
        batch: &mut WriteBatch,
        budget: usize,
    ) -> Result<bool, Refusal> {
        if batch.sets_counts() {
            self.gather_some(&Changed { counts: true, ..Changed::default() });
        }
        let Core { active, saved, config, .. } = &mut self.first;
        let control = saved.as_mut().or(active.as_mut()).ok_or_else(no_pipeline)?;
        let replicas = self.others.iter_mut().filter_map(Core::control_mut);
        let done = batch.step_all(control, replicas, config, budget);
        if done {
            let replicas = self.others.iter_mut().filter_map(Core::control_mut);
            replicas.for_each(|it| it.pipeline_mut().share_meters(control.pipeline()));
        }
        Ok(done)
    }

    /// The entities that the templates select. With several cores, [`gather`](Self::gather) first.
    ///
    /// # Errors
    /// If no pipeline is set or a template is invalid; nothing is read then.
    pub fn read(&self, templates: &[Entity]) -> Result<Vec<Entity>, Refusal> {
        let control = self.control().ok_or_else(no_pipeline)?;
        let mut batch = ReadBatch::new(control, templates);
        while !batch.step(control, usize::MAX)? {}
        let entities = batch.take();
        batch.outcomes().into_iter().collect::<Result<(), Refusal>>()?;
        Ok(entities)
    }

    /// Brings what packets have changed at the other cores to the first one.
    pub fn gather(&mut self) {
        self.gather_some(&Changed::ALL);
    }

    /// The same for a part of it.
    pub(crate) fn gather_some(&mut self, what: &Changed) {
        self.others.iter_mut().for_each(|other| self.first.absorb(other, what));
    }

    // --- Settings that P4Runtime cannot express ---------------------------------------------------

    /// Sets whether a port has a link; all have at first. Members of groups that watch a port without
    /// one are not chosen. It changes nothing else: frames for the port are sent.
    pub fn set_link(&mut self, port: u16, up: bool) {
        let changed = if up { self.down.remove(&port) } else { self.down.insert(port) };
        if changed {
            self.cores_mut().for_each(|core| core.set_link(port, up));
        }
    }

    /// Sets the metadata of a port of a TNA program, also for later programs.
    pub fn set_port_metadata(&mut self, port: u16, bytes: [u8; PORT_METADATA_BYTES]) {
        self.cores_mut().for_each(|core| core.set_port_metadata(port, bytes));
    }

    /// Puts a port of a TNA program into loopback mode, also for later programs: what leaves it arrives on it
    /// again.
    ///
    /// # Errors
    /// If no port may be set so; a line that says why.
    pub fn set_loopback(&mut self, port: u16) -> Result<(), String> {
        let mut wanted = self.config().tofino.clone();
        wanted.loopback.insert(port);
        wanted.check()?;
        self.cores_mut().for_each(|core| core.set_loopback(port));
        Ok(())
    }

    /// Checks that no port with a link is one that the active program uses within the switch.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION`; names the port.
    pub fn check_ports(&self) -> Result<(), Refusal> {
        let forwarding = self.forwarding();
        forwarding.map_or(Ok(()), |active| self.config().check_ports(active.architecture()))
    }

    /// Sets the port to which packets go whose own queue has no room, if a TNA program asks for it
    /// (`deflect_on_drop`), also for later programs.
    pub fn set_deflection(&mut self, port: u16) {
        self.cores_mut().for_each(|core| core.set_deflection(port));
    }

    /// Adds an application of the packet generator, also for later programs. Its timer starts now.
    ///
    /// # Errors
    /// A line that names the problem: the application, or the program's architecture.
    pub fn add_application(&mut self, application: Application) -> Result<(), String> {
        self.first.add_application(application)
    }

    // --- Packets --------------------------------------------------------------------------------

    /// Notes the time, which must not decrease.
    pub fn advance(&mut self, now_us: u64) {
        self.first.advance(now_us);
    }

    /// Processes a frame that arrived on a port.
    pub fn receive(&mut self, now_us: u64, port: u16, frame: &[u8]) {
        self.first.receive(now_us, port, frame);
    }

    /// Processes a frame from the controller, as if it arrived on the CPU port.
    pub fn packet_out(&mut self, now_us: u64, frame: &[u8]) {
        self.first.receive(now_us, self.first.cpu_port(), frame);
    }

    /// When the packet generator next has a packet, if nothing else happens.
    #[must_use]
    pub fn generator_due_us(&self) -> Option<u64> {
        self.first.generator_due_us()
    }

    /// Processes at most `budget` packets of the packet generator that are due. Returns whether more
    /// may be.
    pub fn generate(&mut self, now_us: u64, budget: usize) -> bool {
        self.first.generate(now_us, budget)
    }

    /// Takes the next frame out of a port's queue into `frame`. Returns false if no waiting packet
    /// leaves. For the CPU port use [`run_pending`](Self::run_pending).
    ///
    /// Clones that egress makes of the packets that it drops are left for another call, so that each
    /// call ends: then [`queue_depth`](Self::queue_depth) is not zero.
    pub fn transmit(&mut self, now_us: u64, port: u16, frame: &mut Vec<u8>) -> bool {
        self.first.transmit(now_us, port, frame)
    }

    /// Processes recirculated packets and packets for the controller: at most `budget` steps of
    /// each kind. Returns whether more are waiting.
    ///
    /// Call this while [`has_pending`](Self::has_pending), between batches of frames: `receive` and
    /// `transmit` both add work.
    pub fn run_pending(&mut self, now_us: u64, budget: usize) -> bool {
        self.first.run_pending(now_us, budget)
    }

    /// Whether [`run_pending`](Self::run_pending) has something to do.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        self.first.has_pending()
    }

    /// The next frame for the controller.
    pub fn poll_packet_in(&mut self) -> Option<Vec<u8>> {
        self.first.poll_packet_in()
    }

    /// The next digest of the active program for the controller.
    pub fn poll_digest(&mut self) -> Option<Digest> {
        self.first.poll_digest()
    }

    /// The entries of the active program that no packet matched within their timeout; each is
    /// returned once per timeout.
    pub fn poll_idle(&mut self, now_us: u64) -> Vec<(TableId, TableEntry)> {
        self.first.poll_idle(now_us)
    }

    /// The lowest port to whose queue packets were added since it was last returned, for a driver
    /// that does not ask every port.
    pub fn poll_waiting(&mut self) -> Option<u16> {
        self.first.poll_waiting()
    }

    /// Number of packets in a port's egress queue.
    #[must_use]
    pub fn queue_depth(&self, port: u16) -> usize {
        self.first.queue_depth(port)
    }

    // --- Statistics and traces --------------------------------------------------------------------

    /// Counters of a port; `None` if it does not exist.
    #[must_use]
    pub fn port_statistics(&self, port: u16) -> Option<PortStatistics> {
        let mut statistics = self.first.port_statistics(port)?;
        let others = self.others.iter().filter_map(|core| core.port_statistics(port));
        others.for_each(|other| statistics.add(&other));
        Some(statistics)
    }

    /// Counters of the whole switch.
    #[must_use]
    pub fn statistics(&self) -> SwitchStatistics {
        let mut statistics = SwitchStatistics::default();
        self.cores().for_each(|core| statistics.add(&core.statistics));
        statistics
    }

    /// Traces packets from now on; `None` ends it. Packets that are being traced lose their traces.
    pub fn set_tracing(&mut self, tracing: Option<Tracing>) {
        for other in &mut self.others {
            other.set_tracing(tracing.as_ref().map(Tracing::for_core));
        }
        self.first.set_tracing(tracing);
    }

    /// The next trace that is complete.
    pub fn poll_trace(&mut self) -> Option<Recording> {
        self.cores_mut().find_map(Core::poll_trace)
    }

    /// Whether a packet that is being traced is still in the switch.
    #[must_use]
    pub fn is_tracing(&self) -> bool {
        self.cores().any(Core::is_tracing)
    }
}

pub(crate) fn no_pipeline() -> Refusal {
    Refusal::failed_precondition("no forwarding pipeline configuration is set")
}
