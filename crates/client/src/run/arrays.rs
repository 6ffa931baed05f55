//! Counters, meters and registers: of an index, or of an entry.

use serde_json::{Value, json};
use tributary_p4runtime::p4::config::v1::{
    Counter, DirectCounter, DirectMeter, Meter, Register, Table, meter_spec,
};
use tributary_p4runtime::p4::v1::{
    CounterData, CounterEntry, DirectCounterEntry, DirectMeterEntry, Entity, Index, MeterConfig,
    MeterEntry, RegisterEntry, TableEntry, entity, update,
};

use super::{documents, usage, wrap, wrote};
use crate::error::unknown;
use crate::names::{Names, Object};
use crate::output::Rows;
use crate::{Error, Report, Session, data, entry, text};

/// A counter or a meter: of indices, or of the entries of a table.
enum Place<'n> {
    Indexed(u32),
    Direct(&'n Table),
}

/// The indexed object, or the table, that a name means.
fn place<'n, I: Object, D: Object>(
    names: &'n Names,
    name: &str,
    table: impl Fn(&D) -> u32,
) -> Result<Place<'n>, Error> {
    if let Some(indexed) = names.look::<I>(name)? {
        return Ok(Place::Indexed(indexed.id()));
    }
    let direct = names.look::<D>(name)?.map(&table);
    let found = match direct {
        Some(id) => names.by_id::<Table>(id),
        None => names.look::<Table>(name)?,
    };
    let has = |found: &&Table| names.all::<D>().iter().any(|one| table(one) == found.id());
    if let Some(found) = found.filter(has) {
        return Ok(Place::Direct(found));
    }
    let indexed = names.all::<I>().iter().map(Object::alias);
    let known: Vec<&str> = indexed.chain(names.all::<D>().iter().map(Object::alias)).collect();
    Err(match found {
        Some(found) => {
            Error::input(format!("entries of table `{}` have no {}", found.alias(), I::KIND))
        }
        None if names.info().tables.is_empty() => {
            names.missing(I::KIND, name, known.iter().copied())
        }
        None => unknown(&format!("there is no {}", I::KIND), name, known.iter().copied()),
    })
}

/// What to do with a counter, meter or register.
struct Request<'w> {
    index: Option<i64>,
    /// The words behind the index.
    rest: &'w [String],
}

impl<'w> Request<'w> {
    fn new(words: &'w [String]) -> Result<Self, Error> {
        match words.split_first() {
            Some((first, rest)) if first != "reset" => {
                let index = first.parse().ok().filter(|index: &i64| *index >= 0);
                let index = index.ok_or_else(|| {
                    Error::input(format!("`{first}` is not an index; write a number from 0"))
                })?;
                Ok(Self { index: Some(index), rest })
            }
            _ => Ok(Self { index: None, rest: words }),
        }
    }

    fn index(&self) -> Option<Index> {
        self.index.map(|index| Index { index })
    }
}

/// Reads `NAME=N` of these names, each once at most.
fn numbers<const N: usize>(
    command: &str,
    names: [&str; N],
    words: &[String],
) -> Result<[Option<i64>; N], Error> {
    let mut values = [None; N];
    for word in words {
        let given = word.split_once('=');
        let at = given.and_then(|(name, _)| names.iter().position(|known| *known == name));
        let (Some(at), Some((name, text))) = (at, given) else {
            return Err(usage(command));
        };
        let value = text.replace('_', "").parse().ok().filter(|value: &i64| *value >= 0);
        let value = value.ok_or_else(|| Error::input(format!("{name}={text}: write a number")))?;
        if values[at].replace(value).is_some() {
            return Err(Error::input(format!("`{name}` is given twice; leave one out")));
        }
    }
    Ok(values)
}

/// Tells how many rows are left out because they are zero.
fn rest_is_zero(left: usize, all: usize, report: Report) -> Report {
    match left {
        0 => report,
        left if left == all => report.line(format!("all {left} are zero")),
        left => report.line(format!("the other {left} are zero")),
    }
}

// --- Counters -----------------------------------------------------------------------------------

const COUNTS: [&str; 2] = ["packets", "bytes"];

/// `counter`.
pub(super) async fn counter(session: &mut Session, words: &[String]) -> Result<Report, Error> {
    let Some((name, rest)) = words.split_first() else { return Err(usage("counter")) };
    let names = session.names().clone();
    let table = |one: &DirectCounter| one.direct_table_id;
    match place::<Counter, DirectCounter>(&names, name, table)? {
        Place::Indexed(id) => indexed_counter(session, id, &Request::new(rest)?).await,
        Place::Direct(table) => direct_counter(session, table, rest).await,
    }
}

fn changed(old: CounterData, [packets, bytes]: [Option<i64>; 2]) -> CounterData {
    CounterData {
        packet_count: packets.unwrap_or(old.packet_count),
        byte_count: bytes.unwrap_or(old.byte_count),
    }
}

async fn indexed_counter(
    session: &mut Session,
    id: u32,
    request: &Request<'_>,
) -> Result<Report, Error> {
    let one = |index, data| {
        wrap(entity::Entity::CounterEntry(CounterEntry { counter_id: id, index, data }))
    };
    let found = session.read(one(request.index(), None)).await?;
    let found = found.into_iter().filter_map(|one| match one.entity {
        Some(entity::Entity::CounterEntry(one)) => Some((one.index?, one.data.unwrap_or_default())),
        _ => None,
    });
    let found: Vec<(Index, CounterData)> = found.collect();
    if request.rest == ["reset"] {
        let used = found.iter().filter(|(_, data)| *data != CounterData::default());
        let zero = used.map(|(index, _)| one(Some(*index), Some(CounterData::default())));
        let zero = zero.collect();
        let written = session.write(update::Type::Modify, zero).await?;
        return Ok(wrote(written, format!("reset: {written} that counted")));
    }
    if !request.rest.is_empty() {
        let given = numbers("counter", COUNTS, request.rest)?;
        let (index, old) = *found.first().ok_or_else(|| usage("counter"))?;
        let new = one(Some(index), Some(changed(old, given)));
        let said = format!("changed: {}", text::show(session.names(), &new));
        return Ok(wrote(session.write(update::Type::Modify, vec![new]).await?, said));
    }
    let mut rows = Rows::new("", ["#index", "#packets", "#bytes"]);
    let all = request.index.is_some();
    let mut left = 0;
    for (index, data) in &found {
        if !all && *data == CounterData::default() {
            left += 1;
            continue;
        }
        rows.push(
            [index.index, data.packet_count, data.byte_count].map(|number| number.to_string()),
        );
    }
    let json = found.iter().map(|(index, data)| {
        json!({ "index": index.index, "packets": data.packet_count, "bytes": data.byte_count })
    });
    let report = Report::new(json.collect::<Vec<Value>>().into());
    Ok(rest_is_zero(left, found.len(), report.rows(rows)))
}

/// The counters or meters of a table's entries that words name: of one entry, or of all.
fn direct<'w>(
    names: &Names,
    table: &Table,
    words: &'w [String],
    options: &[&str],
) -> Result<(TableEntry, &'w [String]), Error> {
    let first = words.first().and_then(|word| word.split_once('='));
    let all = TableEntry { table_id: table.id(), ..TableEntry::default() };
    if words.first().is_some_and(|word| word == "default") {
        return Ok((TableEntry { is_default_action: true, ..all }, &words[1..]));
    }
    if first.is_none_or(|(name, _)| options.contains(&name)) {
        return Ok((all, words));
    }
    // The keys are behind the table's name.
    let mut line = vec![table.name().to_owned()];
    line.extend_from_slice(words);
    let (_, one, rest) = entry::keys(names, &line, options)?;
    let behind = rest.len();
    Ok((one, &words[words.len() - behind..]))
}

async fn direct_counter(
    session: &mut Session,
    table: &Table,
    words: &[String],
) -> Result<Report, Error> {
    let names = session.names().clone();
    let (at, rest) = direct(&names, table, words, &COUNTS)?;
    let one = |at: TableEntry, data| {
        let one = DirectCounterEntry { table_entry: Some(at), data };
        wrap(entity::Entity::DirectCounterEntry(one))
    };
    check_known(session, table, &at).await?;
    let found = session.read(one(at, None)).await?;
    let found = found.into_iter().filter_map(|one| match one.entity {
        Some(entity::Entity::DirectCounterEntry(one)) => {
            Some((one.table_entry?, one.data.unwrap_or_default()))
        }
        _ => None,
    });
    let found: Vec<(TableEntry, CounterData)> = found.collect();
    if !rest.is_empty() {
        let given = match rest {
            [word] if word == "reset" => [Some(0), Some(0)],
            rest => numbers("counter", COUNTS, rest)?,
        };
        let new = found.iter().map(|(at, old)| one(at.clone(), Some(changed(*old, given))));
        let written = session.write(update::Type::Modify, new.collect()).await?;
        return Ok(wrote(written, format!("changed: counters of {written} entries")));
    }
    let mut rows = Rows::new("", ["entry", "#packets", "#bytes"]);
    let mut json = Vec::new();
    for (at, data) in &found {
        rows.push([
            entry_text(&names, at),
            data.packet_count.to_string(),
            data.byte_count.to_string(),
        ]);
        json.push(json!({
            "entry": entry_text(&names, at), "packets": data.packet_count, "bytes": data.byte_count,
        }));
    }
    Ok(Report::new(Value::Array(json)).rows(rows))
}

/// Refuses an entry that the table does not have.
async fn check_known(session: &Session, table: &Table, at: &TableEntry) -> Result<(), Error> {
    let is_all = at.r#match.is_empty() && at.priority == 0;
    if is_all || at.is_default_action {
        return Ok(());
    }
    if session.read(wrap(entity::Entity::TableEntry(at.clone()))).await?.is_empty() {
        return Err(Error::input(format!(
            "table `{0}` has no entry `{1}`; `dump {0}` lists its entries",
            table.alias(),
            entry_text(session.names(), at)
        )));
    }
    Ok(())
}

/// The keys of an entry.
fn entry_text(names: &Names, at: &TableEntry) -> String {
    let fields = names.by_id::<Table>(at.table_id).map(|table| names.keys(table));
    let fields = fields.unwrap_or_default();
    let mut words = entry::show_keys(&fields, &at.r#match);
    words.extend(entry::show_options(&fields, at));
    match words.is_empty() {
        true if at.is_default_action => "default".to_owned(),
        true => "*".to_owned(),
        false => words.join(" "),
    }
}

// --- Meters -------------------------------------------------------------------------------------

const RATES: [&str; 4] = ["cir", "cburst", "pir", "pburst"];

/// `meter`.
pub(super) async fn meter(session: &mut Session, words: &[String]) -> Result<Report, Error> {
    let Some((name, rest)) = words.split_first() else { return Err(usage("meter")) };
    let names = session.names().clone();
    let table = |one: &DirectMeter| one.direct_table_id;
    match place::<Meter, DirectMeter>(&names, name, table)? {
        Place::Indexed(id) => indexed_meter(session, id, &Request::new(rest)?).await,
        Place::Direct(table) => direct_meter(session, table, rest).await,
    }
}

/// Reads the rates of a meter; `None` to reset it.
fn config(words: &[String]) -> Result<Option<MeterConfig>, Error> {
    if words == ["reset"] {
        return Ok(None);
    }
    let [cir, cburst, pir, pburst] = numbers("meter", RATES, words)?;
    let (Some(cir), Some(cburst)) = (cir, cburst) else { return Err(usage("meter")) };
    let (pir, pburst) = (pir.unwrap_or(cir), pburst.unwrap_or(cburst));
    Ok(Some(MeterConfig { cir, cburst, pir, pburst, ..MeterConfig::default() }))
}

fn rate_header(first: &'static str) -> [&'static str; 5] {
    [first, "#cir", "#cburst", "#pir", "#pburst"]
}

fn rate_row(first: String, config: Option<&MeterConfig>) -> [String; 5] {
    let number = |of: fn(&MeterConfig) -> i64| {
        config.map_or_else(|| "–".to_owned(), |config| of(config).to_string())
    };
    [first, number(|c| c.cir), number(|c| c.cburst), number(|c| c.pir), number(|c| c.pburst)]
}

async fn indexed_meter(
    session: &mut Session,
    id: u32,
    request: &Request<'_>,
) -> Result<Report, Error> {
    let one = |index, config| {
        let one = MeterEntry { meter_id: id, index, config, ..MeterEntry::default() };
        wrap(entity::Entity::MeterEntry(one))
    };
    if request.index.is_some() && !request.rest.is_empty() {
        let new = one(request.index(), config(request.rest)?);
        let said = format!("changed: {}", text::show(session.names(), &new));
        return Ok(wrote(session.write(update::Type::Modify, vec![new]).await?, said));
    }
    let found = session.read(one(request.index(), None)).await?;
    let found = found.into_iter().filter_map(|one| match one.entity {
        Some(entity::Entity::MeterEntry(one)) => Some((one.index?, one.config)),
        _ => None,
    });
    let found: Vec<(Index, Option<MeterConfig>)> = found.collect();
    if request.rest == ["reset"] {
        let set = found.iter().filter(|(_, config)| config.is_some());
        let unset = set.map(|(index, _)| one(Some(*index), None)).collect();
        let written = session.write(update::Type::Modify, unset).await?;
        return Ok(wrote(written, format!("reset: {written} that had rates")));
    }
    if !request.rest.is_empty() {
        return Err(usage("meter"));
    }
    let mut rows = Rows::new("", rate_header("#index"));
    let shown = found.iter().filter(|(_, config)| request.index.is_some() || config.is_some());
    for (index, config) in shown {
        rows.push(rate_row(index.index.to_string(), config.as_ref()));
    }
    let json = found.iter().map(|(index, config)| {
        json!({ "index": index.index, "rates": config.as_ref().map(documents::rates) })
    });
    let report = Report::new(json.collect::<Vec<Value>>().into());
    Ok(match rows.is_empty() {
        true => report.line("no meter has rates"),
        false => report.rows(rows),
    })
}

async fn direct_meter(
    session: &mut Session,
    table: &Table,
    words: &[String],
) -> Result<Report, Error> {
    let names = session.names().clone();
    let (at, rest) = direct(&names, table, words, &RATES)?;
    let one = |at: TableEntry, config| {
        let one = DirectMeterEntry { table_entry: Some(at), config, ..DirectMeterEntry::default() };
        wrap(entity::Entity::DirectMeterEntry(one))
    };
    check_known(session, table, &at).await?;
    let found = session.read(one(at, None)).await?;
    let found = found.into_iter().filter_map(|one| match one.entity {
        Some(entity::Entity::DirectMeterEntry(one)) => Some((one.table_entry?, one.config)),
        _ => None,
    });
    let found: Vec<(TableEntry, Option<MeterConfig>)> = found.collect();
    if !rest.is_empty() {
        let config = config(rest)?;
        let new = found.iter().map(|(at, _)| one(at.clone(), config)).collect();
        let written = session.write(update::Type::Modify, new).await?;
        return Ok(wrote(written, format!("changed: meters of {written} entries")));
    }
    let mut rows = Rows::new("", rate_header("entry"));
    let mut json = Vec::new();
    for (at, config) in &found {
        rows.push(rate_row(entry_text(&names, at), config.as_ref()));
        let rates = config.as_ref().map(documents::rates);
        json.push(json!({ "entry": entry_text(&names, at), "rates": rates }));
    }
    Ok(Report::new(Value::Array(json)).rows(rows))
}

/// The rates of indexed meters as commands, for `save`.
pub(super) async fn save_meters(session: &Session) -> Result<Vec<String>, Error> {
    let mut lines = Vec::new();
    for meter in session.names().all::<Meter>() {
        let all = MeterEntry { meter_id: meter.id(), ..MeterEntry::default() };
        for one in session.read(wrap(entity::Entity::MeterEntry(all))).await? {
            let Some(entity::Entity::MeterEntry(MeterEntry { index, config, .. })) = one.entity
            else {
                continue;
            };
            if let (Some(index), Some(config)) = (index, config) {
                let rates = text::rates(Some(&config));
                lines.push(format!("meter {} {} {rates}", meter.alias(), index.index));
            }
        }
    }
    Ok(lines)
}

/// What a meter counts: `bytes` or `packets`.
pub(super) const fn unit(unit: meter_spec::Unit) -> &'static str {
    match unit {
        meter_spec::Unit::Bytes => "bytes",
        meter_spec::Unit::Packets => "packets",
        meter_spec::Unit::Unspecified => "",
    }
}

// --- Registers ----------------------------------------------------------------------------------

/// `register`.
pub(super) async fn register(session: &mut Session, words: &[String]) -> Result<Report, Error> {
    let Some((name, rest)) = words.split_first() else { return Err(usage("register")) };
    let names = session.names().clone();
    let register = names.find::<Register>(name)?;
    let (types, spec) = (names.types(), register.type_spec.as_ref());
    let request = Request::new(rest)?;
    let one = |index, data| {
        let one = RegisterEntry { register_id: register.id(), index, data };
        wrap(entity::Entity::RegisterEntry(one))
    };
    if let (Some(_), [value]) = (request.index, request.rest)
        && value != "reset"
    {
        let data = data::parse(types, spec, value)?;
        let new = one(request.index(), Some(data));
        let said = format!("changed: {}", text::show(&names, &new));
        return Ok(wrote(session.write(update::Type::Modify, vec![new]).await?, said));
    }
    let found = session.read(one(request.index(), None)).await?;
    let found = found.into_iter().filter_map(|one: Entity| match one.entity {
        Some(entity::Entity::RegisterEntry(one)) => Some((one.index?, one.data?)),
        _ => None,
    });
    let found: Vec<_> = found.collect();
    if request.rest == ["reset"] {
        let used = found.iter().filter(|(_, value)| !data::is_zero(value));
        let zero = used.map(|(index, value)| one(Some(*index), Some(data::zeroed(value))));
        let zero = zero.collect();
        let written = session.write(update::Type::Modify, zero).await?;
        return Ok(wrote(written, format!("reset: {written} that were not zero")));
    }
    if !request.rest.is_empty() {
        return Err(usage("register"));
    }
    let mut rows = Rows::new("", ["#index", "#value"]);
    let (mut json, mut left) = (Vec::new(), 0);
    for (index, value) in &found {
        let shown = data::show(types, spec, value);
        json.push(json!({ "index": index.index, "value": shown }));
        match request.index.is_none() && data::is_zero(value) {
            true => left += 1,
            false => rows.push([index.index.to_string(), shown]),
        }
    }
    Ok(rest_is_zero(left, found.len(), Report::new(Value::Array(json)).rows(rows)))
}
