"""One step, ready to be simulated several times: the call of the core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lightloom import _core
from lightloom.fabric.network import Network
from lightloom.progress import Progress
from lightloom.schedule import AllocatorCallback, CircuitAllocator
from lightloom.simulate.columns import as_plain
from lightloom.simulate.core_errors import core_errors
from lightloom.simulate.result import Run, run_of
from lightloom.workload.task_graph import TaskGraph


@dataclass(frozen=True)
class StepRunner:
    """A step that can be played several times."""

    graph: TaskGraph
    network: Network
    timeline_workers: Sequence[int]
    share_equal_work: bool
    allocator: CircuitAllocator | None
    record_decisions: bool = False

    def run(
        self,
        model: _core.PhaseBook | tuple[str, int | None, int | None, int] | None,
        progress: Progress | None,
    ) -> Run:
        """Simulate it once, with fluid flows or with ``model``."""
        options = {
            "timeline_workers": [int(worker) for worker in self.timeline_workers],
            "share_equal_work": self.share_equal_work,
            "record_decisions": self.record_decisions,
        }
        callback = None if self.allocator is None else AllocatorCallback(self.allocator)
        network = as_plain(self.network)
        with core_errors(callback):
            raw = _core.execute(self.graph, network, options, progress, callback, model)
        custom = None if self.allocator is None else getattr(self.allocator, "__name__", "custom")
        return run_of(raw, custom, self.network.ocs)
