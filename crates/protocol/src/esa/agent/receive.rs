//! Messages of workers and servers, and answers of switches.

use bytes::Bytes;
use tributary_wire::agg::Packet;
use tributary_wire::channel::{FromServer, FromWorker, ToServer, ToWorker, Values};
use tributary_wire::{Flags, JobId, Kind, Protocol, Sequence, WorkerIndex, WorkerSet};

use super::rounds::Cause;
use super::watch::Watch;
use super::{Agent, Served, ToPeer};
use crate::{Recovery, Time};

impl Agent {
    /// Handles a message of a worker.
    pub fn handle_worker(
        &mut self,
        now: Time,
        job: JobId,
        worker: WorkerIndex,
        message: FromWorker,
    ) {
        let Some(served) = self.jobs.get_mut(&job) else {
            self.rejected.other_job += 1;
            return;
        };
        let bit = WorkerSet::of(worker);
        if !bit.is_subset(served.config.job.everyone()) {
            self.rejected.wrong_bitmap += 1;
            return;
        }
        let stats = &mut served.stats;
        match message {
            // The server opens an entry for it and reports that as urgent.
            FromWorker::Remind { sequence } => {
                stats.reminded += 1;
                self.tell_server(job, ToServer::Missing { sequence, workers: bit });
            }
            FromWorker::Values { sequence, values } => {
                stats.values += 1;
                if let Some(watch) = served.watches.get(&sequence.0) {
                    stats.answers.add_since(now, watch.stopwatch.asked);
                    let partial =
                        ToServer::Partial { sequence, workers: bit, marked: false, values };
                    self.tell_server(job, partial);
                    self.got(job, sequence.0, bit);
                } else {
                    stats.stale += 1;
                }
            }
            FromWorker::Result { sequence, values } => {
                stats.results += 1;
                if let Some(watch) = served.watches.get(&sequence.0) {
                    stats.answers.add_since(now, watch.stopwatch.asked);
                    self.tell_server(job, ToServer::Known { sequence, values });
                } else {
                    stats.stale += 1;
                }
            }
            FromWorker::NotSent { .. } => stats.not_sent += 1,
            FromWorker::Over { sequence } => {
                stats.over += 1;
                self.tell_server(job, ToServer::Over { sequence });
            }
            FromWorker::Finished { .. } => self.on_finished(now, job, bit),
        }
    }

    /// Handles a message of a server.
    pub fn handle_server(&mut self, now: Time, job: JobId, message: FromServer) {
        let Some(served) = self.jobs.get_mut(&job) else {
            self.rejected.other_job += 1;
            return;
        };
        match message {
            FromServer::Entry { sequence, merged, float, urgent } => {
                let missing = served.config.job.everyone().without(merged);
                self.on_entry(now, job, sequence.0, missing, float, urgent);
            }
            FromServer::Closed { sequence } => {
                if let Some(watch) = served.watches.remove(&sequence.0) {
                    self.due.remove(&(watch.due, job, sequence.0));
                    served.stats.repairs.add_since(now, watch.stopwatch.pursued);
                    if !watch.pursued {
                        // ESA §6: from the set-up of the entry to its completion. An entry for
                        // which the agent began a round is excluded, because it would measure the
                        // agent's own actions (Karn's rule). Polls are what an entry usually needs.
                        served.rtt.sample(now - watch.since);
                    }
                }
            }
            FromServer::Deliver { sequence, workers, values } => {
                for worker in workers.iter() {
                    let message = ToWorker::Result { sequence, values: values.clone() };
                    self.messages.push_back(ToPeer::Worker { job, worker, message });
                }
            }
        }
    }

    /// A channel to a server in another process was opened, for the first time or again. The server
    /// will report its entries; the agent discards those of an earlier channel.
    pub fn server_opened(&mut self, job: JobId) {
        if let Some(served) = self.jobs.get_mut(&job) {
            served.watches.clear();
            self.due.retain(|(_, its, _)| *its != job);
        }
    }

    /// [`Endpoint::handle_frame`](crate::Endpoint::handle_frame) for a driver that has already
    /// validated the frame.
    pub fn handle_packet(&mut self, now: Time, packet: &Packet<&[u8]>) {
        let id = packet.job();
        let Some(served) = self.jobs.get_mut(&id) else {
            self.rejected.other_job += 1;
            return;
        };
        let job = &served.config.job;
        let sequence = packet.sequence();
        let fetched = packet.kind() == Kind::Gradient && packet.flags().contains(Flags::RESEND);
        let reason = if packet.epoch() != job.epoch {
            &mut self.rejected.other_run
        } else if packet.protocol() != Protocol::Esa {
            &mut self.rejected.other_protocol
        } else if !fetched && packet.kind() != Kind::Absent {
            &mut self.rejected.wrong_kind
        } else if packet.values() != job.values_per_packet {
            &mut self.rejected.wrong_values
        } else if packet.index() != served.tasks.index(sequence) {
            &mut self.rejected.wrong_index
        } else {
            match job.racks.members(packet.rack(), packet.bitmap()) {
                Some(workers) if !workers.is_empty() => {
                    self.on_answer(now, packet, workers, fetched);
                    return;
                }
                _ => &mut self.rejected.wrong_bitmap,
            }
        };
        *reason += 1;
    }

    fn on_answer(&mut self, now: Time, packet: &Packet<&[u8]>, workers: WorkerSet, fetched: bool) {
        let (job, sequence) = (packet.job(), packet.sequence());
        let Some(served) = self.jobs.get_mut(&job) else {
            return;
        };
        let count = if fetched { &mut served.stats.fetched } else { &mut served.stats.absent };
        *count += 1;
        if !served.watches.contains_key(&sequence.0) {
            served.stats.stale += 1;
            return;
        }
        if fetched {
            let values = Values { float: false, payload: Bytes::copy_from_slice(packet.payload()) };
            let marked = packet.is_marked();
            self.tell_server(job, ToServer::Partial { sequence, workers, marked, values });
            self.got(job, sequence.0, workers);
        }
        self.answered(now, job, sequence.0);
    }

    /// The server is about to merge these values and will report it. A server in another process
    /// reports later, and until then the agent would ask for the same values again.
    fn got(&mut self, job: JobId, sequence: u32, workers: WorkerSet) {
        let served = self.jobs.get_mut(&job);
        if let Some(watch) = served.and_then(|served| served.watches.get_mut(&sequence))
            && workers.is_subset(watch.missing)
            && !watch.float
        {
            watch.missing = watch.missing.without(workers);
        }
    }

    fn on_entry(
        &mut self,
        now: Time,
        job: JobId,
        sequence: u32,
        missing: WorkerSet,
        float: bool,
        urgent: bool,
    ) {
        let Some(served) = self.jobs.get_mut(&job) else {
            return;
        };
        let timer = now + served.rtt.base_timeout();
        let at = served.due(now, 0, timer);
        let Served { config, finished, watches, stats, .. } = served;
        if *finished == config.job.everyone() {
            self.tell_server(job, ToServer::Over { sequence: Sequence(sequence) });
            return;
        }
        let due = &mut self.due;
        let watch = watches.entry(sequence).or_insert_with(|| {
            stats.watched += 1;
            due.insert((at, job, sequence));
            Watch::new(missing, float, now, at, timer)
        });
        watch.missing = missing;
        watch.float = float;
        if urgent {
            self.round(now, job, sequence, Cause::Urgent);
        }
        self.count_later(now, job, sequence);
    }

    /// A worker has all results. When all workers have them, the agent dismisses the workers.
    fn on_finished(&mut self, _now: Time, job: JobId, worker: WorkerSet) {
        let Some(served) = self.jobs.get_mut(&job) else {
            return;
        };
        served.finished |= worker;
        if served.config.timing.recovery == Recovery::Rack {
            // Others may have said it to the server alone, in packets.
            let message = ToServer::Finished { workers: worker };
            self.messages.push_back(ToPeer::Server { job, message });
        }
        let everyone = served.config.job.everyone();
        if served.finished == everyone {
            // Entries that late copies opened at the server are obsolete.
            let watched: Vec<u32> = served.watches.keys().copied().collect();
            for sequence in watched {
                self.tell_server(job, ToServer::Over { sequence: Sequence(sequence) });
            }
            for worker in everyone.iter() {
                let message = ToWorker::Dismissed;
                self.messages.push_back(ToPeer::Worker { job, worker, message });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use tributary_wire::{Bitmap, Epoch, Host, Mac, Rack};

    use super::*;
    use crate::esa::{AgentJob, Target};
    use crate::rtt::RttConfig;
    use crate::{Endpoint, JobConfig, Timing, Waits};

    const JOB: JobId = JobId::new(1).unwrap();

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn host(number: u8) -> Host {
        Host { mac: Mac([2, 0, 0, 0, 0, number]), ip: [10, 0, 0, number].into() }
    }

    /// Workers 0 and 1 share a rack, 2 and 3 are in the rack of the PS.
    fn agent() -> Agent {
        let mut job = JobConfig::new(JOB.run(Epoch::FIRST), 4, NonZeroU32::new(64).unwrap());
        job.protocol = Protocol::Esa;
        job.values_per_packet = 32;
        let switches = vec![
            Target { rack: Rack::NONE, members: Bitmap(0b0011), via: host(1) },
            Target { rack: Rack::NONE, members: Bitmap(0b1111), via: host(3) },
        ];
        let mut agent = Agent::default();
        agent
            .add_job(AgentJob { job, host: host(9), switches, timing: Timing::default() })
            .unwrap();
        agent
    }

    fn entry(sequence: u32, merged: u32, urgent: bool) -> FromServer {
        let (sequence, merged) = (Sequence(sequence), WorkerSet::from_low_bits(merged));
        FromServer::Entry { sequence, merged, float: false, urgent }
    }

    /// The due reminders: sequence and members.
    fn reminders(agent: &mut Agent, now: Time) -> Vec<(u32, u32)> {
        let mut frame = Vec::new();
        let mut sent = Vec::new();
        while agent.poll_transmit(now, &mut frame) {
            let packet = Packet::new_checked(&frame[..]).unwrap();
            assert_eq!((packet.kind(), packet.flags()), (Kind::Reminder, Flags::NONE));
            assert!(packet.payload().iter().all(|byte| *byte == 0));
            sent.push((packet.sequence().0, packet.bitmap().0));
        }
        sent
    }

    /// The workers that are queried.
    fn asked(agent: &mut Agent) -> Vec<u16> {
        let mut asked = Vec::new();
        while let Some(message) = agent.poll_message() {
            if let ToPeer::Worker { worker, message: ToWorker::Query { .. }, .. } = message {
                asked.push(worker.get());
            }
        }
        asked
    }

    /// A switch's answer to a reminder.
    fn answer(agent: &mut Agent, now: Time, sequence: u32, held: Option<u32>, members: u32) {
        let job = agent.jobs[&JOB].config.job;
        let repr = tributary_wire::agg::Repr {
            protocol: Protocol::Esa,
            kind: if held.is_some() { Kind::Gradient } else { Kind::Absent },
            flags: if held.is_some() { Flags::RESEND } else { Flags::NONE },
            priority: 0,
            job: JOB,
            epoch: Epoch::FIRST,
            values: job.values_per_packet,
            sequence: Sequence(sequence),
            bitmap: Bitmap(held.unwrap_or(members)),
            rack: Rack::NONE,
            audience: tributary_wire::Audience::ALL,
            index: job.tasks().index(Sequence(sequence)),
        };
        let envelope = tributary_wire::Envelope {
            source: host(1),
            destination: host(9),
            ecn: tributary_wire::Ecn::Ect0,
        };
        let mut frame = Vec::new();
        tributary_wire::emit_frame(&mut frame, &envelope, &repr);
        agent.handle_frame(now, &frame);
    }

    #[test]
    fn a_timer_reminds_the_relevant_switches_and_then_asks_the_workers() {
        let mut agent = agent();
        // The values of both workers of the other rack have arrived.
        agent.handle_server(at(0), JOB, entry(7, 0b0011, false));
        assert_eq!(agent.poll_timeout(), Some(at(20)));
        agent.handle_timeout(at(19));
        assert_eq!(reminders(&mut agent, at(19)), []);
        agent.handle_timeout(at(20));
        assert_eq!(reminders(&mut agent, at(20)), [(7, 0b1111)]);
        assert_eq!(asked(&mut agent), []);
        answer(&mut agent, at(21), 7, None, 0b1111);
        assert_eq!(asked(&mut agent), [2, 3]);
        // No answer arrived: the next round comes after twice the time and asks at once.
        agent.handle_timeout(at(59));
        assert_eq!(reminders(&mut agent, at(59)), []);
        agent.handle_timeout(at(60));
        assert_eq!((reminders(&mut agent, at(60)), asked(&mut agent)), (vec![(7, 15)], vec![2, 3]));
        assert_eq!(agent.stats().next().unwrap().1.timeouts, 2);
    }

    #[test]
    fn workers_whose_values_were_fetched_are_not_asked() {
        let mut agent = agent();
        agent.handle_server(at(0), JOB, entry(7, 0, true));
        assert_eq!(reminders(&mut agent, at(0)), [(7, 0b0011), (7, 0b1111)]);
        answer(&mut agent, at(0), 7, Some(0b0010), 0b0011);
        assert_eq!(asked(&mut agent), []);
        answer(&mut agent, at(0), 7, Some(0b1000), 0b1111);
        assert_eq!(asked(&mut agent), [0, 2]);
    }

    #[test]
    fn polls_fetch_but_do_not_ask_and_end_with_the_timer() {
        let mut agent = agent();
        // The answer to the first reminder takes 3 ms.
        agent.handle_server(at(0), JOB, entry(7, 0b0111, true));
        assert_eq!(reminders(&mut agent, at(0)), [(7, 0b1111)]);
        answer(&mut agent, at(3), 7, Some(0b1000), 0b1111);
        agent.handle_server(at(3), JOB, FromServer::Closed { sequence: Sequence(7) });
        asked(&mut agent);
        agent.handle_server(at(100), JOB, entry(8, 0b0111, false));
        // After 3 ms, and 6 more; 12 more would be later than the timer, which has 20.
        for polled in [103, 109] {
            assert_eq!(agent.poll_timeout(), Some(at(polled)));
            agent.handle_timeout(at(polled));
            assert_eq!(reminders(&mut agent, at(polled)), [(8, 0b1111)]);
            answer(&mut agent, at(polled + 3), 8, None, 0b1111);
            assert_eq!(asked(&mut agent), []);
        }
        assert_eq!(agent.poll_timeout(), Some(at(120)));
        agent.handle_timeout(at(120));
        assert_eq!(reminders(&mut agent, at(120)), [(8, 0b1111)]);
        answer(&mut agent, at(123), 8, None, 0b1111);
        assert_eq!(asked(&mut agent), [3]);
        let stats = *agent.stats_of(JOB).unwrap();
        assert_eq!((stats.polls, stats.timeouts), (2, 1));
    }

    #[test]
    fn a_workers_reminder_waits_for_the_answers_to_a_poll() {
        let mut agent = agent();
        agent.handle_server(at(0), JOB, entry(7, 0b0111, true));
        reminders(&mut agent, at(0));
        answer(&mut agent, at(3), 7, Some(0b1000), 0b1111);
        agent.handle_server(at(3), JOB, FromServer::Closed { sequence: Sequence(7) });
        agent.handle_server(at(100), JOB, entry(8, 0b0111, false));
        agent.handle_timeout(at(103));
        assert_eq!(reminders(&mut agent, at(103)), [(8, 0b1111)]);
        agent.handle_server(at(104), JOB, entry(8, 0b0111, true));
        assert_eq!((reminders(&mut agent, at(104)), asked(&mut agent)), (vec![], vec![]));
        answer(&mut agent, at(106), 8, None, 0b1111);
        assert_eq!(asked(&mut agent), [3]);
    }

    #[test]
    fn three_later_contributions_fetch_but_do_not_ask() {
        let mut agent = agent();
        agent.handle_server(at(0), JOB, entry(7, 0b0001, false));
        for (contributions, expected) in [(1, vec![]), (2, vec![]), (3, vec![(7, 3), (7, 15)])] {
            agent.handle_server(at(1), JOB, entry(7 + contributions, 0b0001, false));
            assert_eq!(reminders(&mut agent, at(1)), expected);
        }
        answer(&mut agent, at(1), 7, None, 0b0011);
        answer(&mut agent, at(1), 7, None, 0b1111);
        assert_eq!(asked(&mut agent), []);
        // At most once between two firings of the timer.
        for later in 0..5 {
            agent.handle_server(at(2), JOB, entry(20 + later, 0b0001, false));
        }
        assert!(!reminders(&mut agent, at(2)).iter().any(|(sequence, _)| *sequence == 7));
    }

    #[test]
    fn a_workers_reminder_waits_for_a_round_but_not_for_the_timer() {
        let mut agent = agent();
        agent.handle_server(at(0), JOB, entry(7, 0b0011, false));
        for later in 8..11 {
            agent.handle_server(at(1), JOB, entry(later, 0b0001, false));
        }
        assert_eq!(reminders(&mut agent, at(1)), [(7, 0b1111)]);
        // The switch has not answered yet: no second round, but a question after the answer.
        agent.handle_server(at(1), JOB, entry(7, 0b0011, true));
        assert_eq!(reminders(&mut agent, at(1)), []);
        answer(&mut agent, at(2), 7, Some(0b0100), 0b1111);
        assert_eq!(asked(&mut agent), [3]);
        // A worker was asked, so the round is still in progress.
        agent.handle_server(at(2), JOB, entry(7, 0b0111, true));
        assert_eq!(reminders(&mut agent, at(2)), []);
        // Another task: all is answered, and nobody was asked. The timer would fire at 20 ms.
        answer(&mut agent, at(2), 8, None, 0b1111);
        let mut fetched = self::agent();
        fetched.handle_server(at(0), JOB, entry(7, 0b0011, false));
        for later in 8..11 {
            fetched.handle_server(at(1), JOB, entry(later, 0b0001, false));
        }
        assert_eq!(reminders(&mut fetched, at(1)), [(7, 0b1111)]);
        answer(&mut fetched, at(2), 7, Some(0b0100), 0b1111);
        assert_eq!(asked(&mut fetched), []);
        fetched.handle_server(at(3), JOB, entry(7, 0b0111, true));
        assert_eq!(reminders(&mut fetched, at(3)), [(7, 0b1111)]);
    }

    #[test]
    fn entries_without_reminders_set_the_timeout() {
        let mut agent = agent();
        for sequence in 0..50 {
            agent.handle_server(at(10 * u64::from(sequence)), JOB, entry(sequence, 1, false));
            let closed = FromServer::Closed { sequence: Sequence(sequence) };
            agent.handle_server(
                at(10 * u64::from(sequence)) + Duration::from_micros(3),
                JOB,
                closed,
            );
        }
        let now = at(1000);
        agent.handle_server(now, JOB, entry(99, 1, false));
        assert_eq!(agent.poll_timeout(), Some(now + RttConfig::default().min));
        assert_eq!(agent.watched(), 1);
    }

    #[test]
    fn repairs_and_answers_of_workers_are_timed() {
        let mut agent = agent();
        agent.handle_server(at(0), JOB, entry(7, 0b0011, false));
        agent.handle_timeout(at(20));
        answer(&mut agent, at(22), 7, None, 0b1111);
        assert_eq!(asked(&mut agent), [2, 3]);
        // The queries are repeated. The answers are timed from the first.
        agent.handle_timeout(at(60));
        assert_eq!(asked(&mut agent), [2, 3]);
        let values = || Values { float: false, payload: Bytes::from(vec![0; 128]) };
        for (worker, time) in [(2, 70), (3, 122)] {
            let values = FromWorker::Values { sequence: Sequence(7), values: values() };
            agent.handle_worker(at(time), JOB, WorkerIndex::new(worker).unwrap(), values);
        }
        agent.handle_server(at(123), JOB, FromServer::Closed { sequence: Sequence(7) });
        // An entry without a round is no repair.
        agent.handle_server(at(123), JOB, entry(8, 0b0011, false));
        agent.handle_server(at(124), JOB, FromServer::Closed { sequence: Sequence(8) });
        let waits = |count, total, longest| {
            let [total, longest] = [total, longest].map(Duration::from_millis);
            Waits { count, total, longest }
        };
        let stats = agent.stats_of(JOB).unwrap();
        assert_eq!(stats.repairs, waits(1, 103, 103));
        assert_eq!(stats.answers, waits(2, 48 + 100, 100));
    }

    #[test]
    fn unknown_jobs_and_entries_are_dropped_and_counted() {
        let mut agent = agent();
        let worker = WorkerIndex::new(0).unwrap();
        let stranger = JobId::new(2).unwrap();
        let remind = FromWorker::Remind { sequence: Sequence(0) };
        agent.handle_worker(at(0), stranger, worker, remind.clone());
        agent.handle_server(at(0), stranger, entry(0, 1, true));
        agent.handle_worker(at(0), JOB, WorkerIndex::new(4).unwrap(), remind);
        assert_eq!((agent.rejected.other_job, agent.rejected.wrong_bitmap), (2, 1));
        // No entry is watched.
        answer(&mut agent, at(0), 5, Some(1), 0b0011);
        assert_eq!(agent.stats().next().unwrap().1.stale, 1);
        assert_eq!((agent.poll_message(), agent.poll_timeout()), (None, None));
    }

    #[test]
    fn workers_go_when_all_are_done() {
        let mut agent = agent();
        let finished = FromWorker::Finished { end: Sequence(3) };
        for worker in 0..4 {
            assert_eq!(agent.poll_message(), None);
            let worker = WorkerIndex::new(worker).unwrap();
            agent.handle_worker(at(0), JOB, worker, finished.clone());
            let message = ToServer::Finished { workers: WorkerSet::of(worker) };
            assert_eq!(agent.poll_message(), Some(ToPeer::Server { job: JOB, message }));
        }
        let mut dismissed = 0;
        while let Some(ToPeer::Worker { message: ToWorker::Dismissed, .. }) = agent.poll_message() {
            dismissed += 1;
        }
        assert_eq!(dismissed, 4);
    }
    #[test]
    fn entries_end_with_the_job() {
        let mut agent = agent();
        agent.handle_server(at(0), JOB, entry(2, 0b0001, false));
        let finished = FromWorker::Finished { end: Sequence(3) };
        for worker in 0..4 {
            agent.handle_worker(at(0), JOB, WorkerIndex::new(worker).unwrap(), finished.clone());
        }
        let over = |agent: &mut Agent| {
            let all = std::iter::from_fn(|| agent.poll_message());
            let over = all.filter_map(|message| match message {
                ToPeer::Server { job, message: ToServer::Over { sequence } } => {
                    Some((job, sequence))
                }
                _ => None,
            });
            over.collect::<Vec<_>>()
        };
        assert_eq!(over(&mut agent), [(JOB, Sequence(2))]);
        agent.handle_server(at(0), JOB, FromServer::Closed { sequence: Sequence(2) });
        // A copy that was still in flight.
        agent.handle_server(at(1), JOB, entry(1, 0b0100, true));
        assert_eq!(over(&mut agent), [(JOB, Sequence(1))]);
        assert_eq!((agent.watched(), reminders(&mut agent, at(1))), (0, vec![]));
    }
}
