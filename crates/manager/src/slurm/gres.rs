//! Numbers of GPUs in Slurm's descriptions of generic resources.

/// The number of GPUs in a description such as `gpu:2`, `gpu:a100:4(S:0-1),shard:8`,
/// `gpu:1(IDX:0)`, `gres:gpu:3` or `gres/gpu:3`. GPUs of several types are added up.
#[must_use]
pub fn gpus(description: &str) -> u32 {
    entries(description).filter_map(gpus_of_entry).fold(0, u32::saturating_add)
}

/// Splits at commas outside parentheses, which list the indices of devices.
fn entries(description: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    description.split(move |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
}

fn gpus_of_entry(entry: &str) -> Option<u32> {
    let entry = entry.split('(').next()?.trim();
    let entry =
        entry.strip_prefix("gres:").or_else(|| entry.strip_prefix("gres/")).unwrap_or(entry);
    let rest = entry.strip_prefix("gpu")?;
    if rest.is_empty() {
        return Some(1);
    }
    if !rest.starts_with([':', '=']) {
        return None;
    }
    match rest.rsplit([':', '=']).next()?.parse() {
        Ok(count) => Some(count),
        // A type without a number, as in `gpu:a100`.
        Err(_) => Some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::gpus;

    #[test]
    fn gpus_are_counted_in_all_notations() {
        for (description, count) in [
            ("", 0),
            ("gpu:2", 2),
            ("gpu", 1),
            ("gpu:a100", 1),
            ("gpu:0(IDX:N/A)", 0),
            ("gpu:a100:4(S:0-1),shard:8", 4),
            ("gpu:a100:2(IDX:0,3),gpu:v100:1(IDX:4)", 3),
            ("gres:gpu:3", 3),
            ("gres/gpu:3", 3),
            ("gres/gpu=3", 3),
            ("gres/gpu:a100=3", 3),
            ("mps:200,nic:1", 0),
            ("gpumem:16", 0),
            ("gpu:4294967295,gpu:1", u32::MAX),
        ] {
            assert_eq!(gpus(description), count, "{description}");
        }
    }
}
