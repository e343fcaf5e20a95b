//! Demand to circuits: pure functions, one algorithm per file.
