//! Names of links and flows.

/// A link of a [`FlowNetwork`](crate::FlowNetwork); numbered from 0 in the order of creation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

/// A flow of a [`FlowNetwork`](crate::FlowNetwork): a slot, reused once the flow has finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

/// The link without limit.
pub(crate) const NO_LINK: u32 = 0;
/// Longest path that is stored inside the flow and its entries.
pub(crate) const SHORT: usize = 4;
