//! Color classes from their definition: matchings of every edge once, and as few as can be.

use crate::common::cases::Random;
use lightloom_schedule::coloring::{Bipartite, check_coloring, color_edges};
use proptest::prelude::*;

type Edges = Vec<(u32, u32)>;

fn graph(left: u32, right: u32, edges: &[(u32, u32)]) -> Bipartite<'_> {
    Bipartite::new(left, right, edges).unwrap()
}

/// The definition: no vertex has two edges of one color.
fn is_proper(edges: &[(u32, u32)], colors: &[u32]) -> bool {
    let meet = |i: usize, j: usize| edges[i].0 == edges[j].0 || edges[i].1 == edges[j].1;
    (0..edges.len()).all(|i| (0..i).all(|j| colors[i] != colors[j] || !meet(i, j)))
}

fn degree(edges: &[(u32, u32)]) -> u32 {
    let at = |vertex: u32, side: usize| {
        let ends = edges.iter().map(|edge| if side == 0 { edge.0 } else { edge.1 });
        ends.filter(|&end| end == vertex).count() as u32
    };
    let ends = edges.iter().flat_map(|edge| [at(edge.0, 0), at(edge.1, 1)]);
    ends.max().unwrap_or(0)
}

fn class_sizes(colors: &[u32], count: u32) -> Vec<usize> {
    (0..count).map(|color| colors.iter().filter(|&&own| own == color).count()).collect()
}

/// A union of shifts in random order.
fn regular(n: u32, shifts: &[u32], random: &mut Random) -> Edges {
    let mut edges: Edges =
        shifts.iter().flat_map(|s| (0..n).map(move |i| (i, (i + s) % n))).collect();
    for i in (1..edges.len()).rev() {
        edges.swap(i, (random.uniform() * (i + 1) as f64) as usize);
    }
    edges
}

/// Counts the colorings of a graph that the checker admits, by trying all of them.
fn count_colorings(bipartite: &Bipartite, edges: u32, colors: u32) -> usize {
    let all = 0..colors.pow(edges);
    let coloring = |mut code: u32| -> Vec<u32> {
        let mut of_edge = Vec::new();
        for _ in 0..edges {
            of_edge.push(code % colors);
            code /= colors;
        }
        of_edge
    };
    all.filter(|&code| check_coloring(bipartite, colors, &coloring(code)).is_ok()).count()
}

fn multigraph(limit: u32, edges: usize) -> impl Strategy<Value = (u32, u32, Edges)> {
    (1..=limit, 1..=limit).prop_flat_map(move |(left, right)| {
        (Just(left), Just(right), prop::collection::vec((0..left, 0..right), 0..=edges))
    })
}

/// Every row to every column: as many colors as rows make a Latin square.
#[test]
fn complete_graphs_become_latin_squares() {
    for n in 1..18_u32 {
        let edges: Edges = (0..n * n).map(|cell| (cell / n, cell % n)).collect();
        let square = color_edges(&graph(n, n, &edges), n).unwrap();
        for line in 0..n {
            for start_step in [(line * n, 1), (line, n)] {
                let cell = |place: u32| square[(start_step.0 + place * start_step.1) as usize];
                let mut symbols: Vec<u32> = (0..n).map(cell).collect();
                symbols.sort_unstable();
                assert_eq!(symbols, (0..n).collect::<Vec<_>>(), "line {line} of {n}");
            }
        }
    }
}

/// With no color to spare every class of a regular graph meets every vertex.
#[test]
fn regular_graphs_are_divided_into_perfect_matchings() {
    let mut random = Random(5);
    for n in [2, 3, 8, 13] {
        for count in 1..=11_u32 {
            let shifts: Vec<u32> = (0..count).map(|i| i * i % n).collect();
            let edges = regular(n, &shifts, &mut random);
            let colors = color_edges(&graph(n, n, &edges), count).unwrap();
            assert!(is_proper(&edges, &colors), "{n} {count}");
            assert_eq!(class_sizes(&colors, count), vec![n as usize; count as usize]);
        }
    }
}

#[test]
fn parallel_edges_have_all_colors_once() {
    for count in 1..40_u32 {
        let edges = vec![(1, 2); count as usize];
        let mut colors = color_edges(&graph(3, 3, &edges), count).unwrap();
        colors.sort_unstable();
        assert_eq!(colors, (0..count).collect::<Vec<_>>());
    }
}

#[test]
fn a_matching_needs_one_color_and_an_even_cycle_two() {
    for n in 1..20_u32 {
        let matching: Edges = (0..n).map(|i| (i, n - 1 - i)).collect();
        assert_eq!(color_edges(&graph(n, n, &matching), 1).unwrap(), vec![0; n as usize]);
        let cycle: Edges = (0..n).flat_map(|i| [(i, i), (i, (i + 1) % n)]).collect();
        let colors = color_edges(&graph(n, n, &cycle), 2).unwrap();
        assert_eq!(class_sizes(&colors, 2), [n as usize; 2]);
    }
}

#[test]
fn too_few_colors_name_the_vertex() {
    let edges = [(0, 2), (1, 2), (2, 2), (2, 0)];
    let text = |colors| color_edges(&graph(3, 3, &edges), colors).unwrap_err().0;
    assert_eq!(text(2), "right vertex 2 has 3 edges but there are 2 colors");
    assert_eq!(text(1), "left vertex 2 has 2 edges but there are 1 colors");
    assert_eq!(text(0), "left vertex 0 has 1 edges but there are 0 colors");
    assert!(color_edges(&graph(3, 3, &edges), 3).is_ok());
    assert_eq!(color_edges(&graph(3, 3, &[]), 0).unwrap(), [0; 0]);
}

#[test]
fn the_checker_admits_as_many_colorings_as_there_are() {
    // One edge: any color. A path of two: k (k - 1). A path of three: k (k - 1)^2.
    let path = [(0, 0), (0, 1), (1, 1)];
    for k in 1..5_u32 {
        let count = |edges: &[(u32, u32)]| {
            count_colorings(&graph(2, 2, edges), edges.len() as u32, k) as u32
        };
        assert_eq!(count(&path[..1]), k);
        assert_eq!(count(&path[..2]), k * (k - 1));
        assert_eq!(count(&path), k * (k - 1) * (k - 1));
        assert_eq!(count(&[(0, 0), (1, 1)]), k * k);
        // A cycle of four: (k - 1)^4 + (k - 1).
        let cycle = [(0, 0), (0, 1), (1, 1), (1, 0)];
        assert_eq!(count(&cycle), (k - 1).pow(4) + (k - 1));
    }
}

#[test]
fn the_checker_names_who_meets() {
    let edges = [(0, 0), (1, 0), (1, 1)];
    let text = |colors: u32, of_edge: &[u32]| {
        check_coloring(&graph(2, 2, &edges), colors, of_edge).unwrap_err().0
    };
    assert_eq!(text(2, &[0, 0, 1]), "edges 0 and 1 of color 0 meet at right vertex 0");
    assert_eq!(text(2, &[0, 1, 1]), "edges 1 and 2 of color 1 meet at left vertex 1");
    assert_eq!(text(1, &[0, 1, 0]), "edge 1 has color 1 of 1");
    assert_eq!(text(2, &[0, 1]), "3 edges but 2 colors of edges");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_edge_has_a_color_and_no_two_meet((left, right, edges) in multigraph(9, 70)) {
        let own = graph(left, right, &edges);
        let count = degree(&edges);
        prop_assert_eq!(own.max_degree(), count);
        for colors in count..count + 4 {
            let found = color_edges(&own, colors).unwrap();
            prop_assert_eq!(found.len(), edges.len());
            prop_assert!(found.iter().all(|&color| color < colors));
            prop_assert!(is_proper(&edges, &found));
        }
        prop_assert!(count == 0 || color_edges(&own, count - 1).is_err());
    }

    /// One color less than the largest degree never suffices, that many always do.
    #[test]
    fn the_largest_degree_is_the_fewest_colors((left, right, edges) in multigraph(3, 5)) {
        let own = graph(left, right, &edges);
        let count = degree(&edges);
        prop_assume!(count > 0);
        prop_assert!(count_colorings(&own, edges.len() as u32, count) > 0);
        if count > 1 {
            prop_assert_eq!(count_colorings(&own, edges.len() as u32, count - 1), 0);
        }
    }

    #[test]
    fn the_checker_agrees_with_the_definition(
        (left, right, edges) in multigraph(4, 6),
        draws in prop::collection::vec(0..4_u32, 6),
    ) {
        let colors = &draws[..edges.len()];
        let found = check_coloring(&graph(left, right, &edges), 3, colors).is_ok();
        prop_assert_eq!(found, is_proper(&edges, colors) && colors.iter().all(|&color| color < 3));
    }

    /// Left and right are alike, vertices may have other names, and edges any order.
    #[test]
    fn turned_renamed_and_reordered_graphs_need_as_many_colors(
        (left, right, edges) in multigraph(9, 70),
        seed in 1..u64::MAX,
    ) {
        let count = degree(&edges);
        let turned: Edges = edges.iter().map(|edge| (edge.1, edge.0)).collect();
        let found = color_edges(&graph(right, left, &turned), count).unwrap();
        prop_assert!(is_proper(&turned, &found));
        let mut random = Random(seed);
        let names = |edge: &(u32, u32)| (left - 1 - edge.0, (edge.1 + 1) % right);
        let mut renamed: Edges = edges.iter().map(names).collect();
        for i in (1..renamed.len()).rev() {
            renamed.swap(i, (random.uniform() * (i + 1) as f64) as usize);
        }
        let found = color_edges(&graph(left, right, &renamed), count).unwrap();
        prop_assert!(is_proper(&renamed, &found));
    }

    /// Twice the edges need twice the colors, and each class is again a matching.
    #[test]
    fn doubled_graphs_need_twice_the_colors((left, right, edges) in multigraph(7, 40)) {
        let twice = [&edges[..], &edges[..]].concat();
        let count = degree(&edges);
        prop_assert_eq!(graph(left, right, &twice).max_degree(), 2 * count);
        let found = color_edges(&graph(left, right, &twice), 2 * count).unwrap();
        prop_assert!(is_proper(&twice, &found));
        let fewer = color_edges(&graph(left, right, &twice), (2 * count).saturating_sub(1));
        prop_assert!(count == 0 || fewer.is_err());
    }

    /// Classes are no larger than the graph admits and hold all edges together.
    #[test]
    fn classes_are_matchings_of_all_edges(seed in 1..u64::MAX, n in 2..12_u32, count in 1..20_u32) {
        let mut random = Random(seed);
        let mut shift = || (random.uniform() * f64::from(n)) as u32;
        let shifts: Vec<u32> = (0..count).map(|_| shift()).collect();
        let mut edges = regular(n, &shifts, &mut random);
        edges.truncate(edges.len() * 3 / 4);
        let colors = color_edges(&graph(n, n, &edges), count).unwrap();
        prop_assert!(is_proper(&edges, &colors));
        let sizes = class_sizes(&colors, count);
        prop_assert_eq!(sizes.iter().sum::<usize>(), edges.len());
        prop_assert!(sizes.iter().all(|&size| size <= n as usize));
    }
}
