//! Resolves names in a script.
//!
//! Scripts name tables, actions and keys as the control plane does, in full (`ingress.acl.t`) or by
//! a suffix (`t`). p4c's runner accepts any suffix of the text. Here a suffix that begins after a
//! dot is preferred.

use crate::stf::error::Failure;
use crate::stf::script::Name;

/// The index of the candidate that a script means, in a table named `within`, if any.
pub(super) fn find<'a>(
    kind: &str,
    name: &Name,
    candidates: impl Iterator<Item = &'a str> + Clone,
) -> Result<usize, Failure> {
    let wanted = canonical(&name.text);
    let whole = |candidate: &str| candidate == wanted;
    let part = |candidate: &str| {
        candidate.strip_suffix(&*wanted).is_some_and(|before| before.ends_with('.'))
    };
    let end = |candidate: &str| candidate.ends_with(&*wanted);
    let rules: [&dyn Fn(&str) -> bool; 3] = [&whole, &part, &end];
    for rule in rules {
        let mut found = candidates.clone().enumerate().filter(|(_, name)| rule(&canonical(name)));
        match (found.next(), found.next()) {
            (Some((at, _)), None) => return Ok(at),
            (Some((_, one)), Some((_, other))) => {
                return Err(name.place.failure(format!(
                    "{kind} `{}` may be `{one}` or `{other}`: write more of the name",
                    name.text
                )));
            }
            (None, _) => {}
        }
    }
    let known: Vec<&str> = candidates.take(8).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Err(name.place.failure(format!("there is no {kind} `{}` (known: {known})", name.text)))
}

/// The index of the key that a script means. Among several keys with the suffix it is the first, as
/// in p4c's runner.
pub(super) fn find_key<'a>(
    name: &Name,
    table: &str,
    candidates: impl Iterator<Item = &'a str> + Clone,
) -> Result<usize, Failure> {
    let wanted = canonical(&name.text);
    let same = |candidate: &str| candidate == wanted;
    let part = |candidate: &str| {
        candidate.strip_suffix(&*wanted).is_some_and(|before| before.ends_with('.'))
    };
    // A header without a field stands for its validity.
    let validity = |candidate: &str| {
        candidate.strip_suffix(".$valid$").is_some_and(|header| same(header) || part(header))
    };
    let rules: [&dyn Fn(&str) -> bool; 3] = [&same, &part, &validity];
    let found = rules.iter().find_map(|rule| candidates.clone().position(|c| rule(&canonical(c))));
    found.ok_or_else(|| {
        let known = candidates.collect::<Vec<_>>().join(", ");
        name.place
            .failure(format!("table `{table}` has no key `{}` (its keys: {known})", name.text))
    })
}

/// A canonical notation of stack elements and validity: `a[0].b`, `a.$valid$`.
fn canonical(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('$') {
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        out.push_str(before);
        if digits == 0 {
            out.push('$');
        } else {
            out.push('[');
            out.push_str(&after[..digits]);
            out.push(']');
        }
        rest = &after[digits..];
    }
    out.push_str(rest);
    for spelling in [".isValid()", ".valid", ".$valid"] {
        if let Some(header) = out.strip_suffix(spelling) {
            return format!("{header}.$valid$");
        }
    }
    if out == "valid" || out == "$valid" { "$valid$".to_owned() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stf::error::Place;

    fn name(text: &str) -> Name {
        Name { text: text.to_owned(), place: Place { line: 1, column: 5 } }
    }

    #[test]
    fn the_longest_match_by_components_is_preferred() {
        let tables = ["in.t", "in.ft", "eg.c.t2", "t3", "eg.t3"];
        let found = |text: &str| find("table", &name(text), tables.into_iter());
        assert_eq!(found("in.t"), Ok(0));
        assert_eq!(found("t"), Ok(0));
        assert_eq!(found("ft"), Ok(1));
        assert_eq!(found("c.t2"), Ok(2));
        assert_eq!(found("t3"), Ok(3));
        assert_eq!(found("2"), Ok(2));
        assert!(found("3").unwrap_err().reason.contains("`t3` or `eg.t3`"));
        let lost = found("acl").unwrap_err().to_string();
        assert_eq!(lost, "1:5: there is no table `acl` (known: in.t, in.ft, eg.c.t2, t3, eg.t3)");
    }

    #[test]
    fn keys_have_more_spellings() {
        let keys = ["hdr.a.x", "hdr.s[1].y", "hdr.a.$valid$", "meta.x"];
        let found = |text: &str| find_key(&name(text), "t", keys.into_iter());
        for (text, at) in [
            ("hdr.a.x", 0),
            ("a.x", 0),
            ("x", 0),
            ("meta.x", 3),
            ("s$1.y", 1),
            ("s[1].y", 1),
            ("a.valid", 2),
            ("hdr.a.$valid", 2),
            ("a.isValid()", 2),
            ("valid", 2),
            ("hdr.a", 2),
        ] {
            assert_eq!(found(text), Ok(at), "{text}");
        }
        assert!(found("z").unwrap_err().reason.contains("no key `z` (its keys: hdr.a.x"));
    }
}
