"""What the verdict says where a purchase hangs on more than a step time and a price."""

import dataclasses

from tests.property.test_story import doubt, result, verdict

from lightloom.fabric import Switches
from lightloom.fabric.interconnect import uplink_efficiency
from lightloom.hardware import load_ownership
from lightloom.report.failures_table import failures_sentence
from lightloom.report.price_table import sentence
from lightloom.report.remarks import remarks
from lightloom.report.story import doubts
from lightloom.report.switches_table import built_of
from lightloom.study.compare.results import Comparison, FailureResult, LinkUpResult
from lightloom.study.compare.supply import ScarcePart, Supply
from lightloom.study.compare.switching import OtherSwitch, SwitchGear
from lightloom.study.pricing.run import PricedFabric, Pricing

OCS = SwitchGear(
    (Switches("ocs_port", 400, 576, 1, 384),),
    panel_saving_usd=322_560,
)
TREE = result("fat-tree", 10.0, 1e7)


def circuits(step_s, network_usd, ocs_bytes, **more):
    made = result(
        "mixnet", step_s, network_usd, link_up=LinkUpResult(5.67, 5.67, step_s, 0.0, step_s)
    )
    return dataclasses.replace(
        made,
        switching=OCS,
        carried_bytes={"eps": 10**12, "ocs": ocs_bytes},
        cost_by_component_usd={"ocs_port": 2e5},
        **more,
    )


def test_a_tie_goes_to_the_cheaper_network():
    assert verdict(TREE, result("oversub", 10.01, 7e6)).startswith(
        "Build oversub: as fast as fat-tree (1.001x) at 70 % of its network cost."
    )


def test_a_tie_of_a_tree_with_a_rail_is_explained():
    """It holds where uplinks are chosen by load, and where the tree has any."""
    rail = result("rail", 10.0, 1e7)
    assert "ties with rail" not in doubt(TREE, rail)
    two_tiers = SwitchGear((Switches("eps_port", 400, 128, 24, 3072, tiers=2),))
    by_load = {"ecmp": uplink_efficiency()}
    tree = dataclasses.replace(TREE, switching=two_tiers, parameters=by_load)
    one_tier = SwitchGear((Switches("eps_port", 400, 128, 1, 128, tiers=1),))
    assert (
        "Fat-tree ties with rail because switches choose uplinks by load; where they hash flows, "
        "trees are slower (--set fat-tree.ecmp=0.6)"
    ).lower() in doubt(tree, rail).lower().replace("\N{NO-BREAK SPACE}", " ")
    hashed = dataclasses.replace(tree, parameters={"ecmp": 0.6})
    slower = dataclasses.replace(tree, tied_with_fastest=False)
    small = dataclasses.replace(tree, switching=one_tier)
    for other in (hashed, slower, small):
        assert "ties with rail" not in doubt(other, rail)


def test_circuits_without_a_byte_are_not_advised():
    idle = circuits(10.0, 5e6, 0)
    assert verdict(TREE, idle, result("oversub", 10.0, 8e6)).startswith("Build oversub")
    assert "the circuits of mixnet carry no byte of this job: do not buy them" in doubt(TREE, idle)


def test_circuits_that_never_switch_are_told_from_a_panel():
    still = circuits(10.5, 5e6, 10**12, reconfiguration={"reconfigurations": 0.0})
    text = doubt(TREE, still)
    assert "mixnet never switches a circuit: a patch panel gives the same step for $323k less" in (
        text.replace("\N{NO-BREAK SPACE}", " ")
    )
    moving = dataclasses.replace(still, reconfiguration={"reconfigurations": 3.0})
    assert "patch panel" not in doubt(TREE, moving)


def test_another_radix_that_changes_the_bill_is_said():
    gear = SwitchGear(
        (Switches("eps_port", 400, 64, 320, 20480, tiers=3),),
        others=(OtherSwitch("SN5600", 128, "volume", 2, 96, 5e6),),
    )
    text = built_of([dataclasses.replace(TREE, switching=gear)])
    assert text == (
        "Switches: fat-tree 320 packet switches of 64 ports, 3 tiers (with 128 ports: 2 tiers, "
        "$5.00M less)."
    )


def test_what_cannot_be_bought_is_named():
    scarce = Supply(scarce=(ScarcePart("crossbar_port", 400, "paper", "electronic"),))
    chronos = dataclasses.replace(result("chronos", 9.0, 9e6), supply=scarce)
    text = verdict(TREE, chronos)
    assert text.startswith("Build fat-tree")
    assert "chronos" in text.split("cannot be bought", 1)[1]


def test_a_plan_that_does_not_fit_is_said():
    misfit = Comparison({}, (TREE,), {}, {"fits": False}, {})
    assert doubts(misfit).endswith("the plan does not fit the memory of the GPUs.")
    repaired = {"repair": {"sentence": "It runs with full recomputation."}}
    assert "It runs with full recomputation." in remarks(Comparison({}, (TREE,), {}, repaired, {}))


def test_what_failures_cost_is_said_of_every_fabric():
    lost = [
        dataclasses.replace(
            one, failures=(FailureResult("server:0", "server", what, 1.0, longer, 0.1),)
        )
        for one, what, longer in (
            (TREE, "a spare server", 0.0),
            (result("mixnet", 10.5, 5e6), "a spare server without circuits", 0.25),
        )
    ]
    text = failures_sentence(lost)
    assert "fat-tree 0 %, mixnet 2 %" in text
    assert text in remarks(Comparison({}, tuple(lost), {}, {}, {}))
    assert failures_sentence([TREE]) == ""


def test_equal_budgets_buy_unequal_clusters():
    def priced(name, gpus, tokens_per_s):
        return PricedFabric(name, gpus, gpus, 1e7, 2e8, 5e6, tokens_per_s)

    found = Pricing(
        (priced("fat-tree", 3714, 5.0e6), priced("oversub", 4186, 5.5e6)),
        load_ownership(), 1e12, budget_usd=2e8,
    )  # fmt: skip
    idle = dataclasses.replace(priced("mixnet", 4300, 9e6), is_eligible=False)
    found = dataclasses.replace(found, fabrics=(*found.fabrics, idle))
    assert sentence(found) == (
        "For $200.00M buy oversub: 4,186 GPUs train 475.2B tokens a day, 10 % more than fat-tree. "
        "Replicas are taken to train as fast as in the results."
    )
