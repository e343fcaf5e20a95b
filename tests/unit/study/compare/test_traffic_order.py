"""Orders of traffic in a comparison: the step, and what other orders would make of it."""

import pytest

from lightloom.errors import InputError
from lightloom.report.worth_of_strategies import worth_grids
from lightloom.study.compare import ClusterOptions, PlanOptions, Scenario, compare
from lightloom.study.compare.scenario import OrderOptions


def ordered(scenario, traffic):
    """Experts over two servers, sequences over two GPUs, two copies of experts."""
    return scenario(
        model="qwen3-30b-a3b",
        gpus=32,
        fabrics=("fat-tree",),
        cluster=ClusterOptions(rate_gbps=100, gpu="h100"),
        plan=PlanOptions(tp=1, pp=1, cp=2, ep=8, micro_batches=1, seq_len=16_384),
        traffic=traffic,
        fabric_options={"fat-tree": {"all_to_all": "hierarchical"}},
        seeds=1,
        compute_spread=0.0,
        imbalances=False,
        policies=False,
        memory_check=False,
    )


def test_an_order_says_what_the_others_would_take(scenario):
    plain = compare(ordered(scenario, OrderOptions())).result("fat-tree")
    found = compare(ordered(scenario, OrderOptions(priorities="monta"))).result("fat-tree")
    assert plain.variants_s == {}
    assert found.variants_s.keys() == {"priorities=none", "priorities=pipeline"}
    assert found.variants_s["priorities=none"] == plain.step_time_s
    assert found.step_time_s < 0.95 * plain.step_time_s
    assert any("if no traffic goes first (priorities=none)" in note for note in found.notes)


def test_a_table_says_what_each_order_is_worth_on_each_fabric(scenario):
    asked = ordered(scenario, OrderOptions(priorities="monta"))
    found = compare(asked.model_copy(update={"fabrics": ("fat-tree", "mixnet")}))
    (grid,) = worth_grids(found.results)
    assert [row[0] for row in grid.rows] == ["fat-tree", "mixnet"]
    for row, result in zip(grid.rows, found.results, strict=True):
        name, none_s, monta_s, pipeline_s, best, gain = row
        assert name == result.fabric
        assert monta_s == result.sample_step_times_s[0]
        assert [none_s, pipeline_s] == [
            result.variants_s[f"priorities={order}"] for order in ("none", "pipeline")
        ]
        fastest = {"none": none_s, "monta": monta_s, "pipeline": pipeline_s}[best]
        assert fastest == min(none_s, monta_s, pipeline_s)
        assert float(gain) == pytest.approx(100 * (none_s / fastest - 1), abs=0.05)
    assert worth_grids(compare(ordered(scenario, OrderOptions())).results) == []


def test_early_gradients_delay_nothing_where_all_else_goes_first(scenario):
    late, early = (
        compare(ordered(scenario, OrderOptions(priorities="monta", early_gradients=is_early)))
        for is_early in (False, True)
    )
    assert early.result("fat-tree").step_time_s <= late.result("fat-tree").step_time_s


def test_a_trace_has_no_order_of_traffic():
    with pytest.raises(InputError, match=r"^traffic\.priorities .*is for a model"):
        compare(
            Scenario(
                workload="nas-cg-s",
                gpus=64,
                fabrics=("fat-tree",),
                cluster=ClusterOptions(rate_gbps=100),
                traffic=OrderOptions(priorities="monta"),
            )
        )
