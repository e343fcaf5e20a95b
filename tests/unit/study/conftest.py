"""One small comparison that many tests look at."""

import pytest

from lightloom.study.compare import ClusterOptions, PlanOptions, Scenario, compare


def small_scenario(**changes):
    values = {
        "model": "mixtral-8x7b",
        "gpus": 128,
        "fabrics": ("fat-tree", "mixnet"),
        "cluster": ClusterOptions(rate_gbps=100),
        "plan": PlanOptions(micro_batches=4),
        "seeds": 2,
    }
    return Scenario(**{**values, **changes})


@pytest.fixture(scope="session")
def scenario():
    return small_scenario


@pytest.fixture(scope="session")
def comparison():
    return compare(small_scenario())
