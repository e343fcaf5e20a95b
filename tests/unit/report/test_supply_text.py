"""What cannot be bought is said in the verdict, and what nobody priced below the table."""

import dataclasses

import pytest

from lightloom.cost import PartsCostModel
from lightloom.fabric import Chronos, Cluster, FatTree, MixNet, TopoOpt
from lightloom.hardware import load_prices
from lightloom.report.story import story
from lightloom.report.supply_text import assumptions, scarcity
from lightloom.study.compare.advice import advise
from lightloom.study.compare.results import Comparison, FabricResult
from lightloom.study.compare.supply import Supply, supply_of


def supply(fabric, rate=400, gpus=1024):
    cluster = Cluster.of(gpus=gpus, rate_gbps=rate, gpu="h100")
    return supply_of(fabric.bill_of_materials(cluster), load_prices())


@pytest.fixture
def compared(make_comparison):
    """Makes the hand-made comparison with other parts: of fat-tree, topoopt and mixnet."""

    def make(**supplies):
        made = make_comparison()
        results = tuple(
            dataclasses.replace(r, supply=supplies.get(r.fabric.replace("-", "_"), Supply()))
            for r in made.results
        )
        return dataclasses.replace(made, results=results)

    return make


def test_parts_sold_in_volume_need_no_word(compared):
    for fabric in (FatTree(), MixNet(), TopoOpt(), MixNet(technology="robotic")):
        found = supply(fabric)
        assert (found.availability, found.scarce) == ("volume", ())
    assert scarcity(compared().results) == ""


def test_what_is_hardest_to_buy_counts():
    assert supply(Chronos()).availability == "paper"
    assert supply(Chronos(technology="mems")).availability == "volume"
    assert supply(MixNet(technology="plzt")).availability == "sampled"
    assert supply(FatTree(), rate=1600).availability == "sampled"
    assert supply(FatTree(switch_ports=128), rate=800).availability == "sampled"
    assert supply(FatTree(), rate=800).availability == "volume"


def test_a_fabric_that_cannot_be_built_is_not_advised(compared):
    build = advise(compared().results).build.fabric
    found = compared(**{build.replace("-", "_"): supply(Chronos())})
    assert advise(found.results).build.fabric != build
    text = story(found)
    assert f"Build {build}" not in text
    assert text.endswith(
        f"Electronic crossbars cannot be bought: {build} is left out of the advice."
    )


def test_where_nothing_else_remains_it_is_advised_with_a_word(compared):
    build = advise(compared().results).build.fabric
    crossbars = supply(Chronos())
    found = compared(fat_tree=crossbars, topoopt=crossbars, mixnet=crossbars)
    assert advise(found.results).build.fabric == build
    assert "cannot be bought: fat-tree, topoopt and mixnet cannot be built today." in story(found)


def test_samples_are_marked_and_advised(compared):
    found = compared(mixnet=supply(MixNet(technology="silicon-photonics")))
    assert advise(found.results).build.fabric == advise(compared().results).build.fabric
    assert story(found).endswith("Silicon photonics OCSes (mixnet) are not sold in volume yet.")
    every = compared(**dict.fromkeys(("fat_tree", "topoopt", "mixnet"), supply(FatTree(), 1600)))
    assert story(every).endswith(
        "Packet switches, NICs and transceivers of 1600 Gb/s (every fabric) are not sold in volume "
        "yet."
    )


def test_shares_of_assumed_prices_by_hand(compared):
    assert supply(FatTree()).assumed_shares == {}
    bill = Chronos().bill_of_materials(Cluster.of(gpus=1024, rate_gbps=400, gpu="h100"))
    total = PartsCostModel().capital_cost(bill, load_prices()).total_usd
    share = bill.count("crossbar_port") * 1090 / total
    found = supply(Chronos())
    assert found.assumed_shares == {"crossbar_port": share}
    text = assumptions(compared(topoopt=found, mixnet=Supply((), {"ocs_port": 0.01})).results)
    assert text == f"Assumed prices: crossbar ports ({100 * share:.0f} % of topoopt)."


def test_files_carry_it(compared):
    made = compared(mixnet=supply(Chronos()))
    content = made.results[2].to_json()
    assert content["availability"] == "paper"
    assert content["scarce_parts"] == [
        {
            "component": "crossbar_port", "rate_gbps": 400, "availability": "paper",
            "technology": "electronic",
        }
    ]  # fmt: skip
    assert FabricResult.from_json(content).supply == made.results[2].supply
    assert isinstance(Comparison.from_json(made.to_json()), Comparison)
