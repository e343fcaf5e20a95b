"""Plans that leave the strategy of all-to-alls open: what runs, what is chosen, what is shown."""

import io
import json
import random

import pytest
from rich.console import Console

from lightloom.errors import PlanError
from lightloom.report.page import render
from lightloom.report.worth_of_strategies import strategies_sentence, worth_grids
from lightloom.study.compare import ClusterOptions, PlanOptions, compare
from lightloom.study.compare.job import prepare
from lightloom.study.compare.other_strategies import LAYERS, STRATEGIES, other_strategies
from lightloom.study.compare.results import Comparison

CONFIG = {
    "model_type": "mixtral",
    "architectures": ["MixtralForCausalLM"],
    "hidden_size": 4096,
    "num_hidden_layers": 2,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 32000,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "max_position_embeddings": 32768,
}


@pytest.fixture(scope="module")
def opened(scenario, tmp_path_factory):
    """A scenario of two layers, by the strategy of its plan."""
    path = tmp_path_factory.mktemp("model") / "config.json"
    path.write_text(json.dumps(CONFIG))

    def of(strategy, **plan):
        degrees = {"tp": 8, "pp": 1, "ep": 4, "micro_batches": 1, "seq_len": 8192}
        return scenario(
            model=str(path),
            gpus=32,
            cluster=ClusterOptions(rate_gbps=200, gpu="h100"),
            plan=PlanOptions(**{**degrees, "strategy": strategy, **plan}),
            seeds=1,
            compute_spread=0.0,
            imbalances=False,
            policies=False,
        )

    return of


@pytest.fixture(scope="module")
def chosen(opened):
    return compare(opened("auto"))


def test_every_fabric_tries_every_strategy(chosen):
    for result in chosen.results:
        assert [each.strategy for each in result.strategies] == [LAYERS, *STRATEGIES]
        times = {each.strategy: each.step_time_s for each in result.strategies}
        assert max(times, key=times.get) == "baseline"
        assert {f"strategy={name}": times[name] for name in STRATEGIES}.items() <= (
            result.variants_s.items()
        )
        assert all(each.fits for each in result.strategies)


def test_strategies_of_layers_are_those_of_the_same_strategy_named(chosen, opened):
    layers = chosen.inputs["strategies"]
    assert [layer["layer"] for layer in layers] == [0, 1]
    (strategy,) = {layer["strategy"] for layer in layers}
    assert strategy == "O2"
    named = compare(opened(strategy))
    times = {each.strategy: each.step_time_s for each in chosen.result("fat-tree").strategies}
    assert named.result("fat-tree").step_time_s == times[strategy] == times[LAYERS]
    assert times[strategy] < times["O1"]
    assert named.result("fat-tree").strategies == ()
    assert named.inputs["strategies"] == layers


@pytest.mark.parametrize("seed", range(3))
def test_every_fabric_takes_what_is_fastest_on_it_and_keeps_it(opened, seed):
    draw = random.Random(seed)
    scenario = opened("auto", seq_len=draw.choice([1024, 4096, 16384])).model_copy(
        update={
            "fabrics": tuple(draw.sample(["fat-tree", "oversub", "mixnet", "topoopt"], 2)),
            "cluster": ClusterOptions(rate_gbps=draw.choice([100, 400]), gpu="h100"),
            "seeds": 2,
        }
    )
    compared = compare(scenario)
    for result in compared.results:
        times = {each.strategy: each.step_time_s for each in result.strategies}
        times.pop("baseline")
        first_s, second_s = result.sample_step_times_s
        assert first_s == min(times.values())
        taken = min(times, key=times.get)
        if taken != LAYERS:
            plan = scenario.plan.model_copy(update={"strategy": taken})
            alone = scenario.model_copy(update={"plan": plan, "fabrics": (result.fabric,)})
            assert compare(alone).results[0].sample_step_times_s == (first_s, second_s)


def test_without_a_strategy_nothing_is_tried_or_said(opened):
    job = prepare(opened(None))
    assert job.plan.strategy == "O1"
    assert other_strategies(job) == []
    assert strategies_sentence([]) == ""


def test_the_baseline_is_a_plan_without_sequence_parallelism(opened):
    job = prepare(opened("baseline"))
    assert not job.plan.sequence_parallel
    assert prepare(opened("O1")).plan.sequence_parallel
    own = prepare(opened("auto"))
    found = {variant.strategy: variant for variant in other_strategies(own)}
    plan = found["baseline"].own.get(own.samples()[0], 8).plan
    assert plan.strategy == "baseline"
    assert not plan.sequence_parallel


def test_a_plan_that_has_nothing_to_gather_is_refused(opened):
    with pytest.raises(PlanError, match="strategy O2 with tp = 1"):
        prepare(opened("O2", tp=1))
    with pytest.raises(PlanError, match="strategy auto with etp = 1"):
        prepare(opened("auto", expert_mode="folded", ep=8))


def test_tables_and_pages_show_what_each_is_worth(chosen):
    (grid,) = worth_grids(chosen.results)
    assert [words for words, _ in grid.headers] == [
        *("fabric", LAYERS, *STRATEGIES, "auto", "auto\ntakes")
    ]
    assert [row[0] for row in grid.rows] == ["fat-tree", "mixnet"]
    console = Console(file=io.StringIO(), width=80)
    chosen.print(console)
    text = console.file.getvalue()
    assert "What each strategy of the all-to-alls is worth" in text
    assert "All-to-alls to experts, layer by layer: O2 in " in text
    assert max(map(len, text.split("What each", 1)[1].splitlines()[:8])) <= 80
    page = render(chosen)
    assert "What each strategy of the all-to-alls is worth" in page
    assert worth_grids([chosen.results[0]])[0].rows[0][0] == "fat-tree"


def test_results_are_read_again(chosen):
    content = json.loads(json.dumps(chosen.to_json()))
    again = Comparison.from_json(content)
    assert [r.strategies for r in again.results] == [r.strategies for r in chosen.results]


def test_strategies_that_differ_by_layer_are_counted():
    layers = [
        {"layer": 0, "strategy": "O1", "chunks": 1},
        {"layer": 1, "strategy": "O3", "chunks": 4},
        {"layer": 2, "strategy": "O3", "chunks": 9},
    ]
    expected = (
        "All-to-alls to experts, layer by layer: O1 (1 layer), O3 in 4 to 9 chunks (2 layers)."
    )
    assert strategies_sentence(layers) == expected
