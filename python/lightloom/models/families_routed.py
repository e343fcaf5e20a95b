"""Families of grouped-query attention and shared experts, told apart by names and traits.

A class names what its files call things and what its layers have; how many of what there is in
the keys. Where layers differ, :meth:`Routed.attentions` has the attention of each.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from lightloom.models.family import (
    Experts,
    GroupedQuery,
    LayerIndex,
    OptionalWidth,
    SharedExperts,
    Width,
)
from lightloom.models.model import Attention, Model


class Routed(SharedExperts, GroupedQuery):
    """Dense first layers, then experts, some of them shared; traits as class variables."""

    #: norms on query and key heads
    head_norms: ClassVar[bool] = False
    #: a correction per expert balances the load
    balanced: ClassVar[bool] = False

    attention_bias: bool = False
    n_group: Experts | None = 1
    topk_group: Experts | None = 1
    shared_expert_intermediate_size: OptionalWidth | None = None

    @model_validator(mode="after")
    def _check_groups(self) -> Routed:
        self.groups()
        return self

    def softmax(self) -> Attention:
        """Attention of the configured heads, with the family's norms."""
        bias = self.attention_bias
        attention = self.grouped_query(bias=bias, output_bias=bias)
        return replace(attention, qk_norm=self.head_norms)

    def attentions(self) -> tuple[Attention, ...]:
        """Attention of each layer."""
        return (self.softmax(),) * self.num_hidden_layers

    def to_model(self, name: str) -> Model:
        """Return the shape."""
        attentions = self.attentions()
        model = self.with_experts(self.base_model(name, attentions[0]), self.groups())
        shared = self.shared_expert_intermediate_size
        if shared is not None:
            model = replace(model, shared_expert_ffn_size=shared * (self.num_shared_experts or 1))
        return replace(model, attention_by_layer=attentions, router_bias=self.balanced)


def with_expert_width(values: Any) -> Any:
    """Keys of a family whose experts are as wide as ``intermediate_size`` unless they say so."""
    if values.get("moe_intermediate_size") is None and "intermediate_size" in values:
        return {**values, "moe_intermediate_size": values["intermediate_size"]}
    return values


def _one_of(value: Any) -> Any:
    """The number that a list has for every layer; anything else as it is."""
    same = isinstance(value, list) and value and all(item == value[0] for item in value)
    return value[0] if same and isinstance(value[0], int) else value


class DeepseekMoe(Routed):
    """DeepSeekMoE 16B and 145B: as DeepSeek-V2, without latent attention."""

    name = "deepseek"
    architectures = ("DeepseekForCausalLM",)


class Dots1(Routed):
    """dots.llm1."""

    name = "dots1"
    architectures = ("Dots1ForCausalLM",)
    head_norms = True
    balanced = True
    windowed = False


class Hy3(Routed):
    """Hunyuan 3 (Hy3): a dense first layer, a correction per expert."""

    name = "hy_v3"
    architectures = ("HYV3ForCausalLM",)
    head_norms = True
    balanced = True

    first_k_dense_replace: LayerIndex = 1


class Bailing(Routed):
    """Ling and Ring, Bailing 1 and 2: biases if any are in all or in query, key and value."""

    name = "bailing_moe"
    architectures = ("BailingMoeForCausalLM", "BailingMoeV2ForCausalLM")
    model_types = ("bailing_moe_v2",)

    aliases: ClassVar[dict[str, tuple[str, ...]]] = {
        "shared_expert_intermediate_size": ("moe_shared_expert_intermediate_size",),
    }
    unused = frozenset(
        """
        norm_head norm_softmax multi_gate embedding_dropout output_dropout router_type
        score_function router_dtype mtp_loss_scaling_factor moe_router_topk_scaling_factor
        """.split()  # noqa: SIM905
    )
    windowed = False

    head_dim: Width | None = None
    use_bias: Literal[False] = False
    use_qkv_bias: bool = False
    qk_norm: bool = False
    moe_router_enable_expert_bias: bool = False

    def softmax(self) -> Attention:
        """Attention of the configured heads."""
        attention = self.grouped_query(bias=self.use_qkv_bias, output_bias=False)
        return replace(attention, qk_norm=self.qk_norm)

    def to_model(self, name: str) -> Model:
        """Return the shape."""
        return replace(super().to_model(name), router_bias=self.moe_router_enable_expert_bias)


class Ernie(Routed):
    """ERNIE 4.5: a correction per expert, experts in some of the layers."""

    name = "ernie4_5_moe"
    architectures = ("Ernie4_5_MoeForCausalLM", "Ernie4_5_MoEForCausalLM")
    balanced = True

    aliases: ClassVar[dict[str, tuple[str, ...]]] = {
        "num_experts": ("moe_num_experts",),
        "num_experts_per_tok": ("moe_k",),
        "num_shared_experts": ("moe_num_shared_experts",),
    }
    unused = frozenset(
        """
        moe_norm_min moe_capacity moe_gate moe_use_aux_free compression_ratio
        moe_group_experts moe_dense_experts_token_type_id moe_aux_loss_lambda
        moe_orthogonal_loss_lambda moe_norm_gate_logits moe_use_hard_gate
        moe_multimodal_dispatch_use_allgather use_rmsnorm rope_reduction
        """.split()  # noqa: SIM905
    )

    head_dim: Width | None = None
    use_bias: Literal[False] = False
    tie_word_embeddings: bool = True
    moe_layer_start_index: LayerIndex = 1
    moe_layer_end_index: Annotated[int, Field(ge=-1, le=4096)] = -1
    moe_layer_interval: Annotated[int, Field(ge=1, le=4096)] = 1

    def mixtures(self) -> tuple[bool, ...]:
        """Every so manieth layer of a range."""
        layers, every = self.num_hidden_layers, self.moe_layer_interval
        last = layers - 1 if self.moe_layer_end_index == -1 else self.moe_layer_end_index
        return tuple(
            (layer + 1) % every == 0 and self.moe_layer_start_index <= layer <= last
            for layer in range(layers)
        )


class Hunyuan(Routed):
    """Hunyuan-Large and Hunyuan-A13B: lists of one value, layers that use others' keys."""

    name = "hunyuan_v1_moe"
    architectures = ("HunYuanMoEV1ForCausalLM", "HunYuanForCausalLM")
    model_types = ("hunyuan",)

    aliases: ClassVar[dict[str, tuple[str, ...]]] = {
        "num_experts_per_tok": ("moe_topk",),
        "num_shared_experts": ("num_shared_expert",),
        "first_k_dense_replace": ("moe_layer_num_skipped",),
        "head_dim": ("attention_head_dim",),
        "tie_word_embeddings": ("tie_embedding",),
    }
    unused = frozenset(
        """
        capacity_factor moe_drop_tokens moe_random_routing_dropped_token add_classification_head
        class_num pool_type mask_init_id norm_type use_rotary_pos_emb unpad_fn skip_cls_token
        q_lora_rank kv_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim eod_token_id
        im_start_id im_end_id im_newline_id image_token_id text_start_id text_end_id
        video_start_id video_end_id group_limited_greedy n_group topk_group dense_list
        cla_share_offset position_embedding_xdrope xdrope_section org_vocab_size pad_id
        num_media_embeds vit_add_patchemb_bias vit_input_resolution vit_mapping_type vit_norm_type
        vit_patch vit_path vit_remove_prenorm vit_token vit_type vit_use_grad
        """.split()  # noqa: SIM905
    )

    #: that of the dense layers unless given
    moe_intermediate_size: Width = 0
    qk_norm: bool = True
    use_mixed_mlp_moe: bool = True
    use_cla: bool = False
    cla_share_factor: Annotated[int, Field(ge=1, le=4096)] = 1
    use_mla: Literal[False] = False
    mlp_bias: Literal[False] = False

    @model_validator(mode="before")
    @classmethod
    def _one_of_all(cls, values: Any) -> Any:
        """A list of the same number for every layer is that number."""
        values = {key: _one_of(value) for key, value in values.items()}
        # false stands for no groups
        none = {key: 1 for key in ("n_group", "topk_group") if values.get(key) is False}
        return with_expert_width(values | none)

    def attentions(self) -> tuple[Attention, ...]:
        """One layer in so many makes keys and values, which those after it use."""
        computed = replace(self.softmax(), qk_norm=self.qk_norm)
        every = self.cla_share_factor if self.use_cla else 1
        reused = replace(computed, kv_projections=0)
        return tuple(
            computed if layer % every == 0 else reused for layer in range(self.num_hidden_layers)
        )

    def to_model(self, name: str) -> Model:
        """Return the shape: shared experts are as wide as a dense layer."""
        model = super().to_model(name)
        shared = self.intermediate_size * (self.num_shared_experts or 0)
        return replace(
            model,
            shared_expert_ffn_size=shared if self.use_mixed_mlp_moe else 0,
        )
