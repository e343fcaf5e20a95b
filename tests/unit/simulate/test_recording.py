"""Steps as packets, recorded, and played again by the simulator of packets alone."""

import numpy as np
import pytest
from tests.simulate_graphs import Steps, direct, graph, mixnet, one_ring, packet

from lightloom.errors import InputError, OutputError
from lightloom.output.recordings import check_folder, write_recording
from lightloom.packets import flows_of, load_scenario, simulate_flows
from lightloom.packets.scenario import TRANSPORTS
from lightloom.simulate import Packets, simulate
from lightloom.workload.task_graph import Collective

#: networks of eight servers
NETWORKS = {
    "switch": packet(8),
    "tree": packet(8, servers_per_tor=2),
    "pods": packet(8, nics=4, servers_per_tor=2, servers_per_pod=4),
    "rail": packet(8, rails=8),
}
PS = 1e-12
#: their windows hold a round trip of the longest flow that they know: in a step those that have
#: begun, in a list of flows all of them
LEARNING = {"eqds", "uet-rccc"}


def record(step, network, transport="ideal", **options):
    options = {"repeats": "together", "full": True, **options}
    return simulate(step, network, network_model=Packets(transport, record=True, **options))


def replay(recording, folder, **changes):
    write_recording(recording, folder)
    scenario = load_scenario(folder / "scenario.toml")
    return simulate_flows(flows_of(scenario), scenario.model_copy(update=changes))


def random_step(seed):
    """Two stages of four servers: messages both ways, all-to-alls, rings alongside, computation."""
    draw = np.random.default_rng(seed)
    tokens = draw.integers(0, 200_000, (3, 4, 4))
    tokens[:, range(4), range(4)] = 0
    programs = [Steps(), Steps()]
    ring = one_ring(8)
    for number in range(3):
        size, span_s = int(draw.integers(1, 400_000)), draw.uniform(0, 40e-6)
        kind = [Collective.ALL_REDUCE, Collective.ALL_GATHER][draw.integers(2)]
        inside = int(draw.integers(2)) * 100_000
        for stage, steps in enumerate(programs):
            steps.compute(span_s * (1 + stage) * draw.uniform(0.5, 1.5))
            steps.ring(number, size * 8, kind, inside=inside)
            steps.all_to_all(number, first=True, transposed=bool(stage))
            for tag in range(2 * number, 2 * number + 2):
                steps.send(1 - stage, tag, size + tag)
            steps.compute(span_s)
            for tag in range(2 * number, 2 * number + 2):
                steps.receive(1 - stage, tag)
            if draw.integers(2):
                steps.all_to_all(number)
        # leaves once its receiver waits for it
        programs[0].add("send", 1, 100 + number, 3 * size, "pp", handle=100 + number)
        programs[0].compute(span_s / 3).wait(100 + number)
        programs[1].receive(0, 100 + number)
    for number in range(3):
        for steps in programs:
            steps.wait(number)
    return graph(programs, members=4, tokens=tokens, rings=[ring])


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("transport", sorted(TRANSPORTS))
def test_a_step_that_is_played_again_takes_as_long_to_the_picosecond(transport, network, tmp_path):
    seed = len(transport) + 10 * len(network)
    run = record(random_step(seed), NETWORKS[network], transport, seed=seed)
    recording = run.recording
    again = replay(recording, tmp_path / "step")
    flows = again.flows
    if transport in LEARNING:
        assert again.operations.makespan_s == pytest.approx(run.step_time_s, rel=0.05)
        assert flows.size_bytes.sum() == recording.size_bytes.sum()
        return
    assert again.operations.makespan_s == pytest.approx(run.step_time_s, abs=PS, rel=0)
    order = np.lexsort((recording.size_bytes, recording.source, recording.start_s))
    found = np.lexsort((flows.size_bytes, flows.source, again.began_s))
    assert again.began_s[found] == pytest.approx(recording.start_s[order], abs=PS, rel=0)
    ends = [recording.source, recording.destination, recording.size_bytes, recording.source_nic]
    kept = [flows.source, flows.destination, flows.size_bytes, flows.nics[0]]
    for before, after in zip(ends, kept, strict=True):
        assert sorted(before.tolist()) == sorted(after.tolist())
    sent = sum(row["eps"] for row in run.purpose_bytes.values())
    assert recording.size_bytes.sum() == sent


@pytest.mark.parametrize("seed", range(6))
def test_every_flow_begins_when_what_it_waited_for_is_over(seed):
    run = record(random_step(seed), NETWORKS["tree"])
    recording = run.recording
    # from the arrivals alone: the latest of what each operation waits for
    arrived = np.zeros(recording.transfer.max() + 1)
    np.maximum.at(arrived, recording.transfer, recording.arrived_s)
    began = np.zeros(len(arrived))
    began[recording.transfer] = recording.start_s
    ends = []
    for operation, transfer in enumerate(recording.operation_transfer.tolist()):
        places = range(*recording.wait_starts[operation : operation + 2])
        waits = [ends[recording.waits[place]] + recording.later_s[place] for place in places]
        end = max(waits, default=0.0)
        if transfer >= 0:
            assert end == pytest.approx(began[transfer], abs=PS)
            end = arrived[transfer]
        ends.append(end)
    assert ends[-1] == pytest.approx(run.step_time_s, abs=PS)


def test_a_recorded_step_can_be_sent_otherwise(tmp_path):
    step = random_step(5)
    recording = record(step, NETWORKS["tree"]).recording
    times = {}
    for transport in ("ideal", "ndp", "dctcp"):
        changed = {"transport": {"name": transport}}
        again = replay(recording, tmp_path / transport, **changed)
        times[transport] = again.operations.makespan_s
    # as if it had been simulated so: nothing of the first run's times is left
    for transport in ("ndp", "dctcp"):
        direct_s = record(step, NETWORKS["tree"], transport, seed=1).step_time_s
        assert times[transport] == pytest.approx(direct_s, rel=0.02), transport
    assert times["ndp"] != times["dctcp"]


def test_what_was_set_of_packets_is_recorded_and_what_was_not_is_the_transports(tmp_path):
    step = random_step(3)
    own = record(step, NETWORKS["pods"], "dcqcn").recording.scenario_text()
    assert "[packet]" not in own
    assert "[queue" not in own
    run = record(step, NETWORKS["pods"], "ndp", mtu_bytes=1500, queue_bytes=9000)
    text = run.recording.scenario_text()
    assert "[packet]\nmtu_bytes = 1500\n" in text
    assert "[queue]\nsize_bytes = 9000\n" in text
    # what grew with the three tiers that comparisons fit transports to was not set
    assert "control_size_bytes" not in text
    again = replay(run.recording, tmp_path / "step")
    assert again.operations.makespan_s == pytest.approx(run.step_time_s, abs=PS, rel=0)


def test_recording_changes_nothing():
    step = random_step(2)
    models = [Packets("dctcp", repeats="together", record=each) for each in (False, True)]
    hashes = [simulate(step, NETWORKS["pods"], network_model=model).run_hash for model in models]
    assert hashes[0] == hashes[1]
    assert simulate(step, NETWORKS["pods"]).recording is None


@pytest.mark.parametrize(
    "network",
    [mixnet(8, fixed_s=1e-5), direct(2, [(0, 1, 4)], [(0, 1), (1, 0)])],
    ids=["circuits that change", "fixed circuits"],
)
def test_circuits_are_refused_in_one_line(network):
    tokens = 1000 * (1 - np.eye(network.servers, dtype=int))
    steps = Steps().all_to_all(first=True)
    step = graph([steps], members=network.servers, tokens=[tokens])
    with pytest.raises(InputError, match="circuits cannot be recorded"):
        record(step, network)


@pytest.mark.parametrize("repeats", ["once", "each"])
def test_flows_that_are_not_in_one_network_are_refused_as_the_replay_would_differ(repeats):
    with pytest.raises(InputError, match=f"packets.repeats=together instead of {repeats}"):
        record(random_step(1), NETWORKS["tree"], repeats=repeats)


def test_a_step_that_sends_nothing_is_refused_in_one_line():
    with pytest.raises(InputError, match="nothing is sent between servers cannot be recorded"):
        record(graph([Steps().compute(1e-6)], members=8), NETWORKS["switch"])


def test_nics_that_spray_over_planes_are_refused_in_one_line():
    network = packet(8, sprayed_planes=2)
    with pytest.raises(InputError, match="spray packets over planes"):
        record(random_step(1), network, "uet-nscc")


def test_a_folder_with_something_in_it_is_left_as_it_is(tmp_path):
    recording = record(random_step(1), NETWORKS["switch"]).recording
    write_recording(recording, tmp_path / "new" / "step")
    with pytest.raises(OutputError, match="there is something in it"):
        write_recording(recording, tmp_path / "new")
    with pytest.raises(OutputError, match="cannot write"):
        write_recording(recording, tmp_path / "new" / "step" / "links.csv")


def test_a_folder_that_cannot_be_written_is_refused_before_the_simulation(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(OutputError, match="is not writable; choose another place"):
        check_folder(tmp_path / "new")


def test_a_folder_is_made_when_its_first_file_is_written(tmp_path):
    check_folder(tmp_path / "a" / "b")
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "b"):
        with pytest.raises(OutputError, match="choose another place"):
            check_folder(folder)
