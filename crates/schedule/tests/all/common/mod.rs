//! What several files of tests share.

pub mod cases;
pub mod crossbar;
pub mod jobs;
pub mod matchings;
pub mod regimes;
pub mod relay_worlds;
pub mod simplex;
pub mod square;
