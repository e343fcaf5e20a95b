"""Packet-level simulation of flows: the Python face of ``crates/packetsim``.

``simulate_flows(make_flows(...), Scenario(...))`` is all there is to it; patterns make flows, and
``load_scenario`` reads both from a file.
"""

from lightloom.packets.flows import Flows, check_flows, make_flows, read_flows
from lightloom.packets.patterns import all_to_all, from_matrix, incast, permutation
from lightloom.packets.results import (
    Finished,
    LayerUse,
    Links,
    PacketRun,
    PacketTrace,
    Samples,
)
from lightloom.packets.run import Record, simulate_flows
from lightloom.packets.scenario import (
    Ecn,
    Network,
    Packet,
    Pfc,
    Queue,
    Scenario,
    ScenarioFile,
    Traffic,
    flows_of,
    load_scenario,
)
from lightloom.packets.settings import TRANSPORTS, Settings, profile_of

__all__ = [
    "TRANSPORTS",
    "Ecn",
    "Finished",
    "Flows",
    "LayerUse",
    "Links",
    "Network",
    "Packet",
    "PacketRun",
    "PacketTrace",
    "Pfc",
    "Queue",
    "Record",
    "Samples",
    "Scenario",
    "ScenarioFile",
    "Settings",
    "Traffic",
    "all_to_all",
    "check_flows",
    "flows_of",
    "from_matrix",
    "incast",
    "load_scenario",
    "make_flows",
    "permutation",
    "profile_of",
    "read_flows",
    "simulate_flows",
]
