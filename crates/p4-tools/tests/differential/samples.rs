//! A folder of public programs, which `TRIBUTARY_P4_SAMPLES` names: the embedded switch and BMv2 with
//! the same entries and packets.
//!
//! For each program, generated tests (`tributary p4 test`) give entries and packets that reach deep
//! paths. Their entries and packets come first as they are, test by test. Random mixtures follow: keys
//! of those entries with other actions, random entries, members, groups and meters, and packets with
//! changed, missing and additional bytes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{env, fs};

use tributary_p4::{Compilation, Sources};
use tributary_p4_tools::testgen::{Options, Subject, generate};
use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_p4runtime::p4::config::v1::match_field::{Match, MatchType};
use tributary_p4runtime::p4::v1::{TableEntry, Update, entity, update};
use tributary_switch::stf::Script;

use crate::draw::{Draw, change, groups};
use crate::known::{Known, known};
use crate::lockstep::{all_counters, counts};
use crate::mirror::State;
use crate::pair::{NoPair, Pair, Tally, compile, load};
use crate::resources::id;

/// Names the folder.
pub(crate) const FOLDER: &str = "TRIBUTARY_P4_SAMPLES";

/// Steps of the search for tests of a program, and a limit that only a very large one reaches.
const STEPS: usize = 120;
const TIME: Duration = Duration::from_secs(20);

/// Sets of random entries per program, and packets for each.
const SEEDS: u64 = 3;
const PACKETS: usize = 40;

/// How a comparison ended.
#[derive(Clone, Debug)]
enum Outcome {
    /// All packets, digests and counters are the same.
    Same,
    /// They are, but no packet came out.
    Nothing,
    /// There is a difference whose reason is known.
    Known(&'static str),
    /// p4c's back end for BMv2 does not accept the program.
    Refused,
    /// There is an unknown difference.
    Differs(String),
}

/// The outcomes of this process, by program.
static OUTCOMES: Mutex<BTreeMap<String, (Outcome, Tally)>> = Mutex::new(BTreeMap::new());

/// The v1model programs in the folder; none if there is no folder.
pub(crate) fn programs() -> Vec<PathBuf> {
    let Some(folder) = env::var_os(FOLDER) else { return Vec::new() };
    let entries = fs::read_dir(&folder);
    let entries = entries.unwrap_or_else(|error| panic!("{FOLDER}: {}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("the folder can be listed").path());
    let is_v1model = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == "p4")
            && fs::read_to_string(path).is_ok_and(|text| text.contains("v1model.p4"))
    };
    let mut programs: Vec<PathBuf> = paths.filter(is_v1model).collect();
    programs.sort();
    programs
}

pub(crate) fn name(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Compares the switches on a program.
pub(crate) fn run(path: &Path) -> Result<(), String> {
    let name = name(path);
    let mut tally = Tally::default();
    let compared = compare(path, &mut tally);
    let outcome = match (compared, known(&name)) {
        (Err(NoPair::Refused(_)), _) => Outcome::Refused,
        (Ok(()), Some(Known { always: true, .. })) => {
            Outcome::Differs("it no longer differs: remove it from known.rs".to_owned())
        }
        (Ok(()), _) if tally.came_out == 0 => Outcome::Nothing,
        (Ok(()), _) => Outcome::Same,
        (Err(NoPair::Differs(_)), Some(known)) => Outcome::Known(known.reason),
        (Err(NoPair::Differs(why)), None) => Outcome::Differs(why),
    };
    let mut outcomes = OUTCOMES.lock().unwrap_or_else(PoisonError::into_inner);
    outcomes.insert(name, (outcome.clone(), tally));
    match outcome {
        Outcome::Differs(why) => Err(why),
        _ => Ok(()),
    }
}

fn compare(path: &Path, tally: &mut Tally) -> Result<(), NoPair> {
    let file = path.display().to_string();
    let (compiled, pipeline) = compile(&file)?;
    let tests = tests(&file).map_err(NoPair::Differs)?;
    let mut pair = Pair::start(&compiled, &pipeline).map_err(NoPair::Differs)?;
    let outcome = all(&mut pair, &compiled, &tests);
    *tally = pair.tally;
    outcome.map_err(NoPair::Differs)
}

fn all(pair: &mut Pair, compiled: &Compilation, tests: &[Script]) -> Result<(), String> {
    let info = &compiled.p4info;
    let mut found = Found::default();
    let fresh = State::of(&switch(compiled, None)?)?;
    for (number, test) in tests.iter().enumerate() {
        let state = State::of(&switch(compiled, Some(test))?)?.renumbered();
        let updates = fresh.updates_to(&state);
        let context = |why| format!("generated test {number}: {why}");
        let made = pair.write_all(&updates).map_err(context)?;
        for (port, data) in test.packets() {
            found.packets.push((port, data.to_vec()));
            pair.pass(port, data).map_err(context)?;
        }
        same_counters(pair, info).map_err(context)?;
        pair.take_back(&made).map_err(context)?;
        found.take(&updates);
    }
    let base = groups();
    for update in base.iter().filter(|update| !found.copies.iter().any(|it| same_id(it, update))) {
        pair.write(update)?;
    }
    for update in &found.copies {
        pair.write(update)?;
    }
    let chosen = env::var("TRIBUTARY_SEED").ok().and_then(|seed| seed.parse().ok());
    let drawable = drawable(info);
    for seed in chosen.map_or(1..=SEEDS, |seed| seed..=seed) {
        one_seed(pair, &drawable, &found, seed).map_err(|why| format!("seed {seed}: {why}"))?;
    }
    Ok(())
}

fn one_seed(pair: &mut Pair, info: &P4Info, found: &Found, seed: u64) -> Result<(), String> {
    let mut draw = Draw::new(seed);
    let mut entities = draw.profiles(info);
    let entries = draw.entries_near(info, &found.entries);
    entities.extend(entries.into_iter().map(entity::Entity::TableEntry));
    let mut updates: Vec<Update> =
        entities.into_iter().map(|entity| change(update::Type::Insert, entity)).collect();
    let defaults = draw.defaults(info).into_iter().map(entity::Entity::TableEntry);
    updates.extend(defaults.map(|entity| change(update::Type::Modify, entity)));
    let made = pair.write_all(&updates)?;
    let meters = pair.write_all(&draw.meters(info))?;
    for number in 0..PACKETS {
        let (port, data) = draw.packet_near(&found.packets);
        pair.pass(port, &data).map_err(|why| {
            let entries: Vec<String> = made.iter().map(|update| format!("{update:?}")).collect();
            format!("packet {number}: {why}\n{}", entries.join("\n"))
        })?;
    }
    same_counters(pair, info)?;
    pair.take_back(&meters)?;
    pair.take_back(&made)
}

/// What the generated tests have: keys that packets match, and packets.
#[derive(Default)]
struct Found {
    entries: Vec<TableEntry>,
    packets: Vec<(u16, Vec<u8>)>,
    /// Multicast groups and clone sessions.
    copies: Vec<Update>,
}

impl Found {
    fn take(&mut self, updates: &[Update]) {
        for update in updates {
            match update.entity.as_ref().and_then(|entity| entity.entity.as_ref()) {
                Some(entity::Entity::TableEntry(entry)) if !entry.is_default_action => {
                    self.entries.push(entry.clone());
                }
                Some(entity::Entity::PacketReplicationEngineEntry(_))
                    if !self.copies.iter().any(|known| same_id(known, update)) =>
                {
                    self.copies.push(update.clone());
                }
                _ => {}
            }
        }
    }
}

/// Whether two updates are about the same multicast group, or the same clone session.
fn same_id(one: &Update, other: &Update) -> bool {
    use tributary_p4runtime::p4::v1::packet_replication_engine_entry::Type;
    let of = |update: &Update| {
        let entity = update.entity.as_ref()?.entity.as_ref()?;
        let entity::Entity::PacketReplicationEngineEntry(entry) = entity else { return None };
        match entry.r#type.as_ref()? {
            Type::MulticastGroupEntry(group) => Some((0, group.multicast_group_id)),
            Type::CloneSessionEntry(session) => Some((1, session.session_id)),
        }
    };
    of(one) == of(other)
}

/// The switch after a test's commands, or without any.
fn switch(
    compiled: &Compilation,
    test: Option<&Script>,
) -> Result<tributary_switch::Switch, String> {
    let empty = Script::parse("").map_err(|error| error.to_string())?;
    let prepared = tributary_switch::stf::prepare(test.unwrap_or(&empty), load(compiled)?);
    prepared.map(|(switch, _)| switch).map_err(|failure| failure.to_string())
}

fn same_counters(pair: &mut Pair, info: &P4Info) -> Result<(), String> {
    let which = all_counters(info);
    if which.is_empty() {
        return Ok(());
    }
    let [ours, theirs] = pair.read(&which)?.map(counts);
    match ours == theirs {
        true => Ok(()),
        false => Err(format!("the embedded switch counts {ours:?}, BMv2 counts {theirs:?}")),
    }
}

/// Generated tests of a program.
fn tests(file: &str) -> Result<Vec<Script>, String> {
    let marked = tributary_p4::compile(&Sources::disk(), file, tributary_p4::Options::marked(&[]));
    let marked = marked.map_err(|errors| errors.render(false))?;
    let subject = Subject::new(marked).map_err(|error| error.to_string())?;
    let options = Options { steps: STEPS, time: TIME, presets: false, ..Options::default() };
    let generated = generate(&subject, &options, &mut |_| {});
    let scripts = generated.tests.iter().map(|test| Script::parse(&test.text));
    scripts.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

/// The part of a program that random objects can be drawn for: tables whose keys and data have at most
/// 128 bits, where no value is a string; and the profiles of these tables.
fn drawable(info: &P4Info) -> P4Info {
    let fits = |width: i32| (1..=128).contains(&width);
    let mut part = info.clone();
    part.tables.retain(|table| {
        let is_known = |kind: &Match| {
            matches!(kind, Match::MatchType(kind) if MatchType::try_from(*kind).is_ok())
        };
        let actions = info.actions.iter().filter(|action| {
            let own = id(action.preamble.as_ref());
            table.action_refs.iter().any(|reference| reference.id == own)
        });
        let fields = &table.match_fields;
        fields.iter().all(|field| fits(field.bitwidth) && field.r#match.iter().all(is_known))
            && actions.flat_map(|action| &action.params).all(|param| fits(param.bitwidth))
    });
    let used: Vec<u32> = part.tables.iter().map(|table| table.implementation_id).collect();
    part.action_profiles.retain(|profile| used.contains(&id(profile.preamble.as_ref())));
    part
}

/// Prints the outcomes of this process, if there are some.
pub(crate) fn print_table() {
    let outcomes = OUTCOMES.lock().unwrap_or_else(PoisonError::into_inner);
    if outcomes.is_empty() {
        return;
    }
    let mut all = Tally::default();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    let mut refused: BTreeMap<&str, usize> = BTreeMap::new();
    println!(
        "\nprogram, outcome, packets in, out, same on a new BMv2 only, digests, objects, refused"
    );
    for (name, (outcome, tally)) in outcomes.iter() {
        let kind = match outcome {
            Outcome::Same => "same",
            Outcome::Nothing => "nothing came out",
            Outcome::Known(_) => "known difference",
            Outcome::Refused => "not for BMv2",
            Outcome::Differs(_) => "DIFFERS",
        };
        *kinds.entry(kind).or_default() += 1;
        for (why, times) in &tally.refused {
            *refused.entry(why).or_default() += times;
        }
        if !matches!(outcome, Outcome::Refused) {
            let not = tally.refused.values().sum::<usize>();
            let reason = match outcome {
                Outcome::Known(reason) => format!(": {reason}"),
                _ => String::new(),
            };
            println!(
                "{name}, {kind}{reason}, {}, {}, {}, {}, {}, {not}",
                tally.packets, tally.came_out, tally.stale, tally.digests, tally.objects
            );
        }
        all.packets += tally.packets;
        all.came_out += tally.came_out;
        all.stale += tally.stale;
        all.digests += tally.digests;
        all.objects += tally.objects;
    }
    println!(
        "\n{} packets in, {} out, {} of them the same on a new BMv2 only, {} digests, {} objects",
        all.packets, all.came_out, all.stale, all.digests, all.objects
    );
    for (kind, programs) in kinds {
        println!("{programs} programs: {kind}");
    }
    for (why, times) in refused {
        println!("{times} objects are refused by {why}");
    }
}
