"""The job of a validation, and what the simulator makes of it: laws and closed forms."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from lightloom.control.emulator.timing import FixedTime
from lightloom.errors import InputError
from lightloom.testbed.layout import ServerLayout
from lightloom.testbed.replay import ReplayJob, RuntimeDelays, _medians
from lightloom.testbed.replay_simulated import GOODPUT, simulated
from lightloom.testbed.validation import ValidatedPolicy, same_order

NO_DELAYS = RuntimeDelays(0.0, 0.0, 0.0, 0.0)
SETTLE = FixedTime(0.02)


def layout(servers=4, nics=4, eps_nics=1, rate_gbps=0.05):
    return ServerLayout(
        servers=servers, nics=nics, eps_nics=eps_nics, rate_gbps=rate_gbps, eps_gbps=rate_gbps
    )


def times(job, policy, *, delays=NO_DELAYS, bed=None):
    return simulated(job, bed or layout(job.ranks), policy=policy, settle=SETTLE, delays=delays)


@pytest.mark.parametrize("servers", [2, 4, 6, 8])
def test_servers_are_in_pairs_and_layers_in_other_pairs(servers):
    job = ReplayJob.drawn(servers, rate_gbps=0.05, steps=1, layers=servers - 1)
    seen = set()
    for counts in np.array(job.counts):
        assert len(set(counts.sum(1))) == 1, "each rank has as many rows in every layer"
        partner = counts.argmax(1)
        assert (partner[partner] == np.arange(servers)).all()
        assert (partner != np.arange(servers)).all()
        assert seen.isdisjoint(enumerate(partner))
        seen |= set(enumerate(partner))


def test_odd_servers_are_refused():
    with pytest.raises(InputError, match="3 servers: expected an even number"):
        ReplayJob.drawn(3, rate_gbps=0.05, steps=1)


@pytest.mark.parametrize("seed", range(3))
def test_packets_take_as_long_as_the_busiest_nic(seed):
    """One NIC of each server at a switch that blocks nothing: fluid flows fill the busiest."""
    job = ReplayJob.drawn(2, rate_gbps=0.05, steps=2, seed=seed)
    found = times(job, "packets")
    rate = 0.05e9 / 8 * GOODPUT
    for moved in found.all_to_alls:
        counts = np.array(job.counts[moved.layer]) * job.row_bytes
        np.fill_diagonal(counts, 0)
        assert moved.moved_s == pytest.approx(counts.max() / rate, rel=1e-6)
    compute_s = job.layers * 3 * (job.attention_s + job.experts_s)
    sums_s = job.sum_bytes / rate  # 2 (n - 1) / n of it, by two servers
    assert found.step_time_s == pytest.approx(found.moved_s + compute_s + sums_s, rel=1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_following_beats_staying_which_beats_packets(seed):
    job = ReplayJob.drawn(4, rate_gbps=0.05, steps=2, seed=seed)
    steps = [times(job, policy) for policy in ("packets", "never", "break-even")]
    packets, never, following = (step.step_time_s for step in steps)
    assert following < never < packets
    # once for each layer but the last of each pass, whose circuits are still there
    assert [step.reconfigurations for step in steps] == [0, 0, 2]
    # forward the settling of mirrors, backward nothing: what is computed hides it
    assert steps[2].exposed_s == pytest.approx(0.02)


def test_what_the_runtime_takes_is_added():
    job = ReplayJob.drawn(4, rate_gbps=0.05, steps=2)
    delays = RuntimeDelays(agree=0.004, move=0.002, decide=0.003, sum=0.006)
    before, after = times(job, "packets"), times(job, "packets", delays=delays)
    for one, other in zip(before.all_to_alls, after.all_to_alls, strict=True):
        assert other.moved_s == pytest.approx(one.moved_s + 0.002, abs=1e-4)
    calls = 4 * job.layers
    added_s = calls * (0.004 + 0.002) + job.layers * 0.003 + 0.006
    assert after.step_time_s == pytest.approx(before.step_time_s + added_s, abs=1e-3)


def test_a_late_controller_exposes_as_much_more():
    job = ReplayJob.drawn(4, rate_gbps=0.05, steps=2)
    late = dataclasses.replace(NO_DELAYS, control=0.01)
    assert times(job, "break-even", delays=late).exposed_s == pytest.approx(0.03)


def moved(begin_s, end_s, *, changed=False, name="all_to_all"):
    return {"name": name, "layer": 0, "began_s": begin_s, "ended_s": end_s, "changed": changed}


def step(step_time_s, *all_to_alls):
    return SimpleNamespace(step_time_s=step_time_s, exposed_s=0.1, all_to_alls=all_to_alls)


def test_medians_are_those_of_each_all_to_all():
    steps = [
        step(3.0, moved(0, 1, changed=True), moved(5, 9)),
        step(1.0, moved(1, 4, changed=True), moved(6, 7)),
        step(2.0, moved(2, 4, changed=True), moved(5, 7)),
    ]
    found = _medians(steps)
    assert [one.moved_s for one in found.all_to_alls] == [2, 2]
    assert (found.step_time_s, found.reconfigurations, found.exposed_s) == (2.0, 1, 0.1)


def test_policies_are_in_order_if_both_say_so():
    job = ReplayJob.drawn(4, rate_gbps=0.05, steps=1)
    steps = [times(job, policy) for policy in ("packets", "never", "break-even")]
    found = [ValidatedPolicy("p", step, step, NO_DELAYS, 0.0) for step in steps]
    assert same_order(found)
    assert all(one.is_met and one.step_error == one.worst_error == 0 for one in found)
    found[0] = dataclasses.replace(found[0], simulated=steps[2], measured=steps[1])
    found[1] = dataclasses.replace(found[1], simulated=steps[1], measured=steps[0])
    assert not same_order(found)
    assert not found[0].is_met
