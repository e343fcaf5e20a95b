"""Training frameworks, unmodified, whose experts get their tokens by strategies of this package.

Both already send each token once per EP rank and gather it there (O1), one after the other; what
they gain is that the two run beside each other. A layer keeps its weights, its gate and its place;
only its class changes, to one that is derived from it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Literal, TypedDict, TypeVar, Unpack

from torch import nn

from lightloom.errors import InputError
from lightloom.torch.all_to_all import agree_on_strategy, all_to_all_tp

if TYPE_CHECKING:
    from deepspeed.moe.sharded_moe import MOELayer
    from megatron.core.transformer.moe.moe_layer import MoELayer

    from lightloom.planner.cluster import StrategyCluster
    from lightloom.torch.mixnet import MixNetCollectives

#: versions that the hooks were tested with
KNOWN = {"megatron-core": "0.16", "deepspeed": "0.19"}
Layer = TypeVar("Layer", bound=nn.Module)


class Options(TypedDict, total=False):
    """What :func:`~lightloom.torch.all_to_all_tp` is asked for."""

    strategy: str
    chunks: int | Literal["auto"]
    cluster: StrategyCluster | str | None


def use_in_megatron(
    *models: nn.Module, mixnet: MixNetCollectives | None = None, **options: Unpack[Options]
) -> int:
    """Make the all-to-all dispatchers of Megatron-Core's MoE layers take a strategy, or circuits.

    Parameters
    ----------
    *models
        What ``get_model`` returns, or modules that have MoE layers.
    mixnet
        Over whose circuits tokens go to experts, which are not cut by tensor parallelism; there
        are no strategies then.
    **options
        ``strategy``, ``chunks`` and ``cluster`` of :func:`~lightloom.torch.all_to_all_tp`. Tokens
        are sharded over TP ranks (sequence parallelism), so strategies are O1 to O4.

    Returns
    -------
    int
        How many layers take it now; a second call changes them.

    Raises
    ------
    InputError
        On every rank, if on one of them Megatron-Core is missing or of another version, a layer
        has a setting that the hook does not know or a strategy cannot be, if ranks are asked for
        different ones, or if no layer of any rank has such a dispatcher. All ranks call it, each
        time, also those of pipeline stages without such layers.
    RankError
        If a rank does not call it within the time-out of the process group of all ranks.
    """
    layers, problem = _tried(lambda: _layers_of_megatron(models, mixnet, options))
    asked = {**options, "mixnet": "packets" if mixnet is None else "circuits"}
    if not agree_on_strategy("sharded", asked, problem, len(layers)):
        raise InputError("no MoE layer of Megatron-Core has moe_token_dispatcher_type='alltoall'")
    from lightloom.torch.megatron import CircuitDispatcher, StrategyDispatcher

    for layer in layers:
        dispatcher = layer.token_dispatcher
        if mixnet is not None:
            dispatcher.__class__ = CircuitDispatcher
            dispatcher.mixnet, dispatcher.layer = mixnet, layer.layer_number
            continue
        dispatcher.__class__ = StrategyDispatcher
        dispatcher.send = functools.partial(
            all_to_all_tp,
            ep_group=dispatcher.ep_group,
            tp_group=dispatcher.tp_group,
            layout="sharded",
            **options,
        )
    return len(layers)


def use_in_deepspeed(model: nn.Module, **options: Unpack[Options]) -> int:
    """Make DeepSpeed's MoE layers take a strategy.

    Parameters
    ----------
    model
        What ``deepspeed.initialize`` returns, or a module that has MoE layers.
    **options
        ``strategy``, ``chunks`` and ``cluster`` of :func:`~lightloom.torch.all_to_all_tp`. TP ranks
        have the same tokens, so that all strategies can be; ``"baseline"`` is DeepSpeed without its
        dropping of tokens that other TP ranks have as well.

    Returns
    -------
    int
        How many layers take it now; a second call changes them.

    Raises
    ------
    InputError
        On every rank, if on one of them DeepSpeed is missing or of another version, experts are
        not cut by tensor parallelism or a strategy cannot be, if ranks are asked for different
        ones, or if no rank has an MoE layer of DeepSpeed's own. All ranks call it, each time.
    RankError
        If a rank does not call it within the time-out of the process group of all ranks.
    """
    layers, problem = _tried(lambda: _layers_of_deepspeed(model))
    if not agree_on_strategy("replicated", options, problem, len(layers)):
        raise InputError("no MoE layer of DeepSpeed (deepspeed.moe.layer.MoE) is in the model")
    from lightloom.torch.deepspeed import StrategyLayer, tp_group_of_experts

    tp_group = tp_group_of_experts()
    for layer in layers:
        layer.__class__ = StrategyLayer
        layer.send = functools.partial(
            all_to_all_tp, ep_group=layer.ep_group, tp_group=tp_group, grad="replicated", **options
        )
    return len(layers)


def _tried(find: Callable[[], list[Layer]]) -> tuple[list[Layer], str]:
    """What is found on this rank, and what is wrong if it cannot be, for all ranks to know."""
    try:
        return find(), ""
    except InputError as error:
        return [], str(error)
    except ImportError as error:
        return [], f"{type(error).__name__}: {error}"


def _layers_of_megatron(
    models: Sequence[nn.Module], mixnet: MixNetCollectives | None, options: Options
) -> list[MoELayer]:
    """The MoE layers that have an all-to-all dispatcher.

    Raises
    ------
    InputError
        If one of them cannot have another, or the package is not known.
    """
    if mixnet is not None and options:
        raise InputError(f"{', '.join(options)}: expected none over circuits (mixnet)")
    _check_version("megatron-core")
    from megatron.core.transformer.moe.moe_layer import MoELayer
    from megatron.core.transformer.moe.token_dispatcher import MoEAlltoAllTokenDispatcher

    from lightloom.torch.megatron import why_not, why_not_over_circuits

    layers = [
        layer
        for layer in _modules(models, MoELayer)
        if isinstance(layer.token_dispatcher, MoEAlltoAllTokenDispatcher)
    ]
    for layer in layers:
        problem = why_not(layer) if mixnet is None else why_not_over_circuits(layer, mixnet)
        if problem:
            raise InputError(f"layer {layer.layer_number}: {problem}")
    return layers


def _layers_of_deepspeed(model: nn.Module) -> list[MOELayer]:
    """DeepSpeed's own MoE layers.

    Raises
    ------
    InputError
        If one of them cannot have a strategy, or the package is not known.
    """
    _check_version("deepspeed")
    from deepspeed.moe.sharded_moe import MOELayer

    from lightloom.torch.deepspeed import StrategyLayer, tp_group_of_experts

    layers = list(_modules([model], MOELayer))
    others = {type(layer) for layer in layers} - {MOELayer, StrategyLayer}
    if others:
        raise InputError(f"a {others.pop().__name__}: expected DeepSpeed's own layers")
    if any(layer.ep_group is None for layer in layers):
        raise InputError("an MoE layer has no process groups yet: call after deepspeed.initialize")
    if layers and tp_group_of_experts() is None:
        raise InputError(
            "experts are not cut by tensor parallelism: expected an mpu with TP ranks, and "
            "MoE(..., enable_expert_tensor_parallelism=True)"
        )
    return layers


def _modules(models: Sequence[nn.Module], kind: type[Layer]) -> Iterator[Layer]:
    """The modules of a kind."""
    return (part for model in models for part in model.modules() if isinstance(part, kind))


def _check_version(package: str) -> None:
    """Refuse a package that the hook does not know."""
    expected = KNOWN[package]
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        raise InputError(
            f"{package} is not installed: pip install '{package}=={expected}.*'"
        ) from None
    if version.split(".")[:2] != expected.split("."):
        raise InputError(
            f"{package} {version}: expected {expected}.x, whose layers this version of Lightloom "
            f"knows (pip install '{package}=={expected}.*')"
        )
