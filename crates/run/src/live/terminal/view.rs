//! Draws a history.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::{Block, Borders, Paragraph};

use super::Position;
use crate::live::history::History;
use crate::live::log::{self, TOLD};
use crate::live::model::{
    Clock, Finding, Line, Node, Sample, Scene, ShownJob, Weight, WorkerSample,
};
use crate::live::pool;

/// The colours of jobs: those of the terminal's own palette, which suits its background.
pub(super) const COLOURS: [Color; 6] =
    [Color::Blue, Color::Yellow, Color::Green, Color::Magenta, Color::Cyan, Color::Red];

const SOFT: Style = Style::new().fg(Color::DarkGray);
const KEYS: &str = " q quit  space play  ← → step  home end  + - speed";

/// Columns between two panes.
const GAP: u16 = 2;

/// Most findings that are shown.
const MOST_FINDINGS: usize = 3;

/// Most workers, and most links, whose events are shown of a sample.
const MOST_TOLD: usize = 3;

/// Happenings that are looked for, at most: in so many samples.
const LOOKED: usize = 300;

/// What is drawn.
struct Picture<'a> {
    scene: &'a Scene,
    now: &'a Sample,
    before: &'a Sample,
}

/// Draws the picture of a position.
pub fn draw(frame: &mut Frame<'_>, history: &History, position: &Position) {
    let shown = history.scene().zip(position.samples(history));
    let findings = shown.map_or(0, |(_, (now, _))| now.findings.len().min(MOST_FINDINGS));
    let findings = u16::try_from(findings).unwrap_or(0);
    let [head, wrong, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(findings),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let Some((scene, (now, before))) = shown else {
        frame.render_widget(Paragraph::new("preparing … (waiting for the first sample)"), head);
        frame.render_widget(Paragraph::new(KEYS).style(SOFT), foot);
        return;
    };
    let picture = Picture { scene, now, before };
    frame.render_widget(Paragraph::new(picture.title(history, position)), head);
    frame.render_widget(Paragraph::new(picture.findings()), wrong);
    let speed = match position.playing {
        true => format!("{KEYS}   playing, {}×", position.speed),
        false => KEYS.to_owned(),
    };
    frame.render_widget(Paragraph::new(speed).style(SOFT), foot);
    let jobs = 1 + u16::try_from(scene.jobs.len()).unwrap_or(u16::MAX).min(8);
    let [top, rest] = Layout::vertical([Constraint::Length(jobs), Constraint::Min(0)]).areas(body);
    panel(frame, top, "Jobs", |area| picture.jobs(area));
    let [upper, lower] =
        Layout::vertical([Constraint::Percentage(58), Constraint::Percentage(42)]).areas(rest);
    let [left, right] =
        Layout::horizontal([Constraint::Percentage(56), Constraint::Percentage(44)])
            .spacing(GAP)
            .areas(upper);
    panel(frame, left, "Workers", |area| picture.workers(area));
    panel(frame, right, "Aggregators", |area| picture.pools(area));
    let [left, right] =
        Layout::horizontal([Constraint::Percentage(60), Constraint::Percentage(40)])
            .spacing(GAP)
            .areas(lower);
    panel(frame, left, "Events", |area| picture.events(history, area));
    panel(frame, right, "Busiest links", |area| picture.links(area));
}

fn panel<'t>(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &'static str,
    lines: impl FnOnce(Rect) -> Vec<Text<'t>>,
) {
    let block = Block::new().borders(Borders::TOP).title(title).border_style(SOFT);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    if !inner.is_empty() {
        frame.render_widget(Paragraph::new(lines(inner)), inner);
    }
}

fn colour(job: Option<usize>) -> Style {
    let colour = job.and_then(|job| COLOURS.get(job)).copied().unwrap_or(Color::Gray);
    Style::new().fg(colour)
}

/// A bar of `width` characters.
fn bar(share: f64, width: usize, style: Style) -> [Span<'static>; 2] {
    let full = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
    [Span::styled("━".repeat(full), style), Span::styled("─".repeat(width - full), SOFT)]
}

/// Names of people's files may hold anything.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn padded(text: &str, width: usize) -> String {
    let short: String = printable(text).chars().take(width).collect();
    format!("{short:width$}")
}

/// A worker in the list.
struct WorkerRow<'a> {
    is_culprit: bool,
    behind: u64,
    worker: &'a WorkerSample,
    /// The position of its job.
    position: usize,
    name: &'a str,
    job: &'a ShownJob,
}

impl WorkerRow<'_> {
    fn text(self, area: Rect) -> Text<'static> {
        let Self { is_culprit, behind, worker, position, name, job } = self;
        let style = colour(Some(position));
        let of = job.rounds.unwrap_or(worker.rounds + behind).max(1);
        let [full, rest] = bar(worker.rounds as f64 / of as f64, 12, style);
        let late = match worker.late_us {
            0..50 => String::new(),
            us => format!("{:>6.1} ms late", us as f64 / 1e3),
        };
        let again = format!("{:>5} sent again", worker.resent);
        let facts = [format!("{behind:>3} behind"), late, again];
        let facts = facts.into_iter().filter(|fact| !fact.is_empty());
        let facts = fitting(facts, area, 9 + 9 + 12);
        let red = if is_culprit { Style::new().fg(Color::Red) } else { Style::new() };
        let name = Span::styled(format!("{} ", padded(name, 8)), style);
        let job = Span::styled(format!("{} ", padded(&job.name, 8)), SOFT);
        Text::from(vec![name, job, full, rest, Span::styled(facts, red)])
    }
}

/// As many of these facts as have room beside so many columns.
fn fitting(facts: impl Iterator<Item = String>, area: Rect, beside: usize) -> String {
    let mut room = usize::from(area.width).saturating_sub(beside);
    let fits = |fact: &String| {
        let width = 2 + fact.chars().count();
        let fits = width <= room;
        room = room.saturating_sub(width);
        fits
    };
    facts.take_while(fits).map(|fact| format!("  {fact}")).collect()
}

impl Picture<'_> {
    fn seconds(&self) -> f64 {
        (self.now.at_us.saturating_sub(self.before.at_us)).max(1) as f64 / 1e6
    }

    fn title(&self, history: &History, position: &Position) -> Text<'static> {
        let Self { scene, now, .. } = self;
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let state = match history.end() {
            Some(end) => match &end.failure {
                Some(failure) => {
                    Span::styled(format!("failed: {}", printable(failure)), Color::Red)
                }
                None => Span::raw("over"),
            },
            None if position.at_us.is_none() => Span::styled("running", Color::Green),
            None => Span::raw("looking back"),
        };
        let clock = match scene.clock {
            Clock::Real => "",
            Clock::Virtual => " virtual",
        };
        Text::from(vec![
            Span::styled(printable(&scene.name), bold),
            Span::raw(format!(" · {} · {}   ", scene.protocol.to_uppercase(), scene.fabric)),
            Span::styled(format!("{}{clock}", log::time(now.at_us)), bold),
            Span::raw("   "),
            state,
        ])
    }

    /// What is wrong, one line each.
    fn findings(&self) -> Vec<Text<'static>> {
        let style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
        let line = |finding: &Finding| {
            Text::from(Span::styled(format!("▲ {}", printable(&finding.line(self.scene))), style))
        };
        self.now.findings.iter().take(MOST_FINDINGS).map(line).collect()
    }

    fn jobs(&self, area: Rect) -> Vec<Text<'static>> {
        let Self { scene, now, before } = self;
        let counted: &[(&str, &str)] = match scene.protocol.as_str() {
            "esa" => &[("preempted", "preempted"), ("evicted", "evicted")],
            "atp" => &[("collided", "collided")],
            _ => &[("asynchronous", "turned back")],
        };
        let row = |(position, job): (usize, &ShownJob)| {
            let style = colour(Some(position));
            let workers = now.jobs.get(position).map_or(&[][..], |job| &job.workers);
            let slowest = workers.iter().map(|worker| worker.rounds).min();
            let rounds = match (slowest, job.rounds) {
                (None, _) => "not known".into(),
                (Some(done), None) => done.to_string(),
                (Some(done), Some(of)) => format!("{done} of {of}"),
            };
            let completed = now.count(position, "completed");
            let more = completed.saturating_sub(before.count(position, "completed"));
            let [full, rest] = bar(now.progress(scene, position).unwrap_or(0.0), 12, style);
            let again: u64 = workers.iter().map(|worker| worker.resent).sum();
            let counts =
                counted.iter().map(|(outcome, words)| (now.count(position, outcome), words));
            let counts = counts.map(|(count, words)| format!("{count} {words}"));
            let speed = format!("{:>6.0}/s complete", more as f64 / self.seconds());
            let facts = [format!("{rounds:10}"), speed, format!("{again} sent again")];
            let facts = fitting(facts.into_iter().chain(counts), area, 10 + 12);
            let name = Span::styled(padded(&job.name, 10), style);
            Text::from(vec![name, full, rest, Span::raw(facts)])
        };
        scene.jobs.iter().enumerate().map(row).collect()
    }

    /// Whether a finding is about a worker of the job at this position.
    fn is_culprit(&self, job: usize, worker: usize) -> bool {
        let about = |it: &Finding| it.job == Some(job) && it.workers.contains(&worker);
        self.now.findings.iter().any(about)
    }

    /// Those that findings name come first if not all have room, then those that are furthest behind.
    fn workers(&self, area: Rect) -> Vec<Text<'static>> {
        let Self { scene, now, .. } = self;
        let mut rows = Vec::new();
        for (position, job) in scene.jobs.iter().enumerate() {
            let workers = now.jobs.get(position).map_or(&[][..], |job| &job.workers);
            let first = workers.iter().map(|worker| worker.rounds).max().unwrap_or(0);
            for (index, (worker, host)) in workers.iter().zip(&job.workers).enumerate() {
                let name = scene.hosts.get(*host).map_or("?", |host| host.name.as_str());
                rows.push(WorkerRow {
                    is_culprit: self.is_culprit(position, index),
                    behind: first - worker.rounds,
                    worker,
                    position,
                    name,
                    job,
                });
            }
        }
        if rows.len() > usize::from(area.height) {
            rows.sort_by_key(|row| {
                std::cmp::Reverse((row.is_culprit, row.behind, row.worker.late_us))
            });
            rows.truncate(area.height.into());
        }
        rows.into_iter().map(|row| row.text(area)).collect()
    }

    fn pools(&self, area: Rect) -> Vec<Text<'static>> {
        let mut lines = Vec::new();
        for (switch, now) in self.scene.switches.iter().zip(&self.now.switches) {
            let name = printable(&switch.name);
            if switch.cells == 0 {
                lines.push(Text::from(format!("{name}  does not let its registers be read")));
                continue;
            }
            let held: u32 = now.held.iter().sum();
            let sampled = match switch.cells < switch.pool {
                true => format!(", of {} aggregators", switch.pool),
                false => String::new(),
            };
            lines.push(Text::from(format!("{name}  {held} of {} held{sampled}", switch.cells)));
            let cells: Vec<_> = pool::cells(&now.cells).map(cell).collect();
            let columns = usize::from(area.width).max(1);
            lines.extend(cells.chunks(columns).map(|row| Text::from(row.to_vec())));
        }
        lines
    }

    fn events(&self, history: &History, area: Rect) -> Vec<Text<'static>> {
        let Self { scene, now, .. } = self;
        let room = usize::from(area.height);
        let samples = history.samples().filter(|sample| sample.at_us <= now.at_us);
        let newest: Vec<_> = samples.rev().take(LOOKED).collect();
        let mut found: Vec<(u64, Text<'static>)> = Vec::new();
        for pair in newest.windows(2) {
            if found.len() >= room {
                break;
            }
            let told = log::between(scene, pair[1], pair[0]);
            found.extend(told.into_iter().map(|it| {
                let words = TOLD.iter().find(|(outcome, _)| *outcome == it.outcome);
                let words = words.map_or(it.outcome, |(_, words)| words);
                let job = printable(&scene.jobs[it.job].name);
                let switch = printable(&scene.switches[it.switch].name);
                let text = format!("{job} at {switch}: {} {words}", it.count);
                (it.at_us, event(it.at_us, text, colour(Some(it.job))))
            }));
            found.extend(self.of_parts(pair[1], pair[0]));
        }
        let notes = history.lines().filter_map(|line| match line {
            Line::Note(note) if note.at_us <= now.at_us => Some(note),
            _ => None,
        });
        let notes: Vec<_> = notes.collect();
        found.extend(notes.iter().rev().take(room).map(|note| {
            let style = match note.weight {
                Weight::Info => colour(note.job),
                Weight::Warning | Weight::Error => Style::new().fg(Color::Red),
            };
            (note.at_us, event(note.at_us, printable(&note.text), style))
        }));
        found.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        found.into_iter().take(room).map(|(_, line)| line).collect()
    }

    /// What happened to workers and links between two samples.
    fn of_parts(&self, before: &Sample, after: &Sample) -> Vec<(u64, Text<'static>)> {
        let (scene, at_us) = (self.scene, after.at_us);
        let again = log::sent_again(before, after).into_iter().take(MOST_TOLD);
        let again = again.filter_map(|(position, worker, count)| {
            let job = scene.jobs.get(position)?;
            let name = &scene.hosts.get(*job.workers.get(worker)?)?.name;
            let (name, job) = (printable(name), printable(&job.name));
            let text = format!("{name} of {job}: {count} packets sent again");
            Some((at_us, event(at_us, text, colour(Some(position)))))
        });
        let lost = log::lost(before, after).into_iter().take(MOST_TOLD);
        let lost = lost.filter_map(|(link, way, count)| {
            let ends = scene.links.get(link)?.ends;
            let [from, to] = [ends[way], ends[1 - way]].map(|end| printable(self.name(end)));
            let text = format!("{from} → {to}: {count} frames lost");
            Some((at_us, event(at_us, text, Style::new().fg(Color::Red))))
        });
        again.chain(lost).collect()
    }

    fn name(&self, node: Node) -> &str {
        let name = match node {
            Node::Host(host) => self.scene.hosts.get(host).map(|host| &host.name),
            Node::Switch(switch) => self.scene.switches.get(switch).map(|switch| &switch.name),
        };
        name.map_or("?", String::as_str)
    }

    fn links(&self, area: Rect) -> Vec<Text<'static>> {
        let Self { scene, now, before } = self;
        let mut loads = Vec::new();
        let samples = now.links.iter().zip(&before.links);
        for (number, (link, (new, old))) in scene.links.iter().zip(samples).enumerate() {
            for way in [0, 1] {
                let about = |it: &Finding| it.link == Some(number) && it.ways[way];
                let is_lossy = now.findings.iter().any(about);
                let bits = 8 * new.bytes[way].saturating_sub(old.bytes[way]);
                let dropped = new.drops[way].saturating_sub(old.drops[way]);
                let ends = [link.ends[way], link.ends[1 - way]].map(|end| self.name(end));
                let lost = new.lost[way].saturating_sub(old.lost[way]);
                let bits = bits as f64 / self.seconds();
                loads.push((is_lossy, bits, dropped + lost, ends, link.rate));
            }
        }
        loads.sort_by(|a, b| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)));
        let most = loads.iter().map(|(_, bits, ..)| *bits).fold(1.0, f64::max);
        let row = |load: (bool, f64, u64, [&str; 2], Option<u64>)| {
            let (is_lossy, bits, dropped, [from, to], rate) = load;
            let share = bits / rate.map_or(most, |rate| rate as f64);
            let [full, rest] = bar(share, 10, Style::new().fg(Color::Reset));
            let measure = match rate {
                Some(_) => format!(" {:>3.0} %", 100.0 * share),
                None => format!(" {:>6.1} Mbit/s", bits / 1e6),
            };
            let red = if is_lossy { Style::new().fg(Color::Red) } else { Style::new() };
            let name = format!("{} → {}", padded(from, 5), padded(to, 5));
            let name = Span::styled(name, red);
            let lost = match dropped {
                0 => Span::raw(""),
                _ => Span::styled(format!("  ✕ {dropped}"), Color::Red),
            };
            Text::from(vec![name, full, rest, Span::raw(measure), lost])
        };
        loads.into_iter().take(area.height.into()).map(row).collect()
    }
}

fn cell(cell: Option<pool::Cell>) -> Span<'static> {
    let Some(cell) = cell else { return Span::styled("·", SOFT) };
    let style = colour(cell.job);
    let style = if cell.taken { style.add_modifier(Modifier::REVERSED) } else { style };
    let glyph = match cell.level {
        0..=3 => "░",
        4..=6 => "▒",
        7..=9 => "▓",
        _ => "█",
    };
    Span::styled(glyph, style)
}

fn event(at_us: u64, text: String, style: Style) -> Text<'static> {
    let time = format!("{:>10}  ", log::time(at_us));
    Text::from(vec![Span::styled(time, SOFT), Span::styled(text, style)])
}
