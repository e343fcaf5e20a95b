"""Packet-level simulation of flows: the Python interface of ``crates/packetsim``.

``simulate_flows(make_flows(...), PacketScenario(...))`` is all there is to it; patterns make
flows, and ``load_scenario`` reads both from a file.
"""

from typing import TYPE_CHECKING

from lightloom.lazy import export_on_use

if TYPE_CHECKING:
    from lightloom.packets.flows import Flows as Flows
    from lightloom.packets.flows import check_flows as check_flows
    from lightloom.packets.flows import make_flows as make_flows
    from lightloom.packets.flows import read_flows as read_flows
    from lightloom.packets.goal import goal_text as goal_text
    from lightloom.packets.goal import read_goal as read_goal
    from lightloom.packets.patterns import all_to_all as all_to_all
    from lightloom.packets.patterns import from_matrix as from_matrix
    from lightloom.packets.patterns import incast as incast
    from lightloom.packets.patterns import permutation as permutation
    from lightloom.packets.programs import Milestone as Milestone
    from lightloom.packets.programs import OperationBuilder as OperationBuilder
    from lightloom.packets.programs import OperationTimes as OperationTimes
    from lightloom.packets.programs import Programs as Programs
    from lightloom.packets.results import CarriedSeries as CarriedSeries
    from lightloom.packets.results import Finished as Finished
    from lightloom.packets.results import LayerUse as LayerUse
    from lightloom.packets.results import LinkCounters as LinkCounters
    from lightloom.packets.results import PacketRun as PacketRun
    from lightloom.packets.results import PacketTrace as PacketTrace
    from lightloom.packets.results import QueueSamples as QueueSamples
    from lightloom.packets.run import Record as Record
    from lightloom.packets.run import simulate_flows as simulate_flows
    from lightloom.packets.scenario import TRANSPORTS as TRANSPORTS
    from lightloom.packets.scenario import Ecn as Ecn
    from lightloom.packets.scenario import NetworkTable as NetworkTable
    from lightloom.packets.scenario import PacketScenario as PacketScenario
    from lightloom.packets.scenario import PacketTable as PacketTable
    from lightloom.packets.scenario import Pfc as Pfc
    from lightloom.packets.scenario import Queue as Queue
    from lightloom.packets.scenario import ScenarioFile as ScenarioFile
    from lightloom.packets.scenario import TrafficTable as TrafficTable
    from lightloom.packets.scenario import load_scenario as load_scenario
    from lightloom.packets.settings import PacketSettings as PacketSettings
    from lightloom.packets.settings import profile_of as profile_of
    from lightloom.packets.traffic import flows_of as flows_of

export_on_use()
