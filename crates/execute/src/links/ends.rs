//! Which links a collective's paths lead from and to, in sets that have no path between them.

use lightloom_flowsim::LinkId;
use std::collections::BTreeMap;

/// The first and the last links of paths, in order of their numbers, such that each path leads from
/// and to links of one set; paths of fewer than two links are left out.
pub(crate) fn ends_of<'a>(
    paths: impl Iterator<Item = &'a [LinkId]>,
) -> Vec<(Vec<LinkId>, Vec<LinkId>)> {
    let mut set_of: [BTreeMap<LinkId, usize>; 2] = Default::default();
    let mut sets: Vec<[Vec<LinkId>; 2]> = Vec::new();
    for path in paths {
        let &[first, .., last] = path else { continue };
        let ends = [first, last];
        let known = [0, 1].map(|side| set_of[side].get(&ends[side]).copied());
        let set = known[0].or(known[1]).unwrap_or(sets.len());
        if set == sets.len() {
            sets.push(Default::default());
        }
        for side in [0, 1] {
            let joining = match known[side] {
                None => vec![ends[side]],
                Some(_) => Vec::new(),
            };
            sets[set][side].extend(&joining);
            set_of[side].extend(joining.into_iter().map(|link| (link, set)));
        }
        if let [Some(_), Some(other)] = known
            && other != set
        {
            for (side, links) in std::mem::take(&mut sets[other]).into_iter().enumerate() {
                set_of[side].extend(links.iter().map(|&link| (link, set)));
                sets[set][side].extend(links);
            }
        }
    }
    let used = sets.into_iter().filter(|[first, _]| !first.is_empty());
    let ordered = used.map(|[mut first, mut last]| {
        first.sort_unstable();
        last.sort_unstable();
        (first, last)
    });
    ordered.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(paths: &[&[u32]]) -> Vec<(Vec<u32>, Vec<u32>)> {
        let paths: Vec<Vec<LinkId>> =
            paths.iter().map(|path| path.iter().copied().map(LinkId).collect()).collect();
        let sets = ends_of(paths.iter().map(Vec::as_slice));
        let numbers = |links: Vec<LinkId>| links.into_iter().map(|link| link.0).collect();
        sets.into_iter().map(|(first, last)| (numbers(first), numbers(last))).collect()
    }

    #[test]
    fn rails_are_apart_and_what_joins_them_is_not() {
        let rails: [&[u32]; 4] = [&[1, 9, 11], &[2, 12], &[3, 11], &[7]];
        let apart = [(vec![1, 3], vec![11]), (vec![2], vec![12])];
        assert_eq!(found(&rails), apart);
        let joined: [&[u32]; 4] = [&[1, 11], &[2, 12], &[3, 9, 11], &[3, 12]];
        assert_eq!(found(&joined), [(vec![1, 2, 3], vec![11, 12])]);
        assert_eq!(found(&[&[5], &[]]), []);
    }

    proptest! {
        /// Every path is in one set, links are in one each, and links of a set are joined.
        #[test]
        fn sets_are_those_that_paths_join(
            paths in prop::collection::vec((0_u32..8, 10_u32..18), 0..20),
        ) {
            let lists: Vec<[u32; 2]> = paths.iter().map(|&(a, b)| [a, b]).collect();
            let sets = found(&lists.iter().map(<[u32; 2]>::as_slice).collect::<Vec<_>>());
            for &(a, b) in &paths {
                let of_ends = sets.iter().filter(|(first, _)| first.contains(&a));
                let of_ends: Vec<_> = of_ends.collect();
                prop_assert_eq!(of_ends.len(), 1);
                prop_assert!(of_ends[0].1.contains(&b));
            }
            for (first, last) in &sets {
                let mut reached = vec![first[0]];
                for _ in 0..16 {
                    let is_near = |(a, b): &&(u32, u32)| reached.contains(a) || reached.contains(b);
                    let more = paths.iter().filter(is_near);
                    reached.extend(more.flat_map(|&(a, b)| [a, b]).collect::<Vec<_>>());
                    reached.sort_unstable();
                    reached.dedup();
                }
                prop_assert_eq!(reached, [first.as_slice(), last].concat());
            }
        }
    }
}
