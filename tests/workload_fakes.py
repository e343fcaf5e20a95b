"""A toy model, compute times without a GPU, and an executor in which the network takes no time."""

# ruff: noqa: ARG002 (the fake has the signatures of ComputeModel)

import dataclasses
from dataclasses import dataclass, field

import numpy as np

from lightloom.demand.generator import Balanced
from lightloom.hardware import load_gpu
from lightloom.models.model import Attention, Model
from lightloom.workload import build, demand_shape
from lightloom.workload.categories import StepCategory
from lightloom.workload.task_graph import COLUMNS, NO_INDEX, Collective, Kind, Program


def toy_model(**changes):
    """A small mixture; every width divides by 8."""
    values = {
        "name": "toy",
        "hidden_size": 64,
        "vocab_size": 1024,
        "attention": Attention("gqa", num_heads=8, num_kv_heads=2, head_dim=8),
        "moe_layers": (True,) * 8,
        "ffn_size": 256,
        "num_experts": 16,
        "experts_per_token": 2,
        "expert_ffn_size": 96,
    }
    return Model(**{**values, **changes})


@dataclass
class FakeCompute:
    """Every part of a forward pass takes a given time, of a backward pass twice as long."""

    attention_s: float = 0.0
    dense_s: float = 0.0
    gate_s: float = 0.0
    shared_s: float = 0.0
    head_s: float = 0.0
    embedding_s: float = 0.0
    per_copy_s: float = 0.0
    per_parameter_s: float = 0.0
    #: of the weights of one linear layer, where weight gradients are computed apart
    weight_s: float = 0.0
    copy_s_per_byte: float = 0.0
    gpu: object = field(default_factory=lambda: load_gpu("h100"))
    recompute: str = "none"
    precision: str = "bf16"
    state_precision: str = "fp32"
    attention_kernels: str = "fastest"
    provenance: dict = field(default_factory=lambda: {"gpu": "fake"})

    def _pass(self, forward_s, backward, recomputed=True):
        again = self.recompute == "full" and recomputed
        return forward_s * ((3 if again else 2) if backward else 1)

    def attention_layer(self, model, tokens, seq_len, tp, cp, backward):
        return self._pass(self.attention_s, backward)

    def dense_ffn(self, model, tokens, tp, backward):
        return self._pass(self.dense_s, backward)

    def gate(self, model, tokens, backward, tp=1):
        return self._pass(self.gate_s, backward)

    def shared_experts(self, model, tokens, tp, backward):
        return self._pass(self.shared_s, backward)

    def head(self, model, tokens, tp, backward):
        return self._pass(self.head_s, backward, recomputed=False)

    def embedding(self, model, tokens, tp, backward):
        return self._pass(self.embedding_s, backward, recomputed=False)

    def experts(self, model, tokens_per_gpu, experts_per_gpu, etp, backward):
        return self._pass(np.asarray(tokens_per_gpu) * self.per_copy_s / etp, backward)

    def weight_gradient(self, tokens, k, n, *, linear=True):
        """Bytes of the weights of a linear layer; nothing for the output projection."""
        return 0.0 if n >= 1000 else self.weight_s

    def expert_weight_gradients(self, tokens_per_expert, k, n):
        """Products of an expert of the toy model: together as long as a forward pass."""
        share = k * n / (3 * 64 * 96)
        return np.asarray(tokens_per_expert) * self.per_copy_s * share

    def copied(self, size_bytes):
        return np.asarray(size_bytes) * self.copy_s_per_byte

    def optimizer(self, parameters_per_gpu):
        return parameters_per_gpu * self.per_parameter_s


def balanced(model, plan):
    """A source that sends every expert the same number of copies."""
    return Balanced(demand_shape(model, plan)) if model.num_moe_layers else None


def build_toy(plan, model=None, compute=None, **options):
    """A workload of the toy model under balanced demand."""
    model = model or toy_model()
    return build(
        model, plan, demand=balanced(model, plan), compute=compute or FakeCompute(), **options
    )


def tasks(program):
    """A program as one dictionary per task; ``what`` tells the tasks of Megatron's step apart."""
    named = [dict(zip(COLUMNS, row, strict=True)) for row in program.rows()]
    return [{**task, "what": what(task)} for task in named]


def what(task):
    """Such as ``compute``, ``expert``, ``inside``, ``expert_tp``, ``all_to_all``, ``ring``."""
    kind, by_table = Kind(task["kind"]), task["table"] != NO_INDEX
    if kind == Kind.COMPUTE:
        if task["category"] == StepCategory.STRAGGLER:
            return "straggler"
        return "expert" if by_table else "compute"
    if kind != Kind.COLLECTIVE:
        return kind.name.lower()
    if task["family"] == NO_INDEX:
        return "expert_tp" if by_table else "inside"
    return "all_to_all" if task["collective"] == Collective.ALL_TO_ALL else "ring"


def programs(graph):
    """The programs of all roles."""
    return [role.program for role in graph.roles]


def with_rows(graph, change):
    """The graph with every row of its programs changed; rows become ``None`` to be dropped."""
    roles = []
    for role in graph.roles:
        rows = [change(role, dict(zip(COLUMNS, row, strict=True))) for row in role.program.rows()]
        kept = [tuple(row[name] for name in COLUMNS) for row in rows if row is not None]
        roles.append(dataclasses.replace(role, program=Program.from_rows(kept)))
    return dataclasses.replace(graph, roles=tuple(roles))


def table(graph, name):
    """A table by name, ``(workers, entries)``; ``None`` if there is none."""
    return next((table.values for table in graph.tables if table.name == name), None)


def execute(graph):
    """When each stage ends if moving bytes takes no time, ps; fails on a deadlock.

    All workers of a stage are taken to behave alike (balanced demand).
    """
    listed = [tasks(program) for program in programs(graph)]
    position, clock, arrived = [0] * len(listed), [0] * len(listed), {}
    before = None
    while before != position:
        before = list(position)
        for stage, program in enumerate(listed):
            while position[stage] < len(program):
                task = program[position[stage]]
                if not play(graph, stage, task, clock, arrived):
                    break
                position[stage] += 1
    assert position == [len(program) for program in listed], "deadlock"
    return clock


def play(graph, stage, task, clock, arrived):
    """Advance a stage's clock by one task; false if it must wait for a message."""
    if task["kind"] == Kind.RECEIVE:
        sent = arrived.get((task["peer"], stage, task["tag"]))
        if sent is None:
            return False
        clock[stage] = max(clock[stage], sent)
    elif task["kind"] == Kind.SEND:
        arrived[stage, task["peer"], task["tag"]] = clock[stage]
    elif task["what"] == "compute":
        clock[stage] += task["size"]
    elif task["what"] in {"expert", "straggler"}:
        times = graph.tables[task["table"]].values[graph.roles[stage].workers, task["entry"]]
        clock[stage] += int(times.max())
    return True
