"""Packet-level simulation of flows: the Python interface of ``crates/packetsim``.

``simulate_flows(make_flows(...), PacketScenario(...))`` is all there is to it; patterns make
flows, and ``load_scenario`` reads both from a file.
"""

from typing import TYPE_CHECKING

from lightloom.lazy import exports

if TYPE_CHECKING:
    from lightloom.packets.flows import Flows, check_flows, make_flows, read_flows
    from lightloom.packets.goal import goal_text, read_goal
    from lightloom.packets.patterns import all_to_all, from_matrix, incast, permutation
    from lightloom.packets.programs import Milestone, OperationBuilder, OperationTimes, Programs
    from lightloom.packets.results import (
        Finished,
        LayerUse,
        LinkCounters,
        PacketRun,
        PacketTrace,
        QueueSamples,
    )
    from lightloom.packets.run import Record, simulate_flows
    from lightloom.packets.scenario import (
        TRANSPORTS,
        Ecn,
        NetworkTable,
        PacketScenario,
        PacketTable,
        Pfc,
        Queue,
        ScenarioFile,
        TrafficTable,
        load_scenario,
    )
    from lightloom.packets.settings import PacketSettings, profile_of
    from lightloom.packets.traffic import flows_of

__all__ = [
    "TRANSPORTS",
    "Ecn",
    "Finished",
    "Flows",
    "LayerUse",
    "LinkCounters",
    "Milestone",
    "NetworkTable",
    "OperationBuilder",
    "OperationTimes",
    "PacketRun",
    "PacketScenario",
    "PacketSettings",
    "PacketTable",
    "PacketTrace",
    "Pfc",
    "Programs",
    "Queue",
    "QueueSamples",
    "Record",
    "ScenarioFile",
    "TrafficTable",
    "all_to_all",
    "check_flows",
    "flows_of",
    "from_matrix",
    "goal_text",
    "incast",
    "load_scenario",
    "make_flows",
    "permutation",
    "profile_of",
    "read_flows",
    "read_goal",
    "simulate_flows",
]

__getattr__ = exports(
    __name__,
    {
        "flows": ["Flows", "check_flows", "make_flows", "read_flows"],
        "goal": ["goal_text", "read_goal"],
        "patterns": ["all_to_all", "from_matrix", "incast", "permutation"],
        "programs": ["Milestone", "OperationBuilder", "OperationTimes", "Programs"],
        "results": [
            "Finished",
            "LayerUse",
            "LinkCounters",
            "PacketRun",
            "PacketTrace",
            "QueueSamples",
        ],
        "run": ["Record", "simulate_flows"],
        "scenario": [
            "TRANSPORTS",
            "Ecn",
            "NetworkTable",
            "PacketScenario",
            "PacketTable",
            "Pfc",
            "Queue",
            "ScenarioFile",
            "TrafficTable",
            "load_scenario",
        ],
        "settings": ["PacketSettings", "profile_of"],
        "traffic": ["flows_of"],
    },
)
