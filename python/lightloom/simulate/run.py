"""Simulate the task graph of a training step over a network.

The simulation itself is Rust (``crates/execute``); it runs without the interpreter lock, reports
progress and can be interrupted. Here the graph and the network are handed over as arrays, and the
outcome comes back in seconds and bytes.

What is modeled: workers that play their programs in order; Send, Ring and all-to-all as fluid
flows that share links max-min fairly, as packets, or as flows that take as long as packets would
(:class:`~lightloom.simulate.phases.Phases`); circuits that follow the demand. What is not:
contention on NVSwitch other than by relays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from lightloom.errors import InputError
from lightloom.fabric.network import Network
from lightloom.progress import Progress
from lightloom.simulate.packet_options import Packets
from lightloom.simulate.phases import Phases
from lightloom.simulate.plugins import BUILT_IN, Plugins
from lightloom.simulate.result import Run
from lightloom.simulate.step import StepRunner
from lightloom.workload.task_graph import TaskGraph

#: packet-hops, of a whole step as packets, beyond which a run has to be asked for: ten minutes
MAX_PACKET_HOPS = 600 * 5_000_000
#: maximum number of times that a step is run until it meets no phase that was not simulated
MAX_ROUNDS = 4


def simulate(
    graph: TaskGraph,
    network: Network,
    *,
    timeline_workers: Sequence[int] = (),
    progress: Progress | None = None,
    network_model: Literal["flow", "packet"] | Packets | Phases = "flow",
    share_equal_work: bool = True,
    plugins: Plugins = BUILT_IN,
) -> Run:
    """Simulate one training step.

    Parameters
    ----------
    graph
        What the step does; all numbers that need a seed are in it.
    network
        What it runs on.
    timeline_workers
        Workers whose spans are kept, with the circuits and decisions of their regions.
    progress
        Called now and then with the part of the tasks that are done, 0 to 1; the run stops if it
        returns ``False``.
    network_model
        ``"flow"``: max-min fair fluid flows. :class:`Packets`: the whole step as packets, which is
        exact, and for small steps; ``"packet"`` is those by default. :class:`Phases` of the
        network: flows that take as long as their phases take as packets.
    share_equal_work
        Whether equal requests to the circuit allocator are served once; changes no result of an
        allocator that serves equal requests alike.
    plugins
        What chooses circuits and predicts demand instead of the built-in parts.

    Raises
    ------
    FabricError
        If the network cannot carry the graph.
    InputError
        If the graph is inconsistent, its workers wait for each other for ever, or a
        plug-in returns what cannot be circuits or demand.
    KeyboardInterrupt
        If it was interrupted, or ``progress`` returned ``False``.
    """
    step = StepRunner(graph, network, timeline_workers, share_equal_work, plugins)
    if network_model == "flow":
        return step.run(None, progress)
    if isinstance(network_model, Phases):
        return _by_phases(step, network_model, progress)
    packets = Packets() if network_model == "packet" else network_model
    if not isinstance(packets, Packets):
        raise InputError(f"network_model = {network_model!r}: expected 'flow' or 'packet'")
    if not packets.full:
        _check_size(step, packets)
    return step.run(packets, progress)


def record_decisions(
    graph: TaskGraph,
    network: Network,
    *,
    progress: Progress | None = None,
    plugins: Plugins = BUILT_IN,
) -> Run:
    """Simulate one training step with fluid flows, and keep every decision on circuits.

    Parameters
    ----------
    graph, network, progress, plugins
        As :func:`simulate`.

    Returns
    -------
    Run
        With ``decisions``, unless the network has no circuits to decide.

    Raises
    ------
    FabricError, InputError, KeyboardInterrupt
        As :func:`simulate`.
    """
    step = StepRunner(graph, network, (), True, plugins, record_decisions=True)
    return step.run(None, progress)


def _by_phases(step: StepRunner, phases: Phases, progress: Progress | None) -> Run:
    """Simulate a step until it meets no phase that was not simulated, but not for ever."""
    for _ in range(MAX_ROUNDS):
        phases.simulate(progress)
        run = step.run(phases.book, None)
        if phases.pending[0] == 0:
            break
    return run


def _check_size(step: StepRunner, packets: Packets) -> None:
    """Refuse a step that is more than some minutes of packets."""
    phases = Phases.counting(step.network, packets)
    step.run(phases.book, None)
    hops = phases.placed_hops if packets.repeats == "once" else phases.all_hops
    if hops > MAX_PACKET_HOPS:
        raise InputError(
            f"the step is about {hops:.2g} packet-hops, over {MAX_PACKET_HOPS:.2g}: simulate its"
            " phases (network_model=Phases(...)), or pass Packets(full=True) and wait"
        )
