"""Committed tables of the MixNet experiments are whole; cells recompute to what they say."""

import csv
import dataclasses
import importlib
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from tests.workload_fakes import table

from lightloom.fabric.network import Direct
from lightloom.workload.categories import StepCategory
from lightloom.workload.task_graph import COLUMNS, NO_INDEX, Kind

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
FIGURE_12, FIGURE_13 = EXPERIMENTS / "mixnet-fig12", EXPERIMENTS / "mixnet-fig13"
TOPOLOGIES = tomllib.loads((FIGURE_12 / "experiment.toml").read_text())["topologies"]
PUBLISHED = EXPERIMENTS.parents[1] / "shared" / "data" / "mixnet_published_mixtral.csv"


@pytest.fixture(scope="module")
def fig12():
    """The experiment's modules: cells, topologies, tables, run."""
    sys.path.insert(0, str(FIGURE_12))
    try:
        names = ("cells", "topologies", "tables", "run")
        yield dict(zip(names, map(importlib.import_module, names), strict=True))
    finally:
        sys.path.remove(str(FIGURE_12))


@pytest.fixture(scope="module")
def experiment(fig12):
    return fig12["cells"].Experiment.load()


@pytest.fixture(scope="module")
def steps():
    with (FIGURE_12 / "steps.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    return {
        (row["assumptions"], row["model"], row["fabric"], int(row["rate_gbps"])): float(
            row["step_s"]
        )
        for row in rows
    }


@pytest.fixture(scope="module")
def small(fig12, experiment):
    """Mixtral 8x7B under the authors' assumptions, and its graph."""
    model = fig12["cells"].Model(experiment, "mixtral-8x7b", experiment.assumptions["authors"])
    return model, model.graph(0)


def test_the_fast_check_simulates(fig12, experiment, steps):
    """It is the cells that are stored, of steps that are simulated."""
    run = fig12["run"]
    found = run.simulate_some(experiment)
    assert len(found) == 2
    assert all(steps[cell] == pytest.approx(step_s, abs=1e-6) for cell, step_s in found.items())


@pytest.fixture(scope="module", params=TOPOLOGIES, ids=lambda row: row["name"])
def planned(fig12, small, request):
    """A row of the experiment's topologies, and the topology."""
    values = {key: value for key, value in request.param.items() if key != "name"}
    return request.param, fig12["topologies"].plan(small[0], **values)


def columns_of(before, after):
    """Columns of each stage's program in two graphs."""
    pairs = zip(before.roles, after.roles, strict=True)
    return [
        [{name: getattr(role.program, name) for name in COLUMNS} for role in ends] for ends in pairs
    ]


def inside(columns):
    """Which tasks are collectives inside workers."""
    return (columns["kind"] == Kind.COLLECTIVE) & (columns["family"] == NO_INDEX)


def test_published_cells_are_those_of_the_data_file(experiment):
    if not PUBLISHED.exists():
        pytest.skip("../shared/data/mixnet_published_mixtral.csv is not there")
    models = {"Mixtral 8*7B": "mixtral-8x7b", "Mixtral 8*22B": "mixtral-8x22b"}
    fabrics = {"fattree": "fat-tree", "rail-optimized": "rail"}
    rows = list(csv.DictReader(PUBLISHED.read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 8
    for row in rows:
        place = experiment.rates.index(int(float(row["Bandwidth"])))
        for column in ("fattree", "mixnet", "rail-optimized", "topoopt"):
            fabric = fabrics.get(column, column)
            quoted = experiment.published(models[row["Model"]], fabric)[place]
            assert quoted == pytest.approx(float(row[column]), abs=5e-5)


def test_table_holds_all_32_cells_once_with_their_ratios(experiment, steps):
    text = (FIGURE_12 / "table.md").read_text(encoding="utf-8")
    part = text.partition("## All cells")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in part.splitlines()
        if "|" in line
    ]
    cells = {(row[0], row[1]): row[2:] for row in rows[2:]}
    assert len(cells) == len(rows) - 2 == 32
    for model in experiment.values["models"]:
        fastest = min(
            steps["authors", model, fabric, rate]
            for fabric in experiment.values["fabrics"]
            for rate in experiment.rates
        )
        for fabric in experiment.values["fabrics"]:
            for place, rate in enumerate(experiment.rates):
                published, authors, ratio, *_ = map(float, cells[f"{model}, {fabric}", str(rate)])
                expected = steps["authors", model, fabric, rate] / fastest
                assert published == pytest.approx(
                    experiment.published(model, fabric)[place], abs=5e-4
                )
                assert authors == pytest.approx(expected, abs=6e-4)
                assert ratio == pytest.approx(authors / published, abs=2e-3)


@pytest.mark.parametrize("fabric", ["fat-tree", "mixnet"])
def test_a_cell_recomputes_to_the_printed_time(small, steps, fabric):
    model, graph = small
    found = model.run(fabric, 400, graph).step_time_s
    assert found == pytest.approx(steps["authors", "mixtral-8x7b", fabric, 400], rel=1e-3), (
        "run: python experiments/mixnet-fig12/run.py --write; "
        "then python experiments/mixnet-fig13/run.py --write"
    )


def test_the_matrix_is_sent_by_every_group_layer_and_micro_batch(small, experiment):
    model, graph = small
    ranks = graph.demands[0].rank_counts
    matrix = experiment.token_matrix
    assert (matrix.sum(axis=1) == 32_768).all()
    outside = ~np.eye(8, dtype=bool)
    # top-2 of 32,768 tokens: twice the matrix
    assert (ranks[..., outside] == 2 * matrix[outside]).all()
    assert ranks.shape[:2] == graph.demands[0].counts.shape[:2]
    assert model.seeds == range(1)


def test_local_collectives_become_time_and_nothing_else_changes(fig12, small):
    model, graph = small
    local = fig12["cells"]
    before = model._built(0)
    after = local.fixed_local_times(before, 600e9)
    for old, new in columns_of(before, after):
        moved = inside(old) & (old["table"] == NO_INDEX)
        assert moved.any()
        assert (new["kind"][moved] == Kind.COMPUTE).all()
        seconds = new["size"][moved].astype(float) * 1e-12
        assert seconds == pytest.approx(old["inside"][moved] / 600e9, rel=1e-6)
        gathers = inside(old) & (old["table"] != NO_INDEX)
        assert (new["kind"][gathers] == Kind.COMPUTE).all()
        mean = model.job.plan.tokens_per_ep_rank * 2 * model.job.model.hidden_size * 2 * 3 / 4
        seconds = new["size"][gathers] * 1e-12
        assert seconds == pytest.approx(mean / 600e9, rel=1e-4)
        for name in old:
            same = ~moved & ~gathers
            assert (old[name][same] == new[name][same]).all()
    assert not any(inside(columns).any() for columns, _ in columns_of(graph, graph))


def test_only_the_gate_before_a_forward_dispatch_is_delayed(fig12, small):
    _, graph = small
    delayed = fig12["cells"].first_delayed(graph, 1e-3)
    for old, new in columns_of(graph, delayed):
        changed = np.flatnonzero(new["size"] != old["size"])
        assert (new["size"][changed] - old["size"][changed] == 10**9).all()
        assert (old["category"][changed] == StepCategory.GATE).all()
        # one for each layer and micro-batch of the stage
        experts = (old["kind"] == Kind.COMPUTE) & (old["table"] != NO_INDEX)
        places = set(zip(old["layer"][changed], old["micro_batch"][changed], strict=True))
        assert len(places) == len(changed) == len(np.unique(old["entry"][experts]))


def test_options_of_a_set_reach_their_fabrics(experiment):
    authors, ours = experiment.assumptions["authors"], experiment.assumptions["ours"]
    assert authors.options("fat-tree")["all_to_all"] == "flat"
    assert authors.options("mixnet")["allocator"] == "reference"
    assert authors.options("mixnet")["split"] is False
    assert "all_to_all" not in authors.options("topoopt")
    # what the paper's simulations assume of links and switches, whatever the defaults
    packets = {"interconnect": "ideal", "ecmp": 1, "switch_ports": 64}
    assert ours.options("mixnet") == {**ours.mixnet, **packets}
    assert ours.options("fat-tree") == packets
    assert ours.options("topoopt") == {"interconnect": "ideal"}


def test_a_planned_topology_connects_all_pairs_within_its_ports(small, planned):
    model, (_, topology) = small[0], planned
    ports = np.zeros(model.job.cluster.servers, dtype=int)
    for a, b, count in topology.circuits.tolist():
        ports[[a, b]] += count
    assert ports.max() <= model.job.cluster.nics_per_server
    ends = {tuple(pair) for pair in topology.ends.tolist()}
    for group in model.context.layout.group_servers():
        assert {(a, b) for a in group for b in group if a != b} <= ends


def test_the_topology_called_ours_is_the_one_of_the_fabric(fig12, small):
    model, _ = small
    fabric = model.network("topoopt", 100).part(Direct)
    found = fig12["topologies"].plan(model, "share", "mean", 4)
    assert np.array_equal(found.circuits, fabric.circuits)
    assert np.array_equal(found.route_servers, fabric.route_servers)
    cycles = fig12["topologies"].cycles(model, "share", found)
    assert np.array_equal(cycles.servers, fabric.cycle_servers)
    unweighted = fig12["topologies"].plan(model, "share", "bytes", 4)
    assert not np.array_equal(unweighted.circuits, fabric.circuits)


def test_rings_of_a_planned_topology_run_in_its_own_cycles(fig12, small, planned):
    model, (row, topology) = small[0], planned
    cycles = fig12["topologies"].cycles(model, row["rings"], topology)
    direct = fig12["topologies"].network(model, topology, cycles, 100).part(Direct)
    assert direct.cycle_servers is cycles.servers
    assert len(cycles.counts) > 0
    circuits = {frozenset(pair) for pair in topology.circuits[:, :2].tolist()}
    routed = {tuple(pair) for pair in topology.ends.tolist()}
    direct_hops = []
    for cycle in np.split(cycles.servers, cycles.offsets[1:-1]):
        hops = list(zip(cycle.tolist(), np.roll(cycle, -1).tolist(), strict=True))
        # what connects the servers may take circuits of a cycle, but never its routes
        assert set(hops) <= routed
        direct_hops += [frozenset(hop) in circuits for hop in hops]
    if row["rings"] == "first":
        # a few edges are routes where two kinds of rings share servers
        assert np.mean(direct_hops) > 0.95


def test_even_experts_take_one_time_and_send_the_same_tokens(fig12, small, experiment):
    model, graph = small
    even = fig12["cells"].Model(experiment, model.name, experiment.assumptions["authors-even"])
    of_even = even.graph(0)
    assert np.array_equal(of_even.demands[0].rank_counts, graph.demands[0].rank_counts)
    for direction in ("forward", "backward"):
        equal = table(of_even, f"expert_{direction}_ps")
        assert len(np.unique(equal)) == 1
        # nobody waits for an expert that takes as long as all others
        assert not table(of_even, f"straggler_{direction}_ps").any()
        uneven = table(graph, f"expert_{direction}_ps") + table(graph, f"straggler_{direction}_ps")
        assert len(np.unique(uneven)) > 1
        assert equal[0, 0] < uneven.max()


def test_the_simulators_loader_repeats_the_matrix_and_divides_nothing(fig12, experiment):
    counts = experiment.token_matrix
    wide = fig12["cells"].repeated(counts, 32, 64)
    assert wide.shape == (32, 64)
    # EP32 sends four times what a rank has, and rank 17 sends rank 26 what rank 1 sends rank 2
    assert np.array_equal(wide.sum(axis=1), np.tile(4 * counts.sum(axis=1), 4))
    assert wide[17, 52:54].sum() == counts[1, 2]


def test_the_fit_of_the_tables_is_exact_on_its_own_form(fig12):
    column = fig12["tables"].figures.Column
    rates = (100.0, 200.0, 400.0, 800.0)
    constant, volume, residual = column("m", "f", rates, tuple(3 + 40 / r for r in rates)).fit()
    assert (constant, volume) == (pytest.approx(3), pytest.approx(40))
    assert residual < 1e-12


def test_figure_13_is_up_to_date_and_follows_from_costs_and_steps():
    sys.path.insert(0, str(FIGURE_12))
    try:
        spec = importlib.util.spec_from_file_location("mixnet_fig13", FIGURE_13 / "run.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(FIGURE_12))
    text = (FIGURE_13 / "table.md").read_text(encoding="utf-8")
    assert module.render() == text, "run: python experiments/mixnet-fig13/run.py --write"
    study = module.Study.load()
    # equal performance leaves the cost ratio (targets: 2.289 at 400 Gb/s)
    key = ("ours", "mixtral-8x22b", "mixnet", 400)
    equal = dataclasses.replace(
        study, steps={**study.steps, key: study.steps["ours", "mixtral-8x22b", "fat-tree", 400]}
    )
    gain = equal.gain("ours", "mixtral-8x22b", 400, "fat-tree", False)
    assert gain == pytest.approx(2.289, abs=0.02)
    assert equal.gain("ours", "mixtral-8x22b", 400, "fat-tree", True) < 1.3


def test_optical_io_gains_where_every_copy_is_sent():
    """1.22 and 0.95 were expected of an emulation, within 0.1; the table is renewed by hand."""
    lines = (EXPERIMENTS / "mixnet-fig16" / "table.md").read_text().splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| 8 ")]
    found = {row[1]: float(row[5]) for row in cells}
    assert found["every copy"] == pytest.approx(1.22, abs=0.1)
    assert found["a token once to each rack"] == pytest.approx(0.95, abs=0.1)
