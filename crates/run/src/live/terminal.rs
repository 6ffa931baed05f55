//! The same picture for a terminal, for example over SSH.

mod view;

use std::io::{self, IsTerminal as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::live::Hub;
use crate::live::history::History;
use crate::live::model::{Clock, Sample};

pub use view::draw;

/// Time between two pictures.
const FRAME: Duration = Duration::from_millis(100);

/// How long a replay of a run in virtual time takes at normal speed.
const REPLAY: Duration = Duration::from_secs(30);

/// Samples over which rates are computed.
const WINDOW: usize = 5;

/// Which time is shown, and whether it moves.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Position {
    /// Microseconds since the begin; `None` for the newest sample.
    pub at_us: Option<f64>,
    /// Whether time passes.
    pub playing: bool,
    /// How many times as fast as normal.
    pub speed: f64,
}

impl Position {
    /// The newest sample, always.
    pub const NEWEST: Self = Self { at_us: None, playing: false, speed: 1.0 };
    /// From the begin on.
    pub const REPLAY: Self = Self { at_us: Some(0.0), playing: true, speed: 1.0 };

    /// The sample to show, and the earlier one with which its rates are computed.
    #[must_use]
    pub fn samples<'h>(&self, history: &'h History) -> Option<(&'h Sample, &'h Sample)> {
        let all: Vec<_> = history.samples().collect();
        let last = all.len().checked_sub(1)?;
        let shown = match self.at_us {
            None => last,
            Some(at) => all.partition_point(|it| it.at_us as f64 <= at).saturating_sub(1),
        };
        Some((all[shown], all[shown.saturating_sub(WINDOW)]))
    }

    /// Lets time pass.
    pub fn pass(&mut self, history: &History, passed: Duration) {
        let (Some(at), true) = (self.at_us, self.playing) else { return };
        let times = || history.samples().map(|sample| sample.at_us as f64);
        let (Some(first), Some(last)) = (times().next(), times().next_back()) else { return };
        let virtual_time = history.scene().is_some_and(|scene| scene.clock == Clock::Virtual);
        let per_second = match virtual_time {
            true => (last - first) / REPLAY.as_secs_f64(),
            false => 1e6,
        };
        let next = at.max(first) + self.speed * per_second * passed.as_secs_f64();
        let over = next >= last;
        self.playing = !over;
        self.at_us = match over && history.end().is_none() {
            true => None,
            false => Some(next.min(last)),
        };
    }

    /// Moves by a number of samples.
    fn step(&mut self, history: &History, by: isize) {
        let times: Vec<_> = history.samples().map(|sample| sample.at_us as f64).collect();
        let Some(last) = times.len().checked_sub(1) else { return };
        let at = self.at_us.unwrap_or(f64::INFINITY);
        let now = times.partition_point(|&time| time <= at).saturating_sub(1);
        self.playing = false;
        self.at_us = Some(times[now.saturating_add_signed(by).min(last)]);
    }

    /// Obeys a key. Returns how it ends the view, if it does.
    fn obey(&mut self, key: KeyEvent, history: &History) -> Option<Ended> {
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Some(Ended::Closed),
            // In raw mode, Ctrl-C is a key.
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return Some(Ended::Interrupted);
            }
            KeyCode::Char(' ') if self.playing => self.playing = false,
            KeyCode::Char(' ') => {
                let last = history.samples().next_back().map_or(0.0, |sample| sample.at_us as f64);
                let at = self.at_us.filter(|&at| at < last).unwrap_or(0.0);
                (self.at_us, self.playing) = (Some(at), true);
            }
            KeyCode::Left => self.step(history, -1),
            KeyCode::Right => self.step(history, 1),
            KeyCode::PageUp => self.step(history, -20),
            KeyCode::PageDown => self.step(history, 20),
            KeyCode::Home => (self.at_us, self.playing) = (Some(0.0), false),
            KeyCode::End => (self.at_us, self.playing) = (None, false),
            KeyCode::Char('+') => self.speed = (self.speed * 2.0).min(64.0),
            KeyCode::Char('-') => self.speed = (self.speed / 2.0).max(1.0 / 64.0),
            _ => {}
        }
        None
    }
}

/// How a view ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// It was closed.
    Closed,
    /// Ctrl-C was pressed, or `stop` was raised.
    Interrupted,
}

/// Shows a hub until a key ends it, or `stop` is raised.
///
/// # Errors
/// If standard output is not a terminal, or cannot be written to.
pub fn run(hub: &Hub, mut position: Position, stop: &AtomicBool) -> io::Result<Ended> {
    if !io::stdout().is_terminal() {
        let what = "--terminal needs a terminal: leave it out for the web page";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let mut terminal = ratatui::try_init()?;
    let mut last = Instant::now();
    let shown = loop {
        if stop.load(Ordering::Relaxed) {
            break Ok(Ended::Interrupted);
        }
        let now = Instant::now();
        hub.look(|history| position.pass(history, now - last));
        last = now;
        let drawn = terminal.draw(|frame| hub.look(|history| draw(frame, history, &position)));
        if let Err(error) = drawn {
            break Err(error);
        }
        match next_key() {
            Ok(Some(key)) => {
                if let Some(ended) = hub.look(|history| position.obey(key, history)) {
                    break Ok(ended);
                }
            }
            Ok(None) => {}
            Err(error) => break Err(error),
        }
    };
    ratatui::restore();
    shown
}

/// Waits for a key, or for the next picture.
fn next_key() -> io::Result<Option<KeyEvent>> {
    if !event::poll(FRAME)? {
        return Ok(None);
    }
    Ok(match event::read()? {
        Event::Key(key) if key.kind == KeyEventKind::Press => Some(key),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::style::Color;

    use super::*;
    use crate::live::model::tests::{sample, scene};
    use crate::live::model::{End, Finding, Line, Rule};

    fn history() -> History {
        let mut history = History::default();
        history.push(Line::Scene(scene()));
        for (at, rounds) in [(0, 0), (1000, 1), (2000, 2), (3000, 4)] {
            history.push(Line::Sample(sample(at, rounds, 3 * rounds)));
        }
        history
    }

    fn picture(history: &History, position: &Position, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, history, position)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn the_picture_shows_jobs_cells_workers_and_what_happened() {
        let picture = picture(&history(), &Position::NEWEST, 110, 34);
        for part in ["two · ESA", "3.00 ms", "slow", "quick", "2 of 4", "4 of 4", "s1  3 of 4 held"]
        {
            assert!(picture.contains(part), "{part}\n{picture}");
        }
        assert!(picture.contains("quick at s1: 6 aggregators taken from other tasks"), "{picture}");
        assert!(picture.contains("w2"), "the straggler\n{picture}");
        assert!(picture.contains('%'), "link loads\n{picture}");
    }

    #[test]
    fn what_is_wrong_is_at_the_top_and_the_culprits_are_red() {
        let mut history = history();
        let mut wrong = sample(4000, 4, 12);
        let finding = |rule, job, workers: &[usize], link, text: &str| Finding {
            rule,
            job,
            workers: workers.to_vec(),
            link,
            ways: [true, link.is_none()],
            text: text.into(),
        };
        wrong.findings = vec![
            finding(Rule::LossyLink, None, &[], Some(2), "w3 → s1 loses 8 % of its frames"),
            finding(Rule::LateWorker, Some(0), &[1], None, "the others wait for worker 1 (w2)"),
        ];
        wrong.jobs[0].workers[1].late_us = 20_000;
        wrong.jobs[0].workers[1].resent = 5;
        wrong.links[2].lost = [9, 0];
        history.push(Line::Sample(wrong));
        let size = (130, 34);
        let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
        terminal.draw(|frame| draw(frame, &history, &Position::NEWEST)).unwrap();
        let buffer = terminal.backend().buffer();
        let rows: Vec<(String, bool)> = (0..size.1)
            .map(|y| {
                let cells = (0..size.0).map(|x| &buffer[(x, y)]);
                let red = cells.clone().any(|cell| cell.fg == Color::Red);
                (cells.map(|cell| cell.symbol()).collect(), red)
            })
            .collect();
        let is_red = |part: &str| {
            let found = rows.iter().find(|(row, _)| row.contains(part));
            found.unwrap_or_else(|| panic!("{part}: {rows:#?}")).1
        };
        assert!(rows[1].0.starts_with("▲ w3 → s1 loses 8 % of its frames"), "{rows:#?}");
        assert!(rows[2].0.starts_with("▲ slow: the others wait for worker 1 (w2)"), "{rows:#?}");
        assert!(is_red("w2       slow") && is_red("20.0 ms late") && is_red("w3    → s1"));
        assert!(!is_red("w1       slow"), "{rows:#?}");
        assert!(is_red("w3 → s1: 9 frames lost"));
        assert!(rows.iter().any(|(row, _)| row.contains("w2 of slow: 5 packets sent again")));
    }

    #[test]
    fn panes_keep_apart_and_facts_without_room_are_left_out() {
        for width in [60, 80, 100, 140] {
            let picture = picture(&history(), &Position::NEWEST, width, 34);
            for title in ["Aggregators", "Busiest links"] {
                let row = picture.lines().find(|row| row.contains(title)).unwrap();
                assert!(row.contains(&format!("  {title}")), "{width}: {row}");
            }
            for fact in picture.lines().filter(|row| row.contains("behind")) {
                let rest = fact.split("behind").nth(1).unwrap();
                assert!(!rest.contains("sent") || rest.contains("sent again"), "{width}: {fact}");
            }
        }
    }

    #[test]
    fn cells_have_the_colours_of_their_jobs() {
        let mut terminal = Terminal::new(TestBackend::new(110, 34)).unwrap();
        terminal.draw(|frame| draw(frame, &history(), &Position::NEWEST)).unwrap();
        let buffer = terminal.backend().buffer();
        let drawn = |colour: Color| {
            let cells = buffer.content().iter();
            cells.filter(|it| it.fg == colour && "░▒▓█".contains(it.symbol())).count()
        };
        assert!(drawn(view::COLOURS[0]) > 0 && drawn(view::COLOURS[1]) > 0);
    }

    #[test]
    fn a_small_terminal_and_an_empty_history_are_drawn_too() {
        for (width, height) in [(1, 1), (20, 5), (40, 12), (250, 80)] {
            picture(&history(), &Position::NEWEST, width, height);
            picture(&History::default(), &Position::REPLAY, width, height);
        }
    }

    #[test]
    fn a_replay_reaches_the_end_and_keys_move_through_time() {
        let mut history = history();
        history.push(Line::End(End { at_us: 3000, failure: None }));
        let mut position = Position::REPLAY;
        position.pass(&history, REPLAY / 2);
        assert_eq!(position.samples(&history).unwrap().0.at_us, 1000);
        assert!(position.playing);
        position.pass(&history, REPLAY);
        assert_eq!(position.samples(&history).unwrap().0.at_us, 3000);
        assert!(!position.playing, "over");
        let press = |key: KeyCode, position: &mut Position| position.obey(key.into(), &history);
        press(KeyCode::Left, &mut position);
        assert_eq!(position.samples(&history).unwrap().0.at_us, 2000);
        press(KeyCode::Home, &mut position);
        assert_eq!(position.samples(&history).unwrap().0.at_us, 0);
        press(KeyCode::End, &mut position);
        assert_eq!(position.samples(&history).unwrap().0.at_us, 3000);
        assert_eq!(press(KeyCode::Char('c'), &mut position), None);
        assert_eq!(press(KeyCode::Char('q'), &mut position), Some(Ended::Closed));
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(position.obey(control_c, &history), Some(Ended::Interrupted));
    }
}
