"""Laws of a small step whose every packet is simulated, with DCTCP.

Queues and windows are no fluid: what a change of a permille does to them is noise, and the bounds
of :mod:`tests.laws.bounds` are the only ones that hold.
"""

from __future__ import annotations

import pytest
from tests.laws.bounds import EQUAL, PACKETS, STEEP
from tests.laws.cases import Case, cases
from tests.laws.networks import BUILDERS, CLOCKED, nics_of
from tests.laws.sampling import apart, hold, longer, shorter
from tests.simulate_graphs import NIC

COUNT = 6
#: circuits that follow a clock are simulated as packets by themselves only
NETWORKS = tuple(name for name in BUILDERS if name not in CLOCKED)
on_each = pytest.mark.parametrize("name", NETWORKS)


def packets(name):
    return cases(name, COUNT, "packet")


@on_each
def test_times_and_bytes_add_up(name):
    """Critical path and mean times sum to the step, bytes between servers to the demand."""

    def law(case: Case) -> float:
        run = case.run
        times = [sum(t.values()) for t in (run.critical_path_s, run.mean_s)]
        carried = run.purpose_bytes["ep"]
        between = sum(size for kind, size in carried.items() if kind not in ("nvswitch", "relayed"))
        missed = apart(between, int(case.step.expert_bytes()[0].sum()))
        return max(missed, *(apart(time, run.step_time_s) for time in times))

    hold(law, packets(name), EQUAL)


@on_each
def test_no_step_is_shorter_than_computation_or_the_busiest_server(name):
    """Headers make a step longer still."""

    def law(case: Case) -> float:
        busiest = case.step.expert_bytes().max() / (nics_of(name, case.step.servers) * NIC)
        return shorter(case.time_s, max(busiest, case.step.compute_bound_s()))

    hold(law, packets(name), EQUAL)


@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "oversubscribed"])
def test_packets_take_as_long_as_flows(name):
    """Both networks carry the same step; where hashes decide who shares an uplink, they may not."""
    hold(
        lambda case: apart(case.time_s, Case(name, case.seed).of(case.step)), packets(name), PACKETS
    )


@on_each
def test_more_bandwidth_is_not_slower(name):
    """A quarter more rate of all links between servers."""
    hold(lambda case: longer(case.with_network(rate=1.25), case.time_s), packets(name), PACKETS)


@on_each
def test_more_latency_is_not_faster(name):
    """Twice all latencies."""
    hold(lambda case: shorter(case.with_network(latency=2), case.time_s), packets(name), PACKETS)


@on_each
def test_more_bytes_are_not_faster(name):
    """Twice the bytes of all-to-alls."""
    hold(lambda case: shorter(case.with_step(unit_bytes=2), case.time_s), packets(name), PACKETS)


@on_each
def test_more_computation_is_not_faster(name):
    """A fifth longer."""

    def law(case: Case) -> float:
        return shorter(case.with_step(compute_s=1.2 * case.step.compute_s), case.time_s)

    hold(law, packets(name), PACKETS)


@on_each
def test_a_barrier_is_not_faster(name):
    """An all-to-all of no bytes after each layer."""
    hold(lambda case: shorter(case.with_step(barriers=True), case.time_s), packets(name), PACKETS)


@pytest.mark.parametrize("name", [name for name in NETWORKS if name not in STEEP])
def test_a_percent_is_little(name):
    """A percent more rate, compute, and of noise in the tokens."""

    def law(case: Case) -> float:
        step = case.step
        times = [
            case.with_network(rate=1.01),
            case.with_step(compute_s=1.01 * step.compute_s),
            case.of(step.with_noise(0.01)),
        ]
        return max(apart(time, case.time_s) for time in times)

    hold(law, packets(name), PACKETS)
