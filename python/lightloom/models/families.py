"""The families of models whose ``config.json`` is understood."""

from __future__ import annotations

from lightloom.models.families_dense import Gpt2, Llama, Nemotron, Qwen2, Qwen3
from lightloom.models.families_latent import DeepseekV2, DeepseekV3, DeepseekV32
from lightloom.models.families_mixed import Llama4, MiniMax, Qwen3Next
from lightloom.models.families_moe import (
    Dbrx,
    Glm4Moe,
    GptOss,
    GraniteMoe,
    MiniMaxM2,
    Mixtral,
    Olmoe,
    PhiMoe,
    Qwen2Moe,
    Qwen3Moe,
)
from lightloom.models.family import Family

FAMILIES: tuple[type[Family], ...] = (
    Mixtral,
    Qwen2Moe,
    Qwen3Moe,
    Qwen3Next,
    DeepseekV2,
    DeepseekV3,
    DeepseekV32,
    Glm4Moe,
    Llama4,
    MiniMax,
    MiniMaxM2,
    Dbrx,
    Olmoe,
    PhiMoe,
    GraniteMoe,
    GptOss,
    Llama,
    Qwen2,
    Qwen3,
    Nemotron,
    Gpt2,
)
