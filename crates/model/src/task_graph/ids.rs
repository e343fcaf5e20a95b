//! Typed indices of a task graph: each names one kind of thing, and none can be added or mixed up.

macro_rules! ids {
    ($($(#[$documentation:meta])* $name:ident($inner:ty);)*) => {
        $(
            $(#[$documentation])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
            #[repr(transparent)]
            pub struct $name(pub $inner);

            impl $name {
                /// The index as a position in a list.
                #[inline]
                pub fn index(self) -> usize {
                    self.0 as usize
                }
            }

            impl std::fmt::Display for $name {
                fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    self.0.fmt(formatter)
                }
            }
        )*
    };
}

ids! {
    /// A worker: GPUs of one server that move together.
    WorkerId(u32);
    /// A server of a cluster.
    ServerId(u32);
    /// Index into [`crate::TaskGraph::roles`].
    RoleId(u32);
    /// Index into [`crate::TaskGraph::families`].
    FamilyId(u32);
    /// Index of a group within its family.
    GroupId(u32);
    /// Position of a task in the program of its role.
    TaskIndex(u32);
    /// Name of a task's completion, unique in its program.
    Handle(u32);
    /// Tells the messages between two workers apart.
    Tag(u32);
    /// Index into [`crate::TaskGraph::tables`].
    TableId(u32);
    /// Index into [`crate::TaskGraph::demands`].
    DemandId(u32);
    /// Index into [`crate::TaskGraph::categories`].
    CategoryId(u8);
    /// Index of a purpose: categories of communication that move bytes for one reason share it.
    PurposeId(u8);
    /// Stream of a worker; 0 is the main one.
    StreamIndex(u8);
    /// Strict priority of what a task sends: higher goes first, and lower shares what is left.
    Priority(u8);
}
