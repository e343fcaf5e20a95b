//! Broadcast: the buffer goes along the chain of members in pieces that follow each other closely,
//! so that every edge carries all of it at the same time.

use super::circulation::Circulation;

pub(super) fn broadcast(bytes: u64, members: usize) -> Circulation {
    let edges = members as u64 - 1;
    Circulation { edge_bytes: bytes, edges, steps: edges }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_sends_to_the_root() {
        let chain = broadcast(7, 4);
        assert_eq!((chain.edge_bytes, chain.edges, chain.steps), (7, 3, 3));
        assert!(!chain.is_closed(4));
    }
}
