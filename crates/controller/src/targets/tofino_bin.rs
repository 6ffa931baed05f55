//! `tofino.bin`: the initial values of a Tofino's registers and memories, as the assembler of p4c's
//! Tofino back end writes them. The parser reads only enough to check that the file is complete and
//! which program it is of.
//!
//! The file is a sequence of blocks. Each begins with a little-endian word whose top byte is a
//! letter:
//!
//! | letter | then |
//! | --- | --- |
//! | `H` | a BSON document about program and chip |
//! | `C` | a BSON document: a context, embedded |
//! | `P` | 4 bytes: which parser the next blocks are for |
//! | `R` | address (4), value (4) |
//! | `B`, `D` | address (8), bits per word (4), words (4), the words |
//! | `S` | selector's address (8) and value (4), address (8), bits per word (4), words (4), the words |

/// The content of the header.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Binary {
    /// Name of the program.
    pub program: Option<String>,
    /// Name of the chip, such as `tofino`.
    pub chip: Option<String>,
    /// Number of blocks, without the header.
    pub blocks: usize,
}

/// Checks all blocks.
///
/// # Errors
/// A description of the problem.
pub fn inspect(bytes: &[u8]) -> Result<Binary, String> {
    let mut reader = Reader { bytes, at: 0 };
    let mut binary = Binary::default();
    let mut header = false;
    while reader.at < bytes.len() {
        let start = reader.at;
        let letter = reader.word()?;
        if letter & 0x00ff_ffff != 0 {
            return Err(no_block(start));
        }
        match (letter >> 24) as u8 {
            b'H' => {
                let document = reader.document()?;
                binary.program = string_in(document, "program_name");
                binary.chip = string_in(document, "target");
                header = true;
                continue;
            }
            b'C' => drop(reader.document()?),
            b'P' => drop(reader.take(4)?),
            b'R' => drop(reader.take(8)?),
            b'B' | b'D' => {
                reader.take(8)?;
                reader.words()?;
            }
            b'S' => {
                reader.take(8 + 4 + 8)?;
                reader.words()?;
            }
            _ => return Err(no_block(start)),
        }
        binary.blocks += 1;
    }
    if !header {
        return Err("it has no header: it was not written by p4c's assembler (bfas)".into());
    }
    if binary.blocks == 0 {
        return Err("it has a header and nothing else; assemble the program again".into());
    }
    Ok(binary)
}

fn no_block(at: usize) -> String {
    format!("there is no block at byte {at}: it is damaged, or no tofino.bin")
}

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Reader<'b> {
    fn take(&mut self, length: usize) -> Result<&'b [u8], String> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..length).ok_or_else(|| {
            format!(
                "it is cut off: the block at its end lacks {} bytes; compile the program again",
                length - rest.len()
            )
        })?;
        self.at += length;
        Ok(taken)
    }

    fn word(&mut self) -> Result<u32, String> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes(bytes.try_into().expect("four bytes")))
    }

    /// Skips width, count and the words themselves.
    fn words(&mut self) -> Result<(), String> {
        let (width, count) = (self.word()?, self.word()?);
        let bits = u64::from(width) * u64::from(count);
        let length = usize::try_from(bits / 8).unwrap_or(usize::MAX);
        self.take(length).map(|_| ())
    }

    /// Reads a BSON document, which begins with its length.
    fn document(&mut self) -> Result<&'b [u8], String> {
        let start = self.at;
        let length = self.word()? as usize;
        self.at = start;
        if length < 5 {
            return Err(no_block(start));
        }
        self.take(length)
    }
}

/// A string at the top level of a BSON document.
fn string_in(document: &[u8], wanted: &str) -> Option<String> {
    let mut rest = document.get(4..)?;
    while let Some((&kind, after)) = rest.split_first() {
        if kind == 0 {
            return None;
        }
        let end = after.iter().position(|&byte| byte == 0)?;
        let (name, value) = (&after[..end], &after[end + 1..]);
        let counted = |more: usize| -> Option<usize> {
            let length = u32::from_le_bytes(value.get(..4)?.try_into().ok()?);
            Some(length as usize + more)
        };
        let length = match kind {
            0x02 => counted(4)?,
            0x03 | 0x04 => counted(0)?,
            0x08 => 1,
            0x0a => 0,
            0x10 => 4,
            0x01 | 0x12 => 8,
            _ => return None,
        };
        if kind == 0x02 && name == wanted.as_bytes() {
            let text = value.get(4..length)?;
            return String::from_utf8(text.strip_suffix(&[0])?.to_vec()).ok();
        }
        rest = value.get(length..)?;
    }
    None
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A file of a program with one block of each kind.
    pub(crate) fn sample(program: &str, chip: &str) -> Vec<u8> {
        let mut document = Vec::new();
        let mut text = |name: &str, value: &str| {
            document.push(2);
            document.extend(name.as_bytes());
            document.push(0);
            document.extend((value.len() as u32 + 1).to_le_bytes());
            document.extend(value.as_bytes());
            document.push(0);
        };
        text("asm_version", "1.0.1");
        text("program_name", program);
        text("target", chip);
        document.extend(b"\x10stages\0\x0c\0\0\0");
        document.push(0);
        let mut file = b"\0\0\0H".to_vec();
        file.extend((document.len() as u32 + 4).to_le_bytes());
        file.extend(&document);
        file.extend(b"\0\0\0P\x05\0\0\0");
        file.extend(b"\0\0\0R\x10\0\0\0\x01\0\0\0");
        for (letter, width, count) in [(b'B', 32_u32, 3_u32), (b'D', 128, 2)] {
            file.extend([0, 0, 0, letter]);
            file.extend(0x40_u64.to_le_bytes());
            file.extend(width.to_le_bytes());
            file.extend(count.to_le_bytes());
            file.extend(vec![0xaa; (width * count / 8) as usize]);
        }
        file
    }

    #[test]
    fn a_complete_file_names_its_program() {
        let binary = inspect(&sample("atp", "tofino")).unwrap();
        let expected =
            Binary { program: Some("atp".into()), chip: Some("tofino".into()), blocks: 4 };
        assert_eq!(binary, expected);
    }

    #[test]
    fn a_file_truncated_inside_a_block_is_refused() {
        let whole = sample("atp", "tofino");
        let cuts = (0..whole.len()).filter(|&end| inspect(&whole[..end]).is_ok()).count();
        // After the parser's number, the register, and the first block of words.
        assert_eq!(cuts, 3);
        let error = inspect(&whole[..whole.len() - 5]).unwrap_err();
        assert_eq!(
            error,
            "it is cut off: the block at its end lacks 5 bytes; compile the program again"
        );
        assert!(inspect(b"").unwrap_err().starts_with("it has no header"));
        assert!(inspect(b"PK\x03\x04 and so on").unwrap_err().starts_with("there is no block"));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_cause_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = inspect(&bytes);
        }

        #[test]
        fn damaged_files_cause_no_panic(at in 0_usize..160, byte in any::<u8>()) {
            let mut file = sample("atp", "tofino");
            let end = file.len();
            file[at % end] = byte;
            let _ = inspect(&file);
        }
    }
}
