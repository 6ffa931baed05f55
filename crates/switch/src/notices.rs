//! Unsolicited messages to primary controllers besides packets: lists of digests, and idle entries.

use tributary_p4runtime::p4::v1::{
    DigestList, IdleTimeoutNotification, P4Data, stream_message_response::Update,
};

use crate::entities::{self, Refusal};
use crate::switch::{self, Core};

/// Interval of checks for idle entries, in microseconds.
const SWEEP_US: u64 = 20_000;

impl Core {
    /// When [`poll_notices`](Self::poll_notices) may next have a message, if nothing else happens;
    /// zero for at once.
    pub(crate) fn next_notice_us(&self) -> Option<u64> {
        if self.has_digests() {
            return Some(0);
        }
        let active = self.forwarding()?;
        let sweep = active.objects().age().then_some(self.swept_us.saturating_add(SWEEP_US));
        active.digests().due_us().into_iter().chain(sweep).min()
    }

    /// The messages that are due. Their timestamps are left for the caller.
    pub(crate) fn poll_notices(&mut self, now_us: u64) -> Vec<Update> {
        let mut notices = Vec::new();
        self.collect_digests(now_us);
        if let Some(active) = self.forwarding_mut() {
            while let Some(list) = active.digests_mut().poll(now_us) {
                let data =
                    |message| entities::digest_data(active.objects(), list.digest_id, message);
                let data: Option<Vec<P4Data>> = list.messages.iter().map(data).collect();
                notices.extend(data.map(|data| {
                    let (digest_id, list_id) = (list.digest_id, list.list_id);
                    Update::Digest(DigestList { digest_id, list_id, data, timestamp: 0 })
                }));
            }
        }
        notices.extend(self.sweep(now_us));
        notices
    }

    /// Adds the program's digests to the lists that the controller has enabled.
    fn collect_digests(&mut self, now_us: u64) {
        while let Some(digest) = self.poll_digest() {
            let Some(active) = self.forwarding_mut() else { return };
            let name = active.pipeline().digests().nth(digest.digest);
            let known = name.and_then(|name| active.objects().digest_named(name));
            if let Some(id) = known.map(|known| known.id) {
                active.digests_mut().push(now_us, id, digest.data);
            }
        }
    }

    /// The idle entries, if a check is due.
    fn sweep(&mut self, now_us: u64) -> Option<Update> {
        let active = self.forwarding().filter(|active| active.objects().age());
        if active.is_none() || now_us < self.swept_us.saturating_add(SWEEP_US) {
            return None;
        }
        self.swept_us = now_us;
        let idle = self.poll_idle(now_us);
        let active = self.forwarding()?;
        let entries =
            idle.iter().filter_map(|(table, entry)| entities::idle(active, *table, entry));
        let entries = entries.map(|entry| active.names().entry(active.objects().places(), entry));
        let table_entry: Vec<_> = entries.collect();
        (!table_entry.is_empty()).then_some(Update::IdleTimeoutNotification(
            IdleTimeoutNotification { table_entry, timestamp: 0 },
        ))
    }

    /// Handles the acknowledgement of a list of digests.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the program has no such digest, `FAILED_PRECONDITION` if there is no
    /// program.
    pub(crate) fn acknowledge(&mut self, digest_id: u32, list_id: u64) -> Result<(), Refusal> {
        let active = self.forwarding_mut().ok_or_else(switch::no_pipeline)?;
        if active.objects().digest(digest_id).is_err() {
            let message = format!("the program has no digest with id {digest_id:#010x}");
            return Err(Refusal::invalid(message));
        }
        active.digests_mut().acknowledge(digest_id, list_id);
        Ok(())
    }
}
