"""The Python side of the simulation: what it hands over, returns and refuses."""

import dataclasses

import numpy as np
import pytest
from tests.simulate_graphs import Steps, direct, graph, mixnet, one_ring, packet

from lightloom.errors import FabricError, InputError
from lightloom.fabric.network import Network, NvSwitch
from lightloom.simulate import simulate
from lightloom.workload.builder import Entry, TaskGraphBuilder
from lightloom.workload.categories import StepCategory, step_categories


def pipeline():
    first = Steps().compute(1e-3).send(1, 0, 10**6)
    second = Steps().receive(0, 0).compute(2e-3, "expert")
    return graph([first, second])


def regional(between_s=0.05):
    tokens = np.zeros((2, 4, 4))
    tokens[0, 0, 1] = tokens[1, 0, 2] = 10**8
    steps = Steps().all_to_all(0, first=True).compute(between_s).all_to_all(1)
    return graph([steps], members=4, tokens=tokens)


def test_times_add_up():
    run = simulate(pipeline(), packet(2))
    assert sum(run.critical_path_s.values()) == pytest.approx(run.step_time_s)
    assert sum(run.mean_s.values()) == pytest.approx(run.step_time_s)
    assert list(run.role_s) == ["stage 0", "stage 1"]
    for stage in run.role_s.values():
        assert sum(stage.values()) == pytest.approx(run.step_time_s)
    assert run.mean_s["attention"] == pytest.approx(0.5e-3)
    assert run.critical_path_s["attention"] == pytest.approx(1e-3)
    assert run.critical_path_s["expert"] == pytest.approx(2e-3)
    assert run.critical_path_s.keys() == {category.name.lower() for category in StepCategory}
    assert run.tasks == 4
    assert run.flows == 1


def test_bytes_by_purpose_and_carrier():
    run = simulate(pipeline(), packet(2))
    assert run.purpose_bytes["pp"]["eps"] == 10**6
    assert run.carried_bytes == {"nvswitch": 0, "eps": 10**6, "ocs": 0, "direct": 0, "relayed": 0}


def test_a_role_of_no_workers_is_refused():
    built = TaskGraphBuilder([0, 1], 8, step_categories())
    built.role("stage 0", [0, 1])
    built.role("spare", [])
    message = "role 'spare' has no workers: give it some, or leave it out"
    with pytest.raises(InputError, match=message):
        simulate(built.build(), packet(2))
    with pytest.raises(InputError, match="no workers: expected at least one, with a role"):
        simulate(TaskGraphBuilder([], 8, step_categories()).build(), packet(2))


def test_link_use():
    run = simulate(pipeline(), packet(2))
    use = {links.name: links for links in run.links}
    assert use["server_up"].links == 2
    assert use["server_up"].carried_bytes == 10**6
    assert use["server_up"].max == pytest.approx(1e6 / (400e9 * run.step_time_s))
    assert use["server_up"].mean == pytest.approx(use["server_up"].max / 2)


def test_the_timeline_of_a_worker_is_its_time():
    run = simulate(pipeline(), packet(2), timeline_workers=[1])
    line = run.timeline
    assert set(line.worker.tolist()) == {1}
    computing = line.stream == 0
    names = [line.categories[number] for number in line.category[computing]]
    assert names == ["bubble", "pp", "expert"]
    assert line.start_s[computing].tolist()[1:] == line.end_s[computing].tolist()[:-1]
    assert line.end_s[computing][-1] == pytest.approx(run.step_time_s)
    alongside = line.stream == 1
    assert line.start_s[alongside][0] == pytest.approx(1e-3)
    assert simulate(pipeline(), packet(2)).timeline.worker.size == 0


def test_circuits_and_decisions_of_a_region():
    run = simulate(regional(), mixnet(4), timeline_workers=[0])
    (decision,) = run.snapshots
    assert decision.ready_s - decision.time_s == pytest.approx(0.025)
    assert decision.demand.shape == decision.circuits.shape == (4, 4)
    assert decision.demand[0, 2] == 10**8
    assert (decision.circuits == decision.circuits.T).all()
    assert (decision.circuits.sum(axis=1) <= 6).all()
    assert decision.chosen in {"paper", "reference", "static", "greedy", "parametric", "best"}
    lines = run.circuit_timeline
    assert (lines.up_s < lines.down_s).all()
    assert lines.down_s.max() == pytest.approx(run.step_time_s)
    summary = run.reconfiguration_summary()
    assert summary["reconfigurations"] == 1
    assert summary["hidden_s"] == pytest.approx(0.025)
    assert summary["makespan_over_bound"] >= 1 - 1e-9


def test_without_circuits_there_is_nothing_to_sum_up():
    assert simulate(pipeline(), packet(2)).reconfiguration_summary() == {}


def test_progress_rises_and_may_stop_the_run():
    count = 60_000
    first, second = Steps(), Steps()
    for tag in range(count):
        first.send(1, tag, 1000).compute(1e-6)
        second.receive(0, tag)
    long = graph([first, second])
    shares = []
    simulate(long, packet(2), progress=shares.append)
    assert shares
    assert shares == sorted(shares)
    assert 0 < shares[0] <= shares[-1] <= 1
    with pytest.raises(KeyboardInterrupt, match="interrupted at"):
        simulate(long, packet(2), progress=lambda _: False)

    def fail(_share):
        raise RuntimeError("of the caller")

    with pytest.raises(RuntimeError, match="of the caller"):
        simulate(long, packet(2), progress=fail)


def refusal(kind, *arguments, **options):
    with pytest.raises(InputError) as caught:
        simulate(*arguments, **options)
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_other_models_are_refused():
    text = refusal(InputError, pipeline(), packet(2), network_model="packets")
    assert text == "network_model = 'packets': expected 'flow' or 'packet'"


def test_networks_that_cannot_carry_the_graph():
    bare = Network(2, 8, NvSwitch(1, 0), "flat")
    text = "nothing connects the servers: eps or direct is needed"
    assert refusal(FabricError, pipeline(), bare) == text
    text = "worker 1 is on server 1, but the network has 1 servers"
    assert refusal(FabricError, pipeline(), packet(1)) == text
    text = "circuits join servers, not ranks: use the hierarchical all-to-all"
    wrong = dataclasses.replace(mixnet(4), all_to_all="flat")
    assert refusal(FabricError, regional(), wrong) == text
    text = (
        "no route from server 0 to server 1, which a pipeline send needs:"
        " add it to the fabric's routes"
    )
    assert refusal(FabricError, pipeline(), direct(2, [(0, 1, 1)], [(1, 0)])) == text
    text = "allocator = 'wurst': expected one of paper, reference, static, greedy, parametric, best"
    assert refusal(FabricError, regional(), mixnet(4, allocator="wurst")) == text


def test_graphs_that_cannot_be_played():
    lonely = graph([Steps().send(1, 4, 1), Steps()])
    text = "no receive matches tag 4 from role 'stage 0' to role 'stage 1'"
    assert refusal(InputError, lonely, packet(2)) == text
    crossed = graph([Steps().receive(1, 0).send(1, 1, 1), Steps().receive(0, 1).send(0, 0, 1)])
    text = refusal(InputError, crossed, packet(2))
    assert text.startswith("deadlock at 0 s: worker 0 (role 'stage 0') waits")
    short = graph([Steps().all_to_all(3)], members=2, tokens=np.zeros((1, 2, 2)))
    text = "role 'stage 0', task 0 (all-to-all): block 3 is not below 1"
    assert refusal(InputError, short, packet(2)) == text
    unasked = refusal(InputError, pipeline(), packet(2), timeline_workers=[7])
    assert unasked == "a timeline is wanted of worker 7, there are 2"
    negative = refusal(FabricError, pipeline(), packet(2, rate_bps=-1))
    assert negative.startswith("nic_rate_bps: ")


def test_rings_of_several_stages_join_in_order():
    programs = [Steps().ring(0, 10**6).wait(0), Steps().compute(1e-3).ring(0, 10**6).wait(0)]
    run = simulate(graph(programs, rings=[one_ring(2)]), packet(2))
    assert run.critical_path_s["attention"] == pytest.approx(1e-3)
    other = graph([programs[0], Steps().ring(0, 5).wait(0)], rings=[one_ring(2)])
    text = refusal(InputError, other, packet(2))
    assert text == (
        "group 0 of family 'dp': roles 'stage 0' and 'stage 1' disagree on collective 0: task 0 of "
        "one and task 0 of the other"
    )


@pytest.mark.parametrize("until_s", [0.0, 0.5e-3, 1.5e-3])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_all_to_all_of_another_stream_is_waited_for_whenever_its_members_come(
    until_s, asynchronous
):
    """Before anybody has come to it, between the two members, or after both."""
    builder = TaskGraphBuilder(range(2), 8)
    program = builder.role("ranks", range(2))
    family = builder.family("ep", [range(2)])
    late = builder.table("late", np.array([[0], [10**9]]))
    program.compute("before", Entry(late, 0), stream=1)
    program.all_to_all(family, 10**6, "ep", stream=1, handle=1, asynchronous=asynchronous)
    program.compute("meanwhile", until_s)
    program.wait(1, "ep")
    run = simulate(builder.build(), packet(2))
    assert max(1e-3, until_s) <= run.step_time_s < max(1e-3, until_s) + 1e-4
