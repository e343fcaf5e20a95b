//! Plays a task graph over a network.
