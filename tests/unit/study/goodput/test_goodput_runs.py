"""Runs with failures: closed forms, sums, and what more failures or spares may not do."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.study.goodput.closed_forms import daly_interval_s, useful_share, young_interval_s
from lightloom.study.goodput.outages import FailureClass, draw_outages
from lightloom.study.goodput.walk import SPENT, Recovery, spend

DAY = 86_400.0
ONE = Recovery(interval_s=1800.0, checkpoint_s=20.0, detection_s=300.0, restart_s=120.0)


def spent_of(classes, recovery=ONE, *, days=30, runs=40, seed=1):
    return spend(draw_outages(classes, days * DAY, runs, seed), recovery)


def test_without_failures_all_time_is_useful():
    none = Recovery(math.inf, 0.0, 300.0, 120.0)
    assert (spent_of([], none).useful_share == 1.0).all()
    assert (spent_of([FailureClass("gpu", 0.0)], none).useful_share == 1.0).all()


def test_without_failures_checkpoints_take_their_share():
    found = spent_of([], days=1820 * 100 / DAY)
    assert found.useful_share == pytest.approx(1800 / 1820)
    assert found.mean_share("checkpoints") == pytest.approx(20 / 1820)


@pytest.mark.parametrize("factor", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("hours", [1.5, 10.0])
def test_failures_without_longer_steps_follow_daly(factor, hours):
    between = hours * 3600
    interval = factor * daly_interval_s(20.0, between)
    recovery = Recovery(interval, 20.0, 300.0, 120.0)
    share = spent_of(
        [FailureClass("gpu", 1 / between)], recovery, days=between * 400 / DAY, runs=60
    ).useful_share
    error = share.std(ddof=1) / len(share) ** 0.5
    # four standard errors, and what one interval at the end of a run may be
    assert abs(share.mean() - useful_share(interval, 20.0, 420.0, between)) < 4 * error + 2e-4


def test_the_interval_of_daly_is_the_best():
    between = 7200.0
    best = daly_interval_s(60.0, between)
    around = np.geomspace(best / 3, best * 3, 4001)
    shares = [useful_share(one, 60.0, 420.0, between) for one in around]
    assert around[int(np.argmax(shares))] == pytest.approx(best, rel=0.01)
    assert young_interval_s(60.0, between) == pytest.approx(math.sqrt(2 * 60 * between))
    # and the simulation agrees that half and twice of it are worse
    outages = draw_outages([FailureClass("gpu", 1 / between)], 60 * DAY, 60, 1)
    found = [
        spend(outages, Recovery(factor * best, 60.0, 300.0, 120.0)).useful_share.mean()
        for factor in (0.5, 1, 2)
    ]
    assert max(found) == found[1]


def test_daly_holds_at_its_limits():
    assert daly_interval_s(20.0, math.inf) == math.inf
    assert useful_share(math.inf, 20.0, 420.0, math.inf) == 1.0
    assert useful_share(980.0, 20.0, 420.0, math.inf) == 0.98
    assert daly_interval_s(100.0, 40.0) == 40.0
    assert useful_share(40.0, 1e6, 1e9, 40.0) == 0.0


CLASS = st.builds(
    FailureClass,
    kind=st.sampled_from(["gpu", "server", "nic", "ocs"]),
    per_s=st.floats(0, 1 / 7200),
    repair_s=st.sampled_from([0.0, 3600.0, DAY]),
    longer_share=st.floats(-0.1, 2.0),
    servers=st.integers(0, 3),
    stops=st.booleans(),
    interrupts=st.booleans(),
    is_planned=st.booleans(),
)
RECOVERY = st.builds(
    Recovery,
    interval_s=st.sampled_from([60.0, 1800.0, math.inf]),
    checkpoint_s=st.sampled_from([0.0, 20.0, 900.0]),
    detection_s=st.sampled_from([0.0, 300.0]),
    restart_s=st.sampled_from([0.0, 120.0]),
    spares=st.integers(0, 5),
)


@settings(max_examples=20, deadline=None)
@given(classes=st.lists(CLASS, max_size=5), recovery=RECOVERY, seed=st.integers(0, 99))
def test_every_second_goes_somewhere_once(classes, recovery, seed):
    found = spent_of(classes, recovery, days=6, runs=5, seed=seed)
    assert set(found.by) == set(SPENT)
    total = sum(times.sum(axis=1) for times in found.by.values())
    assert total == pytest.approx(np.full(5, found.horizon_s))
    assert all((times >= -1e-6).all() for times in found.by.values())
    by_kind = sum(
        found.mean_share(name, kind)
        for kind in found.kinds
        for name in SPENT
        if name not in ("useful", "checkpoints")
    )
    rest = found.mean_share("useful") + found.mean_share("checkpoints")
    assert by_kind + rest == pytest.approx(1.0)


@settings(max_examples=12, deadline=None)
@given(classes=st.lists(CLASS, min_size=1, max_size=4), recovery=RECOVERY)
def test_a_larger_store_of_spares_never_waits_longer(classes, recovery):
    outages = draw_outages(classes, 6 * DAY, 6, 1)
    waits = [
        spend(outages, Recovery(**{**vars(recovery), "spares": number})).by["waiting"].sum()
        for number in (0, 1, 4, 1000)
    ]
    assert all(after <= before + 1e-6 for before, after in itertools.pairwise(waits))


@pytest.mark.parametrize("kind", ["gpu", "server", "nic"])
def test_useful_time_falls_with_each_rate(kind):
    longer = {"gpu": 0.0, "server": 0.3, "nic": 0.05}

    def share(factor):
        classes = [
            FailureClass(
                name,
                (factor if name == kind else 1.0) / (8 * 3600),
                DAY,
                longer[name],
                servers=name != "nic",
                interrupts=name != "nic",
            )
            for name in longer
        ]
        recovery = Recovery(1800.0, 20.0, 300.0, 120.0, spares=40)
        return spent_of(classes, recovery, runs=25).useful_share.mean()

    shares = [share(factor) for factor in (0.0, 0.5, 2.0, 8.0)]
    assert shares == sorted(shares, reverse=True)
    # the worst part sets the pace, so that most NICs are out behind a server
    assert shares[0] - shares[-1] > 0.001


def test_a_kind_is_drawn_alike_whatever_else_may_fail():
    gpu, nic = FailureClass("gpu", 1e-5, DAY), FailureClass("nic", 3e-5, DAY)
    alone = draw_outages([gpu], 30 * DAY, 20, 7)
    both = draw_outages([nic, gpu], 30 * DAY, 20, 7)
    assert (alone.count("gpu") == both.count("gpu")).all()
    assert alone.count("gpu").mean() == pytest.approx(1e-5 * 30 * DAY, rel=0.2)
    other = draw_outages([gpu], 30 * DAY, 20, 8)
    assert (alone.count("gpu") != other.count("gpu")).any()


def test_the_worst_part_that_is_out_sets_the_pace():
    # both are out nearly all the time; neither interrupts
    always = [
        FailureClass("nic", 1e-3, 100 * DAY, longer, interrupts=False) for longer in (0.25, 1.0)
    ]
    share = spent_of(always, Recovery(math.inf, 0.0, 0.0, 0.0)).useful_share
    assert share == pytest.approx(np.full(len(share), 0.5), abs=0.005)


def test_a_job_without_spares_waits_for_the_repair():
    # a part that stops the job: useful is what is between outages, and none begins meanwhile
    failing = FailureClass("ocs", 1 / DAY, DAY, stops=True)
    free = Recovery(math.inf, 0.0, 0.0, 0.0)
    found = spent_of([failing], free, days=2000, runs=10)
    # an M/G/infinity queue is empty for exp(-rho) of the time
    outside = found.mean_share("useful") + found.mean_share("again")
    assert outside == pytest.approx(math.exp(-1), rel=0.05)


def test_a_planned_stop_loses_no_work():
    planned = FailureClass("maintenance", 1e-4, is_planned=True)
    found = spent_of([planned])
    assert found.mean_share("again") == 0.0
    assert found.mean_share("detection") == 0.0
    assert found.mean_share("restart") > 0.0


def test_a_part_that_made_steps_longer_is_put_back_by_a_stop():
    broken = FailureClass("server", 1 / (10 * DAY), 3600.0, 0.5, servers=1)
    whole = FailureClass("server", 1 / (10 * DAY), 3600.0, 0.0, servers=1)
    recovery = Recovery(1800.0, 20.0, 300.0, 120.0, spares=9)
    back = spent_of([broken], recovery, days=300)
    stays = spent_of([whole], recovery, days=300)
    # none is needed where the repair ends before the job trains again
    stops = 1 + math.exp(-420 / 3600)
    assert back.interruptions.mean() == pytest.approx(stops * stays.interruptions.mean(), rel=0.03)
