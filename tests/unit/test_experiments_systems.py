"""The public runs and the measured steps that predictions are held against, without simulating."""

import csv
import hashlib
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from lightloom.hardware import load_gpu
from lightloom.models import load_model
from lightloom.models.next_tokens import with_next_tokens
from lightloom.models.parameters import total_parameters
from lightloom.study.compare.fit import FittedPlan, fitted_plan
from lightloom.study.compare.job import prepare, workload_options
from lightloom.study.compare.racks import with_servers
from lightloom.study.compare.scenario import ClusterOptions, Scenario

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
REAL, B200 = EXPERIMENTS / "real-systems", EXPERIMENTS / "b200-steps"
sys.path[:0] = [str(REAL)]
from rows import Run, flops_per_token, read_runs  # noqa: E402
from summary import errors  # noqa: E402

RUNS, SOURCES = read_runs()
H800 = ClusterOptions(gpu="h800", rate_gbps=400)


class Predicted:
    """A prediction that is off by a factor."""

    refused = ""
    shares = None

    def __init__(self, run: Run, ratio: float) -> None:
        self.run, self.ratio = run, ratio
        self.predicted = ratio * run.published


def test_every_run_has_a_name_of_its_own_and_a_source() -> None:
    assert len({run.name for run in RUNS}) == len(RUNS) >= 20
    for run in RUNS:
        source = SOURCES[run.source]
        assert source["url"].startswith("https://")
        assert run.where


def test_the_split_follows_the_names_alone() -> None:
    """Within a class, sorted by hash, every second run calibrates: nobody chose which.

    Runs that were registered, and left out when they were opened, keep their place.
    """
    every = [*RUNS, *read_runs(REAL / "registered.toml")[0]]
    for group in {(run.group, run.collection) for run in every}:
        inside = [run for run in every if (run.group, run.collection) == group]
        inside.sort(key=lambda run: hashlib.sha256(run.name.encode()).hexdigest())
        parts = [run.part for run in inside]
        assert parts == ["calibrate" if i % 2 == 0 else "test" for i in range(len(parts))]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_plan_fills_the_gpus(run: Run) -> None:
    scenario = run.scenario()
    assert isinstance(scenario, Scenario)
    plan = run.plan
    inside = plan.get("tp", 1) * plan.get("cp", 1) * plan.get("pp", 1)
    assert run.gpus % inside == 0
    if run.is_moe:
        assert run.shape.num_experts % plan["ep"] == 0
    assert (run.shape.num_moe_layers > 0) == run.is_moe
    tokens = run.gpus // inside * plan["micro_batches"] * plan["micro_batch_size"]
    if "tokens_per_step" in run.given:
        assert tokens * plan["seq_len"] == run.given["tokens_per_step"]
    assert 20 < run.published < 100_000


def fitted_run(run: Run) -> FittedPlan:
    """The plan and its memory as a comparison has them, without its fabrics."""
    model = with_next_tokens(run.shape, run.scenario().plan.mtp)
    scenario = with_servers(run.scenario(), model)
    gpu = load_gpu(scenario.cluster.gpu)
    return fitted_plan(scenario, model, gpu, workload_options(scenario, model))


def test_what_ran_fits_by_the_programs_own_check_or_says_why_not() -> None:
    """The check that a user meets; five runs are beyond it, three of one report."""
    over = {}
    for run in RUNS:
        fitted = fitted_run(run)
        assert fitted.options.recompute == run.recompute
        assert (fitted.misfit is not None) == bool(run.misfit), f"{run.name}: {fitted.misfit}"
        if run.misfit:
            peak = max(stage.total_bytes for stage in fitted.memory)
            over[run.name] = peak / load_gpu(run.gpu_name).hbm_capacity_bytes
    assert len(over) <= 5
    assert sum(run.source == "llama-3" for run in RUNS if run.misfit) <= 3
    # within the error of the model
    assert max(over.values()) < 1.07


def test_the_plan_of_deepseek_v3_fits_as_published() -> None:
    """Its report's recipe is the catalog's, so that ``compare deepseek-v3`` has it as well."""
    fitted = prepare(Scenario(model="deepseek-v3", gpus=2048, cluster=H800)).fitted
    assert (fitted.options.recompute, fitted.without, fitted.misfit) == ("selective", None, None)


def test_teraflops_are_converted_as_megatron_counts_them() -> None:
    # 72 l h^2 (1 + s / (6 h) + V / (12 l h)) per token, the form of the formula that is published
    model = load_model(str(REAL / "models" / "gpt-7b.json"))
    layers, width, seq_len, words = 30, 4096, 4096, 131072
    published = 72 * layers * width**2
    published *= 1 + seq_len / (6 * width) + words / (12 * layers * width)
    assert flops_per_token(model, seq_len) == pytest.approx(published, rel=2e-3)


def test_utilization_and_teraflops_agree_where_both_are_published() -> None:
    run = next(run for run in RUNS if run.name == "mixtral-8x22b-128-h100")
    other = replace(run, given={"mfu_percent": 49.3})
    assert other.published == pytest.approx(run.published, rel=1e-3)


def test_recomputation_that_is_counted_is_taken_off() -> None:
    run = next(run for run in RUNS if run.name == "gpt-18b-256-a100")
    plain = replace(run, given={"tflops_per_gpu": 135})
    assert plain.published == pytest.approx(run.published * 4 / 3)


def test_gpu_hours_become_tokens_per_second() -> None:
    run = next(run for run in RUNS if run.name == "deepseek-v3-2048-h800")
    assert run.published == pytest.approx(14.8e12 / 2.664e6 / 3600)


def test_errors_are_counted_by_class_and_set() -> None:
    found = [Predicted(run, 1.1 if run.part == "calibrate" else 1.18) for run in RUNS]
    lines = errors(found).splitlines()
    dense = next(line for line in lines if line.startswith("| dense BF16 | test"))
    assert "| 18.0 % | 18 % | 0 of" in dense
    lower = next(line for line in lines if line.startswith("| MoE FP8 | test"))
    count = sum(run.group == "MoE FP8" and run.part == "test" for run in RUNS)
    assert f"| {count} of {count} |" in lower
    assert next(line for line in lines if line.startswith("| all | calibrate")).endswith("1.000 |")


def test_the_measured_steps_are_the_published_ones() -> None:
    with (B200 / "steps.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == 43
    for row in rows:
        degree = int(row["tp"]) * int(row["cp"]) * int(row["pp"])
        assert 8 % degree == 0
        layers = load_model(str(B200 / "models" / f"{row['model']}.json")).num_layers
        assert layers == int(row["model"].rpartition("-")[2])
    # 12 layers of Llama 3 70B: its embedding tables and 12 of its 80 layers
    model = load_model(str(B200 / "models" / "llama3-70b-12.json"))
    tables = 2 * 128256 * 8192 + 8192
    assert total_parameters(model) - tables == (70_553_706_496 - tables) * 12 // 80


@pytest.mark.parametrize("run", [run for run in RUNS if run.gpu in ("gb200", "gb300")],
                         ids=lambda run: run.name)  # fmt: skip
def test_the_name_of_a_gpu_is_enough_for_its_racks(run: Run) -> None:
    """The servers that the table states by hand, of 64 used GPUs, follow from the GPU alone."""
    stated = run.scenario()
    cluster = ClusterOptions(gpu=run.gpu, rate_gbps=run.rate_gbps)
    own = with_servers(stated.model_copy(update={"cluster": cluster}), run.shape).cluster
    assert own.gpus_per_server == own.nics_per_server == 72
    assert min(run.gpus, own.used_gpus_per_server) == run.gpus_per_server


def test_published_bandwidths_are_as_their_table_says() -> None:
    """Two rows of it, one inside a server and one between, and none without a source."""
    sys.path[:0] = [str(EXPERIMENTS / "interconnect")]
    import published

    content = tomllib.loads((EXPERIMENTS / "interconnect/published.toml").read_text())
    rows, table = content["row"], published.TABLE.read_text().splitlines()
    assert {row["source"] for row in rows} == content["sources"].keys()
    for row in (rows[0], rows[2]):
        assert published.line(row)[0] in table
