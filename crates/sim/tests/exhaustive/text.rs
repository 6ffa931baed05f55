//! What an endpoint's state comes to: its `Debug` text without what can have no effect.
//!
//! Endpoints keep their state to themselves, so their `Debug` text stands for it. That is sound as
//! long as the derived text names every field: a field that is written out in less detail would
//! merge states that differ. Three things are taken out:
//!
//! - counters, and what never changes (settings);
//! - what only estimates of the round-trip time depend on: all timeouts are set to one length here
//!   (smallest = initial = greatest), so no estimate has an effect;
//! - absolute time. Times are written relative to the endpoint's clock, and any that is a timeout
//!   or more ago is the same as any other, as what is compared is always "a time and a timeout"
//!   with now.
//!
//! With [`Recovery::Rack`] estimates have an effect, and so has the time of the last result; and
//! what is compared may be some timeouts old.

use tributary_protocol::{Recovery, Time};

use crate::endpoints::TIMEOUT;

/// How many timeouts ago the past begins, in which all times are the same.
const PAST: i128 = 16;

/// Fields without effect; the last ones only with the papers' rules.
const WITHOUT_EFFECT: [&str; 10] = [
    "config",
    "stats",
    "rejected",
    "rtt",
    "stall_reported",
    "since",
    "stall_at",
    "last_heard",
    "envelope",
    "progress",
];

/// The text of a state at a time of its clock.
pub(crate) fn canonical(debug: &str, now: Time, recovery: Recovery) -> String {
    let (without_effect, past) = match recovery {
        Recovery::Papers => (&WITHOUT_EFFECT[..], 1),
        Recovery::Rack => (&WITHOUT_EFFECT[..WITHOUT_EFFECT.len() - 1], PAST),
    };
    let mut out = String::with_capacity(debug.len() / 2);
    let mut rest = debug;
    while let Some(next) = rest.chars().next() {
        if next == '"' {
            let end = quoted(rest);
            out.push_str(&rest[..end]);
            rest = &rest[end..];
        } else if next.is_ascii_alphabetic() {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
            if after.starts_with(": ") && without_effect.contains(&word) {
                rest = &after[value(after)..];
            } else if word == "Time"
                && let Some((nanos, after)) =
                    after.strip_prefix('(').and_then(|text| text.split_once(')'))
            {
                out.push_str(&relative(nanos.parse().expect("a time in nanoseconds"), now, past));
                rest = after;
            } else {
                out.push_str(word);
                rest = after;
            }
        } else {
            out.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    out
}

fn relative(nanos: u64, now: Time, past: i128) -> String {
    let (nanos, now) = (i128::from(nanos), i128::from(now.as_nanos()));
    let timeout = TIMEOUT.as_nanos() as i128;
    // The timers that report stalls are that far away.
    if nanos - now > 100 * timeout {
        return "far".into();
    }
    (nanos - now).max(-past * timeout).to_string()
}

/// Length of a quoted text at the beginning, quotes included.
fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Length of a field's value at the beginning: up to the comma or the bracket that ends it.
fn value(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        match text.as_bytes()[at] {
            b'"' => {
                at += quoted(&text[at..]);
                continue;
            }
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' if depth == 0 => return at,
            b'}' | b')' | b']' => depth -= 1,
            b',' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    at
}

#[test]
fn takes_out_what_has_no_effect_and_nothing_else() {
    let now = Time::ZERO + 3 * TIMEOUT;
    let at = |time: Time| format!("{:?}", Some(time));
    let text = format!(
        "W {{ stats: S {{ sent: 1, rejected: R {{ a: 2 }} }}, base: 3, text: b\"}}, \\\" {{\", \
         due: {}, sent: [{}, {}], far: {}, rtt: R(1, [2]), last: {{5: (6, 7)}} }}",
        at(now + TIMEOUT),
        at(now),
        at(Time::ZERO),
        at(now + 1000 * TIMEOUT),
    );
    assert_eq!(
        canonical(&text, now, Recovery::Papers),
        "W { , base: 3, text: b\"}, \\\" {\", due: Some(1000000000), sent: [Some(0), \
         Some(-1000000000)], far: Some(far), , last: {5: (6, 7)} }"
    );
}
