//! Frames at both ends of links.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tributary_model::{End, HostId, SwitchId, Topology};
use tributary_netio::FrameCount;

/// Frames that one end of a link has sent, and that the other has received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Crossing {
    /// Sent by one end.
    pub sent: u64,
    /// Received by the other end.
    pub received: u64,
    /// Most frames that were on their way when both were counted.
    pub under_way: u64,
}

impl Crossing {
    /// Frames that have not arrived.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }

    /// Frames that were lost for certain.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.missing().saturating_sub(self.under_way)
    }
}

/// The crossings of each link that is not a circuit: from its first end and from its second. `None` where an end does
/// not count.
pub type Crossings = Vec<[Option<Crossing>; 2]>;

/// Collects what the ends of links report, each at its own times.
///
/// What an end has received is compared with what the other end had sent at its last report before, so that frames
/// which were sent meanwhile do not look lost.
#[derive(Clone, Debug)]
pub(super) struct Tally(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    ends: Vec<[End; 2]>,
    under_way: u64,
    counted: HashMap<End, FrameCount>,
    /// Ends whose process began again to count.
    unknown: HashSet<End>,
    /// Hosts that have counted to their end.
    complete: BTreeSet<HostId>,
    crossings: Crossings,
}

impl Tally {
    /// Of these links, on each of which at most so many frames are under way.
    pub(super) fn new(topology: &Topology, under_way: u64) -> Self {
        let links = topology.links[..topology.fixed_links()].iter();
        let ends: Vec<_> = links.map(|link| link.ends).collect();
        let crossings = vec![[None; 2]; ends.len()];
        let state = State {
            ends,
            under_way,
            counted: HashMap::new(),
            unknown: HashSet::new(),
            complete: BTreeSet::new(),
            crossings,
        };
        Self(Arc::new(Mutex::new(state)))
    }

    /// A host has counted so far, or to its end.
    pub(super) fn host(&self, host: HostId, count: FrameCount, is_complete: bool) {
        let mut state = self.lock();
        state.count(End::Host(host), count);
        if is_complete {
            state.complete.insert(host);
        }
    }

    /// The ports of a switch have counted so far.
    pub(super) fn switch(&self, switch: SwitchId, ports: &[(u16, FrameCount)]) {
        let mut state = self.lock();
        for &(port, count) in ports {
            state.count(End::Switch(switch, port), count);
        }
    }

    /// What has crossed the links so far.
    pub(super) fn crossings(&self) -> Crossings {
        self.lock().crossings.clone()
    }

    /// Compares the last reports of all ends: none sends any more. At most so many frames were left at ends that
    /// have ended.
    pub(super) fn settle(&self, left: u64) {
        let mut state = self.lock();
        state.under_way = left;
        let ends: Vec<End> = state.ends.iter().flatten().copied().collect();
        for end in ends {
            // Of the others, the last report may be old.
            if !matches!(end, End::Host(host) if !state.complete.contains(&host)) {
                state.compare(end);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn count(&mut self, end: End, count: FrameCount) {
        let before = self.counted.insert(end, count).unwrap_or_default();
        if count.sent < before.sent || count.received < before.received {
            self.unknown.insert(end);
        }
        self.compare(end);
    }

    /// Compares what an end has received with what the other has sent.
    fn compare(&mut self, end: End) {
        let Some(link) = self.ends.iter().position(|ends| ends.contains(&end)) else { return };
        let way = usize::from(self.ends[link][0] == end);
        let far = self.ends[link][way];
        let known = |end: &End| self.counted.get(end).filter(|_| !self.unknown.contains(end));
        self.crossings[link][way] = known(&far).zip(known(&end)).map(|(far, own)| Crossing {
            sent: far.sent,
            received: own.received,
            under_way: self.under_way,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(under_way: u64) -> Tally {
        let text = "[topology]\nkind = \"star\"\nworkers = 2\n[[job]]\n";
        let scenario = tributary_model::jobfile::parse(text, "f");
        let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
        Tally::new(&scenario.network.topology, under_way)
    }

    fn count(sent: u64, received: u64) -> FrameCount {
        FrameCount { sent, received }
    }

    /// Losses from the first host to its switch, and back.
    fn lost(tally: &Tally) -> [Option<u64>; 2] {
        let state = tally.lock();
        let link = state.ends.iter().position(|ends| ends.contains(&End::Host(HostId(0)))).unwrap();
        let crossings = state.crossings[link].map(|crossing| crossing.map(|it| it.lost()));
        match state.ends[link][0] {
            End::Host(_) => crossings,
            End::Switch(..) => [crossings[1], crossings[0]],
        }
    }

    fn port(tally: &Tally) -> u16 {
        let state = tally.lock();
        let own = state.ends.iter().find(|ends| ends.contains(&End::Host(HostId(0)))).unwrap();
        own.iter()
            .find_map(|end| match end {
                End::Switch(_, port) => Some(*port),
                End::Host(_) => None,
            })
            .unwrap()
    }

    #[test]
    fn what_was_received_is_compared_with_what_had_been_sent_before() {
        let tally = tally(10);
        let port = port(&tally);
        let (host, switch) = (HostId(0), SwitchId(0));
        tally.host(host, count(1000, 0), false);
        assert_eq!(lost(&tally), [None, None], "the switch is not known");
        tally.switch(switch, &[(port, count(500, 900))]);
        assert_eq!(lost(&tally), [Some(90), None]);
        // The host has sent much since, which is not lost.
        tally.host(host, count(9000, 400), false);
        assert_eq!(lost(&tally), [Some(90), Some(90)]);
        tally.switch(switch, &[(port, count(8000, 8980))]);
        assert_eq!(lost(&tally), [Some(10), Some(90)]);
    }

    #[test]
    fn at_the_end_the_last_reports_of_both_ends_are_compared() {
        let tally = tally(100);
        let port = port(&tally);
        tally.switch(SwitchId(0), &[(port, count(10, 0))]);
        tally.host(HostId(0), count(1000, 800), false);
        tally.switch(SwitchId(0), &[(port, count(1000, 900))]);
        tally.settle(0);
        assert_eq!(lost(&tally), [Some(100), Some(0)], "the host may have received more since");
        tally.host(HostId(0), count(1000, 800), true);
        tally.settle(0);
        assert_eq!(lost(&tally), [Some(100), Some(200)]);
    }

    #[test]
    fn a_process_that_was_started_again_is_not_known() {
        let tally = tally(0);
        let port = port(&tally);
        tally.host(HostId(0), count(1000, 100), false);
        tally.host(HostId(0), count(10, 1), false);
        tally.switch(SwitchId(0), &[(port, count(500, 400))]);
        assert_eq!(lost(&tally), [None, None]);
    }
}
