//! Progress and interruption: how a long run is watched and stopped from outside.

use lightloom_model::Time;
use std::ops::ControlFlow;

/// Watches a run. A simulation calls it every few thousand events, so that it may be slow.
pub trait Observer {
    /// `done` units of work are complete at simulated time `now`; `Break` asks the run to stop.
    fn progress(&mut self, now: Time, done: u64) -> ControlFlow<()>;
}

/// Never looks and never stops.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn progress(&mut self, _now: Time, _done: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

impl<F: FnMut(Time, u64) -> ControlFlow<()>> Observer for F {
    fn progress(&mut self, now: Time, done: u64) -> ControlFlow<()> {
        self(now, done)
    }
}

/// A run that its observer stopped, and how far it had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted {
    /// Simulated time at which it stopped.
    pub now: Time,
    /// Units of work that were complete.
    pub done: u64,
}

impl std::fmt::Display for Interrupted {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "interrupted at {} s after {} events", self.now.as_seconds(), self.done)
    }
}

impl std::error::Error for Interrupted {}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(observer: &mut impl Observer) -> Result<u64, Interrupted> {
        for done in 0..10 {
            if observer.progress(Time(done), done).is_break() {
                return Err(Interrupted { now: Time(done), done });
            }
        }
        Ok(10)
    }

    #[test]
    fn a_silent_run_ends() {
        assert_eq!(run(&mut Silent), Ok(10));
    }

    #[test]
    fn a_closure_stops_a_run_and_the_error_says_where() {
        let mut calls = 0;
        let mut observer = |_now: Time, done: u64| {
            calls += 1;
            if done == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let stopped = run(&mut observer).unwrap_err();
        assert_eq!(stopped, Interrupted { now: Time(3), done: 3 });
        assert_eq!(stopped.to_string(), "interrupted at 0.000000000003 s after 3 events");
        assert_eq!(calls, 4);
    }
}
