//! The embedded switch and BMv2 with the same program, updates and packets.

use std::collections::BTreeMap;

use tributary_controller::p4c;
use tributary_controller::programs::{Pipeline, Source};
use tributary_p4::{Compilation, Sources};
use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_p4runtime::p4::v1::{
    DigestEntry, Entity, ForwardingPipelineConfig, P4Data, Update, digest_entry, entity, p4_data,
    update,
};
use tributary_switch::{Forwarding, Switch, SwitchConfig};

use crate::draw::change;
use crate::lockstep::{hex, same_description, show};
use crate::mirror::{State, inverse};
use crate::resources::id;
use crate::streamed::Streamed;
use crate::switches::Outputs;

/// Ports of both switches: all but the controller's and the one that means "drop".
const LAST_PORT: u16 = 509;

/// Time at which the first packet arrives, and between two packets.
const START_US: u64 = 1_000_000;
const PACKET_US: u64 = 10;

/// Turns that the embedded switch gives a packet.
const TURNS: usize = 4096;

/// Why a program is not compared.
pub(crate) enum NoPair {
    /// p4c's back end does not accept it.
    Refused(String),
    /// A difference before the first packet.
    Differs(String),
}

/// Both switches.
pub(crate) struct Pair {
    ours: Switch,
    now_us: u64,
    theirs: Streamed,
    /// The objects at the start.
    fresh: State,
    /// To start BMv2 again, unless packets change something in it that must be kept.
    again: Option<Pipeline>,
    info: P4Info,
    /// The id of each digest of the embedded switch, by number.
    digests: Vec<u32>,
    pub(crate) tally: Tally,
}

/// What was compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Packets that both switches took.
    pub(crate) packets: usize,
    /// Packets that came out of both.
    pub(crate) came_out: usize,
    /// Digests of both.
    pub(crate) digests: usize,
    /// Objects in both.
    pub(crate) objects: usize,
    /// Packets that were the same only on a new BMv2: see [`Pair::again`].
    pub(crate) stale: usize,
    /// Objects that BMv2's server or both refuse, by the reason.
    pub(crate) refused: BTreeMap<String, usize>,
}

/// Compiles a program for both switches.
pub(crate) fn compile(path: &str) -> Result<(Compilation, Pipeline), NoPair> {
    let source = Source { main: path.to_owned(), files: Vec::new() };
    let pipeline = p4c::bmv2(&source, &[]).map_err(|error| NoPair::Refused(error.to_string()))?;
    let compiled = tributary_p4::compile(&Sources::disk(), path, &[]);
    let compiled = compiled.map_err(|errors| NoPair::Differs(errors.render(false)))?;
    same_description(&compiled.p4info, pipeline.p4info.clone()).map_err(NoPair::Differs)?;
    Ok((compiled, pipeline))
}

/// Loads a program into the embedded switch.
pub(crate) fn load(compiled: &Compilation) -> Result<Forwarding, String> {
    let config = ForwardingPipelineConfig {
        p4info: Some(compiled.p4info.clone()),
        ..ForwardingPipelineConfig::default()
    };
    let loaded = Forwarding::load(compiled.program.clone(), config);
    loaded.map_err(|refusal| refusal.to_string())
}

impl Pair {
    pub(crate) fn start(compiled: &Compilation, pipeline: &Pipeline) -> Result<Self, String> {
        let forwarding = load(compiled)?;
        let info = &compiled.p4info;
        let names = forwarding.pipeline().digests();
        let digests = names.map(|name| digest_id(info, name)).collect();
        let config = SwitchConfig { ports: (0..=LAST_PORT).collect(), ..SwitchConfig::default() };
        let mut ours = Switch::new(config);
        ours.commit(forwarding);
        let theirs = started(pipeline, info)?;
        // Registers, counters and meters remember packets.
        let remembers = !info.registers.is_empty()
            || !info.counters.is_empty()
            || !info.direct_counters.is_empty()
            || !info.meters.is_empty()
            || !info.direct_meters.is_empty();
        Ok(Self {
            fresh: State::of(&ours)?,
            ours,
            now_us: START_US,
            theirs,
            again: (!remembers).then(|| pipeline.clone()),
            info: info.clone(),
            digests,
            tally: Tally::default(),
        })
    }

    /// Makes an update in both switches. If only BMv2 refuses it, the embedded switch takes it back.
    /// Whether it is made in both.
    pub(crate) fn write(&mut self, update: &Update) -> Result<bool, String> {
        let ours = self.write_ours(update);
        let theirs = self.theirs.write(update);
        match (ours, theirs) {
            (Ok(()), Ok(())) => {
                self.tally.objects += 1;
                Ok(true)
            }
            (Err(_), Err(theirs)) if theirs.starts_with("BMv2 ") => Err(theirs),
            (Err(ours), Err(_)) => {
                *self.tally.refused.entry(format!("both: {ours}")).or_default() += 1;
                Ok(false)
            }
            (Err(ours), Ok(())) => {
                Err(format!("only the embedded switch refuses {update:?}: {ours}"))
            }
            (Ok(()), Err(theirs)) if theirs.starts_with("BMv2 ") => Err(theirs),
            (Ok(()), Err(theirs)) => {
                let back = inverse(update).ok_or_else(|| {
                    format!("BMv2 refuses {update:?}, which cannot be taken back: {theirs}")
                })?;
                self.write_ours(&back)?;
                *self.tally.refused.entry(format!("only BMv2: {theirs}")).or_default() += 1;
                Ok(false)
            }
        }
    }

    /// Makes updates in both switches, and returns those that both took.
    pub(crate) fn write_all(&mut self, updates: &[Update]) -> Result<Vec<Update>, String> {
        let mut made = Vec::new();
        for update in updates {
            if self.write(update)? {
                made.push(update.clone());
            }
        }
        Ok(made)
    }

    /// Takes updates back, the last one first.
    pub(crate) fn take_back(&mut self, made: &[Update]) -> Result<(), String> {
        for update in made.iter().rev().filter_map(inverse) {
            self.write_ours(&update)?;
            self.theirs.write(&update).map_err(|why| format!("BMv2 refuses {update:?}: {why}"))?;
        }
        Ok(())
    }

    fn write_ours(&mut self, update: &Update) -> Result<(), String> {
        let results = self.ours.write(std::slice::from_ref(update));
        let results = results.map_err(|refusal| refusal.to_string())?;
        results.into_iter().collect::<Result<(), _>>().map_err(|refusal| refusal.to_string())
    }

    /// Sends a packet through both switches; the error is a difference.
    pub(crate) fn pass(&mut self, port: u16, data: &[u8]) -> Result<(), String> {
        if port > LAST_PORT || data.is_empty() {
            return Ok(());
        }
        self.tally.packets += 1;
        let ours = self.pass_ours(port, data)?;
        let what = || format!("packet {} into port {port}", hex(data));
        let failed = |why| format!("{}: {why}", what());
        let mut theirs = self.pass_theirs(port, data, ours.digests.len()).map_err(failed)?;
        if ours != theirs && self.restart()? {
            theirs = self.pass_theirs(port, data, ours.digests.len()).map_err(failed)?;
            self.tally.stale += usize::from(ours == theirs);
        }
        if ours != theirs {
            return Err(format!("{}\nthe embedded switch: {ours}\nBMv2: {theirs}", what()));
        }
        self.tally.came_out += ours.outputs.len();
        self.tally.digests += ours.digests.len();
        Ok(())
    }

    /// Waits for as many digests as the embedded switch has sent, but not long.
    fn pass_theirs(&mut self, port: u16, data: &[u8], expected: usize) -> Result<Seen, String> {
        let mut outputs = self.theirs.pass(port, data)?;
        outputs.retain(|(port, _)| *port <= LAST_PORT);
        let mut digests = Vec::new();
        while digests.len() < expected {
            let Some(list) = self.theirs.digest() else { break };
            digests.extend(list.data.iter().map(|data| (list.digest_id, scalars(data))));
        }
        while let Some(list) = self.theirs.arrived_digest() {
            digests.extend(list.data.iter().map(|data| (list.digest_id, scalars(data))));
        }
        Ok(Seen::new(outputs, digests))
    }

    /// Starts BMv2 again, with the same objects; `false` if that would change what packets meet.
    ///
    /// BMv2 does not clear the fields of headers between packets. A program that reads a field of an
    /// invalid header gets what an earlier packet left there, but zero on a new BMv2, as on the embedded
    /// switch.
    fn restart(&mut self) -> Result<bool, String> {
        let Some(pipeline) = &self.again else { return Ok(false) };
        self.theirs = started(pipeline, &self.info)?;
        for update in self.fresh.updates_to(&State::of(&self.ours)?) {
            let written = self.theirs.write(&update);
            written.map_err(|why| format!("BMv2 refuses {update:?}: {why}"))?;
        }
        Ok(true)
    }

    fn pass_ours(&mut self, port: u16, data: &[u8]) -> Result<Seen, String> {
        self.now_us += PACKET_US;
        self.ours.receive(self.now_us, port, data);
        let (mut outputs, mut frame) = (Outputs::new(), Vec::new());
        for _ in 0..TURNS {
            let more = self.ours.run_pending(self.now_us, 1);
            for port in 0..=LAST_PORT {
                while self.ours.transmit(self.now_us, port, &mut frame) {
                    outputs.push((port, frame.clone()));
                }
            }
            while self.ours.poll_packet_in().is_some() {}
            if !more && (0..=LAST_PORT).all(|port| self.ours.queue_depth(port) == 0) {
                let mut digests = Vec::new();
                while let Some(digest) = self.ours.poll_digest() {
                    let data = digest.data.iter().map(|value| shortest(&value.to_be_bytes()));
                    digests.push((self.digests[digest.digest], data.collect()));
                }
                return Ok(Seen::new(outputs, digests));
            }
        }
        Err(format!("packet {} into port {port} walks for ever", hex(data)))
    }

    /// The objects that templates select in the embedded switch, and in BMv2.
    pub(crate) fn read(&mut self, which: &[Entity]) -> Result<[Vec<Entity>; 2], String> {
        let ours = self.ours.read(which).map_err(|refusal| refusal.to_string())?;
        Ok([ours, self.theirs.read(which)?])
    }
}

/// What a packet leads to.
#[derive(PartialEq)]
struct Seen {
    outputs: Outputs,
    /// Ids and values.
    digests: Vec<(u32, Vec<Vec<u8>>)>,
}

impl Seen {
    /// The order of copies, and of digests, is unspecified.
    fn new(mut outputs: Outputs, mut digests: Vec<(u32, Vec<Vec<u8>>)>) -> Self {
        outputs.sort();
        digests.sort();
        Self { outputs, digests }
    }
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", show(&self.outputs))?;
        match self.digests.is_empty() {
            true => Ok(()),
            false => write!(f, "\n    digests {:x?}", self.digests),
        }
    }
}

/// BMv2 with a program whose digests are enabled.
fn started(pipeline: &Pipeline, info: &P4Info) -> Result<Streamed, String> {
    let mut bmv2 = Streamed::start(pipeline)?;
    for digest in &info.digests {
        let digest_id = id(digest.preamble.as_ref());
        // Lists of one, sent at once, and never held back.
        let config = digest_entry::Config { max_list_size: 1, ..Default::default() };
        let entry = DigestEntry { digest_id, config: Some(config) };
        bmv2.write(&change(update::Type::Insert, entity::Entity::DigestEntry(entry)))?;
    }
    Ok(bmv2)
}

/// The id of a digest with the given name in the program. Programs name digests by the type of their
/// data, and P4Info may have the full name.
fn digest_id(info: &P4Info, name: &str) -> u32 {
    let named = info.digests.iter().find(|digest| {
        digest.preamble.as_ref().is_some_and(|known| known.name == name || known.alias == name)
    });
    named.map_or(0, |digest| id(digest.preamble.as_ref()))
}

fn shortest(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().skip_while(|&byte| byte == 0).collect()
}

/// The values of a digest, in order.
fn scalars(data: &P4Data) -> Vec<Vec<u8>> {
    match &data.data {
        Some(p4_data::Data::Struct(it) | p4_data::Data::Tuple(it)) => {
            it.members.iter().flat_map(scalars).collect()
        }
        Some(p4_data::Data::Bitstring(bytes)) => vec![shortest(bytes)],
        Some(p4_data::Data::Bool(value)) => vec![shortest(&[u8::from(*value)])],
        other => vec![format!("{other:?}").into_bytes()],
    }
}
