"""Put operator times together into one measured step: 8 GPUs, one NVSwitch, Megatron-style.

Nothing overlaps, as in the measured runs: tensor-parallel collectives (sequence parallelism),
all-to-alls of experts and of context parallelism, pipeline sends, and the reduction of
gradients (fp32) and gathering of weights (bf16) of the distributed optimizer all add up.
Experts are filled to capacity, so their load is even.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from lightloom.models.model import Attention, Model
from lightloom.models.parameters import attention_parameters
from lightloom.workload.compute import ComputeModel

GIB = 1024**3
BF16, FP32 = 2, 4
WORLD = 8


@dataclass(frozen=True)
class Case:
    """One measured step."""

    name: str
    model: Model
    layers: int
    seq_len: int
    micro_batches: int
    tp: int
    cp: int
    pp: int
    ep: int
    measured_s: float
    simumax_s: float

    @property
    def dp(self) -> int:
        """Data-parallel ranks of dense parameters (context parallelism not included)."""
        return WORLD // (self.tp * self.cp * self.pp)

    @property
    def tokens(self) -> int:
        """Tokens of a micro-batch per tensor-parallel group (one sequence)."""
        return self.seq_len // self.cp

    @property
    def is_moe(self) -> bool:
        """Whether the model has routed experts."""
        return self.model.num_moe_layers > 0


@dataclass(frozen=True)
class Collectives:
    """NVSwitch collectives: rate and latency of each kind."""

    operations: dict[str, dict[str, Any]]
    rate: float

    def seconds(self, kind: str, size_bytes: float, ranks: int) -> float:
        """Time of a ring-like collective over ``size_bytes`` in all, s."""
        if ranks == 1 or size_bytes == 0:
            return 0.0
        operation = self.operations[kind]
        share = 1.0 if kind == "p2p" else operation["scale"] * (ranks - 1) / ranks
        fixed = operation.get("fixed_latency_us_by_comm_num") or {}
        # SimuMax takes its latency once a step of the collective
        steps = 1 if kind == "p2p" else operation["scale"] * (ranks - 1)
        latency_us = operation["latency_us"] * steps
        latency_us += fixed.get(str(ranks), operation.get("fixed_latency_us", 0.0))
        rate = self.rate * operation["efficient_factor"]
        return float(size_bytes * share / rate + latency_us * 1e-6)


@dataclass(frozen=True)
class Stage:
    """Times of one pipeline stage: one micro-batch forward and backward, and the step's end."""

    forward_s: float
    backward_s: float
    finish_s: float
    compute_s: float


def model_from_shape(name: str, shape: dict[str, Any], layers: int, dense_layers: int) -> Model:
    """A model with ``layers`` layers from SimuMax's shape."""
    latent = shape.get("attention_type") == "mla"
    experts = shape.get("expert_num", 0)
    width = shape.get("moe_ffn_hidden_size", shape["intermediate_size"])
    return Model(
        name=name,
        hidden_size=shape["hidden_size"],
        vocab_size=shape["vocab_size"],
        attention=Attention(
            kind="mla" if latent else "gqa",
            num_heads=shape["head_num"],
            num_kv_heads=shape["kv_head_num"],
            head_dim=shape["head_size"],
            q_lora_rank=(shape.get("q_lora_rank") or 0) if latent else 0,
            kv_lora_rank=shape.get("kv_lora_rank", 0) if latent else 0,
            qk_nope_head_dim=shape.get("qk_head_dim", 0) if latent else 0,
            qk_rope_head_dim=shape.get("qk_pos_emb_head_dim", 0) if latent else 0,
            v_head_dim=shape.get("v_head_dim", 0) if latent else 0,
        ),
        moe_layers=tuple(experts > 0 and i >= dense_layers for i in range(layers)),
        ffn_size=shape["intermediate_size"],
        num_experts=experts,
        experts_per_token=shape.get("topk", 0),
        expert_ffn_size=width if experts else 0,
        shared_expert_ffn_size=shape.get("moe_shared_expert_intermediate_size", 0),
    )


class Composer:
    """Step times from a compute model and NVSwitch collectives."""

    def __init__(self, compute: ComputeModel, collectives: Collectives) -> None:
        self.compute = compute
        self.collectives = collectives

    def step_s(self, case: Case) -> float:
        """Predicted time of one step, s."""
        stages = [self.stage(case, index) for index in range(case.pp)]
        size_bytes = case.tokens / case.tp * case.model.hidden_size * BF16
        send_s = self.collectives.seconds("p2p", size_bytes, 2)
        pipeline_s = one_f_one_b(stages, case.micro_batches, send_s)
        return pipeline_s + max(stage.finish_s for stage in stages)

    def stage(self, case: Case, index: int) -> Stage:
        """Times of one stage; layers are split evenly."""
        per_stage = case.layers // case.pp
        layers = case.model.moe_layers[index * per_stage : (index + 1) * per_stage]
        times = []
        for backward in (False, True):
            compute_s, other_s = 0.0, 0.0
            for is_moe in layers:
                compute_s += self._layer_compute(case, is_moe, backward)
                other_s += self._layer_collectives(case, is_moe, backward)
            if index == 0:
                compute_s += self.compute.embedding(case.model, case.tokens, case.tp, backward)
                other_s += self._tensor_parallel(case, 1)
            if index == case.pp - 1:
                compute_s += self.compute.head(case.model, case.tokens, case.tp, backward)
                other_s += self._tensor_parallel(case, 2 if backward else 1)
            times.append((compute_s, other_s))
        (forward, forward_other), (reverse, reverse_other) = times
        return Stage(
            forward + forward_other,
            reverse + reverse_other,
            self._finish(case, index, layers),
            forward + reverse,
        )

    def _layer_compute(self, case: Case, is_moe: bool, backward: bool) -> float:
        model, tokens, tp = case.model, case.tokens, case.tp
        total = self.compute.attention_layer(model, tokens, case.seq_len, tp, case.cp, backward)
        if not is_moe:
            return total + self.compute.dense_ffn(model, tokens, tp, backward)
        total += self.compute.gate(model, tokens, backward, tp)
        total += self.compute.shared_experts(model, tokens, tp, backward)
        per_gpu = model.num_experts // case.ep
        # Filled to capacity: every expert gets an equal, rounded up, share of every rank.
        capacity = math.ceil(tokens * model.experts_per_token / model.num_experts)
        arriving = capacity * case.ep * per_gpu
        return total + float(self.compute.experts(model, arriving, per_gpu, 1, backward))

    def _tensor_parallel(self, case: Case, count: int) -> float:
        """``count`` gathers or scatters of the micro-batch's activations; both cost alike."""
        size_bytes = case.tokens * case.model.hidden_size * BF16
        return count * self.collectives.seconds("all_gather", size_bytes, case.tp)

    def _layer_collectives(self, case: Case, is_moe: bool, backward: bool) -> float:
        # Forward: gather and scatter around attention and feed-forward. Backward: the same,
        # and both gathers again for the weight gradients.
        total = self._tensor_parallel(case, 6 if backward else 4)
        attention = case.model.attention
        if case.cp > 1:
            # Ulysses: query, key, value in, output back; backward their gradients.
            width = (2 * attention.num_heads + 2 * attention.num_kv_heads) * attention.head_dim
            size_bytes = case.tokens * width / case.tp * BF16
            total += self.collectives.seconds("all2all", size_bytes, case.cp)
        if is_moe and case.ep > 1:
            copies = case.tokens * case.model.experts_per_token
            size_bytes = copies * case.model.hidden_size * BF16
            total += 2 * self.collectives.seconds("all2all", size_bytes, case.ep)
        return total

    def _finish(self, case: Case, index: int, layers: tuple[bool, ...]) -> float:
        """Gradient reduction, optimizer and weight gathering."""
        model = case.model
        width = model.hidden_size
        dense = sum(
            attention_parameters(model)
            + (
                3 * width * model.shared_expert_ffn_size + width * model.num_experts
                if is_moe
                else 3 * width * model.ffn_size
            )
            for is_moe in layers
        )
        dense += model.vocab_size * width * ((index == 0) + (index == case.pp - 1))
        experts = sum(layers) * model.num_experts * 3 * width * model.expert_ffn_size
        dense_local, experts_local = dense / case.tp, experts / case.ep
        ranks = case.dp * case.cp
        expert_ranks = max(1, ranks // case.ep)
        total = self.compute.optimizer(dense_local / ranks + experts_local / expert_ranks)
        for size, group in ((dense_local, ranks), (experts_local, expert_ranks)):
            total += self.collectives.seconds("reduce_scatter", size * FP32, group)
            total += self.collectives.seconds("all_gather", size * BF16, group)
        return total


def one_f_one_b(stages: list[Stage], micro_batches: int, send_s: float) -> float:
    """Time until the last backward of the 1F1B schedule, sends block the sender.

    Raises
    ------
    AssertionError
        If the schedule cannot proceed, a bug.
    """
    depth = len(stages)
    orders = []
    for index in range(depth):
        warm = min(depth - 1 - index, micro_batches)
        order = [("f", i) for i in range(warm)]
        for i in range(micro_batches - warm):
            order += [("f", warm + i), ("b", i)]
        order += [("b", i) for i in range(micro_batches - warm, micro_batches)]
        orders.append(order)
    done: dict[tuple[int, str, int], float] = {}
    clock, position = [0.0] * depth, [0] * depth
    while any(position[i] < len(orders[i]) for i in range(depth)):
        moved = False
        for index, stage in enumerate(stages):
            if position[index] == len(orders[index]):
                continue
            kind, number = orders[index][position[index]]
            neighbor = index - 1 if kind == "f" else index + 1
            ready = 0.0
            if 0 <= neighbor < depth:
                if (neighbor, kind, number) not in done:
                    continue
                ready = done[neighbor, kind, number]
            sends = 0 <= (index + 1 if kind == "f" else index - 1) < depth
            duration = stage.forward_s if kind == "f" else stage.backward_s
            clock[index] = max(clock[index], ready) + duration + (send_s if sends else 0.0)
            done[index, kind, number] = clock[index]
            position[index] += 1
            moved = True
        assert moved, "1F1B order deadlocks"
    return max(clock)
