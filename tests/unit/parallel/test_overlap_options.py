"""Overlaps that cannot be, schedules in order, and what they hold."""

import dataclasses

import pytest

from lightloom.errors import PlanError
from lightloom.models import load_model
from lightloom.parallel import Plan, check_model, choose_plan
from lightloom.parallel.pipeline import peak_in_flight, schedule, turns

BASE = {"gpus": 16, "pp": 2, "ep": 8}
#: with experts cut over TP ranks
CUT = {"tp": 2, "ep": 4}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schedule": "gpipe"}, "schedule = 'gpipe': expected one of"),
        ({"pp": 1, "ep": 16, "schedule": "zero-bubble"}, "with pp = 1: there is no bubble"),
        ({"vpp": 2, "schedule": "zero-bubble"}, "with vpp = 2: its stages are whole"),
        ({"gpus": 24, "pp": 3, "schedule": "dualpipe"}, "use an even pp such as 4"),
        (
            {"schedule": "dualpipe", "micro_batches": 2},
            "expected an even number of at least 2 x pp",
        ),
        ({"overlap_chunks": 2}, "only 'chunks' has chunks"),
        ({"overlap_all_to_all": "chunks", "overlap_chunks": 3}, "does not divide the 4096 tokens"),
        (
            {"overlap_all_to_all": "batch", "micro_batches": 1},
            "no two of them meet; use at least 2",
        ),
        (
            {"overlap_all_to_all": "batch", "schedule": "zero-bubble"},
            "use dualpipe or 1f1b, or chunks",
        ),
        ({"overlap_tp": True}, "overlap-tp with tp = 1"),
        ({"overlap_parameters": True}, "overlap-parameters without zero1"),
        ({"communication_sms": 20}, "nothing overlaps an all-to-all"),
        ({"context_parallel": "rings"}, "context-parallel = 'rings': expected one of"),
        ({"context_parallel": "ulysses"}, "ulysses with cp = 1: sequences are not divided"),
        ({"strategy": "O5"}, "strategy = 'O5': expected one of baseline, O1, O2, O3, O4, auto"),
        ({"strategy": "O2"}, "strategy O2 with tp = 1: no TP ranks share an expert.*; raise tp"),
        ({"strategy": "auto", "tp": 2, "ep": 4, "expert_mode": "folded", "dp": 2}, "with etp = 1"),
        ({"strategy_chunks": 4}, "strategy-chunks = 4 with strategy O1: only O2, O3, O4 have"),
        (
            {**CUT, "strategy": "O3", "strategy_chunks": 65},
            "strategy-chunks = 65: expected a whole number from 1 to 64, or 0 for the fastest",
        ),
        ({**CUT, "strategy": "baseline"}, "with sequence parallelism: each TP rank has tokens of"),
        (
            {**CUT, "strategy": "O2", "overlap_all_to_all": "batch", "communication_sms": 8},
            "strategy O2 with communication-sms: .* leave one of them out",
        ),
    ],
)
def test_impossible_combinations_are_one_line(changes, message):
    with pytest.raises(PlanError, match=message) as error:
        Plan(**{**BASE, **changes})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "plan", "message"),
    [
        ("llama-3-405b", Plan(8, tp=8, overlap_all_to_all="batch"), "llama-3-405b has no experts"),
        ("mixtral-8x7b", Plan(8, tp=8, overlap_all_to_all="batch"), "with ep = 1"),
        ("mixtral-8x7b", Plan(8, ep=8, overlap_shared_experts=True), "has no shared experts"),
        ("llama-3-405b", Plan(8, tp=8, strategy="O2"), "llama-3-405b has no experts"),
        ("mixtral-8x7b", Plan(8, tp=8, strategy="auto"), "strategy with ep = 1"),
    ],
)
def test_what_the_model_does_not_have_cannot_be_hidden(name, plan, message):
    with pytest.raises(PlanError, match=message):
        check_model(plan, load_model(name))


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"tp": 2, "cp": 4}, None),
        ({"tp": 4, "cp": 4}, "8 key-value heads, which tp x cp = 4 x 4 does not divide"),
        ({"tp": 1, "cp": 3}, "128 attention heads, which tp x cp = 1 x 3 does not divide"),
    ],
)
def test_ulysses_hands_out_whole_heads(plan, message):
    gpus = plan["tp"] * plan["cp"]
    model = load_model("llama-3-405b")
    divided = Plan(gpus, **plan, seq_len=12 * 4096, context_parallel="ulysses")
    if message is None:
        check_model(divided, model)
        return
    with pytest.raises(PlanError, match=message):
        check_model(divided, model)
    check_model(dataclasses.replace(divided, context_parallel="ring"), model)


def test_published_choices_that_do_not_suit_other_degrees_are_left_out():
    model = load_model("deepseek-v3")
    published = choose_plan(model, 2048, gpu_memory_bytes=80e9)
    assert (published.schedule, published.overlap_all_to_all) == ("dualpipe", "batch")
    assert (published.communication_sms, published.micro_batches) == (20, 120)
    degrees = {"tp": 1, "pp": 1, "ep": 64}
    other = choose_plan(model, 2048, gpu_memory_bytes=80e9, overrides=degrees)
    assert (other.schedule, other.overlap_all_to_all) == ("1f1b", "none")
    assert any("that run had another pp" in note for note in other.provenance)
    chunks = choose_plan(
        model, 2048, gpu_memory_bytes=80e9, overrides={"vpp": 2, "micro_batches": 128}
    )
    assert (chunks.schedule, chunks.overlap_all_to_all) == ("1f1b", "batch")
    assert any("not the published schedule" in note for note in chunks.provenance)
    requested = {**degrees, "schedule": "dualpipe"}
    with pytest.raises(PlanError, match="schedule dualpipe with pp = 1"):
        choose_plan(model, 2048, gpu_memory_bytes=80e9, overrides=requested)


@pytest.mark.parametrize("pp", [2, 4, 8])
@pytest.mark.parametrize("kind", ["zero-bubble", "dualpipe"])
def test_every_micro_batch_passes_once_and_weights_follow_inputs(pp, kind):
    plan = Plan(gpus=pp, pp=pp, micro_batches=4 * pp, schedule=kind)
    for stage in range(pp):
        steps = schedule(plan, stage)
        assert len(steps) == len(set(steps))
        seen = {}
        for step in steps:
            seen.setdefault(step.micro_batch, []).append("F" if step.forward else step.part)
        assert sorted(seen) == list(range(4 * pp))
        assert all(order in (["F", "whole"], ["F", "input", "weight"]) for order in seen.values())


@pytest.mark.parametrize("pp", [2, 4, 8, 16])
def test_activations_in_flight(pp):
    plan = Plan(gpus=pp, pp=pp, micro_batches=4 * pp)

    def peaks(**changes):
        changed = dataclasses.replace(plan, **changes)
        return [peak_in_flight(changed, stage, (1.0,) * changed.copies) for stage in range(pp)]

    # as much as the first stage of 1F1B, everywhere; DualPipe one more (DeepSeek-V3, Table 2)
    assert peaks(schedule="zero-bubble") == [pp] * pp
    assert peaks(schedule="dualpipe") == [pp + 1] * pp
    # passes that alternate free as much as they keep: one less, but for turns of one pass
    assert max(peaks(schedule="dualpipe", overlap_all_to_all="batch")) == pp + 1
    batch = [2 * (pp - stage) - 1 for stage in range(pp)]
    assert peaks(overlap_all_to_all="batch") == batch


def test_turns_of_two_are_forward_and_backward():
    plan = Plan(gpus=4, pp=4, micro_batches=16, overlap_all_to_all="batch")
    pairs = [turn for turn in turns(plan, 3) if len(turn) == 2]
    assert len(pairs) == 15
    assert all(first.forward and not second.forward for first, second in pairs)
    assert all(first.micro_batch > second.micro_batch for first, second in pairs)
