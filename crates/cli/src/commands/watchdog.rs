//! Tells a service manager that a command still works.

use std::pin::pin;

use tributary_base::program::Watchdog;

/// Feeds the watchdog, if there is one, as long as this thread goes on with `work`, and returns what that does.
pub(crate) async fn feed_until<T>(work: impl Future<Output = T>) -> T {
    let Some(watchdog) = Watchdog::find() else { return work.await };
    let mut work = pin!(work);
    loop {
        tokio::select! {
            result = &mut work => return result,
            () = tokio::time::sleep(watchdog.pause()) => watchdog.feed(),
        }
    }
}
