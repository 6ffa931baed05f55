//! A program loaded from a P4Runtime configuration: engine, objects by id, multicast groups.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use tributary_dataplane::{EngineKind, LoadError, MachineCode, Pipeline};
use tributary_p4::Architecture;
use tributary_p4runtime::google::rpc::Code;
use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_p4runtime::p4::v1::{ForwardingPipelineConfig, PacketIn, PacketOut, Update};

use crate::config::TofinoConfig;
use crate::controller_header;
use crate::entities::{Annotations, Digests, GroupSizes, Names, Objects, Refusal};
use crate::kept::Kept;
use crate::multicast::{Groups, Sessions};
use crate::p4info;

/// The last four programs that controllers have sent to switches of this process, by source text, with their
/// machine code. Each process group of a training script has a switch, and all run the same program.
static COMPILED: Kept<String, Known> = Kept::new(4);

/// A compiled program.
struct Known {
    program: tributary_p4::ir::Program,
    p4info: P4Info,
    machine_code: OnceLock<MachineCode>,
}

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

    /// Compiles the P4 source in a configuration's `p4_device_config`, unless the process has done that
    /// before, and checks the configuration's P4Info against it. This takes milliseconds and needs no
    /// switch: do it on another thread than the packets.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` with the compiler's diagnostics, or with the first difference of the
    /// P4Info.
    pub fn compile(config: ForwardingPipelineConfig) -> Result<Self, Refusal> {
        let Some(sent) = &config.p4info else {
            return Err(Refusal::invalid("the configuration has no P4Info"));
        };
        let source = std::str::from_utf8(&config.p4_device_config).map_err(|_| {
            Refusal::invalid("p4_device_config is not text: this switch runs P4 source")
        })?;
        let known = COMPILED.get(source.to_owned(), || {
            let (program, p4info) = front_end(source)?;
            Ok::<_, Refusal>(Known { program, p4info, machine_code: OnceLock::new() })
        })?;
        p4info::check(sent, &known.p4info)
            .map_err(|what| Refusal::invalid(format!("the P4Info is not the program's: {what}")))?;
        let loaded = Self::load(known.program.clone(), config)?;
        if let Some(code) = loaded.pipeline.machine_code() {
            known.machine_code.get_or_init(|| code);
        }
        Ok(loaded)
    }

    /// Compiles P4 source and uses the resulting P4Info.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` with the compiler's diagnostics.
    pub fn from_source(source: &str) -> Result<Self, Refusal> {
        let (program, p4info) = front_end(source)?;
        let config = ForwardingPipelineConfig {
            p4info: Some(p4info),
            p4_device_config: source.into(),
            cookie: None,
        };
        Self::load(program, config)
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

    /// Takes over the names of another program.
    ///
    /// # Errors
    /// If a name that an entity has cannot keep its number.
    pub(crate) fn take_names(&mut self, from: &Self) -> Result<(), String> {
        self.names.take_over(&from.names, &Names::used(from, std::iter::empty()))
    }

    /// An update with numbers instead of names.
    pub(crate) fn numbered(&mut self, update: &Update) -> Result<Update, Refusal> {
        let mut update = update.clone();
        if let Some(entity) = &mut update.entity {
            self.names.inward(self.objects.places(), entity)?;
        }
        Ok(update)
    }

    /// The frame for the program's parser from a controller's message.
    pub(crate) fn packet_out(&mut self, packet: &PacketOut) -> Result<Vec<u8>, Refusal> {
        if self.names.many() {
            let used = Names::used(self, std::iter::empty());
            self.names.forget(&used);
        }
        let mut metadata = packet.metadata.clone();
        self.names.packet_out(self.objects.places(), &mut metadata)?;
        controller_header::pack(&self.objects.packet_out, &metadata, &packet.payload)
    }

    /// The controller's message from the deparser's frame.
    pub(crate) fn packet_in(&self, frame: Vec<u8>) -> PacketIn {
        let (mut metadata, payload) = controller_header::unpack(&self.objects.packet_in, frame);
        self.names.packet_in(self.objects.places(), &mut metadata);
        PacketIn { payload, metadata }
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

    /// Loads a compiled program, for many switches with one program.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the engine cannot run it, or it has no P4Info.
    pub fn load(
        program: tributary_p4::ir::Program,
        config: ForwardingPipelineConfig,
    ) -> Result<Self, Refusal> {
        let p4info = config.p4info.as_ref();
        let p4info = p4info.ok_or_else(|| Refusal::invalid("the configuration has no P4Info"))?;
        let main = Some(program.origins.main());
        let objects = Objects::new(&program, p4info);
        let mut objects = objects.map_err(|refusal| refusal.at(&program, main))?;
        let constant: Vec<Vec<bool>> = program
            .tables
            .iter()
            .map(|table| table.entries.iter().map(|entry| entry.is_const).collect())
            .collect();
        let pipeline = Pipeline::load(program).map_err(unusable)?;
        objects.fix_entries(&constant, &pipeline);
        objects.check_restrictions(&pipeline)?;
        let mut forwarding = Self::of(pipeline, Arc::new(objects), Arc::new(config));
        forwarding.names = Names::of(&forwarding);
        Ok(forwarding)
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

/// Compiles source text to a program, with marks for traces, and P4Info. Diagnostics use the name before the text's first
/// line marker.
fn front_end(source: &str) -> Result<(tributary_p4::ir::Program, P4Info), Refusal> {
    tracing::debug!("compiling a P4 program for a switch");
    let options = tributary_p4::Options::marked(&[]);
    match tributary_p4::compile_text("p4_device_config", source, options) {
        Ok(compilation) => Ok((compilation.program, compilation.p4info)),
        Err(diagnostics) => Err(match diagnostics.failure() {
            Some(failure) => Refusal::new(Code::ResourceExhausted, failure),
            None => Refusal::invalid(diagnostics.to_string()),
        }),
    }
}
