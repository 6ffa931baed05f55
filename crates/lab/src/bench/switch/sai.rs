//! SAI P4, the switch program of PINS, from the sources that `--sai` names: what a large program
//! costs beside the small router of [`super::forwarding`].

use std::hint::black_box;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use tributary_dataplane::{
    Action, ActionCall, ActionSet, EgressInput, IngressInput, KeyMatch, Pipeline, TableEntry,
    Value, Verdict, WeightedCall,
};
use tributary_p4::Sources;
use tributary_p4::ir::{self, MatchKind, TableId};

use super::super::{Spread, processor_time};
use super::{ENGINES, Measurement};
use crate::bench::Args;

const ROUTES: u32 = 10_000;
/// Next hops, each with an interface, a neighbour and a port of its own.
const HOPS: u32 = 100;
/// Members of a group, of as many next hops.
const MEMBERS: u32 = 16;
/// Entries of each of two access lists, none of which matches.
const ACCESS: u32 = 250;
const PACKETS: u32 = 100_000;
const VRF: u64 = 1;
const GROUP: u64 = 1;
/// The port of arriving packets.
const FROM: u16 = 1;
const ROUTER: u64 = 0x0050_0000_00aa;

/// Where routes lead.
#[derive(Clone, Copy, PartialEq)]
enum To {
    /// To next hops, by prefixes of 17 to 32 bits.
    Hops,
    /// To next hops, by whole addresses, behind access lists. These are the tables of 4ward's
    /// benchmark.
    HopsBehindLists,
    /// The same, to a group whose members a hash picks from.
    GroupBehindLists,
}

impl To {
    const fn name(self) -> &'static str {
        match self {
            Self::Hops => "prefixes of 16 lengths",
            Self::HopsBehindLists => "/32, 500 access entries",
            Self::GroupBehindLists => "/32, 500 access entries, group of 16",
        }
    }

    /// The address of route `number`, and its prefix length.
    const fn route(self, number: u32) -> (u32, u32) {
        const START: u32 = 0x0a00_0000;
        match self {
            // Sixteen routes share a start. The last address of each is in no longer one.
            Self::Hops => (START + ((number / 16) << 15), 17 + number % 16),
            Self::HopsBehindLists | Self::GroupBehindLists => (START + number, 32),
        }
    }

    /// Whether packets of route `number` may leave through a port.
    const fn allows(self, number: u32, port: u16) -> bool {
        let hop = port as u32;
        match self {
            Self::Hops | Self::HopsBehindLists => hop == number % HOPS + 1,
            Self::GroupBehindLists => 1 <= hop && hop <= MEMBERS,
        }
    }
}

/// SAI P4's `middleblock`, with routes in the VRF that the first access list selects.
pub(super) fn rates(args: &Args, folder: &Path) -> Result<Vec<Measurement>> {
    let text = source(folder)?;
    let mut all = Vec::new();
    for to in [To::Hops, To::HopsBehindLists, To::GroupBehindLists] {
        let mut pipeline = router(&text, to)?;
        let mut rates = [Vec::new(), Vec::new()];
        for _ in 0..args.repeat {
            for (rates, (_, kind)) in rates.iter_mut().zip(ENGINES) {
                pipeline.use_engine(kind);
                rates.push(measure(&mut pipeline, to)?);
            }
        }
        let [interpreter, compiled] = rates.map(|rates| Some(Spread::of(rates)));
        all.push(Measurement {
            what: format!("SAI P4, {ROUTES} routes, {}", to.name()),
            unit: "million packets/s",
            interpreter,
            compiled,
            goal: Some(1.0),
        });
    }
    Ok(all)
}

/// The preprocessed program.
fn source(folder: &Path) -> Result<String> {
    let main = folder.join("instantiations/google/middleblock.p4");
    ensure!(
        main.is_file(),
        "--sai {}: it has no instantiations/google/middleblock.p4: name the folder sai_p4 of sonic-pins",
        folder.display()
    );
    let sources = Sources::disk().search(folder.parent().unwrap_or(folder));
    // Forwarding needs neither `assert` nor BMv2's clone sessions.
    let platform = [("PLATFORM_P4SYMBOLIC".to_owned(), "1".to_owned())];
    tributary_p4::preprocess(&sources, &main.display().to_string(), &platform)
        .map_err(|errors| anyhow!("SAI P4 has errors: {errors}"))
}

fn router(text: &str, to: To) -> Result<Pipeline> {
    let compiled = tributary_p4::compile_text("middleblock.p4", text, &[])
        .map_err(|errors| anyhow!("SAI P4 has errors: {errors}"))?;
    let mut tables = Tables(Pipeline::load(compiled.program)?);
    tables.add("vrf_table", &[("vrf_id", exact(VRF))], "no_action", &[])?;
    let port = KeyMatch::Optional(Some(Value::from(u64::from(FROM))));
    tables.add("acl_pre_ingress_table", &[("in_port", port)], "set_vrf", &[VRF])?;
    tables.add("l3_admit_table", &[("dst_mac", ternary(ROUTER, 48))], "admit_to_l3", &[])?;
    for hop in (1..=HOPS).map(u64::from) {
        let interface = ("router_interface_id", exact(hop));
        let keys = std::slice::from_ref(&interface);
        let set_port = "unicast_set_port_and_src_mac";
        tables.add("router_interface_table", keys, set_port, &[hop, ROUTER + hop])?;
        let keys = [interface, ("neighbor_id", exact(hop))];
        tables.add("neighbor_table", &keys, "set_dst_mac", &[0x0200 + hop])?;
        let keys = [("nexthop_id", exact(hop))];
        tables.add("nexthop_table", &keys, "set_ip_nexthop", &[hop, hop])?;
    }
    for number in 0..ROUTES {
        let (address, prefix_len) = to.route(number);
        let prefix = KeyMatch::Lpm { value: Value::from(u64::from(address)), prefix_len };
        let keys = [("vrf_id", exact(VRF)), ("ipv4_dst", prefix)];
        let (action, argument) = match to {
            To::Hops | To::HopsBehindLists => ("set_nexthop_id", u64::from(number % HOPS) + 1),
            To::GroupBehindLists => ("set_wcmp_group_id", GROUP),
        };
        tables.add("ipv4_table", &keys, action, &[argument])?;
    }
    if to == To::GroupBehindLists {
        let members = (1..=MEMBERS).map(u64::from);
        tables.add_group("wcmp_group_table", ("wcmp_group_id", exact(GROUP)), members)?;
    }
    if to != To::Hops {
        for number in 0..u64::from(ACCESS) {
            let elsewhere = 0xc0a8_0000 + number;
            let keys = [("src_ip", ternary(elsewhere, 32)), ("dst_ip", ternary(elsewhere, 32))];
            tables.add("acl_ingress_table", &keys, "acl_drop", &[])?;
            let keys = [("src_mac", ternary(number, 48)), ("dst_ip", ternary(elsewhere, 32))];
            tables.add("acl_pre_ingress_table", &keys, "set_vrf", &[VRF])?;
        }
    }
    Ok(tables.0)
}

fn exact(value: u64) -> KeyMatch {
    KeyMatch::Exact(Value::from(value))
}

/// All bits of a key of this width.
fn ternary(value: u64, width: u32) -> KeyMatch {
    KeyMatch::Ternary { value: Value::from(value), mask: Value::ones(width) }
}

/// Tables, keys and actions by their last names.
struct Tables(Pipeline);

impl Tables {
    fn add(
        &mut self,
        table: &str,
        keys: &[(&str, KeyMatch)],
        action: &str,
        args: &[u64],
    ) -> Result<()> {
        let call = self.call(table, action, args)?;
        self.insert(table, keys, Action::Direct(call))
    }

    /// An entry with a group of next hops.
    fn add_group(
        &mut self,
        table: &str,
        key: (&str, KeyMatch),
        members: impl Iterator<Item = u64>,
    ) -> Result<()> {
        let call = |hop| self.call(table, "set_nexthop_id", &[hop]);
        let weighted = |hop| call(hop).map(|call| WeightedCall { call, weight: 1, watch: None });
        let calls = members.map(weighted).collect::<Result<_>>()?;
        let set = ActionSet { calls, ..ActionSet::default() };
        self.insert(table, &[key], Action::Set(set))
    }

    fn index(&self, table: &str) -> Result<usize> {
        let at = self.0.program().tables.iter().position(|known| is(&known.name, table));
        at.with_context(|| format!("SAI P4 has no table `{table}`"))
    }

    fn call(&self, table: &str, action: &str, args: &[u64]) -> Result<ActionCall> {
        let program = self.0.program();
        let known = &program.tables[self.index(table)?];
        let is_it = |a: &ir::TableAction| is(&program.actions[a.action.index()].name, action);
        let at = known.actions.iter().position(is_it);
        let at = at.with_context(|| format!("`{table}` has no action `{action}`"))?;
        let args = args.iter().map(|&arg| Value::from(arg)).collect();
        Ok(ActionCall { action: at as u32, args })
    }

    fn insert(&mut self, table: &str, keys: &[(&str, KeyMatch)], action: Action) -> Result<()> {
        let at = self.index(table)?;
        let known = &self.0.program().tables[at].keys;
        let matches = known.iter().filter(|key| key.kind != MatchKind::Selector).map(|key| {
            let given = keys.iter().find(|(name, _)| is(&key.name, name));
            given.map_or_else(|| any(key.kind, key.value.ty.width), |(_, given)| given.clone())
        });
        let matches: Vec<_> = matches.collect();
        let ranked =
            matches.iter().any(|given| !matches!(given, KeyMatch::Exact(_) | KeyMatch::Lpm { .. }));
        let priority = i32::from(ranked);
        let entry = TableEntry { matches, priority, action, idle_timeout_us: 0 };
        self.0.insert(TableId(at as u32), entry).with_context(|| format!("an entry of `{table}`"))
    }
}

/// Whether the last part of a name is this.
fn is(name: &str, short: &str) -> bool {
    name.rsplit('.').next() == Some(short)
}

/// The match of a key that an entry does not name.
fn any(kind: MatchKind, width: u32) -> KeyMatch {
    let zero = || Value::from(0u64);
    match kind {
        MatchKind::Exact | MatchKind::Selector => KeyMatch::Exact(zero()),
        MatchKind::Lpm => KeyMatch::Lpm { value: zero(), prefix_len: 0 },
        MatchKind::Ternary => KeyMatch::Ternary { value: zero(), mask: zero() },
        MatchKind::Range => KeyMatch::Range { low: zero(), high: Value::ones(width) },
        MatchKind::Optional => KeyMatch::Optional(None),
    }
}

/// Millions of packets per second.
fn measure(pipeline: &mut Pipeline, to: To) -> Result<f64> {
    let frames: Vec<_> = (0..ROUTES).map(|number| frame(to, number)).collect();
    let mut packet = pipeline.new_packet();
    let mut out = Vec::new();
    let input = IngressInput { port: FROM, ..IngressInput::default() };
    let mut left = 0;
    let begun = processor_time();
    for number in 0..PACKETS {
        // In an order that caches do not foresee.
        let route = number.wrapping_mul(7919) % ROUTES;
        let ingress = pipeline.ingress(&mut packet, &frames[route as usize], &input);
        if let Verdict::Unicast(port) = ingress.verdict {
            let input = EgressInput { port, ..EgressInput::default() };
            let dropped = pipeline.egress(&mut packet, &input, &mut out).drop;
            left += u32::from(!dropped && to.allows(route, port));
            black_box(&out);
        }
    }
    let taken = processor_time() - begun;
    ensure!(left == PACKETS, "{left} of {PACKETS} packets left through the right port");
    Ok(f64::from(PACKETS) / 1e6 / taken.as_secs_f64())
}

/// 64 bytes of Ethernet, IPv4 and UDP, to the last address of a route.
fn frame(to: To, number: u32) -> Vec<u8> {
    let (address, length) = to.route(number);
    let address = address | u32::MAX.checked_shr(length).unwrap_or(0);
    let mut frame = vec![0; 64];
    frame[..6].copy_from_slice(&ROUTER.to_be_bytes()[2..]);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&50u16.to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 17]);
    frame[26..30].copy_from_slice(&[192, 0, 2, 1]);
    frame[30..34].copy_from_slice(&address.to_be_bytes());
    let words = frame[14..34].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[24..26].copy_from_slice(&(!((sum + (sum >> 16)) as u16)).to_be_bytes());
    frame[34..40].copy_from_slice(&[0x04, 0xd2, 0, 53, 0, 30]);
    frame
}
