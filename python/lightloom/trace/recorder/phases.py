"""Where in the step a program is: layer, micro-batch, forward, backward or optimizer, step."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

import torch
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimizers

from .values import tensors_of


def block_of(name: str) -> str:
    """The outermost numbered module of a module's name, such as ``decoder.layers.3``."""
    parts = name.split(".")
    ends = (place + 1 for place, part in enumerate(parts) if part.isdigit())
    return ".".join(parts[: next(ends, len(parts))])


def follow_phases(session: Any) -> None:
    """Keep `session.phase`, `layers`, `micro_batch` and `step` up to date, by PyTorch's hooks.

    The passes of a model through a step are its micro-batches. Backward belongs to the pass whose
    outputs its gradients reach; what it runs forward once more is no pass.
    """
    names: dict[int, str] = {}
    blocks: dict[int, str] = {}
    depth = [0]
    passes: Counter[int] = Counter()

    def enter(module: torch.nn.Module, args: Any) -> None:
        if depth[0] == 0 or id(module) not in names:
            for name, part in module.named_modules():
                names.setdefault(id(part), name)
                blocks.setdefault(id(part), block_of(name))
        if depth[0] == 0 and session.begin_step():
            passes.clear()
        if depth[0] == 0 and session.where() != "backward":
            session.micro_batch = passes[id(module)]
            passes[id(module)] += 1
        depth[0] += 1
        session.phase = "forward"
        session.layers.append(names[id(module)] or session.layers[-1])
        session.blocks.append(blocks[id(module)] or session.blocks[-1])

    def leave(module: torch.nn.Module, args: Any, result: Any) -> None:
        depth[0] = max(0, depth[0] - 1)
        if len(session.layers) > 1:
            session.layers.pop()
            session.blocks.pop()
        if depth[0] == 0:
            session.phase = "between"
            if session.where() != "backward":
                follow_gradients(result, session.micro_batch)
                session.micro_batch = None

    def follow_gradients(result: Any, number: int | None) -> None:
        def reached(_: Any) -> None:
            session.micro_batch = number
            torch.autograd.Variable._execution_engine.queue_callback(ended)  # type: ignore

        for tensor in tensors_of(result):
            if tensor.grad_fn is not None:
                tensor.register_hook(reached)

    def ended() -> None:
        session.micro_batch = None

    modules.register_module_forward_pre_hook(enter)
    modules.register_module_forward_hook(leave, always_call=True)

    def before_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        session.phase = "optimizer"

    def after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        session.phase = "between"
        # several optimizers may take turns: the step ends where the next forward begins
        session.stepped = True

    with contextlib.suppress(AttributeError):
        optimizers.register_optimizer_step_pre_hook(before_step)
        optimizers.register_optimizer_step_post_hook(after_step)
