"""A trace in place of a model: what is compared, what is refused, and that it repeats."""

import dataclasses
import json

import pytest
from tests.trace_jobs import PLAIN, program

from lightloom.errors import InputError
from lightloom.report.story import story
from lightloom.study.compare import compare
from lightloom.study.compare.job import ModelJob
from lightloom.study.compare.scenario import Scenario, load_study
from lightloom.study.compare.traced import TraceJob, traced_job
from lightloom.trace.trace import make_trace


@pytest.fixture
def written(tmp_path):
    """Writes a trace, and says where."""

    def write(trace, name="trace.json"):
        path = tmp_path / name
        path.write_text(json.dumps(trace.to_json()))
        return path

    return write


def scenario(path, **changes):
    values = {
        "workload": path,
        "fabrics": ("fat-tree", "mixnet"),
        "cluster": {"rate_gbps": 400, "gpu": "h100", "gpus_per_server": 2, "nics_per_server": 8},
        "policies": False,
    }
    return Scenario(**{**values, **changes})


def test_a_trace_is_compared_as_a_model_is(written):
    rows = []
    found = compare(scenario(written(program())))
    assert [result.fabric for result in found.results] == ["fat-tree", "mixnet"]
    for result in found.results:
        assert result.step_time_s == pytest.approx(sum(result.critical_path_s.values()))
        assert result.critical_path_s["forward"] > 0 < result.critical_path_s["backward"]
        assert result.critical_path_s["ep"] > 0
        assert result.mfu is result.tokens_per_s is None
        assert result.pace == pytest.approx(3600 / result.step_time_s)
        assert [load.imbalance for load in result.loads] == ["balanced"]
    assert found.inputs["model"] == {"name": "train.py"}
    assert found.inputs["trace"]["recorded_ranks"] == [0, 8]
    assert found.inputs["scenario"]["gpus"] == 16
    assert set(found.traffic_shares) == {"tp", "ep", "pp", "dp"}
    assert rows == []


def test_what_a_comparison_says_of_itself_repeats_it(written):
    found = compare(scenario(written(program())))
    again = compare(Scenario(**json.loads(json.dumps(found.inputs["scenario"]))))
    assert [one.run_hash for one in again.results] == [one.run_hash for one in found.results]


def test_a_demand_is_drawn_for_a_trace(written):
    path = written(program())
    drawn = traced_job(scenario(path, demand={"source": "skewed"}))
    assert isinstance(drawn, TraceJob)
    assert not isinstance(drawn, ModelJob)
    assert len(drawn.samples()) == 5
    first, other = (drawn.workload(sample, 2).graph for sample in drawn.samples()[-2:])
    assert (first.demands[0].counts != other.demands[0].counts).any()
    recorded = traced_job(scenario(path))
    assert len(recorded.samples()) == 3
    graph = recorded.workload(recorded.samples()[0], 2).graph
    assert graph.demands[0].counts.any()
    # a slower GPU of the same demand
    slower = recorded.workload(recorded.samples()[1], 2).graph
    assert (slower.demands[0].counts == graph.demands[0].counts).all()
    assert slower.roles[0].program.size.sum() != graph.roles[0].program.size.sum()


def test_steps_differ_where_a_generator_draws_them(written):
    """Recorded rows and a matrix are those of every step."""
    path = written(program())
    assert len(traced_job(scenario(path, steps=4, compute_spread=0.0)).samples()) == 1
    given = {"demand": {"source": "skewed"}, "steps": 2, "seeds": 1, "compute_spread": 0.0}
    drawn = traced_job(scenario(path, **given))
    first, second = (drawn.workload(sample, 2).graph for sample in drawn.samples())
    assert (first.demands[0].counts != second.demands[0].counts).any()


def test_products_of_fp8_take_less_time_where_a_gpu_has_it(written):
    """The H100 has twice the FLOP/s in FP8; the A100 has none and computes in BF16."""

    def forward_s(dtype, gpu):
        cluster = {"rate_gbps": 400, "gpu": gpu, "gpus_per_server": 2, "nics_per_server": 8}
        path = written(program(dtype=dtype), f"{dtype}.json")
        found = compare(scenario(path, fabrics=("fat-tree",), cluster=cluster))
        return found.results[0].critical_path_s["forward"]

    in_bf16, in_fp8 = (forward_s(dtype, "h100") for dtype in ("bfloat16", "float8_e4m3fn"))
    assert 0.5 * in_bf16 <= in_fp8 < 0.75 * in_bf16
    assert forward_s("float8_e4m3fn", "a100") == forward_s("bfloat16", "a100")


def test_tokens_of_a_step_make_a_throughput(written):
    found = compare(scenario(written(program()), step_tokens=10**6, fabrics=("fat-tree",)))
    (result,) = found.results
    assert result.tokens_per_s == result.pace == pytest.approx(1e6 / result.step_time_s)
    assert result.tokens_per_s_per_gpu == pytest.approx(result.tokens_per_s / 16)
    days = result.days_per_trillion_tokens
    assert days * 24 * 3600 * result.tokens_per_s == pytest.approx(1e12)
    assert result.mfu is None
    assert result.to_json()["pace_unit"] == "tokens/s"


def test_measured_computes_are_said_to_be(written):
    path = written(program(measured=1e-3))
    found = compare(scenario(path, fabrics=("fat-tree",)))
    lines = " ".join(found.inputs["summary"])
    assert "0 by the roofline of their operators" in lines
    assert found.results[0].critical_path_s["forward"] >= 1e-3


def test_packets_carry_a_trace(written):
    path, fabrics = written(program()), ("fat-tree",)
    (result,) = compare(scenario(path, network="packet", fabrics=fabrics)).results
    assert result.packets["simulated"] == "whole"
    assert result.packets["packet_hops"] > 0
    alone = scenario(path, network="packet", packets={"phases": "all"}, fabrics=fabrics)
    (result,) = compare(alone).results
    assert result.packets["phases"]["ep"]["simulated"] > 0
    assert result.loads == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"plan": {"tp": 2}}, "plan.tp (--tp) is for a model: a traced program has decided it"),
        ({"demand": {"dispatcher": "flex"}}, "demand.dispatcher (--dispatcher) is for a model"),
        ({"compute": {"precision": "fp8"}}, "compute.precision (--precision) is for a model"),
        ({"recompute": "full"}, "recompute (--recompute) is for a model"),
        ({"gradient_bytes": 2}, "gradient_bytes (--gradient-bytes) is for a model"),
        ({"gpus": 32}, "gpus = 32: the trace is of a job of 16; leave --gpus out"),
    ],
)
def test_what_a_traced_program_has_decided_is_refused(written, changes, message):
    with pytest.raises(InputError) as refused:
        compare(scenario(written(program()), **changes))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_demand_for_a_trace_without_routers_is_refused(written):
    path = written(program(routed=False))
    with pytest.raises(InputError, match="nothing would read --demand"):
        compare(scenario(path, demand={"source": 1.5}))
    assert compare(scenario(path, fabrics=("fat-tree",))).results[0].loads == ()


def test_a_job_is_a_model_or_a_trace(written):
    path = written(program())
    with pytest.raises(InputError, match="two jobs are given"):
        scenario(path, model="mixtral-8x7b")
    with pytest.raises(InputError, match="no job is given"):
        scenario(None)
    with pytest.raises(InputError, match="step_tokens is for a trace"):
        scenario(None, model="mixtral-8x7b", gpus=128, step_tokens=5)


def test_a_study_names_a_trace_relative_to_itself(written, tmp_path):
    written(program())
    study = tmp_path / "study.toml"
    study.write_text(
        "workload = 'trace.json'\nfabrics = ['rail']\ncluster = { rate_gbps = 400, gpu = 'h100' }\n"
    )
    assert load_study(study).workload == tmp_path / "trace.json"
    assert compare(load_study(study)).results[0].step_time_s > 0


def test_a_call_that_cannot_be_simulated(written):
    odd = dataclasses.replace(PLAIN, op="teleport", group="tp", ranks=(0, 1))
    trace = program()
    first = trace.ranks[0]
    changed = dataclasses.replace(first, calls=(*first.calls, dataclasses.replace(odd, call_id=99)))
    ranks = [changed, trace.ranks[8]]
    path = written(make_trace(16, ["python"], ranks, trace.groups))
    with pytest.raises(InputError, match="call 99: teleport cannot be simulated"):
        compare(scenario(path))


def test_a_layer_table_of_simai_is_compared(tmp_path):
    """Two micro-batches of 3 ms forward and 7 ms backward through two stages: 30 ms at least."""
    row = "mlp -1 3000000 ALLTOALL_EP 64 7000000 ALLTOALL_EP 64 0 NONE 0 100"
    header = (
        "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 1 ep: 8 pp: 2 ga: 2 "
        "all_gpus: 16 pp_comm: 64"
    )
    table = tmp_path / "table.txt"
    table.write_text("\n".join([header, "2", row, row]))
    seen = []
    job = traced_job(scenario(table), lambda *progress: seen.append(progress))
    assert (job.name, job.form) == ("table.txt", "SimAI layer table")
    assert job.remarks == ("all 2 stages are taken to be alike",)
    assert seen == [(0.0, "stage 0"), (0.5, "stage 1")]
    for result in compare(scenario(table)).results:
        assert result.step_time_s == pytest.approx(30e-3, rel=0.05)


def test_groups_inside_a_server_are_as_even_as_they_are(tmp_path):
    """All-to-alls of tensor parallelism stay in servers of 8; those of experts leave them."""
    row = "mlp -1 3000000 ALLTOALL 64000000 1 ALLTOALL_EP 64000000 0 NONE 0 100"
    header = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 8 pp: 1 all_gpus: 16"
    table = tmp_path / "table.txt"
    table.write_text("\n".join([header, "1", row]))
    cluster = {"rate_gbps": 400, "gpu": "h100", "gpus_per_server": 8, "nics_per_server": 8}
    for result in compare(scenario(table, cluster=cluster)).results:
        assert result.step_time_s > 3e-3


def test_a_trace_whose_all_to_alls_are_empty_decides_nothing(written):
    """Nothing else is in it, so that every network takes the same time."""
    whole = program()
    nothing = {"input_bytes": 0, "output_bytes": 0, "input_splits": (0,) * 4}
    nothing["output_splits"] = nothing["input_splits"]
    ranks = {
        rank: dataclasses.replace(
            one,
            calls=tuple(
                dataclasses.replace(call, **nothing)
                for call in one.calls
                if call.op == "all_to_all"
            ),
        )
        for rank, one in whole.ranks.items()
    }
    found = compare(scenario(written(dataclasses.replace(whole, ranks=ranks))))
    assert story(found) == (
        "Nothing is decided: no byte leaves a server, so that every network is as good."
    )
