"""Peak memory per GPU against measurements on 8 B200 GPUs.

The runs were published with SimuMax (Apache-2.0) and are next to the project; their sequence length
(4,096 where the name does not say), micro-batch size 1 and sharded optimizer are assumed.
"""

import json
import re
from pathlib import Path

import pytest

from lightloom.models.model import Attention, Model
from lightloom.parallel import Plan, memory_per_stage

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


@pytest.mark.skipif(not ROWS.exists(), reason=f"no measurements at {ROWS}")
def test_peaks_are_within_6_percent_of_measured_ones():
    pairs = predicted_and_measured()
    assert len(pairs) == 23
    errors = {key: ours / measured - 1 for key, (ours, measured) in pairs.items()}
    assert max(map(abs, errors.values())) < 0.06, errors
    assert sum(map(abs, errors.values())) / len(errors) < 0.02
