//! The handwritten digits, embedded in the binary. `data/README.md` states source and licence.

use std::sync::LazyLock;

/// Pixels of an image: 8 rows of 8.
pub const PIXELS: usize = 64;
/// Classes: the digits 0 to 9.
pub const CLASSES: usize = 10;
/// Number of training images: the first images of the data set.
pub const TRAIN_SAMPLES: usize = 1437;
/// Number of held-out images: the last fifth. The data set is ordered by writer, so most of these
/// are in handwriting that training has not seen.
pub const TEST_SAMPLES: usize = 360;

/// Darkest shade of a pixel.
const MAX_INK: u8 = 16;

/// One image and its class.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Ink of each pixel, row by row from the top left, 0 (none) to 1 in steps of 1/16.
    pub pixels: [f32; PIXELS],
    /// The digit, 0 to 9.
    pub class: usize,
}

/// A list of images. [`Dataset::digits`] is the embedded one.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    samples: Vec<Sample>,
}

/// A line of a data file that is not a valid image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct DatasetError {
    /// Number of the line, from 1.
    pub line: usize,
    /// The problem.
    pub problem: &'static str,
}

static DIGITS: LazyLock<Dataset> = LazyLock::new(|| {
    Dataset::parse(include_bytes!("../../data/digits.txt"))
        .expect("the embedded data set is well-formed, as a test of this module shows")
});

impl Dataset {
    /// The 1 797 handwritten digits, decoded on the first call.
    pub fn digits() -> &'static Self {
        &DIGITS
    }

    /// Decodes a data file with one line per image: 64 pixels, each one of `0`–`9`, `a`–`g`, a
    /// space, and the class. The last line ends in a newline as well.
    ///
    /// # Errors
    ///
    /// The first line that does not have this form.
    pub fn parse(text: &[u8]) -> Result<Self, DatasetError> {
        let samples = text
            .split_inclusive(|byte| *byte == b'\n')
            .enumerate()
            .map(|(index, line)| {
                parse_line(line).map_err(|problem| DatasetError { line: index + 1, problem })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { samples })
    }

    /// All images, in the order of the original.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// The training images: all but the last [`TEST_SAMPLES`].
    pub fn train(&self) -> &[Sample] {
        &self.samples[..self.split()]
    }

    /// The held-out images: the last [`TEST_SAMPLES`].
    pub fn test(&self) -> &[Sample] {
        &self.samples[self.split()..]
    }

    fn split(&self) -> usize {
        self.samples.len().saturating_sub(TEST_SAMPLES)
    }
}

fn parse_line(line: &[u8]) -> Result<Sample, &'static str> {
    let [pixel_text @ .., b' ', class, b'\n'] = line else {
        return Err("does not end in a space, a class and a newline");
    };
    if pixel_text.len() != PIXELS {
        return Err("does not have 64 pixels");
    }
    let mut pixels = [0.0; PIXELS];
    for (pixel, byte) in pixels.iter_mut().zip(pixel_text) {
        let ink = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'g' => byte - b'a' + 10,
            _ => return Err("has a pixel that is none of 0-9, a-g"),
        };
        // A sixteenth is a power of two, so this is exact.
        *pixel = f32::from(ink) / f32::from(MAX_INK);
    }
    if !class.is_ascii_digit() {
        return Err("has a class that is none of 0-9");
    }
    Ok(Sample { pixels, class: usize::from(class - b'0') })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fmt::Write;
    use tributary_base::Fnv;

    #[test]
    fn shape() {
        let digits = Dataset::digits();
        assert_eq!(digits.samples().len(), 1797);
        assert_eq!(digits.train().len(), TRAIN_SAMPLES);
        assert_eq!(digits.test().len(), TEST_SAMPLES);
        assert!(digits.samples().iter().all(|s| s.class < CLASSES));
        assert!((digits.samples().iter().flat_map(|s| s.pixels)).all(|p| (0.0..=1.0).contains(&p)));
    }

    /// The number of images per class according to the original's documentation.
    #[test]
    fn class_counts_are_those_of_the_original() {
        let mut counts = [0; CLASSES];
        for sample in Dataset::digits().samples() {
            counts[sample.class] += 1;
        }
        assert_eq!(counts, [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]);
    }

    /// Inverts the conversion of `data/README.md`. The digest is that of the unpacked original.
    #[test]
    fn images_written_back_give_the_original_file() {
        let mut csv = String::new();
        for sample in Dataset::digits().samples() {
            for pixel in sample.pixels {
                write!(csv, "{},", pixel * 16.0).unwrap();
            }
            writeln!(csv, "{}", sample.class).unwrap();
        }
        assert_eq!(csv.len(), 264_712);
        let mut fnv = Fnv::default();
        fnv.write(csv.as_bytes());
        assert_eq!(fnv.finish(), 0x0b6d_b7d4_442b_bc5d);
    }

    #[test]
    fn bad_lines_are_named() {
        let good = format!("{} 7\n", "0123456789abcdefg".repeat(4).split_at(64).0);
        assert_eq!(Dataset::parse(good.as_bytes()).unwrap().samples().len(), 1);
        for (bad, problem) in [
            (good.replace('7', ""), "does not end"),
            (good.trim_end().to_string(), "does not end"),
            (good.replacen('0', "", 1), "64 pixels"),
            (good.replacen('0', "h", 1), "none of 0-9, a-g"),
            (good.replace(" 7", " x"), "class"),
            ("\n".to_string(), "does not end"),
        ] {
            let error = Dataset::parse(format!("{good}{bad}").as_bytes()).unwrap_err();
            assert_eq!(error.line, 2, "{bad:?}");
            assert!(error.problem.contains(problem), "{bad:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn parse_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Dataset::parse(&bytes);
        }
    }
}
