//! Fewer flows from one server to another, with the same bytes over each of their NICs.
//!
//! Ranks of a large rack send to all ranks of another: thousands of flows, each of which ends at a
//! time of its own. What a group of NICs sends and what one receives decide how long that takes,
//! hardly who sends to whom. So bytes are regrouped: each group of NICs sends as much as it can to
//! the one in its place, and what is left goes to the next that has room, as by the north-west
//! corner rule of transportation problems. There are at most three flows for each group then,
//! instead of one for each pair. Where all pairs have the same bytes that is exact: each flow
//! stands for equal ones. Groups under different ToRs are regrouped apart, so that all links carry
//! what they did.

use std::ops::Range;

/// Regroups bytes by (sending group, receiving group), of this many groups under so many ToRs.
pub(super) fn regroup(bytes: &mut [u64], groups: usize, tors: usize) {
    let each = groups / tors;
    let under = |tor: usize| tor * each..(tor + 1) * each;
    for (from, to) in (0..tors).flat_map(|from| (0..tors).map(move |to| (from, to))) {
        regroup_block(bytes, groups, &under(from), &under(to));
    }
}

fn regroup_block(bytes: &mut [u64], groups: usize, rows: &Range<usize>, columns: &Range<usize>) {
    let cell = |row: usize, column: usize| row * groups + column;
    let mut sent = vec![0; rows.len()];
    let mut received = vec![0; columns.len()];
    for (row, sum) in rows.clone().zip(&mut sent) {
        for (column, other) in columns.clone().zip(&mut received) {
            let bytes = std::mem::take(&mut bytes[cell(row, column)]);
            *sum += bytes;
            *other += bytes;
        }
    }
    for (place, (sent, received)) in sent.iter_mut().zip(&mut received).enumerate() {
        let both = (*sent).min(*received);
        bytes[cell(rows.start + place, columns.start + place)] = both;
        *sent -= both;
        *received -= both;
    }
    let (mut row, mut column) = (0, 0);
    while row < sent.len() && column < received.len() {
        let moved = sent[row].min(received[column]);
        bytes[cell(rows.start + row, columns.start + column)] += moved;
        sent[row] -= moved;
        received[column] -= moved;
        if sent[row] == 0 {
            row += 1;
        } else {
            column += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sums(bytes: &[u64], groups: usize) -> (Vec<u64>, Vec<u64>) {
        let rows = bytes.chunks_exact(groups).map(|row| row.iter().sum()).collect();
        let column = |column| bytes.iter().skip(column).step_by(groups).sum();
        (rows, (0..groups).map(column).collect())
    }

    #[test]
    fn equal_pairs_stay_in_their_places() {
        let mut bytes = vec![5; 16];
        regroup(&mut bytes, 4, 1);
        let expected: Vec<u64> = (0..16).map(|cell| if cell % 5 == 0 { 20 } else { 0 }).collect();
        assert_eq!(bytes, expected);
    }

    #[test]
    fn what_has_no_place_goes_to_the_next_that_has_room() {
        let mut bytes = vec![9, 0, 0, 4, 0, 0, 2, 0, 3];
        regroup(&mut bytes, 3, 1);
        // The first group receives 15 and sends 9.
        assert_eq!(bytes, [9, 0, 0, 4, 0, 0, 2, 0, 3]);
        let mut crossed = vec![0, 6, 0, 0, 0, 8, 1, 0, 0];
        regroup(&mut crossed, 3, 1);
        assert_eq!(crossed, [1, 0, 5, 0, 6, 2, 0, 0, 1]);
    }

    #[test]
    fn a_tor_has_its_own() {
        let mut bytes = vec![1; 16];
        regroup(&mut bytes, 4, 4);
        assert_eq!(bytes, [1; 16]);
        regroup(&mut bytes, 4, 2);
        assert_eq!(bytes, [2, 0, 2, 0, 0, 2, 0, 2, 2, 0, 2, 0, 0, 2, 0, 2]);
    }

    proptest! {
        #[test]
        fn each_group_sends_and_receives_what_it_did(
            (each, tors, bytes) in (1_usize..7, 1_usize..4).prop_flat_map(|(each, tors)| {
                let cells = (each * tors).pow(2);
                (Just(each), Just(tors), prop::collection::vec(0_u64..1000, cells))
            })
        ) {
            let groups = each * tors;
            let mut found = bytes.clone();
            regroup(&mut found, groups, tors);
            prop_assert_eq!(sums(&found, groups), sums(&bytes, groups));
            let flows = found.iter().filter(|&&bytes| bytes > 0).count();
            prop_assert!(flows <= 3 * each * tors * tors);
        }
    }
}
