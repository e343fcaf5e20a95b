"""Peak memory per GPU against measurements: 23 on B200, 3 on H100. No constant is fitted to them.

The runs on B200 were published with SimuMax (Apache-2.0) and are next to the project; their
sequence length (4,096 where the name does not say), micro-batch size 1 and sharded optimizer are
assumed. Those on H100 are of NVIDIA-NeMo/Megatron-Bridge at 067f987 (2026-08-22), with the options
of their recipes.
"""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from lightloom.models import load_model
from lightloom.models.model import Attention, Model
from lightloom.parallel import MemoryOptions, Plan, memory_per_stage
from lightloom.parallel.memory import ERRORS

DATA = Path(__file__).parents[3] / "shared" / "data" / "simumax"
ROWS = DATA / "b200_release_v1.2_summary.json"
GIB = 2**30

#: Llama 3, arXiv 2407.21783, Table 3: width, feed-forward, heads
LLAMA = {"llama3_70b": (8192, 28672, 64), "llama3_405b": (16384, 53248, 128)}


def llama(name, layers):
    width, ffn, heads = LLAMA[name]
    attention = Attention("gqa", heads, 8, 128)
    return Model(name, width, 128_256, attention, (False,) * layers, ffn_size=ffn)


def deepseek(name, layers):
    shape = json.loads((DATA / f"model_{name}.json").read_text())
    attention = Attention(
        "mla",
        num_heads=shape["head_num"],
        num_kv_heads=shape["kv_head_num"],
        head_dim=shape["v_head_dim"],
        q_lora_rank=shape["q_lora_rank"],
        kv_lora_rank=shape["kv_lora_rank"],
        qk_nope_head_dim=shape["qk_head_dim"],
        qk_rope_head_dim=shape["qk_pos_emb_head_dim"],
        v_head_dim=shape["v_head_dim"],
    )
    return Model(
        name,
        shape["hidden_size"],
        shape["vocab_size"],
        attention,
        (False,) + (True,) * (layers - 1),
        ffn_size=shape["intermediate_size"],
        num_experts=shape["expert_num"],
        experts_per_token=shape["topk"],
        expert_ffn_size=shape["moe_ffn_hidden_size"],
        shared_expert_ffn_size=shape["moe_shared_expert_intermediate_size"],
    )


def degree(case, word, default):
    found = re.search(rf"_{word}(\d+)", case)
    return int(found[1]) if found else default


def predicted_and_measured():
    """(case, stage, predicted, measured) of every distinct run, bytes."""
    pairs = {}
    for row in json.loads(ROWS.read_text())["rows"]:
        case = row["case"]
        layers = degree(case, "l", 0)
        name = re.match(r"llama3_\d+b|deepseekv\d", case)[0]
        model = llama(name, layers) if name in LLAMA else deepseek(name, layers)
        tp, pp, cp, ep = (degree(case, word, 1) for word in ("tp", "pp", "cp", "ep"))
        plan = Plan(
            gpus=8,
            tp=tp,
            pp=pp,
            cp=cp,
            ep=ep,
            dp=8 // (tp * pp * cp * ep),
            micro_batches=degree(case, "mbc", 1),
            seq_len=degree(case, "seq", 4096),
            zero1=True,
        )
        peaks = row["peak_memory_by_rank_mb"]
        for memory in memory_per_stage(model, plan):
            measured = peaks[str(memory.stage * 8 // pp)]["max_allocated_mb"] * 2**20
            key = (re.sub(r"_mbc\d+", "", case), memory.stage)
            pairs[key] = (memory.total_bytes, measured)
    return pairs


#: moonshotai/Moonlight-16B-A3B, config.json
MOONLIGHT = Model(
    "moonlight-16b",
    2048,
    163_840,
    Attention(
        "mla", 16, 16, 128, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64,
        v_head_dim=128,
    ),
    (False,) + (True,) * 26,
    ffn_size=11_264,
    num_experts=64,
    experts_per_token=6,
    expert_ffn_size=1408,
    shared_expert_ffn_size=2816,
)  # fmt: skip
#: gradients in BF16, Transformer Engine's loss
BRIDGE = MemoryOptions(gradient_bytes=2.0, logit_bytes=2.0)


def predicted_and_measured_on_h100():
    """The same of H100."""
    folded = {"expert_mode": "folded", "etp": 1, "zero1": True}
    qwen3 = load_model("qwen3-30b-a3b")
    sixteen = Plan(gpus=16, ep=16, dp=1, micro_batches=64, **folded)
    overlap = dataclasses.replace(sixteen, overlap_all_to_all="batch")
    moonlight = Plan(gpus=8, tp=2, ep=8, dp=1, micro_batches=1, **folded)
    moments = dataclasses.replace(BRIDGE, state_precision="bf16")
    runs = {
        # docs/training/moe-optimization.md, all-to-all
        "qwen3-30b alltoall": (qwen3, sixteen, BRIDGE, 61.351e9),
        # skills/nemo-mbridge-perf-expert-parallel-overlap/SKILL.md, HybridEP
        "qwen3-30b hybridep": (qwen3, overlap, BRIDGE, 62.166 * GIB),
        # skills/nemo-mbridge-perf-activation-recompute/SKILL.md, nothing recomputed
        "moonlight-16b": (MOONLIGHT, moonlight, moments, 36.618e9),
    }
    return {
        name: (memory_per_stage(model, plan, options)[0].total_bytes, measured)
        for name, (model, plan, options, measured) in runs.items()
    }


def check(gpu, pairs):
    """The errors are those that the program says."""
    (said,) = (error for error in ERRORS if error.gpu == gpu)
    errors = [ours / measured - 1 for ours, measured in pairs.values()]
    assert len(errors) == said.number
    found = (sum(map(abs, errors)) / len(errors), min(errors), max(errors))
    assert found == pytest.approx((said.mean, said.lowest, said.highest), abs=0.0006), pairs


def test_peaks_on_h100():
    check("h100", predicted_and_measured_on_h100())


@pytest.mark.skipif(not ROWS.exists(), reason=f"no measurements at {ROWS}")
def test_peaks_are_within_6_percent_of_measured_ones():
    pairs = predicted_and_measured()
    assert len(pairs) == 23
    errors = {key: ours / measured - 1 for key, (ours, measured) in pairs.items()}
    assert max(map(abs, errors.values())) < 0.06, errors
    assert sum(map(abs, errors.values())) / len(errors) < 0.02
    check("b200", pairs)
