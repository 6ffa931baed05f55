//! The results of calls, and the threads that call callbacks.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tributary_protocol::buffer::Buffer;

use crate::Error;

pub(crate) type Callback = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// The result of a call.
pub(crate) struct Outcome {
    pub(crate) number: u64,
    pub(crate) begun: Instant,
    /// What the caller should know of the result.
    pub(crate) warning: OnceLock<String>,
    /// The sums, if the caller keeps them.
    sums: Option<Mutex<Option<Buffer<f32>>>>,
    state: Mutex<Told>,
    done: Condvar,
    callers: Arc<Callers>,
}

/// The result of a call, if there is one, and who waits for it.
#[derive(Default)]
struct Told {
    result: Option<Result<(), Error>>,
    callbacks: Vec<Callback>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Outcome {
    pub(crate) fn new(number: u64, callers: Arc<Callers>) -> Self {
        Self {
            number,
            begun: Instant::now(),
            warning: OnceLock::new(),
            sums: None,
            state: Mutex::default(),
            done: Condvar::new(),
            callers,
        }
    }

    /// Keeps the memory of the sums, for [`take_sums`](Self::take_sums).
    pub(crate) fn keeping_sums(self) -> Self {
        Self { sums: Some(Mutex::default()), ..self }
    }

    /// Keeps the memory of the sums for the caller, if it asked for that.
    pub(crate) fn set_sums(&self, sums: Buffer<f32>) {
        if let Some(place) = &self.sums {
            *lock(place) = Some(sums);
        }
    }

    /// The sums of a call without an error that keeps them, once.
    pub(crate) fn take_sums(&self) -> Option<Buffer<f32>> {
        self.sums.as_ref().and_then(|place| lock(place).take())
    }

    /// Sets the result unless there is one.
    pub(crate) fn set(&self, result: Result<(), Error>) {
        let callbacks = {
            let mut state = lock(&self.state);
            if state.result.is_some() {
                return;
            }
            state.result = Some(result.clone());
            std::mem::take(&mut state.callbacks)
        };
        self.done.notify_all();
        for callback in callbacks {
            let result = result.clone();
            self.callers.call(Box::new(move || callback(result)));
        }
    }

    pub(crate) fn wait(&self, patience: Duration) -> Option<Result<(), Error>> {
        let waited = self
            .done
            .wait_timeout_while(lock(&self.state), patience, |state| state.result.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.result.clone()
    }

    /// Has `callback` called with the result, never in the calling thread while the group lives: that may
    /// hold a lock for which the callback waits.
    pub(crate) fn on_done(&self, callback: Callback) {
        let mut state = lock(&self.state);
        match state.result.clone() {
            None => state.callbacks.push(callback),
            Some(result) => {
                drop(state);
                self.callers.call(Box::new(move || callback(result)));
            }
        }
    }
}

type Task = Box<dyn FnOnce() + Send>;

/// Threads that call callbacks. A callback may wait for another call, so there is a thread for each
/// callback that runs.
#[derive(Default)]
pub(crate) struct Callers {
    queue: Mutex<Queue>,
    ready: Condvar,
}

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Task>,
    /// Number of threads that wait for a task.
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    ended: bool,
}

impl Callers {
    fn call(self: &Arc<Self>, task: Task) {
        let mut queue = lock(&self.queue);
        if queue.ended {
            drop(queue);
            return task();
        }
        queue.tasks.push_back(task);
        if queue.tasks.len() <= queue.idle {
            self.ready.notify_one();
            return;
        }
        let this = Arc::clone(self);
        match std::thread::Builder::new().name("callbacks".into()).spawn(move || this.run()) {
            Ok(thread) => queue.threads.push(thread),
            Err(error) => {
                tracing::warn!(%error, "a callback is called late: there is no thread for it");
                if queue.threads.is_empty() {
                    let task = queue.tasks.pop_back();
                    drop(queue);
                    task.into_iter().for_each(|task| task());
                }
            }
        }
    }

    fn run(&self) {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(task) = queue.tasks.pop_front() {
                drop(queue);
                task();
                queue = lock(&self.queue);
            } else if queue.ended {
                return;
            } else {
                queue.idle += 1;
                queue = self.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
            }
        }
    }

    /// Waits until all callbacks have been called, and ends the threads.
    pub(crate) fn end(&self) {
        let threads = {
            let mut queue = lock(&self.queue);
            queue.ended = true;
            self.ready.notify_all();
            std::mem::take(&mut queue.threads)
        };
        let own = std::thread::current().id();
        for thread in threads {
            if thread.thread().id() != own {
                // The panic hook has reported a panic of the thread.
                drop(thread.join());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn callbacks_may_wait_for_each_other_and_each_is_called_once() {
        let callers = Arc::new(Callers::default());
        let outcomes: Vec<_> =
            (0..20).map(|number| Arc::new(Outcome::new(number, Arc::clone(&callers)))).collect();
        let (sender, called) = mpsc::channel();
        for (at, outcome) in outcomes.iter().enumerate() {
            let next = outcomes.get(at + 1).cloned();
            let sender = sender.clone();
            outcome.on_done(Box::new(move |_| {
                let waited = next.map(|next| next.wait(Duration::from_secs(20)));
                sender.send((at, waited.is_none_or(|result| result == Some(Ok(()))))).unwrap();
            }));
        }
        outcomes.iter().for_each(|outcome| outcome.set(Ok(())));
        outcomes.iter().for_each(|outcome| outcome.set(Err(Error::Closed)));
        callers.end();
        let mut all: Vec<_> = called.try_iter().collect();
        all.sort_unstable();
        assert_eq!(all, (0..20).map(|at| (at, true)).collect::<Vec<_>>());
        // Afterwards there are no threads.
        let again = sender.clone();
        outcomes[3].on_done(Box::new(move |result| again.send((99, result.is_ok())).unwrap()));
        assert_eq!(called.try_recv(), Ok((99, true)));
    }
}
