//! One packet's state.

use std::sync::Arc;

use crate::layout::Item;

/// What the packets of a program look like.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    /// A fresh packet's words: zeros, then constants and space to compute in.
    pub(crate) template: Vec<u64>,
    /// Words that are zero at the start of each packet; all that the program can see changes here.
    pub(crate) live: usize,
    /// What survives a resubmission or a recirculation.
    pub(crate) lists: Vec<FieldList>,
}

/// An `@field_list`.
#[derive(Debug)]
pub(crate) struct FieldList {
    pub(crate) id: u32,
    pub(crate) items: Vec<Item>,
}

impl FieldList {
    fn words(&self) -> usize {
        self.items.iter().map(|item| item.width.div_ceil(64) as usize).sum()
    }
}

/// Storage for the state of one packet: headers, metadata, locals and payload.
///
/// Made by [`crate::Pipeline::new_packet`] and usable with that pipeline only.
#[derive(Clone, Debug)]
pub struct Packet {
    pub(crate) shape: Arc<Shape>,
    pub(crate) state: Vec<u64>,
    /// What follows the parsed headers.
    pub(crate) payload: Vec<u8>,
    pub(crate) length: u32,
    /// Bytes of the frame that came in: what counters count.
    pub(crate) ingress_length: u32,
    /// Values of a field list, one after the other.
    preserved: Vec<u64>,
    preserved_list: Option<usize>,
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
            shape,
        }
    }

    /// Becomes a copy of another packet of the same pipeline: a multicast replica.
    pub fn copy_from(&mut self, other: &Self) {
        debug_assert!(Arc::ptr_eq(&self.shape, &other.shape), "packets of different pipelines");
        let live = self.shape.live;
        self.state[..live].copy_from_slice(&other.state[..live]);
        self.payload.clone_from(&other.payload);
        self.length = other.length;
        self.ingress_length = other.ingress_length;
        self.preserved.clone_from(&other.preserved);
        self.preserved_list = other.preserved_list;
    }

    /// Saves the fields of an `@field_list`, for the next pass with
    /// [`crate::IngressInput::preserved`]. A list that the program does not declare is empty.
    pub fn preserve(&mut self, list: u32) {
        self.preserved.clear();
        self.preserved_list = self.shape.lists.iter().position(|known| known.id == list);
        if let Some(list) = self.preserved_list {
            for item in &self.shape.lists[list].items {
                let (slot, words) = (item.slot as usize, item.width.div_ceil(64) as usize);
                self.preserved.extend_from_slice(&self.state[slot..slot + words]);
            }
        }
    }

    /// Puts the saved fields back.
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

    /// Length in bytes as BMv2 counts it: of the frame that came in, plus headers made valid, minus
    /// headers made invalid since.
    #[must_use]
    pub fn length(&self) -> u32 {
        self.length
    }
}
