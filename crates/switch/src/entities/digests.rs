//! Digests for the controller: collected into lists, sent once, and suppressed until the controller
//! acknowledges them or a timeout passes.
//!
//! This module has no clock: callers pass the time.

use std::collections::{BTreeMap, HashMap};

use tributary_dataplane::Value;
use tributary_p4runtime::p4::v1::{DigestEntry, Entity, P4Data, digest_entry, entity};

use super::data::encode_data;
use super::objects::Objects;
use super::{Change, Refusal};

/// The data of one digest call: its members in order.
pub(crate) type Message = Vec<Value>;

/// Messages per digest that wait for a list, and that wait for an acknowledgement. More are lost,
/// to bound the memory of slow controllers.
const MOST: usize = 1 << 16;

/// Messages per list if the controller sets no limit.
const LIST: usize = 1024;

/// A list for the primary controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct List {
    pub(crate) digest_id: u32,
    pub(crate) list_id: u64,
    pub(crate) messages: Vec<Message>,
}

/// The digests that a controller has enabled, by id.
#[derive(Debug, Default)]
pub(crate) struct Digests {
    enabled: BTreeMap<u32, Digest>,
    /// Number of lists so far, over all digests; the first one is 1.
    lists: u64,
}

#[derive(Debug)]
struct Digest {
    config: digest_entry::Config,
    buffer: Vec<Message>,
    /// Arrival of the first message in the buffer.
    since_us: u64,
    /// Suppressed messages and what ends the suppression: their list being sent (`None`), or that
    /// list's acknowledgement.
    known: HashMap<Message, Option<u64>>,
    /// When unacknowledged lists were sent.
    sent_us: BTreeMap<u64, u64>,
}

impl Digests {
    /// Enables, changes or disables a digest. The entry's id must be valid.
    pub(crate) fn write(&mut self, change: Change, entry: &DigestEntry) -> Result<(), Refusal> {
        let id = entry.digest_id;
        match (change, self.enabled.get_mut(&id)) {
            (Change::Insert, Some(_)) => {
                Err(Refusal::already_exists(format!("digest {id:#010x} is enabled already")))
            }
            (Change::Modify | Change::Delete, None) => {
                Err(Refusal::not_found(format!("digest {id:#010x} is not enabled")))
            }
            (Change::Insert, None) => {
                self.enabled.insert(id, Digest::new(checked(entry)?));
                Ok(())
            }
            (Change::Modify, Some(digest)) => {
                digest.config = checked(entry)?;
                Ok(())
            }
            (Change::Delete, Some(_)) => {
                self.enabled.remove(&id);
                Ok(())
            }
        }
    }

    /// The entries of the enabled digests: of one, or with id 0 of all.
    pub(crate) fn read(&self, id: u32) -> impl Iterator<Item = Entity> {
        let chosen = self.enabled.iter().filter(move |(known, _)| id == 0 || id == **known);
        chosen.map(|(&digest_id, digest)| {
            let entry = DigestEntry { digest_id, config: Some(digest.config) };
            Entity { entity: Some(entity::Entity::DigestEntry(entry)) }
        })
    }

    /// Adds a message of a digest; ignores digests that are not enabled.
    pub(crate) fn push(&mut self, now_us: u64, digest_id: u32, message: Message) {
        let Some(digest) = self.enabled.get_mut(&digest_id) else { return };
        digest.expire(now_us);
        if digest.known.len() >= MOST || digest.known.contains_key(&message) {
            return;
        }
        if digest.buffer.is_empty() {
            digest.since_us = now_us;
        }
        digest.buffer.push(message.clone());
        digest.known.insert(message, None);
    }

    /// The next list that is due.
    pub(crate) fn poll(&mut self, now_us: u64) -> Option<List> {
        let due =
            |(_, digest): &(&u32, &mut Digest)| digest.due_us().is_some_and(|at| at <= now_us);
        let (&digest_id, digest) = self.enabled.iter_mut().find(due)?;
        self.lists += 1;
        let list_id = self.lists;
        let most = digest.list_size().min(digest.buffer.len());
        let rest = digest.buffer.split_off(most);
        let messages = std::mem::replace(&mut digest.buffer, rest);
        digest.sent(now_us, list_id, &messages);
        Some(List { digest_id, list_id, messages })
    }

    /// When [`poll`](Self::poll) next has a list, if nothing else happens.
    pub(crate) fn due_us(&self) -> Option<u64> {
        self.enabled.values().filter_map(Digest::due_us).min()
    }

    /// The controller has handled the list: its messages may be sent again.
    pub(crate) fn acknowledge(&mut self, digest_id: u32, list_id: u64) {
        if let Some(digest) = self.enabled.get_mut(&digest_id)
            && digest.sent_us.remove(&list_id).is_some()
        {
            digest.known.retain(|_, waits_for| *waits_for != Some(list_id));
        }
    }
}

impl Digest {
    fn new(config: digest_entry::Config) -> Self {
        Self {
            config,
            buffer: Vec::new(),
            since_us: 0,
            known: HashMap::new(),
            sent_us: BTreeMap::new(),
        }
    }

    fn list_size(&self) -> usize {
        match self.config.max_list_size {
            0 => LIST,
            size => size as usize,
        }
    }

    /// When the next list is due; in the past for a full list.
    fn due_us(&self) -> Option<u64> {
        match self.buffer.len() {
            0 => None,
            length if length >= self.list_size() => Some(0),
            _ => Some(self.since_us.saturating_add(micros(self.config.max_timeout_ns))),
        }
    }

    fn sent(&mut self, now_us: u64, list_id: u64, messages: &[Message]) {
        if self.config.ack_timeout_ns == 0 {
            for message in messages {
                self.known.remove(message);
            }
            return;
        }
        for message in messages {
            self.known.insert(message.clone(), Some(list_id));
        }
        self.sent_us.insert(list_id, now_us);
    }

    /// Removes lists whose acknowledgement did not come in time.
    fn expire(&mut self, now_us: u64) {
        let patience = micros(self.config.ack_timeout_ns);
        let late = |at: u64| at.saturating_add(patience) <= now_us;
        // Lists are numbered by time, so usually the first one is not late.
        if self.sent_us.first_key_value().is_some_and(|(_, &at)| late(at)) {
            self.sent_us.retain(|_, at| !late(*at));
            let sent_us = &self.sent_us;
            self.known.retain(|_, waits_for| {
                waits_for.is_none_or(|list_id| sent_us.contains_key(&list_id))
            });
        }
    }
}

/// Converts a message to the wire form; `None` if it is not of the digest's type.
pub(crate) fn digest_data(objects: &Objects, digest_id: u32, message: &Message) -> Option<P4Data> {
    let form = objects.digest(digest_id).ok()?.form.as_ref()?;
    if form.scalars() != message.len() {
        return None;
    }
    encode_data(&mut message.iter().cloned(), form)
}

/// Converts non-negative nanoseconds to microseconds, rounding up.
fn micros(nanos: i64) -> u64 {
    nanos.unsigned_abs().div_ceil(1000)
}

fn checked(entry: &DigestEntry) -> Result<digest_entry::Config, Refusal> {
    let config = entry.config.ok_or_else(|| Refusal::invalid("the digest has no configuration"))?;
    let digest_entry::Config { max_timeout_ns, max_list_size, ack_timeout_ns } = config;
    if max_timeout_ns < 0 || max_list_size < 0 || ack_timeout_ns < 0 {
        return Err(Refusal::invalid("the digest's times and size cannot be negative"));
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use tributary_p4runtime::google::rpc::Code;

    use super::*;

    const ID: u32 = 7;

    fn entry(max_timeout_us: i64, max_list_size: i32, ack_timeout_us: i64) -> DigestEntry {
        let config = digest_entry::Config {
            max_timeout_ns: max_timeout_us * 1000,
            max_list_size,
            ack_timeout_ns: ack_timeout_us * 1000,
        };
        DigestEntry { digest_id: ID, config: Some(config) }
    }

    fn enabled(max_timeout_us: i64, max_list_size: i32, ack_timeout_us: i64) -> Digests {
        let mut digests = Digests::default();
        let entry = entry(max_timeout_us, max_list_size, ack_timeout_us);
        digests.write(Change::Insert, &entry).unwrap();
        digests
    }

    fn says(digests: &mut Digests, now_us: u64, what: u64) {
        digests.push(now_us, ID, vec![Value::from(what)]);
    }

    /// The list that is sent at a time: its number and messages.
    fn sent(digests: &mut Digests, now_us: u64) -> Option<(u64, Vec<u64>)> {
        let list = digests.poll(now_us)?;
        assert_eq!(list.digest_id, ID);
        let said = list.messages.iter().map(|message| message[0].to_u64().unwrap());
        Some((list.list_id, said.collect()))
    }

    #[test]
    fn lists_are_sent_when_they_are_full_or_old() {
        let mut digests = enabled(100, 3, 1000);
        assert_eq!((digests.due_us(), sent(&mut digests, 0)), (None, None));
        says(&mut digests, 10, 1);
        says(&mut digests, 20, 2);
        assert_eq!((digests.due_us(), sent(&mut digests, 109)), (Some(110), None));
        assert_eq!(sent(&mut digests, 110), Some((1, vec![1, 2])));
        for what in 3..8 {
            says(&mut digests, 200, what);
        }
        assert_eq!(sent(&mut digests, 200), Some((2, vec![3, 4, 5])));
        assert_eq!(sent(&mut digests, 200), None);
        assert_eq!(sent(&mut digests, 300), Some((3, vec![6, 7])));
    }

    #[test]
    fn without_delay_or_with_lists_of_one_each_message_is_sent_at_once() {
        for mut digests in [enabled(0, 0, 1000), enabled(1_000_000, 1, 1000)] {
            says(&mut digests, 5, 1);
            assert_eq!(sent(&mut digests, 5), Some((1, vec![1])));
            says(&mut digests, 5, 2);
            says(&mut digests, 6, 1);
            assert_eq!(sent(&mut digests, 6), Some((2, vec![2])));
            assert_eq!(sent(&mut digests, 6), None);
        }
    }

    #[test]
    fn unacknowledged_messages_are_not_repeated_before_the_timeout() {
        let mut digests = enabled(0, 0, 100);
        says(&mut digests, 0, 1);
        assert_eq!(sent(&mut digests, 0), Some((1, vec![1])));
        says(&mut digests, 10, 2);
        assert_eq!(sent(&mut digests, 10), Some((2, vec![2])));
        says(&mut digests, 99, 1);
        assert_eq!(sent(&mut digests, 99), None);
        digests.acknowledge(ID, 2);
        says(&mut digests, 99, 2);
        assert_eq!(sent(&mut digests, 99), Some((3, vec![2])), "acknowledged");
        says(&mut digests, 100, 1);
        assert_eq!(sent(&mut digests, 100), Some((4, vec![1])), "its time was up");
        // Unknown and late acknowledgements have no effect.
        digests.acknowledge(ID, 1);
        digests.acknowledge(ID + 1, 4);
        says(&mut digests, 101, 1);
        assert_eq!(sent(&mut digests, 101), None);
    }

    #[test]
    fn without_acknowledgements_only_messages_of_one_list_are_distinct() {
        let mut digests = enabled(100, 2, 0);
        for now_us in 0..4 {
            says(&mut digests, now_us, 1);
        }
        assert_eq!(sent(&mut digests, 100), Some((1, vec![1])));
        says(&mut digests, 100, 1);
        assert_eq!(sent(&mut digests, 200), Some((2, vec![1])));
    }

    #[test]
    fn digests_are_enabled_changed_and_disabled() {
        let mut digests = Digests::default();
        says(&mut digests, 0, 1);
        let code = |result: Result<(), Refusal>| result.map_err(|refusal| refusal.code);
        let (good, bad) = (entry(0, 0, 0), entry(0, -1, 0));
        assert_eq!(code(digests.write(Change::Modify, &good)), Err(Code::NotFound));
        assert_eq!(code(digests.write(Change::Delete, &good)), Err(Code::NotFound));
        assert_eq!(code(digests.write(Change::Insert, &bad)), Err(Code::InvalidArgument));
        let unset = DigestEntry { config: None, ..good };
        assert_eq!(code(digests.write(Change::Insert, &unset)), Err(Code::InvalidArgument));
        digests.write(Change::Insert, &good).unwrap();
        assert_eq!(code(digests.write(Change::Insert, &good)), Err(Code::AlreadyExists));
        assert_eq!(sent(&mut digests, 9), None, "what was said before is gone");
        digests.write(Change::Modify, &entry(100, 0, 0)).unwrap();
        says(&mut digests, 10, 1);
        assert_eq!(digests.due_us(), Some(110));
        assert_eq!((digests.read(0).count(), digests.read(ID).count()), (1, 1));
        assert_eq!(digests.read(ID + 1).count(), 0);
        digests.write(Change::Delete, &unset).unwrap();
        assert_eq!((digests.due_us(), digests.read(0).count()), (None, 0));
    }

    #[test]
    fn a_controller_that_never_acknowledges_costs_bounded_memory() {
        let mut digests = enabled(0, 0, i64::MAX / 1000);
        let mut heard = 0;
        for what in 0..2 * MOST as u64 {
            says(&mut digests, what, what);
            heard += sent(&mut digests, what).map_or(0, |(_, said)| said.len());
        }
        assert_eq!(heard, MOST);
    }
}
