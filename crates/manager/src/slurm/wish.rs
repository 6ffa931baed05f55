//! What a user asks for in the comment of a job: `--comment="tributary model=vgg16 value=2"`.

use tributary_cluster::model::Profiles;
use tributary_cluster::{Job, JobId};
use tributary_wire::FRAGMENTS_MAX;

/// The first word of the comment of each job that is to be placed.
pub const WORD: &str = "tributary";

/// The model of a job that names none.
const USUAL_MODEL: &str = "resnet50";

/// Duration in seconds of a job without a time limit, as far as policies are concerned.
const USUAL_DURATION_S: f64 = 3600.0;

/// Maximum gradients of an iteration, in bytes.
const GRADIENTS_MAX: u64 = 16 << 30;

/// Maximum computing time of an iteration, in microseconds.
const COMPUTE_US_MAX: u64 = 60_000_000;

/// Maximum number of sums of random numbers: the tensors that a job file may have.
const SUMS_MAX: u64 = 1_000_000;

/// Bytes of values in the shortest packets.
const FEWEST_BYTES: u64 = 4 * 32;

/// What policies are told of a job, and what workers of ours sum in it.
#[derive(Clone, PartialEq, Debug)]
pub struct Wish {
    /// Bytes that each worker sums in an iteration.
    pub gradient_bytes: f64,
    /// Computing time of an iteration on each GPU, in seconds.
    pub compute_s: f64,
    /// Number of iterations, if it is known.
    pub iterations: Option<f64>,
    /// The value of running the job.
    pub value: f64,
    /// How often `tributary worker` sums random numbers in the job.
    pub sums: Option<Sums>,
}

/// Sums of random numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sums {
    /// How many.
    pub count: u64,
    /// Bytes that each worker sums at a time.
    pub bytes: u64,
}

impl Wish {
    /// Reads the comment of a job; `None` if the job is not to be placed.
    ///
    /// # Errors
    ///
    /// The problem, and how to fix it.
    pub fn read(comment: &str) -> Result<Option<Self>, String> {
        let mut words = comment.split_whitespace();
        if words.next() != Some(WORD) {
            return Ok(None);
        }
        let profiles = Profiles::known();
        let usual = profiles.get(USUAL_MODEL).expect("it is one of the known models");
        let mut wish = Self {
            gradient_bytes: usual.gradient_bytes(),
            compute_s: usual.compute_s,
            iterations: None,
            value: 1.0,
            sums: None,
        };
        let (mut given, mut sums) = ((None, None), None);
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            match key {
                "model" => {
                    let model = profiles.get(value).ok_or_else(|| {
                        let names = profiles.all().iter().map(|model| model.name.as_str());
                        let names = names.collect::<Vec<_>>().join(", ");
                        format!("the comment's `{word}` is not a model; there are {names}")
                    })?;
                    wish.gradient_bytes = model.gradient_bytes();
                    wish.compute_s = model.compute_s;
                }
                "gradients" => given.0 = Some(whole(word, value, GRADIENTS_MAX)? as f64),
                "compute" => given.1 = Some(whole(word, value, COMPUTE_US_MAX)? as f64 / 1e6),
                "iterations" => {
                    wish.iterations = Some(whole(word, value, u32::MAX.into())? as f64);
                }
                "sums" => sums = Some(whole(word, value, SUMS_MAX)?),
                "value" => {
                    let number: Option<f64> = value.parse().ok();
                    let number = number.filter(|value| value.is_finite() && *value > 0.0);
                    wish.value = number
                        .ok_or_else(|| format!("the comment's `{word}`: write a number above 0"))?;
                }
                _ => {
                    return Err(format!(
                        "the comment's `{key}` is unknown; there are model, gradients, compute, \
                         iterations, sums and value"
                    ));
                }
            }
        }
        wish.gradient_bytes = given.0.unwrap_or(wish.gradient_bytes);
        wish.compute_s = given.1.unwrap_or(wish.compute_s);
        let bytes = wish.gradient_bytes as u64;
        if let Some(count) = sums {
            if !bytes.is_multiple_of(4) || bytes / FEWEST_BYTES * count > FRAGMENTS_MAX.into() {
                return Err(format!(
                    "the comment's `sums={count}` of {bytes} bytes are more than a job may send, or no whole values; \
                     lower `sums` or `gradients`, which is a multiple of 4"
                ));
            }
            wish.sums = Some(Sums { count, bytes });
        }
        Ok(Some(wish))
    }

    /// The job in the policies' terms. Without a number of iterations, it computes until its time
    /// limit.
    #[must_use]
    pub fn job(&self, id: u32, submit_s: f64, gpus: u32, limit_s: Option<f64>) -> Job {
        let duration_s = limit_s.unwrap_or(USUAL_DURATION_S);
        let most = duration_s / self.compute_s.max(1e-6);
        Job {
            id: JobId(id),
            submit_s,
            gpus,
            iterations: self.iterations.unwrap_or(most).max(1.0),
            compute_s: self.compute_s,
            gradient_bytes: self.gradient_bytes,
            value: self.value,
        }
    }
}

fn whole(word: &str, value: &str, most: u64) -> Result<u64, String> {
    let number: Option<u64> = value.parse().ok();
    let number = number.filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("the comment's `{word}`: write a whole number from 1 to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_jobs_with_the_word_are_placed() {
        for comment in ["", "nightly", "tributary2", "about tributary"] {
            assert_eq!(Wish::read(comment), Ok(None), "{comment}");
        }
        let usual = Wish::read("tributary").unwrap().unwrap();
        assert_eq!((usual.gradient_bytes, usual.value), (102_228_128.0, 1.0));
        let job = usual.job(7, 0.0, 4, Some(60.0));
        assert!((job.ideal_s() - 60.0).abs() < 1e-9, "it fills its time limit");
    }

    #[test]
    fn keys_describe_the_job() {
        let comment =
            "tributary gradients=4000 model=vgg16 compute=500 iterations=20 sums=30 value=2.5";
        let wish = Wish::read(comment).unwrap().unwrap();
        let expected = Wish {
            gradient_bytes: 4000.0,
            compute_s: 5e-4,
            iterations: Some(20.0),
            value: 2.5,
            sums: Some(Sums { count: 30, bytes: 4000 }),
        };
        assert_eq!(wish, expected, "explicit numbers come before those of the model");
        assert_eq!(wish.job(7, 1.0, 4, None).iterations, 20.0);
    }

    #[test]
    fn bad_comments_have_one_line() {
        for (comment, words) in [
            ("tributary model=gpt9", "`model=gpt9` is not a model; there are vgg11, vgg16"),
            ("tributary value=-1", "`value=-1`: write a number above 0"),
            ("tributary value", "`value`: write a number above 0"),
            ("tributary iterations=0", "write a whole number from 1 to 4294967295"),
            ("tributary gradients=1001 sums=3", "a multiple of 4"),
            ("tributary model=vgg16 sums=1000000", "more than a job may send"),
            ("tributary size=3", "`size` is unknown; there are model"),
        ] {
            let error = Wish::read(comment).unwrap_err();
            assert!(error.contains(words), "{comment}: {error}");
        }
    }
}
