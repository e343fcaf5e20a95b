"""Plain arguments: what they mean, and that wrong ones are one line; results show themselves."""

import numpy as np
import pytest

import lightloom
from lightloom.demand import history_of_source
from lightloom.demand.predictors import make_predictor
from lightloom.errors import InputError, LightloomError

SMALL = {
    "gpus": 128,
    "rate": "100 Gb/s",
    "fabrics": ["fat-tree", "mixnet"],
    "seeds": 1,
    "compute_spread": 0.0,
    "plan": {"micro_batches": 4},
    "policies": False,
}
DEMAND = np.array([[0, 8_000, 1_000], [2_000, 0, 5_000], [3_000, 4_000, 0]])


@pytest.fixture(scope="module")
def comparison():
    return lightloom.compare("mixtral-8x7b", **SMALL)


def test_plain_arguments_are_those_of_a_scenario(comparison):
    scenario = lightloom.Scenario(
        model="mixtral-8x7b",
        gpus=128,
        fabrics=("fat-tree", "mixnet"),
        cluster={"rate_gbps": 100},
        plan={"micro_batches": 4},
        seeds=1,
        compute_spread=0.0,
        policies=False,
    )
    other = lightloom.compare(scenario)
    assert other.inputs == comparison.inputs
    assert [r.run_hash for r in other.results] == [r.run_hash for r in comparison.results]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gpus": None}, "compare: gpus is missing; add it, such as gpus = 1024"),
        ({"rate": None}, "compare: rate is missing; add it, such as rate_gbps = "),
        ({"rate": "fast"}, "compare: rate = fast: cannot read 'fast' as a rate"),
        ({"sedes": 1}, "compare: unknown key 'sedes'; did you mean 'seeds'?"),
        ({"cluster": 3}, "compare: cluster = 3: expected a table of keys and values"),
        ({"fabrics": "mixnet"}, "compare: fabrics = mixnet: expected a list"),
        ({"fabrics": ["mixnett"]}, "unknown fabric 'mixnett'; did you mean 'mixnet'?"),
        ({"plan": {"tp": "4"}}, "compare: plan.tp = '4': expected a whole number"),
    ],
)
def test_wrong_arguments_of_a_comparison(changes, message):
    with pytest.raises(LightloomError) as caught:
        lightloom.compare("mixtral-8x7b", **{**SMALL, **changes})
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_scenario_takes_no_other_settings():
    scenario = lightloom.Scenario(model="mixtral-8x7b", gpus=128, cluster={"rate_gbps": 100})
    with pytest.raises(InputError, match="compare: gpus is part of the Scenario; set it there"):
        lightloom.compare(scenario, gpus=64)
    with pytest.raises(InputError, match="compare: seeds is part of the Scenario"):
        lightloom.compare(scenario, seeds=1)


def test_progress_may_stop_a_comparison():
    shares = []

    def stop(share, _=""):
        shares.append(share)
        return False

    with pytest.raises(KeyboardInterrupt):
        lightloom.compare("mixtral-8x7b", **SMALL, progress=stop)
    assert shares


def test_an_allocator_of_a_user_chooses_the_circuits(comparison):
    recorded = []

    def none(requests):
        recorded.extend(requests)
        return [np.zeros(request.demand.shape, dtype=np.uint16) for request in requests]

    always = {"fabric_options": {"mixnet": {"when": "always", "first": "block"}}}
    found = lightloom.compare("mixtral-8x7b", **SMALL, **always, allocator=none)
    assert recorded
    assert found.result("fat-tree").run_hash == comparison.result("fat-tree").run_hash
    assert found.result("mixnet").carried_bytes["ocs"] == 0
    assert comparison.result("mixnet").carried_bytes["ocs"] > 0


def test_a_comparison_shows_itself(comparison, tmp_path):
    assert repr(comparison).startswith("Comparison(mixtral-8x7b: fat-tree ")
    assert "mixnet" in comparison._repr_html_()
    rows = comparison.to_polars()
    assert rows["fabric"].to_list() == ["fat-tree", "mixnet"]
    assert rows["step_time_s"].to_list() == [r.step_time_s for r in comparison.results]
    figure = comparison.plot()
    assert figure._repr_html_().startswith("<iframe srcdoc=")
    figure.save(tmp_path / "figure.html")
    assert "<svg" in (tmp_path / "figure.html").read_text()


def test_schedules(tmp_path):
    found = lightloom.compare_schedules(
        DEMAND, fixed_s="1 us", rate="100 Gb/s", ports=2, eps_rate="100 Gb/s", planes=True
    )
    assert found.best_allocation is not None
    assert found.planes is not None
    assert len(found.to_polars()) >= len(found.schedules)
    assert found.winner in repr(found)
    assert "round-robin" in found._repr_html_()
    assert "<svg" in found.plot().to_html()
    file = tmp_path / "demand.csv"
    np.savetxt(file, DEMAND, fmt="%d", delimiter=",")
    assert lightloom.compare_schedules(file, fixed_s=0, methods=("bvn",)).problem.name == file.name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fixed_s": "soon"}, "fixed_s: cannot read 'soon' as a time such as '25 ms'"),
        ({"fixed_s": None}, "compare_schedules: fixed_s is missing; add it"),
        (
            {"delay": 0},
            "compare_schedules: unknown argument 'delay'; known: methods, allocators, "
            "time_limit_s, systems, relay, planes, fixed_s; did you mean 'fixed_s'?",
        ),
        ({"mehtods": ("bvn",)}, "compare_schedules: unknown argument 'mehtods'; known: methods"),
        ({"methods": ("bnv",)}, "method 'bnv': expected of"),
        ({"demand": [[1.5]]}, "demand: entry [0, 0] is 1.5: expected whole bytes"),
    ],
)
def test_wrong_arguments_of_schedules(changes, message):
    with pytest.raises(LightloomError) as caught:
        lightloom.compare_schedules(**{"demand": DEMAND, "fixed_s": 0, **changes})
    assert str(caught.value).startswith(message)


def test_flows_show_themselves():
    flows = lightloom.make_flows([0, 1, 2], [3, 4, 5], [1_000, 20_000, 300_000])
    shares = []
    run = lightloom.simulate_flows(
        flows, hosts=16, rate="100 Gb/s", transport="roce", network={"topology": "star"},
        progress=lambda share, _="": shares.append(share),
    )  # fmt: skip
    assert shares[-1] == 1.0
    assert run.to_polars()["fct_us"].to_list() == pytest.approx(run.fct_s * 1e6)
    assert "3 of 3 finished by roce" in repr(run)
    assert "roce" in run._repr_html_()
    assert "<svg" in run.plot().to_html()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hosts": None}, "simulate_flows: hosts is missing; add it"),
        ({"rate": -1}, "simulate_flows: rate = -1: expected at least 0.001"),
        ({"transport": "tcp"}, "transport tcp: expected one of"),
        ({"network": 3}, "simulate_flows: network = 3: expected a mapping"),
        ({"topology": "star"}, "simulate_flows: unknown key 'topology'"),
    ],
)
def test_wrong_arguments_of_flows(changes, message):
    flows = lightloom.make_flows([0], [1], 1_000)
    with pytest.raises(LightloomError) as caught:
        lightloom.simulate_flows(flows, **{"hosts": 16, "rate": 100, **changes})
    assert str(caught.value).startswith(message)


def test_predictors_of_a_user_are_scored_beside_ours(tmp_path):
    source = lightloom.synthetic(
        "volatile", ranks=4, experts=4, tokens_per_rank=1024, top_k=2, seed=1
    )
    loads = history_of_source(source, steps=6, layers=2, synthetic=True)

    class Equal:
        def observe(self, step, layer, loads):
            pass

        def predict(self, _step, _layer):
            return np.full(4, 0.25)

    found = lightloom.predict(loads, {"mine": Equal()}, window=2)
    ours = lightloom.predict(loads, ["uniform"], window=2)
    assert [score.predictor for score in found.scores] == ["mine", "static circuits"]
    assert found.scores[0].l1 == ours.scores[0].l1
    assert found.to_polars()["predictor"].to_list() == ["mine", "static circuits"]
    assert repr(found).startswith("Prediction(volatile")
    assert "mine" in found._repr_html_()
    with pytest.raises(LightloomError, match="unknown predictor 'ridg'; did you mean 'ridge'"):
        lightloom.predict(loads, ["ridg"])
    with pytest.raises(LightloomError, match="predict: unknown argument 'ports'"):
        lightloom.predict(loads, ports=3)
    with pytest.raises(LightloomError, match="no such file"):
        lightloom.predict(tmp_path / "none.csv")


def test_a_predictor_by_name_or_of_a_user():
    always = {"mixnet": {"when": "always", "ports": 2, "fixed_s": 0}}
    settings = {**SMALL, "fabrics": ["mixnet"], "fabric_options": always}
    default = lightloom.compare("mixtral-8x7b", **settings)
    named = lightloom.compare("mixtral-8x7b", **settings, predictor="ridge")
    assert named.inputs["scenario"]["predictor"] == "ridge"
    assert default.inputs["scenario"]["predictor"] is None
    made = []

    def uniform(members):
        made.append(members)
        return make_predictor("uniform", members)

    lightloom.compare("mixtral-8x7b", **settings, predictor=uniform)
    assert set(made) == {4}
    with pytest.raises(LightloomError, match="unknown predictor 'ridg'; did you mean 'ridge'"):
        lightloom.compare("mixtral-8x7b", **settings, predictor="ridg")


@pytest.mark.parametrize(
    ("demand", "options", "message"),
    [
        ([[0, 1], [2]], {}, "demand: expected rows of one length"),
        ([[0, 1], [2, 0]], {"ports": "x"}, "ports = 'x': expected a whole number"),
        ([[0, 1], [2, 0]], {"switches": 1.5}, "switches = 1.5: expected a whole number"),
        ([[0, 1], [2, 0]], {"methodz": ()}, "unknown argument 'methodz'"),
    ],
)
def test_wrong_types_of_arguments_of_schedules(demand, options, message):
    with pytest.raises(InputError, match=message):
        lightloom.compare_schedules(demand, fixed_s="1 us", **options)


@pytest.mark.parametrize("model", [3, None, ["mixtral-8x7b"]])
def test_a_model_is_named_by_text(model):
    with pytest.raises(InputError, match="expected a name or a path, as text"):
        lightloom.load_model(model)


def test_a_number_in_quotes_is_an_error_of_ours():
    with pytest.raises(LightloomError, match="gpus = '128': expected a whole number"):
        lightloom.Scenario(model="mixtral-8x7b", gpus="128", cluster={"rate_gbps": 400})
