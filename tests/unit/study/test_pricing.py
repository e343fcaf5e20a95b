"""Results priced again agree with the comparison, and fill a budget to the last replica."""

import dataclasses
import json

import pytest

from lightloom.errors import InputError
from lightloom.study.compare import compare
from lightloom.study.compare.results import Comparison
from lightloom.study.compare.scenario import Scenario
from lightloom.study.pricing import priced


@pytest.fixture(scope="module")
def comparison():
    scenario = Scenario(
        model="qwen3-30b-a3b",
        gpus=64,
        cluster={"gpu": "h100", "rate_gbps": 400},
        plan={"tp": 1, "pp": 2, "ep": 16, "micro_batches": 2, "micro_batch_size": 1},
        fabrics=("fat-tree", "mixnet"),
        seeds=1,
        compute_spread=0,
        policies=False,
        imbalances=False,
    )
    found = compare(scenario)
    return Comparison.from_json(json.loads(json.dumps(found.to_json())))


def test_the_same_prices_give_the_same_money(comparison):
    found = priced(comparison)
    for one, result in zip(found.fabrics, comparison.results, strict=True):
        assert (one.fabric, one.gpus, one.tokens_per_s) == (result.fabric, 64, result.tokens_per_s)
        assert one.cluster_cost_usd == pytest.approx(result.cluster_cost_usd)
        assert one.power_w == pytest.approx(result.cluster_power_w)
        assert found.days(one) == pytest.approx(result.days_per_trillion_tokens)
        assert found.usd(one) / 1e12 == pytest.approx(result.usd_per_token)
        assert found.energy_per_token_j(one) == pytest.approx(result.energy_per_token_j)


def test_another_list_of_prices_changes_the_network(comparison, tmp_path):
    import lightloom.hardware

    packaged = lightloom.hardware.__path__[0] + "/data/prices.toml"
    with open(packaged) as file:
        text = file.read()
    path = tmp_path / "mine.toml"
    path.write_text(
        text.replace("switch_port_usd = { value = 1090", "switch_port_usd = { value = 2090")
    )
    before, after = priced(comparison), priced(comparison, prices=path)
    # one port per NIC under one switch
    extra = after.fabrics[0].network_cost_usd - before.fabrics[0].network_cost_usd
    assert extra == pytest.approx(64 * 1000)


@pytest.mark.parametrize("limit", [{"budget_usd": 50e6}, {"max_power_w": 2e6}])
def test_a_limit_is_filled_but_for_less_than_one_replica(comparison, limit):
    found = priced(comparison, **limit)
    pue = found.ownership.pue.value
    for one, result in zip(found.fabrics, comparison.results, strict=True):
        used = one.cluster_cost_usd / 50e6 if "budget_usd" in limit else one.power_w * pue / 2e6
        replica = 32 / one.gpus
        assert 1 - 2 * replica < used <= 1
        assert one.gpus % 32 == 0
        assert one.tokens_per_s / one.gpus == pytest.approx(result.tokens_per_s / 64)


def test_a_limit_below_one_replica_is_refused(comparison):
    with pytest.raises(InputError, match=r"of 32 GPUs, one .* costs \$.* and draws .* kW: more"):
        priced(comparison, budget_usd=1e5)


def test_a_trace_has_no_tokens_to_price(comparison):
    bare = dataclasses.replace(comparison.results[0], tokens_per_s=None)
    with pytest.raises(InputError, match="no tokens per second"):
        priced(dataclasses.replace(comparison, results=(bare,)))


def test_results_that_were_edited_are_refused(comparison):
    first, *others = comparison.results
    scenario = comparison.inputs["scenario"]
    cluster = {k: v for k, v in scenario["cluster"].items() if k != "nics_per_server"}
    for edited, message in (
        (
            {"results": (dataclasses.replace(first, fabric="mesh"), *others)},
            "'mesh': no fabric of the",
        ),
        ({"results": (dataclasses.replace(first, plan={}), *others)}, "without plans cannot"),
        ({"inputs": {}}, "without their scenario"),
        (
            {"inputs": {"scenario": scenario | {"cluster": cluster}}},
            "cluster.nics_per_server: missing",
        ),
    ):
        with pytest.raises(InputError, match=message):
            priced(dataclasses.replace(comparison, **edited))


def test_the_lists_of_the_results_hold_wherever_they_are_priced(comparison, tmp_path):
    import lightloom.hardware

    with open(lightloom.hardware.__path__[0] + "/data/prices.toml") as file:
        text = file.read()
    path = tmp_path / "mine.toml"
    path.write_text(text.replace("nic_usd = { value = 1499", "nic_usd = { value = 1999"))
    scenario = Scenario.model_validate(comparison.inputs["scenario"])
    own = compare(scenario.model_copy(update={"prices": path}))
    path.unlink()
    for one, result in zip(priced(own).fabrics, own.results, strict=True):
        assert one.cluster_cost_usd == pytest.approx(result.cluster_cost_usd)


def test_each_fabric_grows_by_replicas_of_its_plan(comparison):
    first, second = comparison.results
    # of the whole cluster in one replica
    wide = dataclasses.replace(second, plan={**second.plan, "dp": 1})
    found = priced(dataclasses.replace(comparison, results=(first, wide)), budget_usd=50e6)
    assert found.fabrics[1].gpus % 64 == 0
    assert found.fabrics[0].gpus == priced(comparison, budget_usd=50e6).fabrics[0].gpus
