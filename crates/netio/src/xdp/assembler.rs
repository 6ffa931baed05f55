//! A small assembler for eBPF.
//!
//! It supports the instructions that the programs here use, and forward labels. The kernel verifies
//! the programs when they are loaded: none reads beyond a frame.

/// One instruction, as in the kernel's `struct bpf_insn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// A register. Calls return in `R0`, take their arguments in `R1` to `R5` and overwrite these; a
/// program starts with its context in `R1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
}

/// Number of bytes that a load reads, in native byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    Byte,
    Half,
    Word,
}

/// The condition of a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// The lower 32 bits equal this value.
    Equal(i32),
    /// The lower 32 bits differ from this value.
    NotEqual(i32),
    /// At least one of these bits is set in the lower 32 bits.
    AnyBit(i32),
    /// The 64 bits are greater than another register's, as unsigned numbers.
    Above(Register),
}

/// A kernel helper function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Helper {
    /// `bpf_redirect_map(map, key, action)`: the action that passes the frame to the map's entry,
    /// or `action` if there is none.
    RedirectMap = 51,
}

/// A jump target. It must be after all jumps to it: there are no loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label(usize);

// Operation codes: class | size or operation | mode or source.
const LOAD: u8 = 0x61;
const LOAD_64_BIT_IMMEDIATE: u8 = 0x18;
const MOVE_IMMEDIATE: u8 = 0xb7;
const MOVE_REGISTER: u8 = 0xbf;
const ADD_IMMEDIATE: u8 = 0x07;
const JUMP_IF_EQUAL_32: u8 = 0x16;
const JUMP_IF_NOT_EQUAL_32: u8 = 0x56;
const JUMP_IF_ANY_BIT_32: u8 = 0x46;
const JUMP_IF_ABOVE_REGISTER: u8 = 0x2d;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// In the source register of a 64-bit immediate: the immediate is a map's descriptor.
const IS_MAP: u8 = 1;

/// A program under construction.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    program: Vec<Instruction>,
    /// Position of each label, once known.
    labels: Vec<Option<usize>>,
    /// Jumps with their labels.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Creates a label for jumps, to be [placed](Self::place) later.
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places `label` at the next instruction.
    pub(super) fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.program.len());
    }

    /// `to = bytes at (base + offset)`.
    pub(super) fn load(&mut self, width: Width, to: Register, base: Register, offset: i16) {
        let size = match width {
            Width::Word => 0x00,
            Width::Half => 0x08,
            Width::Byte => 0x10,
        };
        self.push(LOAD | size, to as u8, base as u8, offset, 0);
    }

    /// `to = from`.
    pub(super) fn copy(&mut self, to: Register, from: Register) {
        self.push(MOVE_REGISTER, to as u8, from as u8, 0, 0);
    }

    /// `to = value`.
    pub(super) fn set(&mut self, to: Register, value: i32) {
        self.push(MOVE_IMMEDIATE, to as u8, 0, 0, value);
    }

    /// `to += value`.
    pub(super) fn add(&mut self, to: Register, value: i32) {
        self.push(ADD_IMMEDIATE, to as u8, 0, 0, value);
    }

    /// `to = map`, given by its descriptor in this process.
    pub(super) fn set_map(&mut self, to: Register, descriptor: i32) {
        self.push(LOAD_64_BIT_IMMEDIATE, to as u8, IS_MAP, 0, descriptor);
        // The upper half takes a second slot.
        self.push(0, 0, 0, 0, 0);
    }

    /// Jumps to `label` if the condition on `register` holds.
    pub(super) fn jump_if(&mut self, register: Register, when: When, label: Label) {
        let (code, other, immediate) = match when {
            When::Equal(value) => (JUMP_IF_EQUAL_32, 0, value),
            When::NotEqual(value) => (JUMP_IF_NOT_EQUAL_32, 0, value),
            When::AnyBit(bits) => (JUMP_IF_ANY_BIT_32, 0, bits),
            When::Above(other) => (JUMP_IF_ABOVE_REGISTER, other as u8, 0),
        };
        self.jumps.push((self.program.len(), label));
        self.push(code, register as u8, other, 0, immediate);
    }

    /// `R0 = helper(R1, …)`.
    pub(super) fn call(&mut self, helper: Helper) {
        self.push(CALL, 0, 0, 0, helper as i32);
    }

    /// Ends the program with `R0` as its result.
    pub(super) fn exit(&mut self) {
        self.push(EXIT, 0, 0, 0, 0);
    }

    /// Returns the program with the distances of all jumps filled in.
    ///
    /// # Panics
    ///
    /// If a label was not placed, or not after a jump to it.
    pub(super) fn finish(mut self) -> Vec<Instruction> {
        for (from, label) in self.jumps {
            let to = self.labels[label.0].expect("every label is placed");
            let distance = to.checked_sub(from + 1).expect("jumps go forward");
            self.program[from].offset = i16::try_from(distance).expect("programs are short");
        }
        self.program
    }

    fn push(&mut self, code: u8, to: u8, from: u8, offset: i16, immediate: i32) {
        let registers =
            if cfg!(target_endian = "little") { to | from << 4 } else { to << 4 | from };
        self.program.push(Instruction { code, registers, offset, immediate });
    }
}

#[cfg(test)]
mod tests {
    use super::Register::*;
    use super::*;

    /// Encodings from the kernel's documentation of the instruction set, on a little-endian
    /// machine.
    #[test]
    #[cfg(target_endian = "little")]
    fn instructions_are_the_kernels() {
        let bytes = |instruction: &Instruction| {
            let Instruction { code, registers, offset, immediate } = instruction;
            let mut bytes = vec![*code, *registers];
            bytes.extend(offset.to_le_bytes());
            bytes.extend(immediate.to_le_bytes());
            u64::from_be_bytes(bytes.try_into().unwrap())
        };
        let mut assembler = Assembler::new();
        let end = assembler.label();
        assembler.load(Width::Word, R2, R1, 4);
        assembler.load(Width::Half, R5, R2, 12);
        assembler.load(Width::Byte, R5, R2, 23);
        assembler.copy(R6, R1);
        assembler.add(R4, 42);
        assembler.jump_if(R4, When::Above(R3), end);
        assembler.jump_if(R5, When::NotEqual(8), end);
        assembler.jump_if(R5, When::Equal(-1), end);
        assembler.jump_if(R5, When::AnyBit(1), end);
        assembler.set_map(R1, 7);
        assembler.call(Helper::RedirectMap);
        assembler.place(end);
        assembler.set(R0, 2);
        assembler.exit();
        let program: Vec<u64> = assembler.finish().iter().map(bytes).collect();
        assert_eq!(
            program,
            [
                0x6112_0400_0000_0000,
                0x6925_0c00_0000_0000,
                0x7125_1700_0000_0000,
                0xbf16_0000_0000_0000,
                0x0704_0000_2a00_0000,
                0x2d34_0600_0000_0000,
                0x5605_0500_0800_0000,
                0x1605_0400_ffff_ffff,
                0x4605_0300_0100_0000,
                0x1811_0000_0700_0000,
                0,
                0x8500_0000_3300_0000,
                0xb700_0000_0200_0000,
                0x9500_0000_0000_0000,
            ]
        );
    }

    #[test]
    #[should_panic(expected = "every label is placed")]
    fn an_unplaced_label_is_detected() {
        let mut assembler = Assembler::new();
        let nowhere = assembler.label();
        assembler.jump_if(R0, When::AnyBit(1), nowhere);
        assembler.finish();
    }

    #[test]
    #[should_panic(expected = "jumps go forward")]
    fn a_backward_jump_is_detected() {
        let mut assembler = Assembler::new();
        let back = assembler.label();
        assembler.place(back);
        assembler.jump_if(R0, When::AnyBit(1), back);
        assembler.finish();
    }
}
