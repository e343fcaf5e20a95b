"""Models by their shapes: the same as by config.json, and what is refused."""

from dataclasses import replace
from importlib import resources

import pytest

from lightloom.errors import ModelError
from lightloom.models import catalog, load_model
from lightloom.models.parameters import parameter_parts

MIXTRAL = """
hidden_size = 4096
vocab_size = 32000
[attention.full]
num_heads = 32
num_kv_heads = 8
head_dim = 128
[experts]
count = 8
per_token = 2
width = 14336
[[layers]]
repeat = 32
attention = "full"
"""


@pytest.fixture
def read(tmp_path):
    def from_text(text):
        path = tmp_path / "mine.toml"
        path.write_text(text)
        return load_model(str(path))

    return from_text


def test_the_shapes_of_a_known_model_are_that_model(read):
    mine, mixtral = read(MIXTRAL), catalog()["mixtral-8x7b"]
    assert parameter_parts(mine) == parameter_parts(mixtral)
    assert mine.attention == mixtral.attention
    assert mine.moe_layers == mixtral.moe_layers
    assert mine.name == "mine"


def test_latent_attention_and_groups(read):
    deepseek = catalog()["deepseek-v3"]
    mine = read("""
        hidden_size = 7168
        vocab_size = 129280
        [attention.latent]
        kind = "mla"
        num_heads = 128
        head_dim = 128
        q_lora_rank = 1536
        kv_lora_rank = 512
        qk_nope_head_dim = 128
        qk_rope_head_dim = 64
        v_head_dim = 128
        [experts]
        count = 256
        per_token = 8
        width = 2048
        shared_width = 2048
        router_bias = true
        groups = 8
        groups_per_token = 4
        [[layers]]
        repeat = 3
        attention = "latent"
        dense_width = 18432
        [[layers]]
        repeat = 58
        attention = "latent"
    """)
    assert parameter_parts(mine) == parameter_parts(deepseek)
    assert replace(mine.attention, num_kv_heads=128) == deepseek.attention
    assert (mine.num_groups, mine.top_groups) == (8, 4)


def test_layers_may_differ(read):
    model = load_model(str(resources.files("lightloom.samples") / "model.toml"))
    assert [layer.kind for layer in model.attention_by_layer] == ["gqa", *["delta"] * 3] * 2
    assert model.moe_layers == (False, *[True] * 7)
    assert read(MIXTRAL).attention_by_layer == ()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("head_dim = 128", "", "attention.full.head_dim is missing"),
        ('attention = "full"', 'attention = "ful"', "'ful'; did you mean 'full'?; known: full"),
        ("per_token = 2", "per_token = 9", "experts.per_token 9 is more than the 8 experts"),
        ("num_kv_heads = 8", "num_kv_heads = 5", "num_kv_heads 5 does not divide num_heads 32"),
        ("num_heads = 32", 'kind = "delta"\nnum_heads = 32', "key_head_dim is missing; kind delta"),
        ("num_heads = 32", 'kind = "mla"\nnum_heads = 32', "kv_lora_rank is missing; kind mla"),
        ("repeat = 32", "repeat = 32\ndense_width = 7", "[experts], but every layer has dense_wid"),
        ("count = 8", "count = 8\ngroups = 3", "experts.groups 3 must divide 8 experts"),
        ("count = 8", "count = 8\ngroups = 8", "1 groups hold fewer than 2 experts per token"),
        ("repeat = 32", "repeat = 5000", "layers.0.repeat = 5000: expected at most 4,096"),
        ("hidden_size", "hiden_size", "unknown key 'hiden_size'; did you mean 'hidden_size'"),
        ("4096", '"4096"', "hidden_size = '4096': expected a whole number"),
        ("[experts]\ncount = 8\nper_token = 2\nwidth = 14336", "", "add [experts]"),
        ("head_dim = 128", "head_dim = 128\nindex_top_k = 4", "index_heads is missing"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(read, old, new, message):
    assert old in MIXTRAL
    with pytest.raises(ModelError) as error:
        read(MIXTRAL.replace(old, new))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_layers_may_be_alone_and_dense_ones_of_several_widths(read):
    # a small Nemotron 3: Mamba-2, experts, attention, and two dense networks, each alone
    mine = read(
        MIXTRAL.replace("count = 8", "hidden_size = 64\ncount = 8")
        + """
        dense_width = 0
        [[layers]]
        [[layers]]
        attention = "state"
        dense_width = 0
        [[layers]]
        dense_width = 7
        [[layers]]
        dense_width = 8
        [attention.state]
        kind = "mamba2"
        num_heads = 64
        num_kv_heads = 8
        head_dim = 64
        key_head_dim = 128
        conv_width = 4
        output_gate = true
    """
    )
    kinds = ["gqa"] * 32 + ["none", "mamba2", "none", "none"]
    assert [layer.kind for layer in mine.attention_by_layer] == kinds
    assert mine.moe_layers == (*[False] * 32, True, False, False, False)
    assert (mine.ffn_widths, mine.expert_hidden, mine.num_blocks) == ({7: 1, 8: 1}, 64, 36)
    with pytest.raises(ModelError, match=r"layers\[1\] has neither attention nor a feed-forward"):
        read(MIXTRAL + "[[layers]]\ndense_width = 0\n")


def test_too_many_layers_are_refused(read):
    many = '[[layers]]\nrepeat = 4096\nattention = "full"\n'
    with pytest.raises(ModelError, match="more than 4,096 layers"):
        read(MIXTRAL + many)
