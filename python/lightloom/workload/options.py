"""What a training step moves and repeats: the options of a workload.

Every field is read by the other modules of this package; what a plan already says (ZeRO-1, sequence
parallelism, expert-TP, overlaps) and what the compute model says (recomputation) is not repeated
here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from lightloom.errors import InputError, echo, expected_one_of
from lightloom.practice import Priorities, Sharded

#: what the expert half of an MoE layer moves over NVSwitch for expert tensor parallelism
MoeTp = Literal["dispatched", "sequence", "none"]


@dataclass(frozen=True)
class WorkloadOptions:
    """Bytes per element, and how traffic is counted.

    Attributes
    ----------
    dispatch_element_bytes, combine_element_bytes
        Bytes per element of the two all-to-alls of the forward pass: 2 for BF16, 1 for FP8
        (1.03125 with DeepSeek-V3's FP32 scale per 128 elements).
    combine_gradient_element_bytes, dispatch_gradient_element_bytes
        The same for the two all-to-alls of the backward pass, in their order: the gradient of
        what was combined goes to the experts, like a dispatch, and that of what was dispatched
        comes back, like a combine.
    activation_element_bytes
        Of TP and CP collectives and pipeline sends.
    gradient_bytes
        Bytes per element in which gradients are reduced. FP32, Megatron's default for BF16
        training (``accumulate_allreduce_grads_in_fp32``).
    parameter_bytes
        Bytes per element of the parameters that ZeRO-1 gathers after the optimizer.
    deduplicate
        Send a token once to each server, however many of its experts are there (DeepEP).
    moe_tp
        What expert tensor parallelism moves: ``dispatched`` gathers and reduces the routed token
        copies (what Megatron does), ``sequence`` counts the micro-batch once as in a dense layer,
        ``none`` counts nothing. The last two are counting conventions of published traffic
        shares, see ``docs/explanation/parallelism.md``.
    sharded
        What data-parallel ranks share out where the plan has ZeRO-1: ``states`` of the optimizer,
        ``gradients`` (ZeRO-2) or ``parameters`` (ZeRO-3), too.
    rank_level
        Keep token counts between EP ranks, too, for fabrics that move data NIC by NIC.
    priorities
        Which traffic goes first on links: with ``monta`` experts' all-to-alls, then pipeline
        messages, context parallelism and gradients; with ``pipeline`` pipeline messages before
        these (:mod:`.priorities`).
    early_gradients
        Reduce the gradients of a layer's experts alongside the all-to-all that ends their backward
        pass, and not only after the layer.
    """

    dispatch_element_bytes: float = 2.0
    combine_element_bytes: float = 2.0
    combine_gradient_element_bytes: float = 2.0
    dispatch_gradient_element_bytes: float = 2.0
    activation_element_bytes: float = 2.0
    gradient_bytes: float = 4.0
    parameter_bytes: float = 2.0
    deduplicate: bool = False
    moe_tp: MoeTp = "dispatched"
    sharded: Sharded = "states"
    rank_level: bool = False
    priorities: Priorities = "none"
    early_gradients: bool = False

    def __post_init__(self) -> None:
        """Refuse sizes that are not positive and unknown words.

        Raises
        ------
        InputError
            Naming the option, what was given and what was expected.
        """
        for name, value in vars(self).items():
            flag = name.replace("_", "-")
            if not name.endswith("_bytes"):
                continue
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not math.isfinite(value) or not 0 < value <= 8:
                raise InputError(
                    f"{flag} = {echo(value)}: expected bytes per element, above 0, up to 8"
                )
        if self.sharded not in get_args(Sharded):
            choices = expected_one_of(self.sharded, get_args(Sharded))
            raise InputError(f"sharded = {echo(self.sharded)}: {choices}")
        if self.priorities not in get_args(Priorities):
            expected = expected_one_of(self.priorities, get_args(Priorities))
            raise InputError(f"priorities = {echo(self.priorities)}: {expected}")
        if self.moe_tp not in get_args(MoeTp):
            raise InputError(
                f"moe-tp = {echo(self.moe_tp)}: {expected_one_of(self.moe_tp, get_args(MoeTp))}"
            )
