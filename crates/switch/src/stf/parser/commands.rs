//! The commands and their operands.

use super::{Operands, Result};
use crate::stf::error::ParseError;
use crate::stf::lexer::{Kind, Token};
use crate::stf::number::Number;
use crate::stf::pattern::Pattern;
use crate::stf::script::{
    At, Condition, CounterCheck, EntryKey, Indirect, Match, ProfileCommand, Rate, Replication,
    Statement, Target, ValueSetCommand,
};

/// The commands that BMv2's command line has, too; case-insensitive.
pub(super) const NAMES: [&str; 43] = [
    "packet",
    "expect",
    "no_packet",
    "add",
    "setdefault",
    "remove",
    "table_indirect_add",
    "table_indirect_add_with_group",
    "table_indirect_set_default",
    "table_indirect_set_default_with_group",
    "act_prof_create_member",
    "act_prof_modify_member",
    "act_prof_delete_member",
    "act_prof_create_group",
    "act_prof_delete_group",
    "act_prof_add_member_to_group",
    "act_prof_remove_member_from_group",
    "pvs_add",
    "pvs_remove",
    "pvs_clear",
    "pvs_get",
    "wait",
    "check_counter",
    "counter_read",
    "counter_write",
    "check_register",
    "register_read",
    "register_write",
    "register_reset",
    "meter_get_rates",
    "meter_set_rates",
    "meter_array_set_rates",
    "mirroring_add",
    "mirroring_add_mc",
    "mirroring_delete",
    "mirroring_get",
    "mc_mgrp_create",
    "mc_mgrp_destroy",
    "mc_node_create",
    "mc_node_update",
    "mc_node_destroy",
    "mc_node_associate",
    "mc_node_dissociate",
];

/// Maximum port number of the architectures.
const MAX_PORT: u16 = 511;

/// Parses the statement of a command, which is one of [`NAMES`].
pub(super) fn statement(command: &str, operands: &mut Operands<'_>) -> Result<Statement> {
    Ok(match command {
        "packet" => packet(operands)?,
        "expect" => expect(operands)?,
        "no_packet" => Statement::NoPacket,
        "wait" => Statement::Wait,
        "add" => add(operands)?,
        "setdefault" => {
            let table = operands.name("the name of a table")?;
            Statement::SetDefault { table, target: target(operands)? }
        }
        "remove" => remove(operands)?,
        "check_counter" => check_counter(operands)?,
        "counter_read" => Statement::CounterRead {
            counter: operands.name("the name of a counter")?,
            index: operands.small("an index")?,
        },
        "counter_write" => Statement::CounterWrite {
            counter: operands.name("the name of a counter")?,
            index: operands.small("an index")?,
            packets: operands.small("a number of packets")?,
            bytes: operands.small("a number of bytes")?,
        },
        "check_register" | "register_read" | "register_write" | "register_reset" => {
            register(command, operands)?
        }
        "meter_get_rates" | "meter_set_rates" | "meter_array_set_rates" => {
            meter(command, operands)?
        }
        "pvs_add" | "pvs_remove" | "pvs_clear" | "pvs_get" => value_set(command, operands)?,
        _ if command.starts_with("table_indirect") => indirect(command, operands)?,
        _ if command.starts_with("act_prof") => {
            let profile = operands.name("the name of an action profile")?;
            Statement::Profile { profile, command: profile_command(command, operands)? }
        }
        _ => Statement::Replication(replication(command, operands)?),
    })
}

pub(super) fn port(operands: &mut Operands<'_>) -> Result<u16> {
    let place = operands.place();
    let port = operands.small("a port")?;
    if port > MAX_PORT {
        return Err(place.error(format!("port {port} does not exist: ports are 0 to {MAX_PORT}")));
    }
    Ok(port)
}

fn packet(operands: &mut Operands<'_>) -> Result<Statement> {
    Ok(Statement::Packet { port: port(operands)?, data: bytes(operands, "the packet")? })
}

/// Bytes up to the end of the statement.
pub(super) fn bytes(operands: &mut Operands<'_>, what: &str) -> Result<Vec<u8>> {
    let Some(first) = operands.peek() else {
        return Err(operands.error(&format!("the bytes of {what} in hexadecimal")));
    };
    let mut digits = Vec::new();
    while let Some(token) = operands.next() {
        digits.extend(bytes_of(token, "")?.bytes());
    }
    let nibble = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0) as u8;
    if digits.len() % 2 != 0 {
        return Err(first
            .place
            .error(format!("{what} has {} hexadecimal digits: a byte has two", digits.len())));
    }
    Ok(digits.chunks(2).map(|pair| nibble(pair[0]) << 4 | nibble(pair[1])).collect())
}

fn expect(operands: &mut Operands<'_>) -> Result<Statement> {
    Ok(Statement::Expect { port: port(operands)?, pattern: pattern(operands)? })
}

/// The pattern of a packet up to the end of the statement; `None` if nothing is left.
pub(super) fn pattern(operands: &mut Operands<'_>) -> Result<Option<Pattern>> {
    if operands.peek().is_none() {
        return Ok(None);
    }
    let mut digits = String::new();
    while let Some(token) = operands.next() {
        digits.push_str(bytes_of(token, "*$")?);
        if digits.ends_with('$') {
            break;
        }
    }
    let exact = digits.ends_with('$');
    let digits = digits.trim_end_matches('$');
    Ok(Some(Pattern::new(digits, exact)))
}

/// Digits of a packet. `also` lists other allowed characters; `$` is only allowed at the end.
fn bytes_of<'a>(token: &'a Token<'a>, also: &str) -> Result<&'a str> {
    let wrong = |what: &str| Err(token.place.error(format!("`{}` {what}", token.text())));
    let Kind::Word(word) = token.kind else { return wrong("is not a byte of a packet") };
    let inner = word.strip_suffix('$').filter(|_| also.contains('$')).unwrap_or(word);
    match inner.chars().find(|&c| !c.is_ascii_hexdigit() && (c == '$' || !also.contains(c))) {
        None => Ok(word),
        Some(_) if token.starts_line => wrong("is neither a command nor bytes of the packet above"),
        Some('x' | 'X') => wrong("is not a byte of a packet: write digits without 0x"),
        Some('$') => wrong("has a `$` that does not end the packet"),
        Some('*') => wrong("has a `*`: only what is expected can leave digits open"),
        Some(_) => wrong("is not a byte of a packet: write hexadecimal digits"),
    }
}

fn add(operands: &mut Operands<'_>) -> Result<Statement> {
    let entry = entry_key(operands)?;
    let target = target(operands)?;
    let label =
        if operands.take("=") { Some(label(operands.word("a name for the entry")?)) } else { None };
    Ok(Statement::Add { entry, target, label })
}

/// A label may be written with a leading `$`.
fn label(text: &str) -> String {
    text.trim_start_matches('$').to_owned()
}

fn remove(operands: &mut Operands<'_>) -> Result<Statement> {
    let all = |token: &Token<'_>| token.text().eq_ignore_ascii_case("all");
    if operands.rest.len() == 1 && operands.peek().is_some_and(all) {
        operands.next();
        return Ok(Statement::RemoveAll);
    }
    entry_key(operands).map(Statement::Remove)
}

/// Table, priority and keys.
fn entry_key(operands: &mut Operands<'_>) -> Result<EntryKey> {
    let table = operands.name("the name of a table")?;
    let digits = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    let priority = match operands.peek().map(|token| token.kind) {
        Some(Kind::Word(word)) if digits(word) => Some(operands.small("a priority")?),
        _ => None,
    };
    let mut keys = Vec::new();
    let at_number = |operands: &Operands<'_>| match operands.peek().map(|token| token.kind) {
        Some(Kind::Word(word)) => digits(word),
        _ => false,
    };
    while operands.peek().is_some() && !at_target(operands) && !at_number(operands) {
        let key = operands.name("a key, such as `hdr.ip.dst:0x0a000001`")?;
        operands.sign(":")?;
        keys.push((key, key_match(operands)?));
    }
    Ok(EntryKey { table, priority, keys })
}

/// Whether an action follows: only the name of an action is followed by a parenthesis.
fn at_target(operands: &Operands<'_>) -> bool {
    let sign = |token: &&Token<'_>| match token.kind {
        Kind::Sign(sign) => [":", "("].contains(&sign),
        _ => false,
    };
    operands.rest.iter().find(sign).is_some_and(|token| token.kind == Kind::Sign("("))
}

fn key_match(operands: &mut Operands<'_>) -> Result<Match> {
    if operands.peek().is_some_and(|token| token.kind == Kind::Word("*")) {
        operands.next();
        return Ok(Match::Any);
    }
    let value = operands.number("a value")?;
    if operands.take("/") {
        let place = operands.place();
        let length = operands.small("a prefix length")?;
        return plain(value, place.error("a value with a prefix length has no `*`"))
            .map(|value| Match::Prefix(value, length));
    }
    if operands.take("&&&") {
        let place = operands.place();
        let mask = plain(operands.number("a mask")?, place.error("a mask has no `*`"))?;
        return plain(value, place.error("a value with a mask has no `*`"))
            .map(|value| Match::Mask(value, mask));
    }
    if operands.take("->") || operands.take("..") {
        let place = operands.place();
        let high = plain(operands.number("the end of a range")?, place.error("no `*` in ranges"))?;
        return plain(value, place.error("no `*` in ranges")).map(|low| Match::Range(low, high));
    }
    Ok(Match::Number(value))
}

pub(super) fn plain(number: Number, otherwise: ParseError) -> Result<Number> {
    if number.has_wildcards() { Err(otherwise) } else { Ok(number) }
}

/// Parses `action(name:value, …)`.
fn target(operands: &mut Operands<'_>) -> Result<Target> {
    let action = operands.name("an action, such as `forward(port:1)`")?;
    operands.sign("(")?;
    let mut args = Vec::new();
    if !operands.take(")") {
        loop {
            let name = operands.name("an argument, such as `port:1`")?;
            operands.sign(":")?;
            let place = operands.place();
            let value = operands.number("a value")?;
            args.push((name, plain(value, place.error("an argument has no `*`"))?));
            if operands.take(")") {
                break;
            }
            if !operands.take(",") {
                return Err(operands.error("`,` or `)`"));
            }
        }
    }
    Ok(Target { action, args })
}

fn check_counter(operands: &mut Operands<'_>) -> Result<Statement> {
    let counter = operands.name("the name of a counter")?;
    operands.sign("(")?;
    let at = place_of(operands)?;
    operands.sign(")")?;
    if operands.peek().is_none() {
        return Ok(Statement::CheckCounter { counter, at, check: None });
    }
    let unit = operands.peek().map_or("", |token| token.text()).to_ascii_lowercase();
    let bytes = match unit.as_str() {
        "bytes" => true,
        "packets" => false,
        _ => return Err(operands.error("`packets` or `bytes`")),
    };
    operands.next();
    let check =
        CounterCheck { bytes, condition: condition(operands)?, count: operands.small("a count")? };
    Ok(Statement::CheckCounter { counter, at, check: Some(check) })
}

/// An index, or the label of an entry.
pub(super) fn place_of(operands: &mut Operands<'_>) -> Result<At> {
    match operands.peek().map(|token| token.kind) {
        Some(Kind::Word(word)) if !word.starts_with(|c: char| c.is_ascii_digit()) => {
            operands.next();
            Ok(At::Entry(label(word)))
        }
        _ => Ok(At::Index(operands.small("an index, or the name of an entry")?)),
    }
}

fn condition(operands: &mut Operands<'_>) -> Result<Condition> {
    let found = Condition::SIGNS.into_iter().find(|(sign, _)| operands.take(sign));
    let (_, condition) = found.ok_or_else(|| operands.error("one of == != < <= > >="))?;
    Ok(condition)
}

fn register(command: &str, operands: &mut Operands<'_>) -> Result<Statement> {
    let register = operands.name("the name of a register")?;
    Ok(match command {
        "register_reset" => Statement::RegisterReset { register },
        "register_read" => {
            let all = operands.peek().is_none();
            let index = if all { None } else { Some(operands.small("an index")?) };
            Statement::RegisterRead { register, index }
        }
        "register_write" => {
            let index = operands.small("an index")?;
            Statement::RegisterWrite { register, index, values: values(operands)? }
        }
        _ => {
            operands.sign("(")?;
            let index = operands.small("an index")?;
            operands.sign(")")?;
            let condition = condition(operands)?;
            let place = operands.place();
            let values = values(operands)?;
            if values.len() > 1 && !matches!(condition, Condition::Equal | Condition::NotEqual) {
                return Err(place.error("several values can be compared with == and != only"));
            }
            Statement::CheckRegister { register, index, condition, values }
        }
    })
}

/// The values of an element: at least one, up to the end of the statement.
fn values(operands: &mut Operands<'_>) -> Result<Vec<Number>> {
    let mut values = Vec::new();
    while values.is_empty() || operands.peek().is_some() {
        let place = operands.place();
        values.push(plain(operands.number("a value")?, place.error("a value has no `*`"))?);
    }
    Ok(values)
}

fn meter(command: &str, operands: &mut Operands<'_>) -> Result<Statement> {
    let meter = operands.name("the name of a meter")?;
    let at = if command == "meter_array_set_rates" { None } else { Some(place_of(operands)?) };
    let read = command == "meter_get_rates";
    let rates = if read { None } else { Some([rate(operands)?, rate(operands)?]) };
    Ok(Statement::Meter { meter, at, rates })
}

/// Parses `RATE:BURST`; the rate may have a fraction.
fn rate(operands: &mut Operands<'_>) -> Result<Rate> {
    let place = operands.place();
    let mut text = operands.word("a rate and a burst, such as `0.5:10`")?.to_owned();
    if operands.take(".") {
        text = format!("{text}.{}", operands.word("the fraction of the rate")?);
    }
    let digits = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let per_microsecond = text.parse().ok().filter(|_| digits);
    let per_microsecond = per_microsecond
        .ok_or_else(|| place.error(format!("`{text}` is not a rate: write 0.5:10")))?;
    operands.sign(":")?;
    Ok(Rate { per_microsecond, burst: operands.small("a burst")? })
}

fn indirect(command: &str, operands: &mut Operands<'_>) -> Result<Statement> {
    let to = |operands: &mut Operands<'_>| {
        Ok(if command.ends_with("_with_group") {
            Indirect::Group(operands.small("the number of a group")?)
        } else {
            Indirect::Member(operands.small("the number of a member")?)
        })
    };
    if command.starts_with("table_indirect_set_default") {
        let table = operands.name("the name of a table")?;
        return Ok(Statement::SetDefaultIndirect { table, to: to(operands)? });
    }
    let entry = entry_key(operands)?;
    Ok(Statement::AddIndirect { entry, to: to(operands)? })
}

fn profile_command(command: &str, operands: &mut Operands<'_>) -> Result<ProfileCommand> {
    let (member, group) = ("the number of a member", "the number of a group");
    Ok(match command {
        "act_prof_create_member" => ProfileCommand::CreateMember(target(operands)?),
        "act_prof_modify_member" => {
            let member = operands.small(member)?;
            ProfileCommand::ModifyMember { member, target: target(operands)? }
        }
        "act_prof_delete_member" => {
            ProfileCommand::DeleteMember { member: operands.small(member)? }
        }
        "act_prof_create_group" => ProfileCommand::CreateGroup,
        "act_prof_delete_group" => ProfileCommand::DeleteGroup { group: operands.small(group)? },
        _ => {
            let (member, group) = (operands.small(member)?, operands.small(group)?);
            match command {
                "act_prof_add_member_to_group" => ProfileCommand::AddToGroup { member, group },
                _ => ProfileCommand::RemoveFromGroup { member, group },
            }
        }
    })
}

fn value_set(command: &str, operands: &mut Operands<'_>) -> Result<Statement> {
    let set = operands.name("the name of a value set")?;
    let mut values = Vec::new();
    if ["pvs_add", "pvs_remove"].contains(&command) {
        values.push(key_match(operands)?);
        while operands.peek().is_some() {
            values.push(key_match(operands)?);
        }
    }
    let command = match command {
        "pvs_add" => ValueSetCommand::Add(values),
        "pvs_remove" => ValueSetCommand::Remove(values),
        "pvs_clear" => ValueSetCommand::Clear,
        _ => ValueSetCommand::Get,
    };
    Ok(Statement::ValueSet { set, command })
}

fn replication(command: &str, operands: &mut Operands<'_>) -> Result<Replication> {
    let session = "the number of a mirror session";
    let group = "the number of a multicast group";
    let node = "the number of a node";
    Ok(match command {
        "mirroring_add" => Replication::MirrorToPort {
            session: operands.small(session)?,
            port: port(operands)?,
            length: match operands.peek() {
                Some(_) => Some(operands.small("a number of bytes")?),
                None => None,
            },
        },
        "mirroring_add_mc" => Replication::MirrorToGroup {
            session: operands.small(session)?,
            group: operands.small(group)?,
        },
        "mirroring_delete" => Replication::MirrorDelete { session: operands.small(session)? },
        "mirroring_get" => Replication::MirrorGet { session: operands.small(session)? },
        "mc_mgrp_create" => Replication::GroupCreate { group: operands.small(group)? },
        "mc_mgrp_destroy" => Replication::GroupDestroy { group: operands.small(group)? },
        "mc_node_create" => Replication::NodeCreate {
            rid: operands.small("a replication id")?,
            ports: ports(operands)?,
        },
        "mc_node_update" => {
            Replication::NodeUpdate { node: operands.small(node)?, ports: ports(operands)? }
        }
        "mc_node_destroy" => Replication::NodeDestroy { node: operands.small(node)? },
        _ => {
            let (group, node) = (operands.small(group)?, operands.small(node)?);
            match command {
                "mc_node_associate" => Replication::NodeAssociate { group, node },
                _ => Replication::NodeDissociate { group, node },
            }
        }
    })
}

/// Ports up to the end of the statement, sorted and without duplicates, in the order of the copies.
fn ports(operands: &mut Operands<'_>) -> Result<Vec<u16>> {
    let mut ports = Vec::new();
    while operands.peek().is_some() {
        ports.push(port(operands)?);
    }
    ports.sort_unstable();
    ports.dedup();
    Ok(ports)
}
