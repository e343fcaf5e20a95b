//! Flow-level network: max-min fair rates.
