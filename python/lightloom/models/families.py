"""The families of models whose ``config.json`` is understood."""

from __future__ import annotations

from lightloom.models.families_dense import Gpt2, Llama, Nemotron, Qwen2, Qwen3
from lightloom.models.families_hybrid import (
    GraniteHybrid,
    Jamba,
    KimiLinear,
    NemotronH,
    NemotronNas,
)
from lightloom.models.families_latent import (
    DeepseekV2,
    DeepseekV3,
    DeepseekV4,
    DeepseekV32,
    GlmDsa,
    LongcatFlash,
)
from lightloom.models.families_mixed import Llama4, MiniMax, Qwen3Next, Qwen35, Qwen35Moe
from lightloom.models.families_moe import (
    Arctic,
    Dbrx,
    Glm4Moe,
    GptOss,
    GraniteMoe,
    Grok1,
    MiniMaxM2,
    Mixtral,
    Olmoe,
    PhiMoe,
    Qwen2Moe,
    Qwen3Moe,
)
from lightloom.models.families_routed import Bailing, DeepseekMoe, Dots1, Ernie, Hunyuan, Hy3
from lightloom.models.families_windowed import Gemma4, MiMoV2, MiniMaxM3, Step35
from lightloom.models.family import Family

FAMILIES: tuple[type[Family], ...] = (
    Mixtral,
    Qwen2Moe,
    Qwen3Moe,
    Qwen3Next,
    Qwen35Moe,
    Qwen35,
    DeepseekMoe,
    DeepseekV2,
    DeepseekV3,
    DeepseekV32,
    DeepseekV4,
    GlmDsa,
    Glm4Moe,
    LongcatFlash,
    KimiLinear,
    Llama4,
    MiniMax,
    MiniMaxM2,
    MiniMaxM3,
    MiMoV2,
    Step35,
    Gemma4,
    NemotronH,
    Jamba,
    GraniteMoe,
    GraniteHybrid,
    Bailing,
    Ernie,
    Hunyuan,
    Hy3,
    Dots1,
    Dbrx,
    Olmoe,
    PhiMoe,
    GptOss,
    Grok1,
    Arctic,
    Llama,
    Qwen2,
    Qwen3,
    Nemotron,
    NemotronNas,
    Gpt2,
)
