//! A program loaded from a P4Runtime configuration: engine, objects by id, multicast groups.

mod controller_header;
mod load;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use tributary_dataplane::{EngineKind, LoadError, Pipeline};
use tributary_p4::Architecture;
use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_p4runtime::p4::v1::{ForwardingPipelineConfig, Update};

use crate::config::TofinoConfig;
use crate::entities::{Annotations, Digests, Names, Objects, Refusal};
use crate::multicast::{Groups, Sessions};

/// Size limits of groups, by profile and group, which the engine does not need.
pub(crate) type GroupSizes = BTreeMap<(u32, u32), i32>;

/// Identity of a loaded program.
#[derive(Clone, Debug)]
pub(crate) struct ProgramId(Arc<()>);

impl PartialEq for ProgramId {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A loaded program and its state.
#[derive(Debug)]
pub struct Forwarding {
    pipeline: Pipeline,
    objects: Arc<Objects>,
    groups: Groups,
    sessions: Sessions,
    annotations: Annotations,
    group_sizes: GroupSizes,
    digests: Digests,
    names: Names,
    config: Arc<ForwardingPipelineConfig>,
    id: ProgramId,
    /// The same for other cores, until it is committed or saved.
    replicas: Vec<Self>,
}

impl Forwarding {
    /// Loads the program once more for each core but the first, unless that is done. This takes
    /// milliseconds for each; otherwise a switch does it when the program is committed or saved.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn fill_cores(&mut self, cores: usize) -> Result<(), Refusal> {
        while self.replicas.len() + 1 < cores {
            let pipeline = self.pipeline.replica().map_err(unusable)?;
            let (objects, config) = (Arc::clone(&self.objects), Arc::clone(&self.config));
            let groups = self.groups.clone();
            self.replicas.push(Self { groups, ..Self::of(pipeline, objects, config) });
        }
        Ok(())
    }

    /// Sets those that [`take_replicas`](Self::take_replicas) returned.
    pub(crate) fn set_replicas(&mut self, replicas: Vec<Self>) {
        self.replicas = replicas;
    }

    /// The same for other cores; only the first call returns them.
    pub(crate) fn take_replicas(&mut self) -> Vec<Self> {
        std::mem::take(&mut self.replicas)
    }

    /// Its identity among all loaded programs.
    pub(crate) fn id(&self) -> ProgramId {
        self.id.clone()
    }

    /// The architecture that the program is written for.
    #[must_use]
    pub fn architecture(&self) -> Architecture {
        self.pipeline.architecture()
    }

    /// The engine.
    #[must_use]
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// The engine, to change its state.
    #[must_use]
    pub fn pipeline_mut(&mut self) -> &mut Pipeline {
        &mut self.pipeline
    }

    /// Selects the execution engine, unless it is already in use.
    pub(crate) fn use_engine(&mut self, kind: EngineKind) {
        if kind != EngineKind::default() {
            self.pipeline.use_engine(kind);
        }
    }

    /// The configuration that it was made from.
    #[must_use]
    pub fn config(&self) -> &ForwardingPipelineConfig {
        &self.config
    }

    /// The P4Info of the program.
    #[must_use]
    pub fn p4info(&self) -> &P4Info {
        self.config.p4info.as_ref().expect("checked when it was made")
    }

    pub(crate) fn objects(&self) -> &Objects {
        &self.objects
    }

    pub(crate) fn groups(&self) -> &Groups {
        &self.groups
    }

    pub(crate) fn groups_mut(&mut self) -> &mut Groups {
        &mut self.groups
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    pub(crate) fn sessions_mut(&mut self) -> &mut Sessions {
        &mut self.sessions
    }

    /// Sets the ports of a TNA program's level-2 exclusion id: a packet that names it gets no
    /// replicas of its own replication id on these ports. P4Runtime cannot express this, so it
    /// requires direct access to the switch; with several cores, before the program is committed.
    pub fn set_exclusion(&mut self, id: u16, ports: impl IntoIterator<Item = u16>) {
        self.groups.set_exclusion(id, ports.into_iter().collect());
    }

    /// Sets what the driver of a Tofino sets besides entities.
    pub(crate) fn configure(&mut self, config: &TofinoConfig) {
        for (&port, &bytes) in &config.port_metadata {
            self.pipeline.set_port_metadata(port, bytes);
        }
        for &port in &config.loopback {
            self.pipeline.set_loopback(port);
        }
        for (&id, ports) in &config.exclusions {
            self.set_exclusion(id, ports.iter().copied());
        }
    }

    pub(crate) fn group_sizes(&self) -> &GroupSizes {
        &self.group_sizes
    }

    pub(crate) fn group_sizes_mut(&mut self) -> &mut GroupSizes {
        &mut self.group_sizes
    }

    pub(crate) fn digests(&self) -> &Digests {
        &self.digests
    }

    pub(crate) fn digests_mut(&mut self) -> &mut Digests {
        &mut self.digests
    }

    /// The names of values. Those of the first core are valid for all.
    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// Takes over the names of another program, whose entities have these numbers.
    ///
    /// # Errors
    /// If a name that an entity has cannot keep its number.
    pub(crate) fn take_names(
        &mut self,
        from: &Self,
        used: &HashSet<(usize, u64)>,
    ) -> Result<(), String> {
        self.names.take_over(&from.names, used)
    }

    /// An update with numbers instead of names.
    pub(crate) fn numbered(&mut self, update: &Update) -> Result<Update, Refusal> {
        let mut update = update.clone();
        if let Some(entity) = &mut update.entity {
            self.names.inward(self.objects.places(), entity)?;
        }
        Ok(update)
    }

    /// Forgets all names but those of these numbers, by type.
    pub(crate) fn forget_names(&mut self, used: &HashSet<(usize, u64)>) {
        self.names.forget(used);
    }

    pub(crate) fn annotations(&self) -> &Annotations {
        &self.annotations
    }

    pub(crate) fn parts_mut(&mut self) -> (&Objects, &mut Pipeline) {
        (&self.objects, &mut self.pipeline)
    }

    pub(crate) fn parts_with_annotations_mut(
        &mut self,
    ) -> (&Objects, &mut Pipeline, &mut Annotations) {
        (&self.objects, &mut self.pipeline, &mut self.annotations)
    }

    fn of(
        pipeline: Pipeline,
        objects: Arc<Objects>,
        config: Arc<ForwardingPipelineConfig>,
    ) -> Self {
        Self {
            pipeline,
            objects,
            groups: Groups::default(),
            sessions: Sessions::default(),
            annotations: Annotations::default(),
            group_sizes: GroupSizes::default(),
            digests: Digests::default(),
            names: Names::default(),
            config,
            id: ProgramId(Arc::default()),
            replicas: Vec::new(),
        }
    }
}

fn unusable(error: LoadError) -> Refusal {
    match error {
        LoadError::At(located) => Refusal::of_program(located.diagnostic),
        error => Refusal::invalid(format!("the program cannot be run: {error}")),
    }
}
