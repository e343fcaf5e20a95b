"""Task graphs and networks as the flat arrays and dictionaries that the core takes."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.workload.task_graph import TaskGraph


def graph_columns(graph: TaskGraph) -> dict[str, Any]:
    """Return the columns of a task graph."""
    layout, blocks = graph.layout, graph.blocks
    tokens = blocks.tokens
    return {
        "layout": {
            "stages": layout.stages,
            "replicas": layout.replicas,
            "members": layout.members,
            "gpus_per_worker": layout.gpus_per_worker,
            "worker_server": _flat(layout.worker_server, np.uint32),
        },
        "programs": [program.columns() for program in graph.programs],
        "scopes": [
            {
                "name": scope.name,
                "offsets": _flat(scope.offsets, np.uint32),
                "workers": _flat(scope.workers, np.uint32),
            }
            for scope in graph.scopes
        ],
        "blocks": {
            "blocks": tokens.shape[1] if tokens.ndim > 1 else 0,
            "tokens": _flat(tokens, np.uint32),
            "ranks_per_member": blocks.ranks_per_member,
            "rank_tokens": _flat(_or_empty(blocks.rank_tokens), np.uint32),
            "expert_forward_ps": _flat(blocks.expert_forward_ps, np.uint64),
            "expert_backward_ps": _flat(blocks.expert_backward_ps, np.uint64),
            "expert_tp_per_gpu": _flat(_or_empty(blocks.expert_tp_per_gpu), np.uint64),
            "expert_tp_total": _flat(_or_empty(blocks.expert_tp_total), np.uint64),
        },
    }


def as_plain(value: Any) -> Any:
    """Turn dataclasses into dictionaries and arrays into flat ones."""
    if is_dataclass(value):
        return {field.name: as_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray):
        return _flat(value, np.uint32)
    return value


def _or_empty(array: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    return np.zeros(0) if array is None else array


def _flat(array: npt.NDArray[Any], dtype: type[np.generic]) -> npt.NDArray[Any]:
    return np.ascontiguousarray(array, dtype=dtype).reshape(-1)
