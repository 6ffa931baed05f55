//! Pages of several processes in one.

use std::collections::BTreeMap;
use std::fmt;

use crate::page::Label;

/// A family on a page of ours: its name, the lines that describe it, and its samples.
pub(crate) type Family<'a> = (&'a str, Vec<&'a str>, Vec<&'a str>);

/// The families of a page, each of which begins with a line `# HELP NAME …`.
pub(crate) fn families(page: &str) -> Vec<Family<'_>> {
    let mut all: Vec<Family<'_>> = Vec::new();
    for line in page.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let name = help.split_once(' ').map_or(help, |(name, _)| name);
            all.push((name, vec![line], Vec::new()));
        } else if let Some((_, about, samples)) = all.last_mut()
            && line != "# EOF"
        {
            if line.starts_with('#') { about.push(line) } else { samples.push(line) }
        }
    }
    all
}

/// Families of several pages: each once, with the samples of all.
#[derive(Debug, Default)]
pub(crate) struct Merged {
    families: Vec<(Vec<String>, Vec<String>)>,
    /// Positions by name.
    places: BTreeMap<String, usize>,
}

impl Merged {
    /// Adds the families of a page, with one more label unless that is `None`.
    pub(crate) fn add(&mut self, families: Vec<Family<'_>>, label: Option<&Label>) {
        for (name, about, samples) in families {
            let next = self.families.len();
            let place = *self.places.entry(name.to_owned()).or_insert(next);
            if place == next {
                let about = about.into_iter().map(str::to_owned).collect();
                self.families.push((about, Vec::new()));
            }
            let samples = samples.into_iter().map(|sample| labelled(sample, label));
            self.families[place].1.extend(samples);
        }
    }
}

impl fmt::Display for Merged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.families.iter().flat_map(|(about, samples)| about.iter().chain(samples));
        lines.into_iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// A sample with one more label.
fn labelled(sample: &str, label: Option<&Label>) -> String {
    let Some((key, value)) = label else { return sample.to_owned() };
    let mut label = format!("{key}=\"");
    for letter in value.chars() {
        let escaped = match letter {
            '\\' => "\\\\",
            '"' => "\\\"",
            '\n' => "\\n",
            other => {
                label.push(other);
                continue;
            }
        };
        label.push_str(escaped);
    }
    label.push('"');
    // A name has neither a brace nor a space.
    let Some(end) = sample.find(['{', ' ']) else { return sample.to_owned() };
    let (name, rest) = sample.split_at(end);
    match rest.strip_prefix('{') {
        Some(labels) if labels.starts_with('}') => format!("{name}{{{label}{labels}"),
        Some(labels) => format!("{name}{{{label},{labels}"),
        None => format!("{name}{{{label}}}{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_all_processes_are_in_one_family() {
        let own = "# HELP a A thing\n# TYPE a gauge\na 1\n# HELP b B\n# TYPE b counter\nb_total{x=\"}\"} 2\n\
                   # EOF\n";
        let other = "# HELP c C\n# TYPE c gauge\nc 3\n# HELP a A thing\n# TYPE a gauge\na 4\n# HELP b B\n\
                     # TYPE b counter\nb_total{x=\"{ \"} 5\n# EOF\n";
        let mut merged = Merged::default();
        merged.add(families(own), None);
        merged.add(families(other), Some(&("process", "worker \"0\"".to_owned())));
        assert_eq!(
            merged.to_string(),
            "# HELP a A thing\n# TYPE a gauge\na 1\na{process=\"worker \\\"0\\\"\"} 4\n# HELP b B\n\
             # TYPE b counter\nb_total{x=\"}\"} 2\nb_total{process=\"worker \\\"0\\\"\",x=\"{ \"} 5\n\
             # HELP c C\n# TYPE c gauge\nc{process=\"worker \\\"0\\\"\"} 3\n"
        );
    }
}
