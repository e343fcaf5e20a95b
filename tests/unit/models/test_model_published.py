"""Parameters of published models, from their shapes, against the counts that they are printed with.

The files in ``configs`` hold the keys of each model's ``config.json`` that shape its weights, as
published on its Hugging Face page.
"""

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from lightloom.models import Model, load_model
from lightloom.models.catalog import parse_count
from lightloom.models.parameters import active_parameters, total_parameters

CONFIGS = Path(__file__).parent / "configs"


class Printed(NamedTuple):
    """Counts as printed, and where."""

    total: str
    active: str | None
    source: str


PUBLISHED = {
    "qwen3-next-80b-a3b": Printed("80B", "3B", "huggingface.co/Qwen/Qwen3-Next-80B-A3B-Instruct"),
    "glm-4.5": Printed("355B", "32B", "arXiv 2508.06471, table 1"),
    "glm-4.5-air": Printed("106B", "12B", "arXiv 2508.06471, table 1"),
    "llama-4-maverick": Printed("400B", "17B", "github.com/meta-llama/llama-models, Llama 4 card"),
    "deepseek-v3.2": Printed("671B", "37B", "arXiv 2412.19437: the indexer adds 0.13 %"),
    "minimax-text-01": Printed("456B", "45.9B", "arXiv 2501.08313, abstract"),
    "minimax-m1-80k": Printed("456B", "45.9B", "arXiv 2506.13585, abstract"),
    "minimax-m2": Printed("230B", "10B", "huggingface.co/MiniMaxAI/MiniMax-M2"),
    "dbrx": Printed("132B", "36B", "huggingface.co/databricks/dbrx-base"),
    "qwen2.5-0.5b": Printed("0.49B", None, "arXiv 2412.15115; huggingface.co/Qwen/Qwen2.5-0.5B"),
    "qwen2.5-7b": Printed("7.61B", None, "huggingface.co/Qwen/Qwen2.5-7B"),
    "qwen2.5-72b": Printed("72.7B", None, "huggingface.co/Qwen/Qwen2.5-72B"),
    "qwen2-72b": Printed("72.71B", None, "arXiv 2407.10671: huggingface.co/Qwen/Qwen2-72B"),
    "qwen3-0.6b": Printed("0.6B", None, "huggingface.co/Qwen/Qwen3-0.6B"),
    "qwen3-8b": Printed("8.2B", None, "huggingface.co/Qwen/Qwen3-8B"),
    "qwen3-32b": Printed("32.8B", None, "huggingface.co/Qwen/Qwen3-32B"),
    "llama-2-7b": Printed("6.74B", None, "huggingface.co/meta-llama/Llama-2-7b-hf, weight files"),
    "llama-2-70b": Printed("68.98B", None, "huggingface.co/meta-llama/Llama-2-70b-hf, files"),
    "llama-3.2-1b": Printed("1.23B", None, "huggingface.co/meta-llama/Llama-3.2-1B"),
}

#: models of 2024 to 2026, held to half a percent, or to the rounding of the print
RECENT = {
    "kimi-k2.5": Printed("1T", "32B", "github.com/MoonshotAI/Kimi-K2.5, README"),
    # 2,779,931,837,184 in the weight files, with a vision encoder of 401M
    "kimi-k3": Printed("2.8T", "104B", "docs.nvidia.com/nemo/automodel, Kimi K3"),
    "qwen3-vl-235b-a22b": Printed("235B", "22B", "its name; vercel.com/ai-gateway, its page"),
    "qwen3.5-397b-a17b": Printed("397B", "17B", "Megatron-Bridge, docs/models/qwen/qwen35-vl.md"),
    "qwen3.5-122b-a10b": Printed("122B", "10B", "Megatron-Bridge, docs/models/qwen/qwen35-vl.md"),
    "qwen3.6-27b": Printed("27B", None, "its model card as quoted: 27B in the language model"),
    "glm-5": Printed("744B", "40B", "github.com/zai-org/GLM-5, README"),
    # 744B-A40B is printed for GLM-5, 5.1 and 5.2 alike, whose indexers are fewer: 39.3B
    "glm-5.2": Printed("744B", None, "github.com/zai-org/GLM-5, README"),
    "deepseek-v4-flash": Printed("284B", "13B", "arXiv 2606.19348, abstract"),
    "deepseek-v4-pro": Printed("1.6T", "49B", "arXiv 2606.19348, abstract"),
    "mimo-v2-flash": Printed("309B", "15B", "github.com/XiaomiMiMo/MiMo-V2-Flash, README"),
    "minimax-m3": Printed("428B", "23B", "Megatron-Bridge, minimax-m3.md: with its encoder"),
    "gemma-4-26b-a4b": Printed("25.2B", "3.8B", "fairseq2 documentation, models.gemma4"),
    "gemma-4-31b": Printed("30.7B", None, "fairseq2 documentation, models.gemma4"),
    "nemotron-3-nano": Printed(
        "31.6B", "3.2B", "arXiv 2512.20848 by github.com/NVIDIA-NeMo/Nemotron"
    ),
    # 12.7B with both tables
    "nemotron-3-super": Printed("120.6B", "12.1B", "NVIDIA-NeMo/Nemotron, super3/pretrain.md"),
    "nemotron-3-ultra": Printed("550B", "55B", "github.com/NVIDIA-NeMo/Nemotron, README"),
    "nemotron-h-56b": Printed("56B", None, "arXiv 2504.03624, abstract"),
    "llama-nemotron-super-49b": Printed("49.9B", None, "whatmodel.sh; its name says 49B"),
    "step-3.7-flash": Printed("196B", "11B", "stepfun-ai/Step-3.5-Flash, README: same text model"),
    "ernie-4.5-300b-a47b": Printed("300B", "47B", "transformers, model_doc/ernie4_5_moe.md"),
    "ling-mini-2.0": Printed("16.26B", "1.43B", "github.com/inclusionAI/Ling-V2, README"),
    "ling-1t": Printed("1T", "51B", "arXiv 2510.22115, introduction"),
    "longcat-flash": Printed("560B", "27B", "arXiv 2509.01322, abstract"),
    # 52B printed as active: 51.3B if half of the layers use others' keys and values, 51.6B if none
    "hunyuan-large": Printed("389B", None, "arXiv 2411.02265, abstract"),
    "hunyuan-a13b": Printed("80B", "13B", "github.com/Tencent-Hunyuan/Hunyuan-A13B, README"),
    "jamba-v0.1": Printed("52B", "12B", "transformers, model_doc/jamba.md"),
    "arctic": Printed("480B", "17B", "huggingface.co/Snowflake/snowflake-arctic-instruct, README"),
    "deepseek-moe-16b": Printed("16.4B", "2.8B", "arXiv 2401.06066, table 3"),
    # an exact count of each is 0.6 or 0.7 % more than the print
    "ling-plus": Printed("290B", "28.8B", "huggingface.co/inclusionAI/Ling-plus"),
    "grok-1": Printed("314B", None, "github.com/xai-org/grok-1, README"),
    "dots.llm1": Printed("142B", "14B", "arXiv 2506.05767, abstract"),
}
ROUNDED_DOWN = {"ling-plus", "grok-1", "dots.llm1"}


def model_of(name: str) -> Model:
    return load_model(str(CONFIGS / f"{name}.json"))


def as_printed(count: float, printed: str, share: float = 0.01) -> bool:
    """Within a share of a printed count, or the same in its digits where these are fewer."""
    value, step = parse_count(printed)
    return abs(count - value) <= max(share * value, step / 2)


@pytest.mark.parametrize("name", RECENT)
def test_counts_of_recent_models_are_those_printed(name: str) -> None:
    model, printed = model_of(name), RECENT[name]
    share = 0.0075 if name in ROUNDED_DOWN else 0.005
    assert as_printed(total_parameters(model), printed.total, share)
    if printed.active is not None:
        assert as_printed(active_parameters(model), printed.active, share)


def test_nemotron_3_nano_by_hand() -> None:
    # 23 Mamba-2 layers, 6 attentions and 23 mixtures, each alone with a norm
    hidden, inner, keys, heads = 2688, 4096, 8 * 128, 64
    mamba = hidden * (2 * inner + 2 * keys + heads) + 5 * (inner + 2 * keys) + 3 * heads + inner
    mamba += inner * hidden
    attention = hidden * 128 * (2 * 32 + 2 * 2)
    experts = 128 * 2 * hidden * 1856 + 2 * hidden * 3712 + 128 * (hidden + 1)
    layers = 23 * (mamba + experts) + 6 * attention + 53 * hidden
    assert total_parameters(model_of("nemotron-3-nano")) == layers + 2 * 131072 * hidden


def test_kimi_linear_has_the_parameters_of_its_weight_files() -> None:
    # total_parameters in the index of moonshotai/Kimi-Linear-48B-A3B-Instruct, printed as 48B, 3B
    model = model_of("kimi-linear-48b-a3b")
    assert total_parameters(model) == 49_122_681_728
    assert as_printed(active_parameters(model), "3B")


def test_text_models_are_read_out_of_what_wraps_them() -> None:
    for name in ("kimi-k2.5", "qwen3.5-397b-a17b", "minimax-m3", "step-3.7-flash", "gemma-4-31b"):
        assert "vision encoder left out: text only" in model_of(name).notes


@pytest.mark.parametrize("name", PUBLISHED)
def test_counts_are_those_printed(name: str) -> None:
    model, printed = model_of(name), PUBLISHED[name]
    assert total_parameters(model) == pytest.approx(parse_count(printed.total)[0], rel=0.01)
    if printed.active is None:
        assert not model.num_moe_layers
        assert active_parameters(model) == total_parameters(model)
    else:
        assert as_printed(active_parameters(model), printed.active)


def _vision_parameters(config: dict[str, int], hidden: int) -> int:
    """Weights of Llama 4's vision encoder and of what joins it to the text model."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    attention = 4 * (width * width + width)
    network = 2 * width * inner + inner + width
    layer = attention + network + 2 * 2 * width
    patches = (config["image_size"] // config["patch_size"]) ** 2 + 1
    tables = config["patch_size"] ** 2 * config["num_channels"] * width + patches * width + width
    projector = config["projector_input_dim"] * inner + config["projector_output_dim"] ** 2
    joined = config["vision_output_dim"] * hidden
    return config["num_hidden_layers"] * layer + tables + 2 * 2 * width + projector + joined


def test_llama_4_scout_counts_its_text_model_and_is_printed_with_its_vision_encoder() -> None:
    # 109B and 17B: the Llama 4 model card
    model = model_of("llama-4-scout")
    config = json.loads((CONFIGS / "llama-4-scout.json").read_text())["vision_config"]
    seeing = _vision_parameters(config, model.hidden_size)
    assert total_parameters(model) + seeing == pytest.approx(109e9, rel=0.01)
    # parameters of the released checkpoint's weight files
    assert total_parameters(model) + seeing == pytest.approx(108_641_793_536, rel=1e-5)
    assert as_printed(active_parameters(model), "17B")
    assert "vision encoder left out: text only" in model.notes


def test_qwen_prints_its_counts_without_embeddings_as_well() -> None:
    for name, printed in (
        ("qwen3-next-80b-a3b", "79B"),
        ("qwen2.5-0.5b", "0.36B"),
        ("qwen2.5-7b", "6.53B"),
        ("qwen3-8b", "6.95B"),
        ("qwen3-32b", "31.2B"),
    ):
        assert total_parameters(model_of(name), "none") == pytest.approx(
            parse_count(printed)[0], rel=0.01
        )


def test_layers_are_the_published_ones() -> None:
    qwen = model_of("qwen3-next-80b-a3b")
    assert {c.kind: layers for c, layers in qwen.attentions.items()} == {"delta": 36, "gqa": 12}
    assert [qwen.attention_index(layer) for layer in range(5)] == [0, 0, 0, 1, 0]
    minimax = model_of("minimax-text-01")
    counts = {kind.kind: layers for kind, layers in minimax.attentions.items()}
    assert counts == {"lightning": 70, "gqa": 10}
    scout, maverick = model_of("llama-4-scout"), model_of("llama-4-maverick")
    assert {kind.span: layers for kind, layers in scout.attentions.items()} == {8192: 36, 0: 12}
    assert (scout.num_moe_layers, maverick.num_moe_layers) == (48, 24)
    assert maverick.moe_layers[:4] == (False, True, False, True)
    assert model_of("deepseek-v3.2").attention.index_top_k == 2048
    nemotron = model_of("nemotron-3-super")
    kinds = {kind.kind: layers for kind, layers in nemotron.attentions.items()}
    assert kinds == {"mamba2": 40, "none": 40, "gqa": 8}
    assert (nemotron.num_moe_layers, nemotron.expert_hidden) == (40, 1024)
    assert [layer.compress for layer in model_of("deepseek-v4-flash").attention_by_layer[:5]] == [
        *(0, 0, 4, 128, 4)
    ]
    glm = model_of("glm-5.2")
    assert [bool(layer.index_heads) for layer in glm.attention_by_layer[:7]] == [True] * 3 + [
        *(False, False, False, True)
    ]
    longcat = model_of("longcat-flash")
    assert (longcat.num_layers, longcat.num_moe_layers, longcat.experts_per_token) == (56, 28, 8)
    assert len(model_of("minimax-m2").attentions) == 1
