"""The reader of configurations against hostile input: only ``ModelError`` ever escapes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lightloom.errors import ModelError
from lightloom.models import Model, catalog, load_model
from lightloom.models.catalog import entry_model
from lightloom.models.config_file import parse_config
from lightloom.models.config_keys import ALIASES, IGNORED, NEUTRAL
from lightloom.models.families import FAMILIES
from lightloom.models.mapping import model_from_config
from lightloom.models.parameters import active_parameters, parameter_parts, total_parameters

GROUPED = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
    "vocab_size": 100,
}
MIXTURE = {**GROUPED, "num_experts": 8, "num_experts_per_tok": 2}
QWEN = {**MIXTURE, "moe_intermediate_size": 32}
DEEPSEEK = {
    **QWEN,
    "kv_lora_rank": 16,
    "q_lora_rank": 24,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 8,
    "n_group": 4,
    "topk_group": 2,
}
VALID: list[dict[str, Any]] = [
    {**keys, "model_type": name}
    for name, keys in {
        "mixtral": MIXTURE,
        "olmoe": MIXTURE,
        "phimoe": MIXTURE,
        "granitemoe": MIXTURE,
        "gpt_oss": MIXTURE,
        "qwen2_moe": {**QWEN, "shared_expert_intermediate_size": 48},
        "qwen3_moe": QWEN,
        "deepseek_v2": DEEPSEEK,
        "deepseek_v3": DEEPSEEK,
        "llama": GROUPED,
        "qwen2": GROUPED,
        "qwen3": GROUPED,
        "qwen3_next": {
            **QWEN,
            "shared_expert_intermediate_size": 48,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 16,
        },
        "deepseek_v32": {**DEEPSEEK, "index_n_heads": 2, "index_head_dim": 4, "index_topk": 8},
        "glm4_moe": QWEN,
        "llama4": {**MIXTURE, "intermediate_size_mlp": 96, "attention_chunk_size": 16},
        "minimax": {**MIXTURE, "attn_type_list": [0, 0, 1]},
        "minimax_m2": MIXTURE,
        "dbrx": MIXTURE,
    }.items()
]
KEYS = sorted(
    {key for family in FAMILIES for key in family.model_fields}
    | {alias for names in ALIASES.values() for alias in names}
    | set(NEUTRAL)
    | set(IGNORED)
)
ARCHITECTURES = [name for family in FAMILIES for name in family.architectures]

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-2, 300)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.sampled_from([*ARCHITECTURES, "group_limited_greedy", "sliding_attention"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
keys = st.sampled_from(KEYS) | st.text(max_size=12)


def attempt(call: Callable[..., Any], *arguments: Any) -> Any:
    """What a call returns, or None where it refuses its input in one printable line."""
    try:
        return call(*arguments)
    except ModelError as error:
        message = str(error)
    assert message.isprintable()
    assert len(message) < 1000
    return None


def outcome(config: Any) -> Model | None:
    """Model of a configuration, or None where it is refused."""
    model: Model | None = attempt(model_from_config, config, "fuzz", "here")
    return model


def check(model: Model) -> None:
    """What holds for every shape that the reader lets through."""
    assert 1 <= model.num_layers <= 4096
    assert 0 <= model.num_moe_layers <= model.num_layers
    assert (model.num_experts > 0) == (model.num_moe_layers > 0)
    assert model.experts_per_token <= model.num_experts
    assert (model.ffn_size > 0) == (model.num_moe_layers < model.num_layers)
    assert sum(model.attentions.values()) == model.num_layers
    for attention in model.attentions:
        assert attention.num_heads % attention.num_kv_heads == 0
    assert model.num_experts % model.num_groups == 0
    assert model.top_groups <= model.num_groups
    assert 0 < active_parameters(model) <= total_parameters(model)
    assert active_parameters(model, "none") <= active_parameters(model, "output")
    assert active_parameters(model, "output") <= active_parameters(model, "both")
    assert active_parameters(model, "both") <= total_parameters(model, "both")
    assert all(part.each > 0 for part in parameter_parts(model))


@pytest.mark.parametrize("config", VALID, ids=lambda config: config["model_type"])
def test_the_configurations_that_are_mutated_are_valid(config: dict[str, Any]) -> None:
    model = outcome(config)
    assert model is not None
    check(model)


@given(st.binary(max_size=300))
def test_any_bytes(content: bytes) -> None:
    attempt(parse_config, content, "here")


@given(st.text(alphabet='{}[]":,0123456789eE+-.ntf \n\\u', max_size=60))
def test_text_that_looks_like_json(text: str) -> None:
    attempt(parse_config, text.encode(), "here")


@given(st.dictionaries(keys, values, max_size=8))
def test_any_object(config: dict[str, Any]) -> None:
    outcome(config)


@settings(max_examples=400)
@given(
    st.sampled_from(VALID),
    st.dictionaries(keys, values, max_size=4),
    st.sets(st.integers(0, 30), max_size=3),
)
def test_a_valid_configuration_with_keys_replaced_and_removed(
    config: dict[str, Any], changes: dict[str, Any], removed: set[int]
) -> None:
    kept = {key: value for i, (key, value) in enumerate(config.items()) if i not in removed}
    model = outcome({**kept, **changes})
    if model is not None:
        check(model)


@settings(max_examples=300)
@given(st.sampled_from(VALID), st.data())
def test_a_valid_configuration_with_other_numbers(config: dict[str, Any], data: Any) -> None:
    numbers = {
        key: data.draw(st.integers(1, 64), label=key)
        for key, value in config.items()
        if isinstance(value, int)
    }
    model = outcome({**config, **numbers})
    if model is not None:
        check(model)


@given(st.sampled_from(VALID), st.sampled_from(KEYS), values)
def test_no_value_is_read_as_another(config: dict[str, Any], key: str, value: Any) -> None:
    """A model that a changed key gives differs only if the key is one that the family reads."""
    family = next(family for family in FAMILIES if family.name == config["model_type"])
    canonical = {alias: name for name, names in ALIASES.items() for alias in names}
    if key in ("architectures", "model_type") or canonical.get(key, key) in family.model_fields:
        return
    changed = outcome({**config, key: value})
    assert changed is None or changed == outcome(config)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(keys, values, max_size=6) | values)
def test_any_json_file(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(value))
    attempt(load_model, str(path))


@given(st.text(max_size=40))
def test_any_name(name: str) -> None:
    if name in catalog():
        return
    attempt(load_model, name)


@given(st.text(max_size=80))
def test_any_catalog_entry(text: str) -> None:
    attempt(entry_model, "fuzz", text)


def test_a_file_name_of_no_known_encoding(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file"):
        load_model(str(tmp_path / "\udcff.json"))
