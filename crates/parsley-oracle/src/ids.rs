//! The numbers by which an oracle knows actors, channels and records.

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// A handle is good for the [`Oracle`](crate::Oracle) that gave it out; another one panics on a number it does not know.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            pub(crate) fn new(index: usize) -> Self {
                Self(u32::try_from(index).expect("a run has fewer than 2^32 of anything"))
            }

            /// Its number: dense, from 0 up, in the order in which they were made.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

number! {
    /// Who sends and is delivered to: a task of a stage, over all its executions, or a client at the edge.
    Actor
}

number! {
    /// One partition of one topic. A topic that was deleted and made again has new channels.
    Channel
}

number! {
    /// A business record, from the moment it is sent. Whether it ever becomes a fact depends on its step.
    Emission
}
