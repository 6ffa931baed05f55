//! The path of packets through the Tofino Native Architecture: parser, control and deparser of ingress, the
//! queue, and parser, control and deparser of egress, with the intrinsic headers that the switch
//! prepends.

use std::collections::{BTreeSet, VecDeque};

use tributary_p4::ir::visit::{self, Visit};
use tributary_p4::ir::{Block, Expr, ExprKind, FieldId, Program};

use crate::testgen::case::{COPY_RID, Case, DROP_PORT};
use crate::testgen::circuit::{FALSE, Lit, Word, of_number, resize};
use crate::testgen::machine::{Machine, Requests, mix};
use crate::testgen::passes::MOST_PASSES;

/// The port whose packets enter ingress again.
const RECIRCULATION_PORT: u64 = tributary_dataplane::RECIRCULATION_PORT as u64;

/// What waits for a pass.
enum Pass {
    /// A packet that arrives, or that comes once more with eight bytes of data.
    Ingress {
        port: Word,
        frame: Word,
        resubmitted: Option<Word>,
        is_original: bool,
    },
    Egress {
        port: Word,
        rid: u64,
        frame: Word,
    },
}

impl Machine<'_> {
    pub(crate) fn tna_packet(&mut self, port: Word, frame: Word) {
        let mut waiting = VecDeque::new();
        waiting.push_back(Pass::Ingress { port, frame, resubmitted: None, is_original: true });
        let mut passes = 0;
        while let Some(pass) = waiting.pop_front() {
            passes += 1;
            if passes > MOST_PASSES || self.trace.endless {
                self.trace.endless = true;
                return;
            }
            match pass {
                Pass::Ingress { port, frame, resubmitted, is_original } => {
                    self.is_original = is_original;
                    self.tna_ingress(&port, frame, resubmitted, &mut waiting);
                }
                Pass::Egress { port, rid, frame } => {
                    self.is_original = false;
                    self.tna_egress(port, rid, frame, &mut waiting);
                }
            }
        }
    }

    /// Forgets everything about the pass before.
    fn tna_begin(&mut self, number: u64) {
        self.context = mix(self.history ^ number << 32);
        self.requests = Requests::default();
        self.sums.clear();
        self.reset();
    }

    /// Runs a parser on the bits that the switch prepends, and the frame. Returns its error.
    fn tna_parse(&mut self, role: &str, prefix: Word, frame: &[Lit]) -> Option<Word> {
        let program = self.program;
        self.prefix = prefix.len();
        self.frame = prefix;
        self.frame.extend_from_slice(frame);
        self.at = 0;
        let mut error = None;
        if let Some(Block::Parser(id)) = program.block(role) {
            error = self.parse(&program.parsers[id.index()]);
        }
        self.prefix = 0;
        error
    }

    fn tna_ingress(
        &mut self,
        port: &Word,
        frame: Word,
        resubmitted: Option<Word>,
        waiting: &mut VecDeque<Pass>,
    ) {
        self.tna_begin(u64::from(resubmitted.is_some()) + 2 * u64::from(!self.is_original));
        let time = self.time(48, 1000);
        let mut prefix = vec![Lit::from(resubmitted.is_some())];
        prefix.extend([FALSE; 6]);
        prefix.extend(port.iter().rev());
        prefix.extend(time.iter().rev());
        prefix.extend(resubmitted.unwrap_or_else(|| vec![FALSE; 64]));
        self.set_intrinsic("ig_prsr_md.global_tstamp", &time);
        self.set_intrinsic("ig_tm_md.ucast_egress_port", &of_number(DROP_PORT, 9));
        if let Some(error) = self.tna_parse("ingress_parser", prefix, &frame) {
            let Some(field) = self.program.intrinsic_field("ig_prsr_md.parser_err") else { return };
            if !reads(self.program, field) {
                return;
            }
            let flags = self.error_flags(&error);
            self.set(field, &flags);
        }
        self.control("ingress");
        self.out.clear();
        self.control("ingress_deparser");
        if self.requests.failed {
            return;
        }
        let mut payload = std::mem::take(&mut self.out);
        payload.extend_from_slice(&self.frame[self.at..]);
        let control = self.intrinsic("ig_dprsr_md.drop_ctl", 3);
        self.tna_mirror(&control, &frame, waiting);
        let drop = self.fork(control[0], [None, None], 0xd20e);
        if let Some(data) = self.requests.resubmitted.take().filter(|_| !drop) {
            let port = port.clone();
            let resubmitted = Some(data);
            let is_original = self.is_original;
            waiting.push_front(Pass::Ingress { port, frame, resubmitted, is_original });
            return;
        }
        if !drop {
            self.tna_send(&payload, waiting);
        }
    }

    /// Queues a packet for its port and the members of its groups.
    fn tna_send(&mut self, payload: &Word, waiting: &mut VecDeque<Pass>) {
        let bypass = self.intrinsic("ig_tm_md.bypass_egress", 1)[0];
        let bypass = self.fork(bypass, [None, None], 0xb1a5);
        let mut copies = Vec::new();
        for (name, site) in [("ig_tm_md.mcast_grp_a", 0x3ca7), ("ig_tm_md.mcast_grp_b", 0x3ca9)] {
            let group = self.intrinsic(name, 16);
            let any = self.trace.circuit.any(&group);
            if self.fork(any, [None, None], site) {
                let group = self.pin_number(&group, site + 1);
                self.trace.groups.insert(group);
                let ports = Case::group_ports().into_iter();
                copies.extend(ports.map(|port| (of_number(port.into(), 9), COPY_RID)));
            }
        }
        let port = self.intrinsic("ig_tm_md.ucast_egress_port", 9);
        let none = self.trace.circuit.all(&port);
        if !self.fork(none, [None, None], 0xd20f) {
            copies.push((port, 0));
        }
        for (port, rid) in copies {
            if bypass {
                self.tna_leave(port, payload.clone(), waiting);
            } else {
                waiting.push_back(Pass::Egress { port, rid, frame: payload.clone() });
            }
        }
    }

    /// Queues the copy that a deparser requested for a mirror session.
    fn tna_mirror(&mut self, control: &[Lit], frame: &[Lit], waiting: &mut VecDeque<Pass>) {
        let Some((session, mut copy)) = self.requests.mirror.take() else { return };
        if self.fork(control.get(2).copied().unwrap_or(FALSE), [None, None], 0xd210) {
            return;
        }
        self.trace.sessions.insert(session);
        copy.extend_from_slice(frame);
        let port = of_number(Case::session_port().into(), 9);
        waiting.push_back(Pass::Egress { port, rid: 0, frame: copy });
    }

    fn tna_egress(&mut self, port: Word, rid: u64, frame: Word, waiting: &mut VecDeque<Pass>) {
        self.tna_begin(4 + rid);
        let time = self.time(48, 1000);
        let [enqueued, dequeued, waited] = [19, 19, 18].map(|width| self.unknown(width));
        let mut prefix = Word::new();
        let mut put = |word: &[Lit]| prefix.extend(word.iter().rev());
        put(&[FALSE; 7]);
        put(&port);
        put(&[FALSE; 5]);
        put(&enqueued);
        put(&[FALSE; 22]);
        put(&time[..18]);
        put(&[FALSE; 5]);
        put(&dequeued);
        put(&[FALSE; 30]);
        put(&waited);
        put(&of_number(rid, 16));
        put(&[FALSE; 32]);
        put(&of_number((frame.len() / 8).min(0xffff) as u64, 16));
        self.set_intrinsic("eg_prsr_md.global_tstamp", &time);
        if let Some(error) = self.tna_parse("egress_parser", prefix, &frame) {
            let flags = self.error_flags(&error);
            self.set_intrinsic("eg_prsr_md.parser_err", &flags);
        }
        self.control("egress");
        self.out.clear();
        self.control("egress_deparser");
        if self.requests.failed {
            return;
        }
        let mut left = std::mem::take(&mut self.out);
        left.extend_from_slice(&self.frame[self.at..]);
        let control = self.intrinsic("eg_dprsr_md.drop_ctl", 3);
        self.tna_mirror(&control, &left, waiting);
        if !self.fork(control[0], [None, None], 0xd211) {
            self.tna_leave(port, left, waiting);
        }
    }

    /// A packet leaves, or comes back by the recirculation port.
    fn tna_leave(&mut self, port: Word, frame: Word, waiting: &mut VecDeque<Pass>) {
        let number = self.pin_number(&port, mix(0x9027));
        if number == RECIRCULATION_PORT {
            let pass = Pass::Ingress { port, frame, resubmitted: None, is_original: false };
            waiting.push_back(pass);
        } else {
            self.trace.outputs[self.packet].push((number, frame));
        }
    }

    /// The flags of `parser_err` for an error.
    fn error_flags(&self, error: &[Lit]) -> Word {
        let number = crate::testgen::circuit::number(&self.trace.circuit.values(error));
        let is = |name: &str| number.is_some() && self.program.error_code(name) == number;
        of_number(
            if is("PacketTooShort") {
                2
            } else if is("StackOutOfBounds") {
                4
            } else {
                1
            },
            16,
        )
    }

    /// The sum of a checksum, with the words of a list added, in ones' complement.
    pub(crate) fn ones_sum(&mut self, sum: &[Lit], data: &[Lit], subtract: bool) -> Word {
        let mut sum = resize(sum, 16, false);
        for chunk in data.chunks(16) {
            let mut word = chunk.to_vec();
            word.resize(16, FALSE);
            word.reverse();
            if subtract {
                word.iter_mut().for_each(|bit| *bit = !*bit);
            }
            let circuit = &mut self.trace.circuit;
            let (added, carry) = circuit.add(&sum, &word, FALSE);
            sum = circuit.add(&added, &[FALSE; 16], carry).0;
        }
        sum
    }
}

/// Whether the program reads a field.
fn reads(program: &Program, field: FieldId) -> bool {
    struct Reads(FieldId, bool);
    impl Visit<'_> for Reads {
        fn visit_expr(&mut self, expr: &Expr) {
            self.1 |= matches!(expr.kind, ExprKind::Field(field) if field == self.0);
            visit::walk_expr(self, expr);
        }
    }
    let mut all = Reads(field, false);
    visit::walk_program(&mut all, program);
    all.1
}

/// Ends of headers, without the bits that the switch prepends.
pub(crate) fn note_end(ends: &mut BTreeSet<usize>, at: usize, prefix: usize) {
    if let Some(bits) = at.checked_sub(prefix).filter(|&bits| bits > 0) {
        ends.insert(bits / 8);
    }
}
