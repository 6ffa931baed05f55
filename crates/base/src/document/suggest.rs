//! "Did you mean": finds the known word nearest to an unknown one.

use strsim::osa_distance;

/// The candidate nearest to `word`, if it is near enough to be a typing error. Among equally near
/// candidates the first in alphabetical order, so that the order of the candidates does not matter.
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let word = word.to_lowercase();
    let letters = word.chars().count();
    // No candidate is near a very long key.
    if letters > 64 {
        return None;
    }
    candidates
        .into_iter()
        .map(|candidate| (osa_distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|&(distance, _)| distance <= 1 + letters / 4)
        .min()
        .map(|(_, candidate)| candidate)
}

/// `a, b, c`, each in quotation marks.
pub fn list<'c>(candidates: impl IntoIterator<Item = &'c str>) -> String {
    const SHOWN: usize = 24;
    let all: Vec<String> = candidates.into_iter().map(|c| format!("`{c}`")).collect();
    if all.len() > SHOWN {
        format!("{}, … ({} in all)", all[..SHOWN].join(", "), all.len())
    } else {
        all.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_near_words_are_suggested() {
        let keys = ["workers", "workload", "window"];
        assert_eq!(nearest("wokers", keys), Some("workers"));
        assert_eq!(nearest("wrokesr", keys), Some("workers"), "a swap is one error");
        assert_eq!(nearest("Workers", keys), Some("workers"));
        assert_eq!(nearest("bandwidth", keys), None);
        assert_eq!(nearest(&"w".repeat(10_000), keys), None);
    }
}
