//! The externs of TNA.

use tributary_p4::ir::{Arg, CtorArg, Expr, ExprKind, ExternCall, ExternId, FieldId, HeaderRef};

use crate::testgen::circuit::{Circuit, FALSE, Lit, Word, resize};
use crate::testgen::externs::out;
use crate::testgen::machine::{Flow, Machine};

/// The parameters of a cyclic redundancy check: width, coefficients, whether it is reflected, and the
/// value of all bits at the start and of the mask at the end.
type Check = (usize, u64, bool, bool);

/// Checks by name.
const CHECKS: [(&str, Check); 4] = [
    ("CRC8", (8, 0x07, false, false)),
    ("CRC16", (16, 0x8005, true, false)),
    ("CRC32", (32, 0x04c1_1db7, true, true)),
    ("CRC64", (64, 0x42f0_e1eb_a9ea_3693, false, false)),
];

impl Machine<'_> {
    pub(crate) fn tna_call(&mut self, call: &ExternCall) {
        let args = &call.args;
        let Some(id) = call.instance else { return self.bound(call) };
        match (self.program.externs[id.index()].type_name.as_str(), call.method.as_str()) {
            ("RegisterAction", "execute") => self.execute(id, args),
            ("Meter", "execute") | ("DirectMeter", "execute") => {
                // Red is three.
                let colour = self.colour(id);
                let any = self.trace.circuit.or(colour[0], colour[1]);
                self.result(args, &[any, colour[1]]);
            }
            ("Random", "get") => {
                if let Some((_, width)) = args.len().checked_sub(1).and_then(|at| out(args, at)) {
                    let value = self.unknown(width);
                    self.result(args, &value);
                }
            }
            ("Hash", "get") => self.tna_hash(id, args),
            ("Checksum", method) => self.checksum(id, method, args),
            ("Mirror", "emit") => {
                let session = self.pinned(args, 0);
                let data = self.plain_list(args, 1);
                self.requests.mirror = Some((session, data));
            }
            ("Resubmit", "emit") => {
                let mut data = self.plain_list(args, 0);
                data.resize(64, FALSE);
                self.requests.resubmitted = Some(data);
            }
            // Counters and digests do not change the packet. The rest is zero here.
            _ => self.result(args, &[]),
        }
    }

    /// Stores a result in the last argument.
    fn result(&mut self, args: &[Arg], value: &[Lit]) {
        if let Some((place, width)) = args.len().checked_sub(1).and_then(|at| out(args, at)) {
            self.store(place, &resize(value, width, false));
        }
    }

    /// The functions `min` and `max`.
    fn bound(&mut self, call: &ExternCall) {
        let signed = matches!(call.args.first(), Some(Arg::In(value)) if value.ty.signed);
        let (a, b) = (self.input(&call.args, 0), self.input(&call.args, 1));
        let circuit = &mut self.trace.circuit;
        let less = circuit.less(&a, &b, signed);
        let value = match call.method.as_str() {
            "min" => circuit.mux(less, &a, &b),
            "max" => circuit.mux(less, &b, &a),
            _ => return,
        };
        self.result(&call.args, &value);
    }

    /// A stateful action on one cell of its register.
    fn execute(&mut self, id: ExternId, args: &[Arg]) {
        let program = self.program;
        let Some(action) = program.stateful_action(id) else { return };
        let register = action.register;
        self.meet(args, 0);
        let index = self.pinned(args, 0);
        let widths: Vec<usize> = action.value.iter().map(|&field| self.width(field)).collect();
        let width = widths.iter().sum();
        let inside = index < self.size(register);
        let cell = match self.registers.get(&(register, index)) {
            Some(known) => known.clone(),
            None if inside => self.first_cell(register, index, width),
            None => vec![FALSE; width],
        };
        let mut rest = &cell[..];
        for (&field, &width) in action.value.iter().zip(&widths) {
            let (value, after) = rest.split_at(width.min(rest.len()));
            self.set(field, value);
            rest = after;
        }
        if let Some(result) = action.result {
            self.zero(result);
        }
        let flow = self.statements(&action.body);
        debug_assert!(matches!(flow, Flow::Next | Flow::Return | Flow::Exit));
        if inside {
            let cell: Word =
                action.value.iter().flat_map(|&field| self.field(field).clone()).collect();
            self.registers.insert((register, index), cell);
            self.trace.written.insert(register);
        }
        if args.len() > 1 {
            let value = action.result.map_or(Word::new(), |field| self.field(field).clone());
            self.result(args, &value);
        }
    }

    fn tna_hash(&mut self, id: ExternId, args: &[Arg]) {
        let mut data = self.plain_list(args, 0);
        let missing = data.len().next_multiple_of(8) - data.len();
        data.splice(..0, vec![FALSE; missing]);
        let declared = &self.program.externs[id.index()];
        let check = match declared.args.first() {
            Some(CtorArg::Symbol(_, name)) => {
                CHECKS.iter().find(|(known, _)| known == name).map(|(_, check)| *check)
            }
            _ => None,
        };
        let is_identity =
            matches!(declared.args.first(), Some(CtorArg::Symbol(_, n)) if n == "IDENTITY");
        let value = match check {
            Some(check) => tna_crc(&mut self.trace.circuit, &data, check),
            None if is_identity => data.iter().rev().copied().collect(),
            // Not to be foreseen.
            None => self.unknown(64),
        };
        self.result(args, &value);
    }

    fn checksum(&mut self, id: ExternId, method: &str, args: &[Arg]) {
        let sum = self.sums.get(&id).cloned().unwrap_or_else(|| vec![FALSE; 16]);
        match method {
            "add" | "subtract" => {
                let data = self.list(args, 0);
                let sum = self.ones_sum(&sum, &data, method == "subtract");
                self.sums.insert(id, sum);
            }
            "get" => self.result(args, &sum),
            // The result is whether the checksum is wrong.
            "verify" => {
                let right = self.trace.circuit.all(&sum);
                self.result(args, &[!right]);
            }
            "update" => {
                let data = self.list(args, 0);
                let sum = self.ones_sum(&[FALSE; 16], &data, false);
                let value: Word = sum.iter().map(|&bit| !bit).collect();
                self.result(args, &value);
            }
            "subtract_all_and_deposit" => {
                if let Some((place, _)) = out(args, 0) {
                    self.deposits.push((id, self.at, place.clone()));
                }
            }
            _ => {}
        }
    }

    /// Leaves the sums behind that the parser was asked for, when it accepts the packet.
    pub(crate) fn deposit(&mut self) {
        for (id, since, place) in std::mem::take(&mut self.deposits) {
            let sum = self.sums.get(&id).cloned().unwrap_or_else(|| vec![FALSE; 16]);
            let rest = self.frame[since..].to_vec();
            let sum = self.ones_sum(&sum, &rest, true);
            self.store(&place, &sum);
        }
    }

    /// The bits of a list in the order of the wire, also of invalid headers.
    fn plain_list(&mut self, args: &[Arg], at: usize) -> Word {
        let exprs: Vec<Expr> = match args.get(at) {
            Some(Arg::Header(HeaderRef::Fixed(header))) => {
                let field = |&field: &FieldId| {
                    let ty = self.program.fields[field.index()].ty;
                    Expr { ty, kind: ExprKind::Field(field) }
                };
                self.program.headers[header.index()].fields.iter().map(field).collect()
            }
            Some(Arg::List(list)) => list.clone(),
            Some(Arg::In(expr)) => vec![expr.clone()],
            _ => Vec::new(),
        };
        exprs.iter().flat_map(|expr| self.expr(expr).into_iter().rev()).collect()
    }
}

/// A check of bits in the order of the wire, whole bytes.
fn tna_crc(c: &mut Circuit, data: &[Lit], (width, coefficients, reversed, ones): Check) -> Word {
    // The highest power is the first bit of the register.
    let mut register: Word = vec![Lit::from(ones); width];
    for byte in data.chunks(8) {
        let bits: Vec<Lit> =
            if reversed { byte.iter().rev().copied().collect() } else { byte.to_vec() };
        for bit in bits {
            let feedback = c.xor(register[0], bit);
            register.rotate_left(1);
            register[width - 1] = FALSE;
            for (at, bit) in register.iter_mut().enumerate() {
                if coefficients >> (width - 1 - at) & 1 == 1 {
                    *bit = c.xor(*bit, feedback);
                }
            }
        }
    }
    if ones {
        register.iter_mut().for_each(|bit| *bit = !*bit);
    }
    if !reversed {
        register.reverse();
    }
    register
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testgen::circuit::number;

    #[test]
    fn checks_have_their_known_values() {
        let wire: Word = b"123456789"
            .iter()
            .flat_map(|byte| (0..8).rev().map(move |at| Lit::from(byte >> at & 1 == 1)))
            .collect();
        let known = [0xf4, 0xbb3d, 0xcbf4_3926, 0x6c40_df5f_0b49_7347];
        for ((name, check), value) in CHECKS.into_iter().zip(known) {
            let mut circuit = Circuit::new();
            let word = tna_crc(&mut circuit, &wire, check);
            assert_eq!(number(&circuit.values(&word)), Some(value), "{name}");
        }
    }
}
