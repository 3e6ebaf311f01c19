//! The network's event loop. It has no thread of its own: whoever waits drives it, so that what a model says goes
//! from the socket to its reader without a change of threads. It starts with the first call, and nothing of it
//! exists before.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::OnceLock;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{Handle, Runtime};
use tokio::sync::{Notify, Semaphore};

use crate::descriptors;

/// How many futures are looked at before those who wait for the loop and the sockets have their turn: about as many as
/// tasks begin at once, so that a glance is enough for all of them.
const LOOKED_AT: u32 = 256;

/// What all calls share once the first was made.
#[derive(Debug)]
struct Network {
    runtime: Runtime,
    /// One for each connection that may be open at once; calls beyond it wait for their turn.
    places: Semaphore,
}

static NETWORK: OnceLock<Result<Network, String>> = OnceLock::new();

fn network() -> Result<&'static Network, String> {
    NETWORK.get_or_init(start).as_ref().map_err(Clone::clone)
}

fn running() -> Option<&'static Network> {
    NETWORK.get()?.as_ref().ok()
}

fn start() -> Result<Network, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .event_interval(LOOKED_AT)
        .build()
        .map_err(|error| format!("the network cannot be used: {error}"))?;
    let places = descriptors::connections().min(Semaphore::MAX_PERMITS);
    Ok(Network { runtime, places: Semaphore::new(places) })
}

/// Runs a future on the loop, without waiting for it. It makes way only while somebody waits.
pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) -> Result<(), String> {
    let runtime = &network()?.runtime;
    // Whoever wants to know how it ends is told by the future itself.
    if Handle::try_current().is_ok() {
        drop(runtime.spawn(future));
    } else {
        // From inside of the loop nobody has to be woken for it, which would be a system call each time.
        runtime.block_on(async { drop(tokio::spawn(future)) });
    }
    Ok(())
}

/// Waits for a future and drives the loop meanwhile. Must not be called from inside of it.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> Result<T, String> {
    Ok(network()?.runtime.block_on(future))
}

/// Whether there is a loop to be driven.
pub(crate) fn is_running() -> bool {
    running().is_some()
}

/// Waits until `ready` is notified, at most `patience` (for ever if `None`), and drives the loop meanwhile. Returns at
/// once if there is no loop.
pub(crate) fn idle(ready: &Notify, patience: Option<Duration>) {
    let Some(network) = running() else { return };
    network.runtime.block_on(async {
        match patience {
            None => ready.notified().await,
            Some(patience) => {
                // Whether it was notified or the time is over is for the caller to see.
                let _ = tokio::time::timeout(patience, ready.notified()).await;
            }
        }
    });
}

/// Lets what is ready on the loop go on, without waiting.
pub(crate) fn glance() {
    if let Some(network) = running()
        && network.runtime.metrics().num_alive_tasks() > 0
    {
        network.runtime.block_on(once());
    }
}

/// Ends when it is asked for the second time: the loop has looked at everything in between.
async fn once() {
    let mut asked = false;
    poll_fn(|context| {
        if std::mem::replace(&mut asked, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A place for one connection; waits for one if all are taken.
pub(crate) async fn place() -> Option<tokio::sync::SemaphorePermit<'static>> {
    // Never closed, so that there is always one in the end.
    running()?.places.acquire().await.ok()
}

/// The second future's end; none if the first ends before.
pub(crate) async fn first<T>(
    stop: impl Future<Output = ()>,
    work: impl Future<Output = T>,
) -> Option<T> {
    let (mut stop, mut work) = (pin!(stop), pin!(work));
    poll_fn(|context| {
        if stop.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        work.as_mut().poll(context).map(Some)
    })
    .await
}
