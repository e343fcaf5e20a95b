"""Curves of AMD's Instinct GPUs: products at what was published of each, the rest at A100's shape.

AMD publishes the largest rate that products reach on MI300X and MI325X, and what products of real
programs reach of it; of MI350X one table of a user is known. Other operators have A100's
efficiency by size, at the share that attention of these GPUs reached. Everything is marked as
assumed: none of it was measured as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import fitting as common
import numpy as np
from fitting import Fit

#: products of real programs reach this share of the largest rate (74 to 81 % on MI325X)
TYPICAL = 0.775
#: attention's share of the peak, of A100's share
ATTENTION = 0.65
LARGE_FLOPS = 1e11

SOURCES = """[sources.maf]
text = "AMD, Measuring Max-Achievable FLOPs, part 2 (MI300X BF16 708, FP8 1273 TFLOPS; MI325X BF16 \
843, FP8 1519; recalled, its table not at hand), times 0.775: TAF of MI325X is 74 to 81 % of it"
date = "2025-03 and 2026"
url = "https://rocm.blogs.amd.com/software-tools-optimization/measuring-max-achievable-flops-part2"

[sources.mi350]
text = "a public table of products by PyTorch 2.9 on MI350X: 1,019 to 1,022 TFLOPS in FP16; MI355X \
and FP8 at the same share of their peaks"
date = "2026"

[sources.a100]
text = "fractions measured on A100 (MooreThreads/SimuMax, Apache-2.0), attention at 0.65 of them"
date = "2025-06"
url = "https://github.com/MooreThreads/SimuMax"

"""


@dataclass(frozen=True)
class Chip:
    """Share of the peak that large products reach, in BF16 and in FP8, and where it is from."""

    name: str
    bf16: float
    fp8: float
    source: str


CHIPS = (
    Chip("mi300x", 708 / 1307.4 * TYPICAL, 1273 / 2614.9 * TYPICAL, "maf"),
    Chip("mi325x", 843 / 1307.4 * TYPICAL, 1519 / 2614.9 * TYPICAL, "maf"),
    Chip("mi350x", 1022 / 2309.6, 1022 / 2309.6, "mi350"),
    Chip("mi355x", 1022 / 2309.6, 1022 / 2309.6, "mi350"),
)


def fits(chip: Chip, a100: dict[str, Fit]) -> dict[str, Fit]:
    """Every operator of a chip from those of A100."""
    base = a100["matmul"]
    large = float(np.exp(np.mean(np.log(base.efficiency[base.flops >= LARGE_FLOPS]))))
    found: dict[str, Fit] = {}
    for suffix, share in (("", chip.bf16), ("_fp8", chip.fp8)):
        for name, fit in a100.items():
            if "matmul" in name:
                found[name + suffix] = common.assume(fit, chip.source, share / large)
    for name, fit in a100.items():
        if "attention" in name:
            found[name] = common.assume(fit, "a100", ATTENTION)
    return found


def build(a100: dict[str, Fit], memory: str) -> dict[str, str]:
    """Texts of the data files by name; ``memory`` is that of A100."""
    text = memory.replace('"simumax"', '"a100"')
    lines = []
    for line in text.splitlines():
        lines.append(line)
        if line.startswith("source"):
            lines.append("assumed = true")
    memory = "\n".join(lines).replace("assumed = true\nassumed = true", "assumed = true")
    return {
        f"efficiency_{chip.name}.toml": common.as_toml(
            chip.name.upper(),
            Path(__file__).name,
            SOURCES + common.FUSED_PERMUTE_SOURCE,
            memory,
            fits(chip, a100),
        )
        for chip in CHIPS
    }
