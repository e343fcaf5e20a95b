"""What every schedule of permutations must keep to; odd input is refused, never a crash."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from lightloom.errors import InputError
from lightloom.schedule import PERMUTATION_METHODS, decompose, decompose_all

METHODS = [*PERMUTATION_METHODS, "auto"]
SIZES = st.one_of(st.just(0), st.integers(1, 4), st.integers(0, 10**8), st.just(2**53))
DEMAND = npst.arrays(
    np.int64, npst.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=7), elements=SIZES
)
DELAYS = st.sampled_from([0.0, 1e-9, 1e-5, 0.025])


@given(DEMAND, DELAYS, st.booleans())
@settings(max_examples=150, deadline=None)
def test_slots_are_matchings_that_serve_all(demand, delay_s, partial):
    for found in decompose_all(demand, delay_s=delay_s, partial=partial).values():
        found.check(demand)
        left = demand.copy()
        for joined, hold in zip(found.permutations, found.holds_bytes, strict=True):
            rows = np.flatnonzero(joined >= 0)
            columns = joined[rows]
            assert len(np.unique(columns)) == len(columns)
            left[rows, columns] -= np.minimum(left[rows, columns], int(hold))
        assert not left.any()
        held = int(found.holds_bytes.sum())
        if found.transfers is not None:
            assert held == found.length_bytes
        else:
            assert held + found.configurations * found.delay_bytes == found.length_bytes
        assert found.length_bytes >= found.lower_bound_bytes


@given(DEMAND, DELAYS)
@settings(max_examples=100, deadline=None)
def test_auto_is_the_shortest(demand, delay_s):
    found = decompose_all(demand, delay_s=delay_s)
    assert found["auto"].length_bytes <= min(each.length_bytes for each in found.values())
    partial = decompose(demand, delay_s=delay_s, method="open-shop", partial=True)
    assert partial.length_bytes <= 2 * partial.lower_bound_bytes


@given(DEMAND, st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_exact_methods_do_not_see_labels(demand, random):
    rows, columns = (random.sample(range(n), n) for n in demand.shape)
    other = demand[np.ix_(rows, columns)] if demand.size else demand
    for method in ("bvn", "threshold"):
        holds = [int(decompose(x, method=method).holds_bytes.sum()) for x in (demand, other)]
        assert holds[0] == holds[1]
        longest = max([0, *demand.sum(axis=0).tolist(), *demand.sum(axis=1).tolist()])
        assert holds[0] == longest


@given(DEMAND, st.sampled_from(METHODS))
@settings(max_examples=60, deadline=None)
def test_equal_calls_give_equal_schedules_in_any_thread(demand, method):
    def run(_):
        found = decompose(demand, method=method, delay_s=1e-5)
        return found.permutations.tolist(), found.holds_bytes.tolist()

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(run, range(8)))
    assert all(result == results[0] for result in results)


@given(
    npst.arrays(
        st.sampled_from([np.float64, np.int64, np.uint64, np.bool_, np.complex128]),
        npst.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3),
    ),
    st.one_of(st.floats(), st.text(max_size=6)),
    st.sampled_from([*METHODS, "bvm", ""]),
)
@settings(max_examples=300, deadline=None)
def test_odd_input_gets_one_line(demand, delay_s, method):
    refused = ""
    try:
        decompose(demand, delay_s=delay_s, method=method).check(demand)
    except InputError as error:
        refused = str(error)
    assert "\n" not in refused
