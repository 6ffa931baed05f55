//! Slurm's notation for lists of names: `node[01-03,7],login`.

/// Maximum number of names of a list: more than the nodes of any Slurm cluster.
const MOST: usize = 1 << 16;

/// Maximum length of a list in bytes.
const LONGEST: usize = 1 << 20;

/// Why a list cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadList {
    /// A bracket has no partner.
    #[error("`{0}`: a bracket is open or closed without its partner")]
    Bracket(String),
    /// Something between brackets is neither a number nor a range.
    #[error("`{0}` is neither a number nor a range such as 01-16")]
    Range(String),
    /// The list is too long.
    #[error("a list has more than {MOST} names, or more than {LONGEST} bytes")]
    Long,
}

/// All names of a list, in its order. Numbers keep the leading zeros of the range's first number.
///
/// # Errors
///
/// [`BadList`].
pub fn expand(list: &str) -> Result<Vec<String>, BadList> {
    if list.len() > LONGEST {
        return Err(BadList::Long);
    }
    let mut names = Vec::new();
    for item in items(list)? {
        let item = item.trim();
        if item.is_empty() {
            continue;
        }
        names.extend(expand_item(item)?);
        if names.len() > MOST {
            return Err(BadList::Long);
        }
    }
    Ok(names)
}

/// Splits a list at the commas outside brackets.
fn items(list: &str) -> Result<Vec<&str>, BadList> {
    let unbalanced = || BadList::Bracket(excerpt(list));
    let (mut items, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'[' if inside => return Err(unbalanced()),
            b'[' => inside = true,
            b']' if !inside => return Err(unbalanced()),
            b']' => inside = false,
            b',' if !inside => {
                items.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(unbalanced());
    }
    items.push(&list[start..]);
    Ok(items)
}

/// The names of an item, which may have several pairs of brackets.
fn expand_item(item: &str) -> Result<Vec<String>, BadList> {
    let mut names = vec![String::new()];
    let mut rest = item;
    while let Some((before, after)) = rest.split_once('[') {
        let (ranges, after) = after.split_once(']').expect("`items` checked the brackets");
        let numbers = numbers(ranges)?;
        if names.len() * numbers.len() > MOST {
            return Err(BadList::Long);
        }
        let extended = |name: String| {
            numbers.iter().map(move |number| format!("{name}{before}{number}")).collect::<Vec<_>>()
        };
        names = names.into_iter().flat_map(extended).collect();
        rest = after;
    }
    names.iter_mut().for_each(|name| name.push_str(rest));
    Ok(names)
}

/// The numbers of `01-03,7`.
fn numbers(ranges: &str) -> Result<Vec<String>, BadList> {
    let mut all = Vec::new();
    for range in ranges.split(',') {
        let bad = || BadList::Range(excerpt(range));
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse::<u64>().ok()).flatten().ok_or_else(bad)
        };
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (from, to) = (number(first)?, number(last)?);
        if from > to {
            return Err(bad());
        }
        if to - from >= MOST as u64 || all.len() > MOST {
            return Err(BadList::Long);
        }
        let width = first.len();
        all.extend((from..=to).map(|number| format!("{number:0width$}")));
    }
    Ok(all)
}

/// The beginning of a text, for messages.
fn excerpt(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(list: &str) -> Vec<String> {
        expand(list).unwrap_or_else(|error| panic!("{list}: {error}"))
    }

    #[test]
    fn brackets_stand_for_numbers() {
        assert_eq!(names("n1"), ["n1"]);
        assert_eq!(names("n[1,3]"), ["n1", "n3"]);
        assert_eq!(names("node[01-03,7],login"), ["node01", "node02", "node03", "node7", "login"]);
        assert_eq!(names("a[08-10]-ib"), ["a08-ib", "a09-ib", "a10-ib"]);
        assert_eq!(names("r[1-2]n[0-1]"), ["r1n0", "r1n1", "r2n0", "r2n1"]);
        assert_eq!(names(""), [""; 0]);
        assert_eq!(names("a, b"), ["a", "b"]);
    }

    #[test]
    fn bad_lists_have_one_line() {
        for (list, word) in [
            ("n[1-2", "`n[1-2`: a bracket"),
            ("n1-2]", "a bracket"),
            ("n[[1]]", "a bracket"),
            ("n[2-1]", "`2-1` is neither"),
            ("n[a]", "`a` is neither"),
            ("n[]", "`` is neither"),
            ("n[1-2-3]", "`1-2-3` is neither"),
            ("n[0-99999999999999999999]", "is neither"),
            ("n[0-18446744073709551615]", "more than 65536 names"),
            ("n[0-999][0-999]", "more than 65536 names"),
        ] {
            let error = expand(list).unwrap_err().to_string();
            assert!(error.contains(word), "{list}: {error}");
        }
    }

    /// A list in Slurm's notation, and its names.
    fn listed() -> impl Strategy<Value = (String, Vec<String>)> {
        let range = (0_u64..2000, 0_u64..20, 1_usize..6);
        let item = ("[a-z]{1,5}", prop::collection::vec(range, 0..4), "(-[a-z]{1,3})?");
        prop::collection::vec(item, 1..5).prop_map(|items| {
            let (mut list, mut names) = (Vec::new(), Vec::new());
            for (prefix, ranges, suffix) in items {
                if ranges.is_empty() {
                    list.push(format!("{prefix}{suffix}"));
                    names.push(format!("{prefix}{suffix}"));
                    continue;
                }
                let mut texts = Vec::new();
                for (first, more, width) in ranges {
                    let last = first + more;
                    texts.push(format!("{first:0width$}-{last}"));
                    let width = format!("{first:0width$}").len();
                    let all = first..=last;
                    names.extend(all.map(|number| format!("{prefix}{number:0width$}{suffix}")));
                }
                list.push(format!("{prefix}[{}]{suffix}", texts.join(",")));
            }
            (list.join(","), names)
        })
    }

    proptest! {
        #[test]
        fn a_written_list_is_read_back((list, names) in listed()) {
            prop_assert_eq!(expand(&list), Ok(names));
        }

        #[test]
        fn any_text_is_a_list_or_an_error(text in "[a-z0-9\\[\\],\\- é]{0,40}") {
            if let Ok(names) = expand(&text) {
                let brackets = |name: &String| name.contains(['[', ']']);
                prop_assert!(!names.iter().any(brackets), "{:?}", names);
            }
        }
    }
}
