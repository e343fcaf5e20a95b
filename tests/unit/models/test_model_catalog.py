"""The catalog's entries and their sources, and ``load_model``."""

import json
import re
import tomllib
from pathlib import Path

import pytest

import lightloom.models
from lightloom.errors import ModelError
from lightloom.models import Model, catalog, load_model
from lightloom.models.catalog import entry_model, parse_count

NAMES = {
    "mixtral-8x7b",
    "mixtral-8x22b",
    "qwen-moe",
    "qwen-moe-32e",
    "qwen1.5-moe-a2.7b",
    "llama-moe",
    "qwen3-30b-a3b",
    "qwen3-235b-a22b",
    "deepseek-v3",
    "deepseek-r1",
    "olmoe-1b-7b",
    "gpt-oss-120b",
    "llama-3-405b",
    "deepseek-v2",
    "gpt-3-175b",
    "gpt-oss-20b",
    "llama-3-70b",
    "llama-3-8b",
    "nemotron-4-15b",
    "nemotron-4-340b",
    "qwen2-57b-a14b",
    "kimi-k2",
}

ENTRY = """
[origin]
source = "somewhere"
date = 2025-01-02
[config]
model_type = "llama"
hidden_size = 64
intermediate_size = 96
num_attention_heads = 4
num_hidden_layers = 3
vocab_size = 100
"""

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
    "vocab_size": 100,
}


def test_names_are_complete_and_in_order() -> None:
    assert list(catalog()) == sorted(NAMES)


def test_a_caller_cannot_change_the_catalog() -> None:
    catalog().clear()
    assert set(catalog()) == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_value_has_a_source_and_a_date(name: str) -> None:
    model = catalog()[name]
    assert model.name == name
    expected = {"config"}
    expected |= {"parameters"} if model.published_parameters else set()
    expected |= {"plan"} if model.plan else set()
    expected |= {"training"} if model.gate or model.dispatcher else set()
    assert set(model.sources) == expected
    for source in model.sources.values():
        assert re.search(r"\(20\d\d-\d\d-\d\d\)$", source)
    if model.plan:
        assert model.plan.source == model.sources["plan"]


@pytest.mark.parametrize(
    ("name", "tp", "pp", "ep", "seq_len", "micro_batch_size"),
    [
        # MixNet, Table 1
        ("mixtral-8x7b", 4, 4, 8, 4096, 8),
        ("llama-moe", 1, 4, 16, 4096, 8),
        ("qwen-moe", 1, 4, 16, 4096, 8),
        # MixNet, section 7.3 and appendix D.1
        ("qwen-moe-32e", 1, 4, 32, 4096, 8),
        ("mixtral-8x22b", 8, 8, 8, 4096, 8),
        ("deepseek-r1", 1, 16, 64, 4096, 8),
        # DeepSeek-V3 technical report; Llama 3, Table 4
        ("deepseek-v3", 1, 16, 64, 4096, 1),
        ("llama-3-405b", 8, 16, 1, 8192, 1),
        # DeepSeek-V2; Nemotron-4 340B technical report
        ("deepseek-v2", 1, 16, 8, 4096, 1),
        ("nemotron-4-340b", 8, 12, 1, 4096, 1),
    ],
)
def test_published_plans(
    name: str, tp: int, pp: int, ep: int, seq_len: int, micro_batch_size: int
) -> None:
    plan = catalog()[name].plan
    assert plan is not None
    assert (plan.tp, plan.pp, plan.ep) == (tp, pp, ep)
    assert (plan.seq_len, plan.micro_batch_size) == (seq_len, micro_batch_size)


def test_models_without_a_published_plan_have_none() -> None:
    without = {name for name, model in catalog().items() if model.plan is None}
    assert without == {
        "gpt-3-175b",
        "gpt-oss-120b",
        "gpt-oss-20b",
        "kimi-k2",
        "llama-3-70b",
        "llama-3-8b",
        "nemotron-4-15b",
        "olmoe-1b-7b",
        "qwen1.5-moe-a2.7b",
        "qwen2-57b-a14b",
        "qwen3-235b-a22b",
        "qwen3-30b-a3b",
    }


@pytest.mark.parametrize("name", sorted(NAMES))
def test_published_expert_parallelism_divides_the_experts(name: str) -> None:
    model = catalog()[name]
    if model.plan and model.num_experts:
        assert model.num_experts % model.plan.ep == 0


def test_a_choice_that_the_publication_does_not_make_is_said() -> None:
    for name in ("deepseek-r1", "deepseek-v3", "llama-3-405b"):
        assert "not given" in catalog()[name].sources["plan"]
        assert "chosen" in catalog()[name].sources["plan"]


def test_qwen_variants_differ_in_their_experts_only() -> None:
    models = catalog()
    experts = {name: models[name].num_experts for name in models if name.startswith("qwen-moe")}
    experts["qwen1.5-moe-a2.7b"] = models["qwen1.5-moe-a2.7b"].num_experts
    assert experts == {"qwen-moe": 64, "qwen-moe-32e": 32, "qwen1.5-moe-a2.7b": 60}
    shapes = {
        (m.hidden_size, m.num_layers, m.expert_ffn_size, m.shared_expert_ffn_size, m.attention)
        for m in (models[name] for name in experts)
    }
    assert len(shapes) == 1


def test_layers_and_blocks_of_the_mixnet_table() -> None:
    models = catalog()
    for name, blocks, experts in (
        ("mixtral-8x7b", 32, 8),
        ("llama-moe", 32, 16),
        ("qwen-moe", 24, 64),
    ):
        assert (models[name].num_moe_layers, models[name].num_experts) == (blocks, experts)


@pytest.mark.parametrize(
    ("text", "value", "step"),
    [("46.7B", 46_700_000_000, 1e8), ("141B", 141_000_000_000, 1e9), ("6.74B", 6.74e9, 1e7)],
)
def test_printed_counts(text: str, value: float, step: float) -> None:
    assert parse_count(text) == (value, pytest.approx(step))
    assert parse_count("400M") == (400_000_000, 1e6)


# -- entries --------------------------------------------------------------------------------


def test_an_entry_is_read() -> None:
    model = entry_model("test", ENTRY)
    assert model.num_layers == 3
    assert model.sources == {"config": "somewhere (2025-01-02)"}
    assert model.plan is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("date = 2025-01-02\n", "", "catalog entry test: origin.date is missing; add it"),
        ('source = "somewhere"', "", "catalog entry test: origin.source is missing; add it"),
        ('"somewhere"', '""', "catalog entry test: origin.source = '': expected a name"),
        (
            "[config]",
            "[plans]\ntp = 1\n[config]",
            "entry test: unknown key 'plans'; did you mean",
        ),
        ("[origin]", "[origin", "catalog entry test: not valid TOML: "),
        ("vocab_size = 100", "", "catalog entry test: vocab_size is missing; "),
        (
            "[config]",
            '[counts]\ntotal = "7"\nsource = "x"\ndate = 2025-01-02\n[config]',
            "catalog entry test: counts.total = 7: expected text of the form ^[0-9]+",
        ),
        (
            "[config]",
            '[plan]\ntp = 0\nsource = "x"\ndate = 2025-01-02\n[config]',
            "catalog entry test: plan.tp = 0: expected at least 1",
        ),
    ],
)
def test_a_faulty_entry_is_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        entry_model("test", ENTRY.replace(old, new, 1))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# -- load_model -----------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(CONFIG))
    return path


def test_a_name() -> None:
    assert load_model("mixtral-8x22b") is catalog()["mixtral-8x22b"]


def test_a_file_is_named_after_its_folder_or_itself(file: Path) -> None:
    model = load_model(str(file))
    assert model.name == "tiny"
    assert model.sources == {"config": str(file)}
    assert model.published_parameters is None
    other = file.with_name("small.json")
    file.rename(other)
    assert load_model(str(other)).name == "small"


@pytest.mark.parametrize(
    ("name", "file_name", "expected"),
    [
        ("mixtral-8x22b", "mine.json", "mixtral-8x22b"),
        ("deepseek-v3", "config.json", "deepseek-v3"),
        ("deepseek-v3", "DeepSeek_R1.json", "deepseek-r1"),
    ],
)
def test_a_file_like_an_entry_has_its_plan(
    tmp_path: Path, name: str, file_name: str, expected: str
) -> None:
    data = Path(lightloom.models.__file__).parent / "data" / f"{name}.toml"
    config = tomllib.loads(data.read_text())["config"]
    path = tmp_path / "given" / file_name
    path.parent.mkdir()
    path.write_text(json.dumps(config))
    model, entry = load_model(str(path)), load_model(expected)
    assert (model.plan, model.gate, model.dispatcher) == (entry.plan, entry.gate, entry.dispatcher)
    assert model.name == ("given" if file_name == "config.json" else path.stem)
    assert model.sources == {**entry.sources, "config": str(path)}
    config["hidden_size"] *= 2
    path.write_text(json.dumps(config))
    assert load_model(str(path)).plan is None


def test_a_folder_stands_for_its_config(file: Path) -> None:
    assert load_model(str(file.parent)) == load_model(str(file))


def test_a_bare_file_name_that_exists(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    assert load_model("config.json").name == "tiny"
    (file.parent / "plain").write_text(json.dumps(CONFIG))
    assert load_model("plain").name == "plain"


def test_a_name_wins_over_a_folder_of_that_name(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.parent.rename(file.parents[1] / "mixtral-8x7b")
    monkeypatch.chdir(file.parents[1])
    assert load_model("mixtral-8x7b").num_layers == 32
    assert load_model("./mixtral-8x7b").num_layers == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "mixtral-8x2b",
            "unknown model 'mixtral-8x2b'; did you mean 'mixtral-8x22b'?; "
            "expected a name from 'lightloom models' or the path of a config.json",
        ),
        (
            "Mixtral-8x7B",
            "unknown model 'Mixtral-8x7B'; did you mean 'mixtral-8x7b'?; "
            "expected a name from 'lightloom models' or the path of a config.json",
        ),
        (
            "zzz",
            "unknown model 'zzz'; "
            "expected a name from 'lightloom models' or the path of a config.json",
        ),
        ("", "unknown model ''; expected a name from"),
        ("no/such/file", "no/such/file: no such file"),
        ("absent.json", "absent.json: no such file"),
        ("a\0b", "unknown model 'a\\x00b'; expected a name"),
        ("a/\0b", "a/\\x00b: cannot read the model configuration: not a usable path"),
        ("x" * 5000, "unknown model 'xxxx"),
        ("x" * 5000 + ".json", "xxxx"),
    ],
)
def test_neither_name_nor_readable_file(text: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        load_model(text)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_folder_without_a_config(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"config\.json: no such file"):
        load_model(str(tmp_path))


def test_models_compare_by_shape_not_by_source(file: Path) -> None:
    first: Model = load_model(str(file))
    other = file.with_name("tiny.json")
    other.write_text(json.dumps({**CONFIG, "num_nextn_predict_layers": 1}))
    second = load_model(str(other))
    assert first.sources != second.sources
    assert first.notes != second.notes
    assert first == second
