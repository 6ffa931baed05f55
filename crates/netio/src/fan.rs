//! Several links as one port.

use std::{fmt, io};

use crate::{FrameIo, Watch};

/// Names the thread that a frame goes to.
type Choose = Box<dyn Fn(&[u8]) -> usize + Send>;

/// The ends of several links to a neighbour whose threads share one port, as the cores of a switch
/// do.
pub struct Fan<Io> {
    links: Vec<Io>,
    choose: Choose,
    /// The link that is received from first.
    turn: usize,
}

impl<Io> Fan<Io> {
    /// Of these links, in the order of the threads. Each frame goes to the thread whose number is
    /// what `choose` returns, modulo their number.
    ///
    /// # Panics
    ///
    /// If there is no link.
    #[must_use]
    pub fn new(links: Vec<Io>, choose: impl Fn(&[u8]) -> usize + Send + 'static) -> Self {
        assert!(!links.is_empty(), "a fan has a link");
        Self { links, choose: Box::new(choose), turn: 0 }
    }
}

impl<Io> fmt::Debug for Fan<Io> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fan").field("links", &self.links.len()).finish_non_exhaustive()
    }
}

impl<Io: FrameIo> FrameIo for Fan<Io> {
    fn receive(&mut self, max: usize, sink: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let count = self.links.len();
        let mut received = 0;
        for offset in 0..count {
            received += self.links[(self.turn + offset) % count].receive(max - received, sink)?;
        }
        self.turn = (self.turn + 1) % count;
        Ok(received)
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<bool> {
        let at = match self.links.len() {
            1 => 0,
            count => (self.choose)(frame) % count,
        };
        self.links[at].send(frame)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.links.iter_mut().try_for_each(Io::flush)
    }

    fn watch(&mut self, watch: &mut Watch) -> io::Result<()> {
        self.links.iter_mut().try_for_each(|link| link.watch(watch))
    }
}
