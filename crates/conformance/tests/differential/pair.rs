//! The embedded switch and BMv2 with the same program, updates and packets.

use std::collections::BTreeMap;

use tributary_controller::p4c;
use tributary_controller::programs::{Pipeline, Source};
use tributary_p4::{Compilation, Sources};
use tributary_p4runtime_proto::p4::config::v1::P4Info;
use tributary_p4runtime_proto::p4::v1::{
    DigestEntry, Entity, ForwardingPipelineConfig, P4Data, Update, digest_entry, entity, p4_data,
    update,
};
use tributary_switch::{Forwarding, Switch, SwitchConfig};

use crate::draw::change;
use crate::lockstep::{hex, same_description, show};
use crate::mirror::inverse;
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
        let mut theirs = Streamed::start(pipeline)?;
        for digest in &info.digests {
            let digest_id = id(digest.preamble.as_ref());
            // Lists of one, sent at once, and never held back.
            let config = digest_entry::Config { max_list_size: 1, ..Default::default() };
            let entry = DigestEntry { digest_id, config: Some(config) };
            theirs.write(&change(update::Type::Insert, entity::Entity::DigestEntry(entry)))?;
        }
        Ok(Self { ours, now_us: START_US, theirs, digests, tally: Tally::default() })
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
        let theirs = self.theirs.pass(port, data);
        let mut theirs = theirs.map_err(|why| format!("{}: {why}", what()))?;
        theirs.retain(|(port, _)| *port <= LAST_PORT);
        // The order of copies is unspecified.
        theirs.sort();
        if ours != theirs {
            let (ours, theirs) = (show(&ours), show(&theirs));
            return Err(format!(
                "{}\nthe embedded switch gives {ours}\nBMv2 gives {theirs}",
                what()
            ));
        }
        self.tally.came_out += ours.len();
        self.same_digests().map_err(|why| format!("{}: {why}", what()))
    }

    fn pass_ours(&mut self, port: u16, data: &[u8]) -> Result<Outputs, String> {
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
                outputs.sort();
                return Ok(outputs);
            }
        }
        Err(format!("packet {} into port {port} walks for ever", hex(data)))
    }

    /// Compares the digests since the last time, which may come in any order.
    fn same_digests(&mut self) -> Result<(), String> {
        let mut ours = Vec::new();
        while let Some(digest) = self.ours.poll_digest() {
            let data = digest.data.iter().map(|value| shortest(&value.to_be_bytes()));
            ours.push((self.digests[digest.digest], data.collect::<Vec<_>>()));
        }
        let mut theirs = Vec::new();
        while theirs.len() < ours.len() {
            let Some(list) = self.theirs.digest() else { break };
            theirs.extend(list.data.iter().map(|data| (list.digest_id, scalars(data))));
        }
        while let Some(list) = self.theirs.arrived_digest() {
            theirs.extend(list.data.iter().map(|data| (list.digest_id, scalars(data))));
        }
        ours.sort();
        theirs.sort();
        if ours != theirs {
            return Err(format!("digests of the embedded switch: {ours:x?}; of BMv2: {theirs:x?}"));
        }
        self.tally.digests += ours.len();
        Ok(())
    }

    /// The objects that templates select in the embedded switch, and in BMv2.
    pub(crate) fn read(&mut self, which: &[Entity]) -> Result<[Vec<Entity>; 2], String> {
        let ours = self.ours.read(which).map_err(|refusal| refusal.to_string())?;
        Ok([ours, self.theirs.read(which)?])
    }
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
