//! The state of one packet.

use std::ops::Range;
use std::sync::Arc;

use crate::bits::mask;
use crate::code::Code;
use crate::slot::{Item, Slot};
use crate::value::Value;

/// Bytes of the cells in which Tofino's traffic manager counts queue depths.
pub const CELL_BYTES: u32 = 80;

/// The shape of a program's packets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape {
    /// A fresh packet's words: zeros, then constants and temporaries.
    pub(crate) template: Vec<u64>,
    /// Number of words that are zero at the start of each packet; they hold all state visible to
    /// programs.
    pub(crate) live: usize,
    /// Live words that are cleared before the parser runs.
    pub(crate) early: Vec<Range<usize>>,
    /// The other live words, which are cleared after it has run.
    pub(crate) late: Vec<LateHeader>,
    /// Live words outside headers, which a clone starts without.
    pub(crate) metadata: Vec<Range<usize>>,
    /// Number of words that travel through the queues: all live ones in v1model, none in TNA and PSA,
    /// where the packet is parsed again.
    pub(crate) travelling: usize,
    /// Bytes per unit of a queue's depth; with 0, a packet is one unit.
    pub(crate) cell_bytes: u32,
    /// Requests of the program that a replica starts without.
    pub(crate) requests: Vec<Slot>,
    /// Data kept by a resubmission, a recirculation or a clone.
    pub(crate) lists: Vec<FieldList>,
    /// Digests that the program makes.
    pub(crate) digests: Vec<DigestShape>,
}

/// A header that need not be zero before the parser runs, if the parser extracts it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LateHeader {
    pub(crate) valid: usize,
    pub(crate) words: Range<usize>,
}

/// The shape of a digest for the control plane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DigestShape {
    /// Its name in P4Info.
    pub(crate) name: String,
    /// Bits of each value.
    pub(crate) widths: Vec<u32>,
}

/// An `@field_list`.
#[derive(Clone, Debug)]
pub(crate) struct FieldList {
    pub(crate) id: u32,
    pub(crate) items: Vec<Item>,
}

impl FieldList {
    fn words(&self) -> usize {
        self.items.iter().map(|item| item.width.div_ceil(64) as usize).sum()
    }
}

/// Requests of a deparser besides the frame.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    /// A copy for a mirror session …
    pub(crate) mirror: Option<u16>,
    /// … with these bytes in front.
    pub(crate) mirror_data: Vec<u8>,
    /// A clone (v1model).
    pub(crate) clone: Option<CloneRequest>,
    /// A digest for the controller …
    pub(crate) digest: Option<u32>,
    /// … with the words of these values, concatenated.
    pub(crate) digest_data: Vec<u64>,
}

/// A requested clone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CloneRequest {
    pub(crate) session: u16,
    /// The field list that the clone keeps.
    pub(crate) list: Option<u32>,
}

impl Requests {
    /// Clears the requests; keeps the buffers.
    pub(crate) fn clear(&mut self) {
        self.mirror = None;
        self.clone = None;
        self.digest = None;
    }

    /// Requests a digest with the current values of its fields.
    pub(crate) fn pack(&mut self, code: &Code, digest: u32, state: &[u64]) {
        self.digest = Some(digest);
        self.digest_data.clear();
        for item in &code.digests[digest as usize] {
            let (slot, words) = (item.slot as usize, item.width.div_ceil(64) as usize);
            self.digest_data.extend_from_slice(&state[slot..slot + words]);
        }
    }
}

/// Storage for the state of one packet: headers, metadata, locals and payload.
///
/// Made by [`crate::Pipeline::new_packet`] and usable with that pipeline only.
#[derive(Clone, Debug)]
pub struct Packet {
    pub(crate) shape: Arc<Shape>,
    pub(crate) state: Vec<u64>,
    /// Bytes after the parsed headers; in the queues of TNA and PSA the whole frame.
    pub(crate) payload: Vec<u8>,
    pub(crate) length: u32,
    /// Length of the received frame, which counters use.
    pub(crate) ingress_length: u32,
    /// Values of a field list, or PSA's metadata for the next parser, concatenated.
    preserved: Vec<u64>,
    preserved_list: Option<usize>,
    /// The travelling words at the time when egress requested a clone.
    pub(crate) cloned: Vec<u64>,
    /// The clone session's length limit of the frame.
    pub(crate) limit: Option<u32>,
    /// Its priority queue.
    pub(crate) priority: u8,
    /// Its class of service (PSA).
    pub(crate) class_of_service: u8,
    /// Data of TNA's ingress deparser for a resubmitted packet.
    pub(crate) resubmitted: [u8; 8],
    /// Whether the packet leaves its queue unchanged.
    pub(crate) bypass_egress: bool,
    /// Whether the packet goes to another queue if its own has no room (TNA).
    pub(crate) deflect_on_drop: bool,
    pub(crate) requests: Requests,
}

impl Packet {
    pub(crate) fn new(shape: Arc<Shape>) -> Self {
        let most = shape.lists.iter().map(FieldList::words).max().unwrap_or(0);
        Self {
            state: shape.template.clone(),
            payload: Vec::new(),
            length: 0,
            ingress_length: 0,
            preserved: Vec::with_capacity(most),
            preserved_list: None,
            cloned: Vec::new(),
            limit: None,
            priority: 0,
            class_of_service: 0,
            resubmitted: [0; 8],
            bypass_egress: false,
            deflect_on_drop: false,
            requests: Requests::default(),
            shape,
        }
    }

    /// Becomes a copy of another packet of the same pipeline: a multicast replica. Other requests
    /// of the program (truncation, recirculation) apply to the other packet only.
    pub fn copy_from(&mut self, other: &Self) {
        debug_assert!(Arc::ptr_eq(&self.shape, &other.shape), "packets of different pipelines");
        let words = self.shape.travelling;
        self.state[..words].copy_from_slice(&other.state[..words]);
        self.payload.clone_from(&other.payload);
        self.length = other.length;
        self.ingress_length = other.ingress_length;
        for &slot in &self.shape.requests {
            self.state[slot as usize] = 0;
        }
        self.limit = other.limit;
        self.priority = other.priority;
        self.class_of_service = other.class_of_service;
        self.preserved.clone_from(&other.preserved);
        self.preserved_list = other.preserved_list;
        self.resubmitted = other.resubmitted;
        self.bypass_egress = other.bypass_egress;
        self.deflect_on_drop = other.deflect_on_drop;
    }

    /// Becomes the packet that multicast replicas share, as if each were a copy.
    pub fn become_shared(&mut self) {
        for &slot in &self.shape.requests {
            self.state[slot as usize] = 0;
        }
    }

    /// Clears the previous packet, except for what [`Self::parsed`] clears.
    #[inline]
    pub(crate) fn reset(&mut self) {
        for words in &self.shape.early {
            self.state[words.clone()].fill(0);
        }
    }

    /// Clears everything of the previous packet, for an observer that shows values before they are
    /// overwritten.
    pub(crate) fn clear(&mut self) {
        self.state[..self.shape.live].fill(0);
    }

    /// Clears late headers of the previous packet that the parser has not extracted.
    #[inline]
    pub(crate) fn parsed(&mut self) {
        for LateHeader { valid, words } in &self.shape.late {
            if self.state[*valid] == 0 {
                self.state[words.clone()].fill(0);
            }
        }
    }

    /// Sets a word of metadata, truncated to its width.
    #[inline]
    pub(crate) fn set(&mut self, item: Item, value: u64) {
        self.state[item.slot as usize] = value & mask(item.width);
    }

    /// Saves the fields of an `@field_list` for the next pass. An undeclared list is empty.
    pub(crate) fn preserve(&mut self, list: u32) {
        self.preserved.clear();
        self.preserved_list = self.shape.lists.iter().position(|known| known.id == list);
        if let Some(list) = self.preserved_list {
            for item in &self.shape.lists[list].items {
                let (slot, words) = (item.slot as usize, item.width.div_ceil(64) as usize);
                self.preserved.extend_from_slice(&self.state[slot..slot + words]);
            }
        }
    }

    /// Restores the saved fields.
    pub(crate) fn restore(&mut self) {
        let Some(list) = self.preserved_list else { return };
        let mut from = self.preserved.as_slice();
        for item in &self.shape.lists[list].items {
            let (slot, words) = (item.slot as usize, item.width.div_ceil(64) as usize);
            let (value, rest) = from.split_at(words);
            self.state[slot..slot + words].copy_from_slice(value);
            from = rest;
        }
    }

    /// Takes values along to the next parser, from the state of a packet whose deparser has run.
    pub(crate) fn take_along(&mut self, items: &[Item], state: &[u64]) {
        self.preserved.clear();
        for item in items {
            let (slot, words) = (item.slot as usize, item.width.div_ceil(64) as usize);
            self.preserved.extend_from_slice(&state[slot..slot + words]);
        }
    }

    /// Takes its own values along to the next parser.
    pub(crate) fn keep_along(&mut self, items: &[Item]) {
        let state = std::mem::take(&mut self.state);
        self.take_along(items, &state);
        self.state = state;
    }

    /// Gives the parser the values that were taken along for it, in fields of the same types.
    pub(crate) fn hand_over(&mut self, items: &[Item]) {
        let mut from = self.preserved.as_slice();
        for item in items {
            let (slot, words) = (item.slot as usize, item.width.div_ceil(64) as usize);
            let (value, rest) = from.split_at(words);
            self.state[slot..slot + words].copy_from_slice(value);
            from = rest;
        }
    }

    /// Becomes a clone: keeps its headers, and clears its metadata except for a field list, whose
    /// values are in `from`, the state of the packet that requested the clone.
    pub(crate) fn become_clone(&mut self, request: CloneRequest, from: &[u64]) {
        for range in &self.shape.metadata {
            self.state[range.clone()].fill(0);
        }
        let list = request.list.and_then(|id| self.shape.lists.iter().find(|l| l.id == id));
        for item in list.iter().flat_map(|list| &list.items) {
            let words = item.slot as usize..(item.slot + item.width.div_ceil(64)) as usize;
            self.state[words.clone()].copy_from_slice(&from[words]);
        }
        self.preserved_list = None;
        self.limit = None;
        self.requests.clear();
    }

    /// The clone session that the last pass requested (v1model): see
    /// [`crate::Pipeline::clone_of_ingress`] and [`crate::Pipeline::clone_of_egress`].
    #[must_use]
    pub fn clone_session(&self) -> Option<u16> {
        self.requests.clone.map(|request| request.session)
    }

    /// Limits the length of the frame that egress produces.
    pub fn set_limit(&mut self, bytes: u32) {
        self.limit = Some(bytes);
    }

    /// Its priority queue: higher ones are sent first.
    #[must_use]
    pub fn priority(&self) -> u8 {
        self.priority
    }

    /// Whether the program asks for it to go to another queue if its own has no room (TNA).
    #[must_use]
    pub fn deflects_on_drop(&self) -> bool {
        self.deflect_on_drop
    }

    /// Sets its class of service, which PSA shows to egress.
    pub fn set_class_of_service(&mut self, class: u8) {
        self.class_of_service = class;
    }

    /// Its contribution to a queue's depth as programs see it: one for v1model, which counts
    /// packets, and PSA; the number of 80-byte cells for TNA.
    #[must_use]
    pub fn queue_units(&self) -> u32 {
        match self.shape.cell_bytes {
            0 => 1,
            bytes => self.length.div_ceil(bytes).max(1),
        }
    }

    /// The mirror session that the last pass requested, and the data in front of the copy (TNA).
    #[must_use]
    pub fn mirror(&self) -> Option<(u16, &[u8])> {
        self.requests.mirror.map(|session| (session, self.requests.mirror_data.as_slice()))
    }

    /// Whether there is a [`digest`](Self::digest), without the cost of copying it.
    #[must_use]
    pub fn has_digest(&self) -> bool {
        self.requests.digest.is_some()
    }

    /// The digest of the last ingress pass, or of TNA's egress: its index in
    /// [`crate::Pipeline::digests`], and its values.
    #[must_use]
    pub fn digest(&self) -> Option<(usize, Vec<Value>)> {
        let number = self.requests.digest? as usize;
        let mut words = self.requests.digest_data.as_slice();
        let take = |&width: &u32| {
            let (value, rest) = words.split_at(width.div_ceil(64) as usize);
            words = rest;
            Value::from_limbs(value)
        };
        Some((number, self.shape.digests.get(number)?.widths.iter().map(take).collect()))
    }

    /// Becomes a packet with these bytes that waits for egress: a mirrored copy (TNA).
    pub fn become_copy(&mut self, header: &[u8], frame: &[u8]) {
        self.payload.clear();
        self.payload.extend_from_slice(header);
        self.payload.extend_from_slice(frame);
        self.length = u32::try_from(self.payload.len()).unwrap_or(u32::MAX);
        self.ingress_length = self.length;
        self.bypass_egress = false;
        self.deflect_on_drop = false;
        self.requests.clear();
    }

    /// Length in bytes. For v1model as in BMv2: that of the received frame, plus headers made
    /// valid, minus headers made invalid. For TNA that of the last deparsed frame.
    #[must_use]
    pub fn length(&self) -> u32 {
        self.length
    }
}
