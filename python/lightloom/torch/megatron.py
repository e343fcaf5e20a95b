"""Token dispatchers of Megatron-Core's MoE layers: with strategies, and over circuits.

Megatron's own sends tokens to EP ranks, and their TP ranks gather them, then sorts them by expert;
here both are one all-to-all in chunks. Its rows come in the order that Megatron's gather leaves, so
all that follows is Megatron's. Parts of sums have the type of the gate's weights, as there.

Over circuits go the tokens, there and back; their weights, a number each, take Megatron's way.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist
from megatron.core.tensor_parallel import all_to_all
from megatron.core.transformer.moe.moe_layer import MoELayer
from megatron.core.transformer.moe.token_dispatcher import MoEAlltoAllTokenDispatcher

from lightloom.torch.all_to_all import Route
from lightloom.torch.mixnet import CircuitRoute, MixNetCollectives

#: settings that the dispatcher does not know, and the value that it needs
UNKNOWN = {
    "moe_pad_expert_input_to_capacity": False,
    "moe_shared_expert_overlap": False,
    "cuda_graph_impl": "none",
}


def why_not(layer: MoELayer) -> str:
    """Say why a layer cannot have the dispatcher; nothing if it can."""
    dispatcher = layer.token_dispatcher
    if problem := _unknown(layer):
        return problem
    if min(dispatcher.tp_size, dispatcher.ep_size) < 2:
        return (
            f"expert_tensor_parallel_size = {dispatcher.tp_size}, expert_model_parallel_size = "
            f"{dispatcher.ep_size}: expected 2 or more of both, else nothing can overlap"
        )
    return ""


def why_not_over_circuits(layer: MoELayer, mixnet: MixNetCollectives) -> str:
    """Say why the tokens of a layer cannot take circuits; nothing if they can."""
    dispatcher = layer.token_dispatcher
    if problem := _unknown(layer):
        return problem
    if dispatcher.tp_size != 1:
        return f"expert_tensor_parallel_size = {dispatcher.tp_size}: expected 1 over circuits"
    ranks = dist.get_process_group_ranks(dispatcher.ep_group)
    if ranks != list(range(mixnet.nics.ranks)):
        return (
            f"expert_model_parallel_size = {len(ranks)}: expected the {mixnet.nics.ranks} ranks of "
            "the job, one EP group"
        )
    return ""


def _unknown(layer: MoELayer) -> str:
    """Say what the hooks do not know of a layer."""
    for name, needed in UNKNOWN.items():
        if (value := getattr(layer.config, name)) != needed:
            return f"{name} = {value!r}: expected {needed!r}, the hook knows no other"
    kind = type(layer.token_dispatcher)
    if kind not in (MoEAlltoAllTokenDispatcher, StrategyDispatcher, CircuitDispatcher):
        return f"a {kind.__name__}: expected Megatron-Core's own dispatcher"
    return ""


class CircuitDispatcher(MoEAlltoAllTokenDispatcher):
    """A dispatcher whose tokens take circuits that follow them."""

    mixnet: MixNetCollectives
    layer: int
    _way: CircuitRoute

    def token_dispatch(
        self, permutated_local_input_tokens: torch.Tensor, permuted_probs: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Send tokens and their weights to the ranks of the experts."""
        self.tokens_per_expert = self._maybe_dtoh_and_synchronize(
            "before_ep_alltoall", self.tokens_per_expert
        )
        tokens = permutated_local_input_tokens
        splits = [int(count) for count in self.input_splits]
        row_bytes = tokens.shape[1] * tokens.element_size()
        self.mixnet.upcoming([count * row_bytes for count in splits], layer=self.layer)
        # circuits change meanwhile
        weights = all_to_all(self.ep_group, permuted_probs, self.output_splits, self.input_splits)
        rows, self._way = self.mixnet.all_to_all(tokens, splits, layer=self.layer)
        return rows, weights

    def token_combine(self, hidden_states: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        """Bring results back over the same circuits."""
        return self._way.combine(hidden_states)


class StrategyDispatcher(MoEAlltoAllTokenDispatcher):
    """A dispatcher that sends by ``send``, which is ``all_to_all_tp`` but for tokens and splits."""

    send: Callable[..., tuple[torch.Tensor, Route]]
    _route: Route

    def token_dispatch(
        self, permutated_local_input_tokens: torch.Tensor, permuted_probs: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Send tokens and their weights to all TP ranks of the experts."""
        self.tokens_per_expert = self._maybe_dtoh_and_synchronize(
            "before_ep_alltoall", self.tokens_per_expert
        )
        splits = [int(count) for count in self.input_splits]
        rows, self._route = self.send(permutated_local_input_tokens, splits)
        return rows, self._route.dispatch(permuted_probs)

    def dispatch_postprocess(
        self, global_input_tokens: torch.Tensor, global_probs: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Sort by expert what has been gathered already."""
        with self._gathered():
            return super().dispatch_postprocess(global_input_tokens, global_probs)

    def combine_preprocess(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Undo the sorting; parts are added up on the way back."""
        with self._gathered():
            return super().combine_preprocess(hidden_states)

    def token_combine(self, hidden_states: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        """Add up the parts of TP ranks and bring results back."""
        return self._route.combine(hidden_states, sum_type=self.probs.dtype)

    @contextlib.contextmanager
    def _gathered(self) -> Iterator[None]:
        """Let Megatron's own code find nothing to gather, or to add up, over TP ranks."""
        tp_size, self.tp_size = self.tp_size, 1
        try:
            yield
        finally:
            self.tp_size = tp_size
