"""One step, ready to be simulated several times: the call of the core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lightloom import _core
from lightloom.fabric.network import Network, Ocs
from lightloom.progress import Progress
from lightloom.schedule import AllocatorCallback
from lightloom.simulate.core_errors import core_errors
from lightloom.simulate.packet_options import Packets
from lightloom.simulate.plugins import Plugins
from lightloom.simulate.predictor import PredictorCallback, check_predictor
from lightloom.simulate.result import Run, run_of
from lightloom.workload.task_graph import TaskGraph


@dataclass(frozen=True)
class StepRunner:
    """A step that can be simulated several times."""

    graph: TaskGraph
    network: Network
    timeline_workers: Sequence[int]
    share_equal_work: bool
    plugins: Plugins
    record_decisions: bool = False

    def run(
        self,
        model: _core.PhaseBook | Packets | None,
        progress: Progress | None,
    ) -> Run:
        """Simulate it once, with fluid flows or with ``model``."""
        allocator: AllocatorCallback | None = None
        predictor: PredictorCallback | str | None = None
        if self.plugins.allocator is not None:
            allocator = AllocatorCallback(self.plugins.allocator)
        if self.plugins.predictor is not None:
            checked = check_predictor(self.plugins.predictor)
            predictor = checked if isinstance(checked, str) else PredictorCallback(checked)
        with core_errors(allocator, None if isinstance(predictor, str) else predictor):
            outcome = _core.execute(
                self.graph,
                self.network,
                model,
                timeline_workers=[int(worker) for worker in self.timeline_workers],
                share_equal_work=self.share_equal_work,
                record_decisions=self.record_decisions,
                record_packets=isinstance(model, Packets) and model.record,
                progress=progress,
                allocator=allocator,
                predictor=predictor,
            )
        name = None if allocator is None else allocator.name
        return run_of(outcome, name, self.network.part(Ocs))
