//! Clock, event order, trace hash.
