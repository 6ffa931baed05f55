//! Counters that both kinds of endpoint share.

use tributary_wire::Error;

/// Frames that an endpoint dropped because of what they are, whatever its state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rejected {
    /// Not an aggregation packet: ARP, another port, and the like.
    pub foreign: u64,
    /// A broken aggregation packet: [`Error`] names the ways.
    pub malformed: u64,
    /// Of another job.
    pub other_job: u64,
    /// Of another run of the job.
    pub other_run: u64,
    /// Of another aggregation protocol.
    pub other_protocol: u64,
    /// Of another service than the job's: sent before the job was served in another way. At a PS also
    /// gradients of a job that needs none as it is served now.
    pub other_service: u64,
    /// A kind that this endpoint does not take.
    pub wrong_kind: u64,
    /// Another number of values than the job's packets have.
    pub wrong_values: u64,
    /// Workers that the job has not, or that such a packet may not name.
    pub wrong_bitmap: u64,
    /// Another aggregator than the slot's.
    pub wrong_index: u64,
}

impl Rejected {
    pub(crate) fn count(&mut self, error: &Error) {
        if error.is_foreign() {
            self.foreign += 1;
        } else {
            self.malformed += 1;
        }
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.foreign
            + self.malformed
            + self.other_job
            + self.other_run
            + self.other_protocol
            + self.other_service
            + self.wrong_kind
            + self.wrong_values
            + self.wrong_bitmap
            + self.wrong_index
    }
}
