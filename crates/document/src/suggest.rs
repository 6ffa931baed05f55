//! "Did you mean": finds the known word nearest to an unknown one.

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
        .map(|candidate| (distance(&word, &candidate.to_lowercase()), candidate))
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

/// Number of letters to insert, delete, replace or swap with a neighbour to turn one word into the
/// other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replace = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replace.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("wokers", "workers"), 1);
        assert_eq!(distance("wrokers", "workers"), 1, "a swap is one slip");
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn only_near_words_are_suggested() {
        let keys = ["workers", "workload", "window"];
        assert_eq!(nearest("wokers", keys), Some("workers"));
        assert_eq!(nearest("Workers", keys), Some("workers"));
        assert_eq!(nearest("bandwidth", keys), None);
        assert_eq!(nearest(&"w".repeat(10_000), keys), None);
    }
}
