//! Which packets to trace.
//!
//! Conditions on the frame itself are cheap. Those on header fields of the program run its parser,
//! with machine code if there is any, for frames that meet the others.

use std::net::Ipv4Addr;

use tributary_dataplane::{IngressInput, Instance, Packet, Pipeline, Value};
use tributary_p4::ir::{FieldId, FieldRole, HeaderId, Program};

use crate::forwarding::{Forwarding, ProgramId};

/// Why a text is not a filter, or not one for a program.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FilterError {
    /// The text is not a condition.
    #[error(
        "`{0}` is not a condition: write NAME == VALUE (or !=, <, <=, >, >=) or the name of a header, \
         joined by &&; or all"
    )]
    Condition(String),
    /// The value is not a number.
    #[error(
        "`{0}` is not a value: write a number in decimal or with 0x, an IPv4 address, or six bytes \
         joined by colons"
    )]
    Value(String),
    /// The program has no such name.
    #[error("the program has no field or header `{0}`{1}")]
    Unknown(String, String),
    /// The name stands for several fields.
    #[error("`{0}` stands for several fields of the program, such as {1}: write more of its name")]
    Ambiguous(String, String),
    /// The parser changes state.
    #[error(
        "the program's parser changes state, so that it cannot be run just to look at fields: filter \
         by {}",
        Of::NAMES
    )]
    Parser,
}

/// What a condition compares.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Of {
    Port,
    Length,
    EtherType,
    IpSource,
    IpDestination,
    IpProtocol,
    UdpSource,
    UdpDestination,
    /// A field or a header of the program.
    Program(String),
}

impl Of {
    const NAMES: &str =
        "port, length, ether.type, ip.src, ip.dst, ip.protocol, udp.src and udp.dst";

    fn named(name: &str) -> Self {
        match name {
            "port" => Self::Port,
            "length" => Self::Length,
            "ether.type" => Self::EtherType,
            "ip.src" => Self::IpSource,
            "ip.dst" => Self::IpDestination,
            "ip.protocol" => Self::IpProtocol,
            "udp.src" => Self::UdpSource,
            "udp.dst" => Self::UdpDestination,
            other => Self::Program(other.to_owned()),
        }
    }

    /// The value in a frame; `None` if it has none.
    fn value(&self, port: u16, frame: &[u8]) -> Option<u64> {
        match self {
            Self::Port => return Some(port.into()),
            Self::Length => return Some(frame.len() as u64),
            _ => {}
        }
        let number = |from: usize, bytes: usize| {
            let bytes = frame.get(from..from + bytes)?;
            Some(bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
        };
        // One VLAN tag is skipped.
        let start = if number(12, 2)? == 0x8100 { 16 } else { 12 };
        let ip = start + 2;
        let in_ip = |from: usize, bytes: usize| {
            (number(start, 2)? == 0x0800).then(|| number(ip + from, bytes))?
        };
        let in_udp = |from: usize| {
            let header = 4 * (in_ip(0, 1)? & 0xf) as usize;
            (in_ip(9, 1)? == 17).then(|| in_ip(header + from, 2))?
        };
        match self {
            Self::EtherType => number(start, 2),
            Self::IpProtocol => in_ip(9, 1),
            Self::IpSource => in_ip(12, 4),
            Self::IpDestination => in_ip(16, 4),
            Self::UdpSource => in_udp(0),
            Self::UdpDestination => in_udp(2),
            Self::Port | Self::Length | Self::Program(_) => None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Test {
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Test {
    /// Longer signs first.
    const SIGNS: [(&str, Self); 6] = [
        ("==", Self::Equal),
        ("!=", Self::NotEqual),
        ("<=", Self::AtMost),
        (">=", Self::AtLeast),
        ("<", Self::Less),
        (">", Self::Greater),
    ];

    fn holds<T: Ord>(self, a: &T, b: &T) -> bool {
        match self {
            Self::Equal => a == b,
            Self::NotEqual => a != b,
            Self::Less => a < b,
            Self::AtMost => a <= b,
            Self::Greater => a > b,
            Self::AtLeast => a >= b,
        }
    }
}

/// A comparison, or that a header of the program is valid.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Condition {
    of: Of,
    test: Option<(Test, Value)>,
}

/// A condition on fields, for one program.
#[derive(Clone, Debug)]
struct Resolved {
    /// Fields that must be valid to have a value.
    valid: Option<FieldId>,
    field: Option<FieldId>,
    test: Option<(Test, Value)>,
}

/// Conditions that a packet must all meet.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    conditions: Vec<Condition>,
    /// Those on fields of the program that has this identity; `None` if it lacks one of them.
    resolved: Option<(ProgramId, Option<Vec<Resolved>>)>,
}

impl Filter {
    /// Every packet.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Parses conditions, which `docs/reference/trace.md` describes.
    ///
    /// # Errors
    /// The first condition that is none.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        if text.trim() == "all" {
            return Ok(Self::all());
        }
        let conditions = text.split("&&").map(condition).collect::<Result<_, _>>()?;
        Ok(Self { conditions, resolved: None })
    }

    /// Whether the program has the fields of the conditions.
    ///
    /// # Errors
    /// The first that it lacks.
    pub fn check(&self, pipeline: &Pipeline) -> Result<(), FilterError> {
        self.resolve(pipeline).map(drop)
    }

    /// Whether a frame meets the conditions on the frame itself.
    pub(super) fn may_match(&self, port: u16, frame: &[u8]) -> bool {
        self.conditions.iter().all(|condition| match (&condition.of, &condition.test) {
            (Of::Program(_), _) => true,
            (of, Some((test, wanted))) => {
                of.value(port, frame).is_some_and(|value| test.holds(&Value::from(value), wanted))
            }
            (of, None) => of.value(port, frame).is_some(),
        })
    }

    /// Whether a frame that meets those also meets the conditions on fields of the program.
    pub(super) fn matches(
        &mut self,
        forwarding: &mut Forwarding,
        scratch: &mut Option<Packet>,
        now_us: u64,
        port: u16,
        frame: &[u8],
    ) -> bool {
        if self.conditions.iter().all(|condition| !matches!(condition.of, Of::Program(_))) {
            return true;
        }
        let id = forwarding.id();
        if self.resolved.as_ref().is_none_or(|(known, _)| *known != id) {
            let resolved = self.resolve(forwarding.pipeline());
            if let Err(error) = &resolved {
                tracing::warn!("no packet is traced: {error}");
            }
            let ready = forwarding.pipeline_mut().prepare_observation().is_ok();
            self.resolved = Some((id, resolved.ok().filter(|_| ready)));
        }
        let Some((_, Some(resolved))) = &self.resolved else { return false };
        let pipeline = forwarding.pipeline_mut();
        let packet = scratch.get_or_insert_with(|| pipeline.new_packet());
        let input = IngressInput { port, time_us: now_us, instance: Instance::Normal };
        pipeline.parse(packet, frame, &input);
        let value = |field| pipeline.field(packet, field).unwrap_or_default();
        resolved.iter().all(|condition| {
            condition.valid.is_none_or(|valid| value(valid) != Value::zero())
                && match (condition.field, &condition.test) {
                    (Some(field), Some((test, wanted))) => test.holds(&value(field), wanted),
                    _ => true,
                }
        })
    }

    /// Forgets what belongs to a program.
    pub(super) fn forget(&mut self) {
        self.resolved = None;
    }

    fn resolve(&self, pipeline: &Pipeline) -> Result<Vec<Resolved>, FilterError> {
        let mut all = Vec::new();
        for condition in &self.conditions {
            let Of::Program(name) = &condition.of else { continue };
            if !pipeline.parses_without_effects() {
                return Err(FilterError::Parser);
            }
            let program = pipeline.program();
            all.push(match &condition.test {
                Some(test) => {
                    let field = field(program, name)?;
                    let valid = match program.fields[field.index()].role {
                        FieldRole::Header(header) => Some(program.headers[header.index()].valid),
                        _ => None,
                    };
                    Resolved { valid, field: Some(field), test: Some(test.clone()) }
                }
                None => {
                    let header = header(program, name)?;
                    let valid = program.headers[header.index()].valid;
                    Resolved { valid: Some(valid), field: None, test: None }
                }
            });
        }
        Ok(all)
    }
}

fn condition(text: &str) -> Result<Condition, FilterError> {
    let text = text.trim();
    let bad = || FilterError::Condition(text.to_owned());
    let found = Test::SIGNS.iter().find_map(|(sign, test)| {
        text.split_once(sign).map(|(name, value)| (name.trim(), *test, value.trim()))
    });
    let is_name = |name: &str| {
        let word = |c: char| c.is_ascii_alphanumeric() || "_.[]$".contains(c);
        !name.is_empty()
            && name.chars().all(word)
            && !name.starts_with(|c: char| c.is_ascii_digit())
    };
    match found {
        Some((name, test, written)) if is_name(name) => {
            let value = value(written).ok_or_else(|| FilterError::Value(written.to_owned()))?;
            Ok(Condition { of: Of::named(name), test: Some((test, value)) })
        }
        None if is_name(text) && matches!(Of::named(text), Of::Program(_)) => {
            let name = text.strip_suffix(".isValid").unwrap_or(text);
            Ok(Condition { of: Of::Program(name.to_owned()), test: None })
        }
        _ => Err(bad()),
    }
}

/// A number, an IPv4 address, or an Ethernet address.
fn value(text: &str) -> Option<Value> {
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Some(u64::from(address.to_bits()).into());
    }
    if text.contains(':') {
        let byte = |byte: &str| (byte.len() == 2).then(|| u8::from_str_radix(byte, 16).ok())?;
        let bytes: Vec<u8> = text.split(':').map(byte).collect::<Option<_>>()?;
        return (bytes.len() == 6).then(|| Value::from_be_bytes(&bytes));
    }
    match text.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16).ok().map(Value::from),
        None => text.parse::<u128>().ok().map(Value::from),
    }
}

/// The field with this name, or with this end of its name.
fn field(program: &Program, name: &str) -> Result<FieldId, FilterError> {
    let fields = program.fields.iter().zip((0..).map(FieldId));
    let of_packet = |role| matches!(role, FieldRole::Header(_) | FieldRole::Metadata);
    let candidates = fields.filter(|(field, _)| of_packet(field.role));
    one(name, candidates.map(|(field, id)| (field.name.as_str(), id)))
}

/// The header with this name, or with this end of its name.
fn header(program: &Program, name: &str) -> Result<HeaderId, FilterError> {
    let headers = program.headers.iter().zip((0..).map(HeaderId));
    one(name, headers.map(|(header, id)| (header.name.as_str(), id)))
}

fn one<'p, T: Copy>(
    name: &str,
    all: impl Iterator<Item = (&'p str, T)> + Clone,
) -> Result<T, FilterError> {
    if let Some((_, id)) = all.clone().find(|(known, _)| *known == name) {
        return Ok(id);
    }
    let ends = |known: &str| known.strip_suffix(name).is_some_and(|before| before.ends_with('.'));
    let mut found = all.clone().filter(|(known, _)| ends(known));
    match (found.next(), found.next()) {
        (Some((_, id)), None) => Ok(id),
        (Some((a, _)), Some((b, _))) => {
            Err(FilterError::Ambiguous(name.to_owned(), format!("`{a}` and `{b}`")))
        }
        (None, _) => {
            let last = name.rsplit('.').next().unwrap_or(name);
            let alike =
                all.map(|(known, _)| known).find(|known| known.rsplit('.').next() == Some(last));
            let hint = alike.map_or(String::new(), |known| format!(": it has `{known}`"));
            Err(FilterError::Unknown(name.to_owned(), hint))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meets(filter: &str, port: u16, frame: &[u8]) -> bool {
        Filter::parse(filter).unwrap().may_match(port, frame)
    }

    /// Ethernet, IPv4 with 4 bytes of options, and UDP.
    fn frame(vlan: bool) -> Vec<u8> {
        let mut frame = vec![0xff; 12];
        if vlan {
            frame.extend([0x81, 0, 0, 7]);
        }
        frame.extend([0x08, 0, 0x46, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0, 0, 0, 0, 0x12, 0x34, 0x43, 0x21, 0, 8, 0, 0]);
        frame
    }

    #[test]
    fn conditions_on_the_frame() {
        for vlan in [false, true] {
            let frame = frame(vlan);
            for filter in [
                "all",
                "port == 3",
                "ether.type == 0x800",
                "ip.src == 10.0.0.1 && ip.dst==10.0.0.2",
                "ip.protocol == 17 && udp.src == 0x1234 && udp.dst == 17185",
                "port >= 3 && port <= 3 && port < 4 && port > 2 && port != 4",
                "length > 40",
            ] {
                assert!(meets(filter, 3, &frame), "{filter}");
            }
            for filter in
                ["port == 4", "ip.src == 10.0.0.2", "udp.dst == 1", "port == 3 && length < 9"]
            {
                assert!(!meets(filter, 3, &frame), "{filter}");
            }
        }
    }

    #[test]
    fn what_a_frame_does_not_have_is_not_unequal_either() {
        let arp = [&[0; 12][..], &[0x08, 0x06, 0, 0]].concat();
        assert!(!meets("ip.src != 10.0.0.1", 1, &arp));
        assert!(!meets("udp.dst != 1", 1, &frame(false)[..36]));
        assert!(!meets("ether.type != 5", 1, &[0; 5]));
        assert!(meets("port == 1", 1, &[0; 14]));
    }

    #[test]
    fn other_texts_are_refused_with_what_to_write() {
        for text in ["", "port", "port = 1", "== 3", "port == 1 &&", "3 == port", "a b"] {
            let error = Filter::parse(text).unwrap_err();
            assert!(matches!(error, FilterError::Condition(_)), "{text}: {error}");
        }
        for text in
            ["port == x", "port == ", "ip.dst == 10.0.0", "e.dst == 1:2:3", "p == -1", "a==0x"]
        {
            let error = Filter::parse(text).unwrap_err();
            assert!(matches!(error, FilterError::Value(_)), "{text}: {error}");
        }
    }
}
