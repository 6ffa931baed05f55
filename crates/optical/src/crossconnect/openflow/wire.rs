//! The messages of OpenFlow 1.3 that circuits need, as bytes.
//!
//! Everything is big-endian. A message has a header of 8 bytes: version, type, length, and the number
//! (`xid`) by which an answer names its request. Names and numbers are those of the OpenFlow Switch
//! Specification 1.3.5, §7 and appendix A.
//!
//! Messages from a device are checked while they are read. Types that are of no use here are
//! [`Body::Other`].

use tributary_model::circuits::Port;

/// OpenFlow 1.3.
pub(super) const VERSION: u8 = 4;

/// Bytes of a header.
pub(super) const HEADER: usize = 8;

/// Tables that a device may have.
const ALL_TABLES: u8 = 0xff;
/// "Any", as a port or a group.
const ANY: u32 = 0xffff_ffff;
/// No packet waits for this flow.
const NO_BUFFER: u32 = 0xffff_ffff;
/// Port numbers from here on have special meanings, such as the controller.
const RESERVED_PORTS: u32 = 0xffff_ff00;

const HELLO: u8 = 0;
const ERROR: u8 = 1;
const ECHO_REQUEST: u8 = 2;
const ECHO_REPLY: u8 = 3;
const FEATURES_REQUEST: u8 = 5;
const FEATURES_REPLY: u8 = 6;
const FLOW_MOD: u8 = 14;
const MULTIPART_REQUEST: u8 = 18;
const MULTIPART_REPLY: u8 = 19;
const BARRIER_REQUEST: u8 = 20;
const BARRIER_REPLY: u8 = 21;

/// An element of HELLO: a bit per supported version.
const VERSION_BITMAP: u16 = 1;

const MULTIPART_FLOW: u16 = 1;
const MULTIPART_PORTS: u16 = 13;
/// Flag: more parts follow.
const MORE: u16 = 1;

/// Bytes of a flow's statistics before its match, and of a port's description.
const FLOW_STATISTICS: usize = 48;
const PORT_DESCRIPTION: usize = 64;

const MATCH_OXM: u16 = 1;
/// OXM class "OpenFlow basic", field "ingress port", without a mask, 4 bytes.
const OXM_IN_PORT: u32 = 0x8000_0004;
const APPLY_ACTIONS: u16 = 4;
const OUTPUT: u16 = 0;

/// The number of a request.
pub(super) type Xid = u32;

/// What a controller sends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Request {
    /// The versions of this side.
    Hello,
    /// The versions have none in common.
    Incompatible,
    /// An answer to [`Body::EchoRequest`], with its data.
    EchoReply(Vec<u8>),
    Features,
    /// Adds a flow, or replaces one with the same match and priority.
    Add(Flow),
    /// Removes the one flow with the same table, match and priority.
    Delete(Flow),
    /// Is answered when all earlier requests have been carried out.
    Barrier,
    /// Asks for all flows of all tables.
    Flows,
    Ports,
}

/// What a device sends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Message {
    pub(super) xid: Xid,
    pub(super) body: Body,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Body {
    /// Whether the device supports version 1.3.
    Hello {
        compatible: bool,
    },
    Error {
        kind: u16,
        code: u16,
    },
    EchoRequest(Vec<u8>),
    Features {
        datapath: u64,
    },
    Barrier,
    Flows(Part<Flow>),
    /// Numbers of the ports that lead somewhere: physical and logical ones.
    Ports(Part<u32>),
    Other(u8),
}

/// A part of a long answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Part<T> {
    pub(super) items: Vec<T>,
    pub(super) more: bool,
    /// Length of the message.
    pub(super) bytes: usize,
}

/// A row of a flow table: what happens to the frames that match.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Flow {
    pub(super) table: u8,
    pub(super) priority: u16,
    pub(super) cookie: u64,
    /// Seconds until the device removes the flow, unused or at all; 0 for never.
    pub(super) idle: u16,
    pub(super) hard: u16,
    pub(super) flags: u16,
    /// The match, with its type and length, without padding at the end.
    pub(super) fields: Vec<u8>,
    pub(super) instructions: Vec<u8>,
}

/// A message is not as the specification says. The connection cannot be used any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a message is malformed: {0}")]
pub(super) struct Malformed(pub(super) &'static str);

impl Flow {
    /// Sends what arrives at one port to another.
    pub(super) fn between(from: Port, to: Port, priority: u16, cookie: u64) -> Self {
        let mut fields = Writer::default();
        fields.u16(MATCH_OXM).u16(12).u32(OXM_IN_PORT).u32(from.0.into());
        let mut instructions = Writer::default();
        instructions.u16(APPLY_ACTIONS).u16(24).zeros(4);
        instructions.u16(OUTPUT).u16(16).u32(to.0.into()).u16(0).zeros(6);
        Self {
            table: 0,
            priority,
            cookie,
            idle: 0,
            hard: 0,
            flags: 0,
            fields: fields.0,
            instructions: instructions.0,
        }
    }

    /// The ports, if [`between`](Self::between) could have made the flow.
    pub(super) fn ports(&self) -> Option<(Port, Port)> {
        let port = |bytes: &[u8], at: usize| {
            let number = Reader(bytes.get(at..)?).u32().ok()?;
            u16::try_from(number).ok().map(Port)
        };
        let ports = (port(&self.fields, 8)?, port(&self.instructions, 12)?);
        let same = *self == Self::between(ports.0, ports.1, self.priority, self.cookie);
        same.then_some(ports)
    }
}

impl Request {
    /// The message as bytes.
    pub(super) fn bytes(&self, xid: Xid) -> Vec<u8> {
        let mut out = Writer::default();
        out.u8(VERSION).u8(self.kind()).u16(0).u32(xid);
        match self {
            Self::Hello => {
                out.u16(VERSION_BITMAP).u16(8).u32(1 << VERSION);
            }
            Self::Incompatible => {
                out.u16(0).u16(0);
            }
            Self::EchoReply(data) => {
                out.bytes(data);
            }
            Self::Features | Self::Barrier => {}
            Self::Add(flow) => flow_mod(&mut out, 0, flow, &flow.instructions),
            Self::Delete(flow) => flow_mod(&mut out, 4, flow, &[]),
            Self::Flows => {
                out.u16(MULTIPART_FLOW).u16(0).zeros(4);
                out.u8(ALL_TABLES).zeros(3).u32(ANY).u32(ANY).zeros(4).u64(0).u64(0);
                // A match without fields, padded to 8 bytes.
                out.u16(MATCH_OXM).u16(4).zeros(4);
            }
            Self::Ports => {
                out.u16(MULTIPART_PORTS).u16(0).zeros(4);
            }
        }
        let length = u16::try_from(out.0.len()).expect("what was read fits into what is written");
        out.0[2..4].copy_from_slice(&length.to_be_bytes());
        out.0
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Hello => HELLO,
            Self::Incompatible => ERROR,
            Self::EchoReply(_) => ECHO_REPLY,
            Self::Features => FEATURES_REQUEST,
            Self::Add(_) | Self::Delete(_) => FLOW_MOD,
            Self::Barrier => BARRIER_REQUEST,
            Self::Flows | Self::Ports => MULTIPART_REQUEST,
        }
    }
}

fn flow_mod(out: &mut Writer, command: u8, flow: &Flow, instructions: &[u8]) {
    // Without a mask, the cookie of a flow to delete does not matter.
    out.u64(flow.cookie).u64(0).u8(flow.table).u8(command);
    out.u16(flow.idle).u16(flow.hard).u16(flow.priority);
    out.u32(NO_BUFFER).u32(ANY).u32(ANY).u16(flow.flags).zeros(2);
    out.bytes(&flow.fields).zeros(padding(flow.fields.len())).bytes(instructions);
}

/// The length of a message, from its header.
pub(super) fn length(header: [u8; HEADER]) -> Result<usize, Malformed> {
    let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if length < HEADER {
        return Err(Malformed("its length is less than that of a header"));
    }
    Ok(length)
}

/// Reads a whole message.
pub(super) fn read(bytes: &[u8]) -> Result<Message, Malformed> {
    let mut at = Reader(bytes);
    let (version, kind, _length, xid) = (at.u8()?, at.u8()?, at.u16()?, at.u32()?);
    // HELLO and its refusal have the version of their sender.
    if version != VERSION && kind != HELLO && kind != ERROR {
        return Err(Malformed("its version is not 1.3"));
    }
    let body = match kind {
        HELLO => Body::Hello { compatible: compatible(version, at)? },
        ERROR => Body::Error { kind: at.u16()?, code: at.u16()? },
        ECHO_REQUEST => Body::EchoRequest(at.0.to_vec()),
        FEATURES_REPLY => {
            let datapath = at.u64()?;
            at.take(16)?;
            Body::Features { datapath }
        }
        BARRIER_REPLY => Body::Barrier,
        MULTIPART_REPLY => {
            let (part, flags) = (at.u16()?, at.u16()?);
            at.take(4)?;
            let (more, bytes) = (flags & MORE != 0, bytes.len());
            match part {
                MULTIPART_FLOW => Body::Flows(Part { items: items(at, read_flow)?, more, bytes }),
                MULTIPART_PORTS => {
                    let ports = items(at, read_port)?;
                    let items = ports.into_iter().filter(|port| *port < RESERVED_PORTS).collect();
                    Body::Ports(Part { items, more, bytes })
                }
                _ => Body::Other(kind),
            }
        }
        _ => Body::Other(kind),
    };
    Ok(Message { xid, body })
}

/// Whether both sides know version 1.3. Without a bitmap, the lower of the two versions in the headers
/// is used.
fn compatible(version: u8, mut at: Reader<'_>) -> Result<bool, Malformed> {
    while at.0.len() >= 4 {
        let (kind, length) = (at.u16()?, usize::from(at.u16()?));
        let content =
            length.checked_sub(4).ok_or(Malformed("an element is shorter than its header"))?;
        let mut content = Reader(at.take(content)?);
        if kind == VERSION_BITMAP {
            return Ok(content.u32()? & 1 << VERSION != 0);
        }
        at.skip_padding(length);
    }
    Ok(version >= VERSION)
}

fn items<T>(
    mut at: Reader<'_>,
    item: impl Fn(&mut Reader<'_>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let mut items = Vec::new();
    while !at.0.is_empty() {
        items.push(item(&mut at)?);
    }
    Ok(items)
}

fn read_port(at: &mut Reader<'_>) -> Result<u32, Malformed> {
    let mut port = Reader(at.take(PORT_DESCRIPTION)?);
    port.u32()
}

fn read_flow(at: &mut Reader<'_>) -> Result<Flow, Malformed> {
    let length = usize::from(Reader(at.0).u16()?);
    if length < FLOW_STATISTICS + 8 {
        return Err(Malformed("a flow is shorter than its statistics"));
    }
    let mut at = Reader(at.take(length)?);
    at.take(2)?;
    let table = at.u8()?;
    // Padding and age.
    at.take(9)?;
    let (priority, idle, hard, flags) = (at.u16()?, at.u16()?, at.u16()?, at.u16()?);
    at.take(4)?;
    let cookie = at.u64()?;
    // Packets and bytes.
    at.take(16)?;
    let match_length = usize::from(Reader(at.0.get(2..).unwrap_or_default()).u16()?);
    if match_length < 4 {
        return Err(Malformed("a match is shorter than its header"));
    }
    let fields = at.take(match_length)?.to_vec();
    at.take(padding(match_length))?;
    let instructions = at.0.to_vec();
    Ok(Flow { table, priority, cookie, idle, hard, flags, fields, instructions })
}

/// Bytes that are missing to a multiple of 8.
fn padding(length: usize) -> usize {
    length.next_multiple_of(8) - length
}

/// Bytes that have not been read.
#[derive(Clone, Copy)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) =
            self.0.split_at_checked(length).ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    /// Skips to a multiple of 8 bytes, or to the end: the last element may come without padding.
    fn skip_padding(&mut self, length: usize) {
        self.0 = self.0.get(padding(length)..).unwrap_or_default();
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn zeros(&mut self, count: usize) -> &mut Self {
        self.0.resize(self.0.len() + count, 0);
        self
    }

    fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes(&[value])
    }

    fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }
}
