"""``lightloom memory``: the memory that a comparison has, against published figures."""

import json

import pytest
from tests.unit.cli.conftest import SMALL

from lightloom.cli.commands import described
from lightloom.models import load_model
from lightloom.study.compare import PlanOptions
from lightloom.study.compare.memory import one_replica

#: Llama 3 70B of 12 layers on 8 B200: peaks that MooreThreads measured (SimuMax, Apache-2.0,
#: b200_release_v1.2_summary.json), MiB of rank 0
MEASURED = {(1, 2): 68149.2, (2, 1): 62136.3, (4, 1): 40009.8, (8, 1): 28965.4}
LLAMA = {
    "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672,
    "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128_256,
    "num_hidden_layers": 12, "tie_word_embeddings": False,
}  # fmt: skip
#: two experts of Llama 2 70B's width, MoNTA's 2 x 70B (arXiv 2411.00662)
TWO_OF_70B = LLAMA | {
    "model_type": "mixtral", "num_hidden_layers": 80, "vocab_size": 32_000,
    "num_local_experts": 2, "num_experts_per_tok": 2,
}  # fmt: skip


@pytest.fixture
def config(tmp_path):
    def write(values):
        path = tmp_path / "config.json"
        path.write_text(json.dumps(values))
        return path

    return write


@pytest.fixture
def memory(lightloom):
    def run(words):
        outcome = lightloom(f"memory {words} --json -")
        assert outcome.status == 0, outcome.err
        return json.loads(outcome.out)

    return run


@pytest.mark.parametrize(("tp", "pp"), MEASURED)
def test_peaks_are_near_those_that_were_measured(memory, config, tp, pp):
    path = config(LLAMA)
    words = f"{path} --gpus 8 --gpu b200 --tp {tp} --pp {pp} --ep 1 --zero1 --recompute none"
    first = memory(words)["memory"]["stages"][0]
    assert first["total_bytes"] == pytest.approx(MEASURED[tp, pp] * 2**20, rel=0.06)


@pytest.mark.parametrize(("zero1", "expected_gb"), [("--no-zero1", 138.0), ("--zero1", 128.5)])
def test_states_are_those_of_the_formulas_of_the_field(memory, config, zero1, expected_gb):
    """16 bytes per parameter; experts are replicated once, so that nothing of theirs is sharded."""
    found = memory(
        f"{config(TWO_OF_70B)} --gpus 16 --tp 8 --pp 1 --ep 2 --gradient-bytes 2 {zero1}"
    )
    (stage,) = found["memory"]["stages"]
    states = sum(stage[f"{part}_bytes"] for part in ("parameters", "gradients", "optimizer"))
    assert states / 1e9 == pytest.approx(expected_gb, abs=0.1)
    assert not found["memory"]["fits"]


def test_it_is_the_memory_of_the_comparison(lightloom, memory):
    compared = json.loads(lightloom(f"{SMALL} --json -").out)
    found = memory("mixtral-8x7b --gpus 128 --micro-batches 4")
    # what recomputation costs is known of the comparison alone
    assert compared["memory"].pop("repair")["recompute"] == "none"
    assert found["memory"] == compared["memory"]


def test_a_stage_is_the_sum_of_its_parts_and_recomputation_only_takes_away(memory):
    found = memory("deepseek-v3 --gpu h200")
    for stage in found["memory"]["stages"]:
        parts = [size for name, size in stage.items() if name not in ("stage", "total_bytes")]
        assert sum(parts) == pytest.approx(stage["total_bytes"])
    by_level = {row["recompute"]: row["total_bytes"] for row in found["recomputation"]}
    assert max(by_level.values()) == by_level["none"]
    assert min(by_level.values()) == by_level["full"]


@pytest.mark.parametrize(
    ("words", "gpus"),
    [
        ("deepseek-v3", 16 * 64),
        ("mixtral-8x22b --tp 4", 4 * 8 * 8),
        ("qwen3-30b-a3b --tp 2 --pp 4", 8),
        ("qwen3-30b-a3b --tp 8 --ep 8 --etp 1", 8),
        ("qwen3-30b-a3b --tp 4 --ep 8 --ep-mode folded --etp 1", 8),
        ("llama-3-8b --tp 2 --cp 2", 4),
    ],
)
def test_without_a_number_of_gpus_it_is_one_replica(memory, words, gpus):
    found = memory(words)
    assert found["gpus"] == gpus
    assert found["plan"]["dp"] == 1


def test_published_degrees_stay_published():
    model = load_model("mixtral-8x7b")
    gpus, plan = one_replica(model, PlanOptions())
    assert gpus == model.plan.tp * model.plan.pp * model.plan.ep
    assert plan == PlanOptions()


def test_the_text_says_whether_the_plan_fits_and_what_would(lightloom):
    fits = lightloom("memory mixtral-8x22b --gpus 1024 --gpu h100").out
    assert "The plan fits NVIDIA H100 80GB SXM with --recompute full (without, stage 0 " in fits
    words = "memory mixtral-8x22b --gpus 1024 --gpu h100 --recompute none"
    assert lightloom(words).out.splitlines()[-1].endswith("; --recompute full fits.")
    alone = lightloom("memory qwen3-30b-a3b --tp 2").out.splitlines()[-1]
    assert "does not fit" in alone
    assert alone.endswith("--gpus 8 --pp 4 does.")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("memory", "MODEL is missing"),
        ("memory llama-3-70b", "llama-3-70b has no published plan: give --gpus, or degrees"),
        ("memory nothing", "unknown model 'nothing'"),
        ("memory vgg-16", "of a model; simulate it: lightloom compare vgg-16"),
        ("memory nas-ft-d --gpus 8", "simulate it: lightloom compare nas-ft-d"),
        ("models alexnet", "simulate it: lightloom compare alexnet"),
        (
            "collective all-to-all --model alexnet --gpus 8 --gpu h100 --rate 400",
            "simulate it: lightloom compare alexnet",
        ),
        ("memory mixtral-8x7b --tp none", "--tp none: expected a whole number"),
        ("memory mixtral-8x22b --gpus 1024 --tp 16 --ep 4", "use a divisor of 8"),
        ("memory mixtral-8x7b --gpus 100", "do not fill servers"),
        ("memory qwen3-30b-a3b --gpus 2", "qwen3-30b-a3b does not fit on 2 GPUs"),
    ],
)
def test_what_cannot_be_is_one_line(lightloom, words, expected):
    outcome = lightloom(words)
    assert (outcome.status, outcome.out) == (2, "")
    assert expected in outcome.err
    assert outcome.err.count("\n") == 1


def test_nothing_of_the_network_is_wanted_but_the_rate_of_expansions():
    flags = {option.flag for panel in described("memory").panels for option in panel.options}
    assert "--fabrics" not in flags


def test_settings_are_those_of_the_plan_and_of_no_fabric(lightloom):
    words = "memory deepseek-v3 --gpus 2048 --gpu h800 --json -"
    stages = []
    for setting in ("", " --set plan.mtp=1"):
        outcome = lightloom(words + setting)
        assert outcome.status == 0, outcome.err
        stages.append(json.loads(outcome.out))
    assert stages[1] != stages[0]
    for setting, expected in (
        ("mixnet.ports=4", "no fabric"),
        ("plan.tp=1 --tp 1", "both given"),
        ("plan.mpt=1", "did you mean"),
    ):
        outcome = lightloom(f"{words} --set {setting}")
        assert (outcome.status, outcome.err.count("\n")) == (2, 1)
        assert expected in outcome.err


def test_formulas_and_expansion_are_added_where_they_are_asked_for(lightloom):
    words = "memory mixtral-8x22b --gpus 1024 --gpu h100"
    plain = json.loads(lightloom(f"{words} --json -").out)
    assert plain.keys().isdisjoint({"formulas", "expansion"})
    more = json.loads(lightloom(f"{words} --formulas --expand --json -").out)
    assert more["formulas"]["states"][0]["name"] == "ZeRO-0"
    grown = more["expansion"]
    assert [row["cp"] for row in grown["rows"]] == [
        -(-row["seq"] // grown["longest_sequence"]) for row in grown["rows"]
    ]
    text = lightloom(f"{words} --formulas --expand").out
    assert "as printed  corrected" in text
    assert "How the cluster grows" in text


def test_rows_of_an_expansion_are_jobs_of_their_own(memory):
    words = "mixtral-8x7b --gpus 64 --gpu h100 --tp 2 --pp 2 --ep 8"
    rows = memory(f"{words} --expand")["expansion"]["rows"]
    assert {row["way"] for row in rows} == {"none", "horizontal", "vertical"}
    for row in rows:
        plan = row["plan"]
        assert row["cp"] <= plan["cp"] < 2 * row["cp"]
        assert row["step_tokens"] % row["seq"] == 0
    for row in (rows[0], rows[-3], rows[-1]):
        plan = row["plan"]
        flags = " ".join(
            f"--{'ep-mode' if name == 'expert_mode' else name.replace('_', '-')} {plan[name]}"
            for name in ("tp", "pp", "ep", "etp", "cp", "dp", "expert_mode", "micro_batches")
        )
        again = memory(
            f"mixtral-8x7b --gpus {plan['gpus']} --gpu h100 {flags} --seq-len {row['seq']} "
            f"--recompute {row['recompute']}"
        )["memory"]
        assert again["fits"]
        peak = max(stage["total_bytes"] for stage in again["stages"])
        assert peak == pytest.approx(row["peak_memory_bytes"])


def test_a_faster_network_shortens_the_steps_of_an_expansion(memory):
    words = "mixtral-8x7b --gpus 64 --gpu h100 --tp 2 --pp 2 --ep 8 --expand"
    slow, fast = (
        [row["step_time_s"] for row in memory(f"{words} --rate {rate}")["expansion"]["rows"]]
        for rate in (100, 800)
    )
    assert all(a > b for a, b in zip(slow, fast, strict=True))


def test_the_longest_sequence_fits_and_a_longer_one_does_not(lightloom):
    words = "memory mixtral-8x7b --gpus 64 --gpu h100 --tp 2 --pp 2 --ep 8 --recompute full"
    longest = json.loads(lightloom(f"{words} --expand --json -").out)["expansion"]
    longest = longest["longest_sequence"]
    fits = [
        json.loads(lightloom(f"{words} --seq-len {seq} --json -").out)["memory"]["fits"]
        for seq in (longest, longest + 1024)
    ]
    assert fits == [True, False]
