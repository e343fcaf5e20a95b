"""Simulation of a training step: one call, task graph and network in, :class:`Run` out."""

from lightloom.simulate.decisions import DecisionLog, DecisionRecord
from lightloom.simulate.packet_options import Packets
from lightloom.simulate.phases import PhaseCount, Phases
from lightloom.simulate.plugins import Plugins
from lightloom.simulate.predictor import PredictorFactory
from lightloom.simulate.recording import RecordedStep
from lightloom.simulate.result import (
    BytesInFlight,
    CircuitTimeline,
    CircuitUse,
    CriticalSpans,
    LinkUse,
    Run,
    Snapshot,
    Timeline,
)
from lightloom.simulate.run import record_decisions, simulate

__all__ = [
    "BytesInFlight",
    "CircuitTimeline",
    "CircuitUse",
    "CriticalSpans",
    "DecisionLog",
    "DecisionRecord",
    "LinkUse",
    "Packets",
    "PhaseCount",
    "Phases",
    "Plugins",
    "PredictorFactory",
    "RecordedStep",
    "Run",
    "Snapshot",
    "Timeline",
    "record_decisions",
    "simulate",
]
