//! The externs of v1model, and what those of TNA have in common with them.

use tributary_p4::ir::{
    Arg, Expr, ExprKind, ExternCall, ExternId, FieldId, FieldRole, HeaderRef, Place,
};

use crate::testgen::circuit::{
    Circuit, FALSE, Lit, TRUE, Word, constant, of_number, resize, to_bits,
};
use crate::testgen::machine::{ALWAYS, Machine, mix};
use crate::testgen::program::initial_cell;

/// Cells that a packet may have in common with earlier ones.
const MOST_CELLS: usize = 3;
/// Time between two packets of a test.
const PACKET_US: u64 = 10;
/// Bits of data up to which a hash is computed bit by bit. Hashes of more are constants.
const MOST_HASHED: usize = 4096;

impl Machine<'_> {
    pub(crate) fn call(&mut self, call: &ExternCall) {
        if self.is_tna {
            return self.tna_call(call);
        }
        let args = &call.args;
        let type_name = call.instance.map(|id| self.program.externs[id.index()].type_name.as_str());
        match (type_name, call.method.as_str()) {
            (Some("register"), "read") => self.read_register(call),
            (Some("register"), "write") => self.write_register(call),
            (Some("meter"), "execute_meter") => {
                if let (Some(id), Some((place, width))) = (call.instance, out(args, 1)) {
                    let colour = self.colour(id);
                    self.store(place, &resize(&colour, width, false));
                }
            }
            (Some("direct_meter"), "read") => {
                if let (Some(id), Some((place, width))) = (call.instance, out(args, 0)) {
                    let colour = self.colour(id);
                    self.store(place, &resize(&colour, width, false));
                }
            }
            (None, "mark_to_drop") => self.mark_to_drop(args),
            (None, "clone" | "clone3" | "clone_preserving_field_list") => {
                let session = self.pinned(args, 1) & 0x7fff;
                let kept = if call.method == "clone" { Vec::new() } else { self.kept(args, 2) };
                self.requests.clone = Some((session, kept));
            }
            (None, "resubmit" | "resubmit_preserving_field_list") => {
                self.requests.resubmit = Some(self.kept(args, 0));
            }
            (None, "recirculate" | "recirculate_preserving_field_list") => {
                self.requests.recirculate = Some(self.kept(args, 0));
            }
            (None, "truncate") => {
                let length = self.pinned(args, 0);
                let before = self.requests.truncate.unwrap_or(u64::MAX);
                self.requests.truncate = Some(length.min(before));
            }
            (None, "random") => {
                if let Some((place, width)) = out(args, 0) {
                    let value = self.unknown(width);
                    self.store(place, &value);
                }
            }
            (None, "hash") => self.hash(args),
            (None, "verify_checksum" | "verify_checksum_with_payload") => {
                self.verify_checksum(call);
            }
            (None, "update_checksum" | "update_checksum_with_payload") => {
                self.update_checksum(call);
            }
            (None, "assert" | "assume") => {
                let condition = self.input(args, 0)[0];
                if !self.fork(condition, [None, None], mix(0xa55e)) {
                    self.requests.failed = true;
                }
            }
            // Counters, digests and messages do not change the packet.
            _ => {}
        }
    }

    fn read_register(&mut self, call: &ExternCall) {
        let Some(id) = call.instance else { return };
        let args = &call.args;
        // One place for each scalar of the cell, then the index.
        let outs: Vec<(&Place, usize)> = (0..).map_while(|at| out(args, at)).collect();
        self.meet(args, outs.len());
        let index = self.pinned(args, outs.len());
        if index >= self.size(id) {
            return;
        }
        let width = outs.iter().map(|(_, width)| width).sum();
        let known = self.registers.get(&(id, index)).cloned();
        let cell = known.unwrap_or_else(|| self.first_cell(id, index, width));
        let mut rest = &cell[..];
        for (place, width) in outs {
            let Some((value, after)) = rest.split_at_checked(width) else { return };
            self.store(place, value);
            rest = after;
        }
    }

    fn write_register(&mut self, call: &ExternCall) {
        let Some(id) = call.instance else { return };
        let args = &call.args;
        self.meet(args, 0);
        let index = self.pinned(args, 0);
        let cell = match args.get(1) {
            Some(Arg::List(list)) => list.iter().flat_map(|e| self.expr(e)).collect(),
            _ => self.input(args, 1),
        };
        if index < self.size(id) {
            self.registers.insert((id, index), cell);
            self.trace.written.insert(id);
        }
    }

    /// What a cell holds at first: what the test writes, which may be an input, or zero.
    pub(crate) fn first_cell(&mut self, id: ExternId, index: u64, width: usize) -> Word {
        if let Some(known) = self.trace.inputs.cells.get(&(id, index)) {
            return known.clone();
        }
        let set = self.case.cells.get(&(id, index)).filter(|bits| bits.len() == width);
        let initial = initial_cell(&self.program.externs[id.index()], width);
        if set.is_none() && !self.presets {
            return constant(&initial);
        }
        let bits = set.cloned().unwrap_or(initial);
        let word: Word = bits.into_iter().map(|bit| self.trace.circuit.input(bit)).collect();
        self.trace.inputs.cells.insert((id, index), word.clone());
        word
    }

    /// The colour that a meter gives to all packets: that of the rates that the test sets, which may be an
    /// input, or green, which is zero.
    pub(crate) fn colour(&mut self, id: ExternId) -> Word {
        if let Some(known) = self.trace.inputs.colours.get(&id) {
            return known.clone();
        }
        let set = self.case.colours.get(&id);
        if set.is_none() && !self.presets {
            return vec![FALSE; 2];
        }
        let bits = set.cloned().unwrap_or_else(|| vec![false; 2]);
        let word: Word = bits.into_iter().map(|bit| self.trace.circuit.input(bit)).collect();
        self.trace.inputs.colours.insert(id, word.clone());
        let none = self.trace.circuit.and(word[0], word[1]);
        self.fork(none, [None, None], ALWAYS);
        word
    }

    fn mark_to_drop(&mut self, args: &[Arg]) {
        if let Some(Arg::Copy(fields)) = args.first() {
            for (name, field) in fields {
                match name.as_str() {
                    "egress_spec" => self.set(*field, &[TRUE; 9]),
                    "mcast_grp" => self.set(*field, &[FALSE; 16]),
                    _ => {}
                }
            }
        } else {
            self.set_intrinsic("egress_spec", &[TRUE; 9]);
            self.set_intrinsic("mcast_grp", &[FALSE; 16]);
        }
    }

    fn hash(&mut self, args: &[Arg]) {
        let Some((place, width)) = out(args, 0) else { return };
        let (base, data) = (self.input(args, 2), self.list(args, 3));
        let most = self.pinned(args, 4).max(1);
        let hash = self.digest(symbol(args, 1), &data);
        let hash = self.modulo(&hash, most);
        let base = resize(&base, 64, false);
        let sum = self.circuit().add(&resize(&hash, 64, false), &base, FALSE).0;
        self.store(place, &resize(&sum, width, false));
    }

    fn verify_checksum(&mut self, call: &ExternCall) {
        let args = &call.args;
        let condition = self.input(args, 0)[0];
        let data = self.summed(call);
        let present = match args.get(2) {
            Some(Arg::In(expr)) => self.presence(expr),
            _ => TRUE,
        };
        let given = self.input(args, 2);
        let computed = self.digest(symbol(args, 3), &data);
        let c = &mut self.trace.circuit;
        let equal = c.equal(&resize(&given, 64, false), &resize(&computed, 64, false));
        let checked = c.and(condition, present);
        let wrong = c.and(checked, !equal);
        if let Some(field) = self.program.intrinsic_field("checksum_error") {
            let before = self.field(field)[0];
            let error = self.circuit().or(before, wrong);
            self.set(field, &[error]);
        }
    }

    fn update_checksum(&mut self, call: &ExternCall) {
        let args = &call.args;
        let condition = self.input(args, 0)[0];
        let data = self.summed(call);
        let Some((place, width)) = out(args, 2) else { return };
        let computed = resize(&self.digest(symbol(args, 3), &data), width, false);
        let old = self.load(place);
        let new = self.circuit().mux(condition, &computed, &old);
        self.store(place, &new);
    }

    /// The data of a checksum, with the payload if the call asks for it.
    fn summed(&mut self, call: &ExternCall) -> Word {
        let mut data = self.list(&call.args, 1);
        if call.method.ends_with("payload") {
            data.extend_from_slice(&self.payload);
        }
        data
    }

    pub(crate) fn size(&self, id: tributary_p4::ir::ExternId) -> u64 {
        match self.program.externs[id.index()].args.first() {
            Some(tributary_p4::ir::CtorArg::Int(size)) => u64::try_from(*size).unwrap_or(u64::MAX),
            _ => 0,
        }
    }

    pub(crate) fn input(&mut self, args: &[Arg], at: usize) -> Word {
        match args.get(at) {
            Some(Arg::In(expr)) => self.expr(expr),
            _ => vec![FALSE],
        }
    }

    /// Notes that this packet may access a cell that an earlier one wrote.
    pub(crate) fn meet(&mut self, args: &[Arg], at: usize) {
        let index = self.input(args, at);
        if !self.accessed.insert(index.clone()) {
            return;
        }
        for cell in self.written_cells.clone().into_iter().take(MOST_CELLS) {
            let wanted = self.circuit().equal(&index, &of_number(cell, index.len()));
            if !wanted.is_constant() && !self.trace.circuit.value(wanted) {
                self.branch(wanted, None, mix(cell ^ 0xce11), true);
            }
        }
    }

    pub(crate) fn pinned(&mut self, args: &[Arg], at: usize) -> u64 {
        let word = self.input(args, at);
        self.pin_number(&word, mix(at as u64 ^ 0x91b))
    }

    /// The time in microseconds times `factor`, about as the packet tests' clock has it.
    pub(crate) fn time(&mut self, width: usize, factor: u64) -> Word {
        let now = self.now_us + PACKET_US * self.packet as u64;
        self.unknown_as(now.wrapping_mul(factor), width)
    }

    /// Bits that the test does not determine.
    pub(crate) fn unknown(&mut self, width: usize) -> Word {
        self.unknown_as(0, width)
    }

    fn unknown_as(&mut self, value: u64, width: usize) -> Word {
        let bits = to_bits(value, width).into_iter();
        let word: Word = bits.map(|bit| self.trace.circuit.input(bit)).collect();
        self.trace.unknown.extend(&word);
        word
    }

    pub(crate) fn set_intrinsic(&mut self, name: &str, value: &[Lit]) {
        if let Some(field) = self.program.intrinsic_field(name) {
            self.set(field, value);
        }
    }

    /// The metadata that a second pass keeps.
    fn kept(&mut self, args: &[Arg], at: usize) -> Vec<FieldId> {
        match args.get(at) {
            Some(Arg::In(_)) => {
                let number = self.pinned(args, at);
                let lists = &self.program.field_lists;
                let list = lists.iter().find(|(known, _)| u64::from(*known) == number);
                list.map_or(Vec::new(), |(_, fields)| fields.clone())
            }
            Some(Arg::List(list)) => {
                let field = |expr: &Expr| match expr.kind {
                    ExprKind::Field(field) => Some(field),
                    _ => None,
                };
                list.iter().filter_map(field).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The validity of the header that a value belongs to.
    fn presence(&self, expr: &Expr) -> Lit {
        match &expr.kind {
            ExprKind::Field(field) => match self.program.fields[field.index()].role {
                FieldRole::Header(header) => {
                    self.field(self.program.headers[header.index()].valid)[0]
                }
                _ => TRUE,
            },
            ExprKind::Cast(inner) => self.presence(inner),
            _ => TRUE,
        }
    }

    /// The bits of a list in the order of the wire, without fields of invalid headers, in whole
    /// bytes.
    pub(crate) fn list(&mut self, args: &[Arg], at: usize) -> Word {
        let exprs: Vec<Expr> = match args.get(at) {
            Some(Arg::Header(HeaderRef::Fixed(header))) => {
                let fields = self.program.headers[header.index()].fields.iter();
                let field = |&field: &FieldId| {
                    let ty = self.program.fields[field.index()].ty;
                    Expr { ty, kind: ExprKind::Field(field) }
                };
                fields.map(field).collect()
            }
            Some(Arg::List(list)) => list.clone(),
            Some(Arg::In(expr)) => vec![expr.clone()],
            _ => Vec::new(),
        };
        let mut bits = Word::new();
        for expr in &exprs {
            let present = self.presence(expr);
            if !self.fork(present, [None, None], 0x115e) {
                continue;
            }
            let mut word = self.expr(expr);
            if let ExprKind::Field(field) = expr.kind
                && let Some(length) = self.varbit_length(field)
            {
                let length = self.field(length).clone();
                let length = self.pin_number(&length, 0x1e58);
                word.truncate(usize::try_from(length).unwrap_or(word.len()));
            }
            bits.extend(word.iter().rev());
        }
        bits.resize(bits.len().next_multiple_of(8), FALSE);
        bits
    }

    fn varbit_length(&self, field: FieldId) -> Option<FieldId> {
        let FieldRole::Header(header) = self.program.fields[field.index()].role else {
            return None;
        };
        let header = &self.program.headers[header.index()];
        header.varbit.filter(|(at, _)| header.fields[*at] == field).map(|(_, length)| length)
    }

    /// The hash of bits in the order of the wire.
    fn digest(&mut self, algorithm: &str, data: &[Lit]) -> Word {
        let fixed: Word;
        let data = if data.len() > MOST_HASHED {
            fixed = data.iter().map(|&bit| self.trace.circuit.value(bit).into()).collect();
            &fixed
        } else {
            data
        };
        let c = &mut self.trace.circuit;
        match algorithm {
            "crc16" | "crc16_custom" => crc(c, data, 0xa001, &[FALSE; 16]),
            "crc32" | "crc32_custom" => {
                crc(c, data, 0xedb8_8320, &[TRUE; 32]).iter().map(|&bit| !bit).collect()
            }
            "csum16" => {
                let mut sum = vec![FALSE; 32];
                for word in data.chunks(16) {
                    sum = c.add(&sum, &big_endian(word, 32), FALSE).0;
                }
                for _ in 0..2 {
                    let (low, high) =
                        (resize(&sum[..16], 32, false), resize(&sum[16..], 32, false));
                    sum = c.add(&low, &high, FALSE).0;
                }
                sum[..16].iter().map(|&bit| !bit).collect()
            }
            "xor16" => data.chunks(16).fold(vec![FALSE; 16], |sum, word| {
                let word = big_endian(word, 16);
                c.zip(&sum, &word, Circuit::xor)
            }),
            "identity" => data[..data.len().min(64)].iter().rev().copied().collect(),
            // Not to be foreseen on another switch.
            _ => self.unknown(64),
        }
    }

    fn modulo(&mut self, hash: &[Lit], most: u64) -> Word {
        let width = hash.len();
        if width < 64 && most >> width != 0 {
            return hash.to_vec();
        }
        if most.is_power_of_two() {
            return resize(&hash[..most.trailing_zeros() as usize], width, false);
        }
        self.circuit().divide(hash, &of_number(most, width)).1
    }
}

pub(crate) fn out(args: &[Arg], at: usize) -> Option<(&Place, usize)> {
    match args.get(at) {
        Some(Arg::Out(place, ty)) => Some((place, ty.width as usize)),
        _ => None,
    }
}

/// The member of an enum.
pub(crate) fn symbol(args: &[Arg], at: usize) -> &str {
    match args.get(at) {
        Some(Arg::Symbol(_, member)) => member,
        _ => "",
    }
}

/// At most 16 bits of the wire as a number; missing bits are zero.
fn big_endian(bits: &[Lit], width: usize) -> Word {
    let mut word = bits.to_vec();
    word.resize(16, FALSE);
    word.reverse();
    word.resize(width, FALSE);
    word
}

/// A reflected cyclic redundancy check.
fn crc(c: &mut Circuit, data: &[Lit], polynomial: u64, initial: &[Lit]) -> Word {
    let mut crc = initial.to_vec();
    for byte in data.chunks(8) {
        for &bit in byte.iter().rev() {
            let feedback = c.xor(crc[0], bit);
            crc.rotate_left(1);
            *crc.last_mut().expect("a check has bits") = FALSE;
            for (at, bit) in crc.iter_mut().enumerate() {
                if polynomial >> at & 1 == 1 {
                    *bit = c.xor(*bit, feedback);
                }
            }
        }
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testgen::circuit::number;

    fn wire(bytes: &[u8]) -> Word {
        bytes
            .iter()
            .flat_map(|byte| (0..8).rev().map(move |at| (byte >> at & 1 == 1).into()))
            .collect()
    }

    #[test]
    fn checks_have_their_known_values() {
        let mut circuit = Circuit::new();
        let data = wire(b"123456789");
        let crc16 = crc(&mut circuit, &data, 0xa001, &[FALSE; 16]);
        assert_eq!(number(&circuit.values(&crc16)), Some(0xbb3d));
        let crc32 = crc(&mut circuit, &data, 0xedb8_8320, &[TRUE; 32]);
        assert_eq!(number(&circuit.values(&crc32)), Some(0xcbf4_3926 ^ 0xffff_ffff));
    }
}
