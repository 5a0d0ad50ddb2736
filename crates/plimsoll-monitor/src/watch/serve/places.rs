//! Places of connections: a few for clients that have not shown the token, others for those that have.
//!
//! Every user of the machine can connect. So a connection without the token never waits for a place: it takes that of the
//! oldest other one, which a client that sends its request at once has left long before. The places of clients with the
//! token are apart, and no number of other connections takes one.
//!
//! ```text
//!             admit                    trust
//! accepted ----------> without token ---------> with token
//!                        | deadline, or evicted by a later connection    | idle
//!                        v                                               v
//!                      closed                                          closed
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Most connections that have not shown the token.
const WITHOUT_TOKEN: usize = 32;
/// Most connections that have shown it: the event streams, and a short request of each.
const WITH_TOKEN: usize = 2 * super::MAX_CLIENTS;

pub(super) struct Places {
    /// Connections without the token, the oldest first.
    waiting: VecDeque<Weak<Place>>,
    trusted: Arc<Semaphore>,
}

/// The place of one connection.
pub(super) struct Place {
    state: Mutex<State>,
    trusted: Arc<Semaphore>,
}

enum State {
    /// Without the token; evicted when the sender is dropped.
    Waiting(#[expect(dead_code, reason = "held for its drop")] oneshot::Sender<()>),
    Trusted(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit),
    Evicted,
}

impl Places {
    pub(super) fn new() -> Places {
        Places {
            waiting: VecDeque::new(),
            trusted: Arc::new(Semaphore::new(WITH_TOKEN)),
        }
    }

    /// A place for a new connection, with a receiver that ends when the place is lost. Evicts the oldest connection
    /// without the token if there are too many.
    pub(super) fn admit(&mut self) -> (Arc<Place>, oneshot::Receiver<()>) {
        self.waiting
            .retain(|place| place.upgrade().is_some_and(|place| place.is_waiting()));
        if self.waiting.len() >= WITHOUT_TOKEN
            && let Some(oldest) = self.waiting.pop_front().and_then(|place| place.upgrade())
        {
            oldest.evict();
        }
        let (sender, evicted) = oneshot::channel();
        let place = Arc::new(Place {
            state: Mutex::new(State::Waiting(sender)),
            trusted: Arc::clone(&self.trusted),
        });
        self.waiting.push_back(Arc::downgrade(&place));
        (place, evicted)
    }
}

impl Place {
    /// Moves the connection to a place of clients with the token, if one is free.
    pub(super) fn trust(&self) {
        let mut state = self.state();
        if matches!(*state, State::Waiting(_))
            && let Ok(permit) = Arc::clone(&self.trusted).try_acquire_owned()
        {
            *state = State::Trusted(permit);
        }
    }

    pub(super) fn is_trusted(&self) -> bool {
        matches!(*self.state(), State::Trusted(_))
    }

    fn is_waiting(&self) -> bool {
        matches!(*self.state(), State::Waiting(_))
    }

    fn evict(&self) {
        let mut state = self.state();
        if matches!(*state, State::Waiting(_)) {
            *state = State::Evicted;
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_connection_takes_the_place_of_the_oldest_without_the_token() {
        let mut places = Places::new();
        let mut admitted: Vec<_> = (0..WITHOUT_TOKEN).map(|_| places.admit()).collect();
        let lost = |(_, evicted): &mut (Arc<Place>, oneshot::Receiver<()>)| {
            evicted.try_recv() == Err(oneshot::error::TryRecvError::Closed)
        };
        // The oldest shows the token, the second goes: both make room without an eviction.
        admitted[0].0.trust();
        let trusted = admitted.remove(0);
        drop(admitted.remove(0));
        admitted.extend([places.admit(), places.admit()]);
        assert!(!admitted.iter_mut().any(lost));
        admitted.extend((0..3).map(|_| places.admit()));
        let gone: Vec<bool> = admitted.iter_mut().map(lost).collect();
        assert_eq!(gone.iter().filter(|gone| **gone).count(), 3);
        assert!(gone[..3].iter().all(|gone| *gone), "the oldest: {gone:?}");
        assert!(trusted.0.is_trusted());
    }

    #[test]
    fn places_with_the_token_are_bounded_too() {
        let mut places = Places::new();
        let mut trusted = Vec::new();
        for _ in 0..WITH_TOKEN + 3 {
            let (place, evicted) = places.admit();
            place.trust();
            trusted.push((place, evicted));
        }
        let count = |list: &[(Arc<Place>, _)]| list.iter().filter(|(place, _)| place.is_trusted()).count();
        assert_eq!(count(&trusted), WITH_TOKEN);
        trusted.remove(0);
        trusted.last().expect("some").0.trust();
        assert_eq!(count(&trusted), WITH_TOKEN);
    }
}
