//! The relevant state of an endpoint: its `Debug` text without anything that can have no effect.
//!
//! Endpoints keep their state private, so their `Debug` text represents it. That is sound as long
//! as the derived text contains every field: an abbreviated field would merge different states.
//! Three things are removed:
//!
//! - counters, the times that they are measured from, and constants (settings);
//! - estimates of the round-trip time: all timeouts have one length here (smallest = initial =
//!   greatest), so estimates have no effect;
//! - absolute time. Times are written relative to the endpoint's clock, and all that are at least a
//!   timeout ago are equal, because code only compares "a time plus a timeout" with now.
//!
//! With [`Recovery::Rack`] estimates have an effect, as does the time of the last result, and
//! compared times may be several timeouts ago.

use tributary_protocol::{Recovery, Time};

use crate::endpoints::TIMEOUT;

/// Number of timeouts ago from which all times are equal.
const PAST: i128 = 16;

/// Fields without effect; the last ones only with the papers' rules.
const WITHOUT_EFFECT: [&str; 11] = [
    "config",
    "stats",
    "stopwatch",
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
    // Timers that report stalls are that far away.
    if nanos - now > 100 * timeout {
        return "far".into();
    }
    (nanos - now).max(-past * timeout).to_string()
}

/// Length of the leading quoted text, including quotes.
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

/// Length of the leading field value: up to the comma or bracket that ends it.
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
fn removes_exactly_what_has_no_effect() {
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
