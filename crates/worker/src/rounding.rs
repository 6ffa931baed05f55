//! The effect of fixed point on a job's values, and advice if it was too large.

use tributary_model::JobSpec;
use tributary_model::SCALES;
use tributary_protocol::fixed::{self, Rounding};

/// Fraction of the non-zero values that became zero.
#[must_use]
pub fn underflow(rounding: &Rounding) -> f64 {
    rounding.zeroed as f64 / rounding.values.max(1) as f64
}

/// A one-sentence summary; `None` if nothing was rounded.
pub fn text(rounding: &Rounding) -> Option<String> {
    let imprecise = match rounding.imprecise {
        0 => "rounding changed none of the others by more than 1 %".to_owned(),
        some => format!(
            "rounding may have changed {} more ({:.2} %) by more than 1 %",
            grouped(some),
            100.0 * some as f64 / rounding.values.max(1) as f64
        ),
    };
    (rounding.values > 0).then(|| format!("{}; {imprecise}", zeroed_of_values(rounding)))
}

/// How many values became zero, and their share.
#[must_use]
pub fn zeroed_of_values(rounding: &Rounding) -> String {
    format!(
        "{} of {} non-zero values ({:.2} %) were smaller than half a unit and became zero",
        grouped(rounding.zeroed),
        grouped(rounding.values),
        100.0 * underflow(rounding)
    )
}

/// The problem with the job's scale if a worker lost more than the job allows, with advice.
/// `greatest` is the greatest magnitude at the known workers.
pub fn complaint(rounding: &Rounding, job: &JobSpec, greatest: f32) -> Option<String> {
    if underflow(rounding) <= job.max_underflow {
        return None;
    }
    let advice = if rounding.zeroed_coarser > rounding.zeroed / 2 {
        format!(
            "{} of these because a great value made the scale of their fragment coarser; clip \
             such values, or use atp or esa, which sum such fragments as floats",
            grouped(rounding.zeroed_coarser)
        )
    } else if let Some(scale) = better_scale(job, greatest) {
        format!(
            "set `scale = {scale:e}` in the job file, the greatest power of two at which the \
             values up to {greatest:e} fit"
        )
    } else {
        format!("no greater scale fits the values up to {greatest:e}; scale or clip the values")
    };
    Some(format!(
        "{} at scale {}, more than max_underflow = {} allows; {advice}",
        zeroed_of_values(rounding),
        job.scale,
        job.max_underflow
    ))
}

/// The greatest power of two at which values up to `greatest` fit, if finer than the job's scale.
fn better_scale(job: &JobSpec, greatest: f32) -> Option<f64> {
    let workers = u16::try_from(job.workers.len()).expect("at most 1024 workers");
    let most = f64::from(fixed::limit(workers)) / f64::from(greatest);
    let most = most.min(*SCALES.end());
    // Clear the fraction, which leaves the power of two below.
    let scale = f64::from_bits(most.to_bits() & !((1 << 52) - 1));
    (scale > job.scale).then_some(scale)
}

/// A number with its digits in groups of three.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(rest: &str) -> JobSpec {
        let text = format!("[topology]\nworkers = 4\n[[job]]\n{rest}");
        tributary_model::jobfile::parse(&text, "f").unwrap().jobs.remove(0)
    }

    const ALL: Rounding = Rounding {
        values: 1000,
        zeroed: 1000,
        zeroed_coarser: 0,
        imprecise: 0,
        greatest: 4e-7,
        least: 1e-9,
    };

    #[test]
    fn the_summary_counts_what_lost_digits() {
        let some = Rounding { values: 256_000, zeroed: 12, imprecise: 2560, ..ALL };
        assert_eq!(
            text(&some).unwrap(),
            "12 of 256 000 non-zero values (0.00 %) were smaller than half a unit and became zero; rounding \
             may have changed 2 560 more (1.00 %) by more than 1 %"
        );
        let none = Rounding { imprecise: 0, ..some };
        assert!(
            text(&none)
                .unwrap()
                .ends_with("; rounding changed none of the others by more than 1 %")
        );
        assert_eq!(text(&Rounding::default()), None);
    }

    #[test]
    fn a_complaint_names_the_scale_and_the_greatest_that_fits() {
        let job = job("");
        let text = complaint(&ALL, &job, ALL.greatest).unwrap();
        // 2^50 · 4e-7 is below (2^31 − 1) / 4, and 2^51 · 4e-7 is not.
        let scale = 2f64.powi(50);
        assert!(text.contains("1 000 of 1 000 non-zero values (100.00 %) were smaller"), "{text}");
        assert!(text.contains("at scale 1048576, more than max_underflow = 0.01"));
        assert!(text.contains(&format!("set `scale = {scale:e}`")), "{text}");
        let limit = f64::from(fixed::limit(4));
        assert!(scale * f64::from(ALL.greatest) <= limit);
        assert!(2.0 * scale * f64::from(ALL.greatest) > limit);
    }

    #[test]
    fn a_scale_that_job_files_refuse_is_not_advised() {
        let text = complaint(&ALL, &job(""), 1e-44).unwrap();
        let scale = text.split_once("`scale = ").unwrap().1.split_once('`').unwrap().0;
        assert!(SCALES.contains(&scale.parse::<f64>().unwrap()), "{text}");
        job(&format!("scale = {scale}"));
    }

    #[test]
    fn no_scale_is_advised_if_none_helps() {
        let text = complaint(&ALL, &job(""), 1000.0).unwrap();
        assert!(text.contains("no greater scale fits"), "{text}");
        let coarser = Rounding { zeroed: 63, zeroed_coarser: 63, ..ALL };
        let text = complaint(&coarser, &job(""), 1.0).unwrap();
        assert!(text.contains("63 of these because a great value"), "{text}");
    }

    #[test]
    fn allowed_rounding_causes_no_complaint() {
        let ten = Rounding { zeroed: 10, ..ALL };
        assert_eq!(complaint(&ten, &job(""), 1.0), None);
        assert!(complaint(&ten, &job("max_underflow = 0.0099"), 1.0).is_some());
        assert_eq!(complaint(&Rounding::default(), &job("max_underflow = 0"), 0.0), None);
    }
}
