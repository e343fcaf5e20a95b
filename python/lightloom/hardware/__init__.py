"""Numbers about hardware: GPUs, prices, powers, optical switches, measured efficiencies.

Every number is in ``data/*.toml`` with its source and date; what was assumed says so.
"""

from lightloom.hardware.crossbars import (
    CrossbarTechnology,
    DecisionTimes,
    crossbar_names,
    crossbar_technology,
    decision_names,
    decision_times,
)
from lightloom.hardware.failure_rates import (
    FailureRates,
    PublishedTable,
    load_failure_rates,
    published_runs,
)
from lightloom.hardware.gpus import Gpu, gpu_names, load_gpu
from lightloom.hardware.known_errors import KnownError, communication_deviation, known_error
from lightloom.hardware.ownership import Ownership, load_ownership, yearly_kwh
from lightloom.hardware.packet_switches import PacketSwitch, packet_switches
from lightloom.hardware.prices import Powers, Prices, Row, load_power, load_prices
from lightloom.hardware.switches import (
    DelayDistribution,
    SwitchTechnology,
    bring_ups,
    measured_turnaround,
    nic_activation,
    switch_names,
    switch_technology,
)
from lightloom.hardware.values import Availability, Provenance

__all__ = [
    "Availability",
    "CrossbarTechnology",
    "DecisionTimes",
    "DelayDistribution",
    "FailureRates",
    "Gpu",
    "KnownError",
    "Ownership",
    "PacketSwitch",
    "Powers",
    "Prices",
    "Provenance",
    "PublishedTable",
    "Row",
    "SwitchTechnology",
    "bring_ups",
    "communication_deviation",
    "crossbar_names",
    "crossbar_technology",
    "decision_names",
    "decision_times",
    "gpu_names",
    "known_error",
    "load_failure_rates",
    "load_gpu",
    "load_ownership",
    "load_power",
    "load_prices",
    "measured_turnaround",
    "nic_activation",
    "packet_switches",
    "published_runs",
    "switch_names",
    "switch_technology",
    "yearly_kwh",
]
