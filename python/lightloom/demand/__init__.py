"""Demand: who sends how many tokens to whom in each MoE layer.

A :class:`DemandSource` gives token copies from EP ranks to experts, made lazily: drawn by the
calibrated generator (:func:`synthetic`), read from a token matrix (:func:`from_matrix`) or
replayed from per-token routing logs (:func:`from_routing_log`). Placement then folds them to
server x server, with or without de-duplication. A :class:`LoadHistory` has loads of experts over
layers and steps, which :mod:`lightloom.demand.predictors` predict.
"""

from typing import TYPE_CHECKING

from lightloom.lazy import exports

if TYPE_CHECKING:
    from lightloom.demand.deduplicate import (
        MemberPlacement,
        MemberTokens,
        expected_distinct,
        member_tokens,
    )
    from lightloom.demand.generator import synthetic
    from lightloom.demand.imbalance_measures import (
        Imbalance,
        ImbalanceStatistics,
        imbalance_of,
        statistics,
    )
    from lightloom.demand.load_file import read_load_file
    from lightloom.demand.load_history import LoadHistory, history_of_log, history_of_source
    from lightloom.demand.log_formats import RoutingLog, read_routing_log
    from lightloom.demand.matrix_file import from_matrix, read_matrix
    from lightloom.demand.open import open_demand
    from lightloom.demand.placement import (
        ELEMENT_BYTES,
        bytes_per_token,
        combine,
        fold,
        rank_matrix,
        received,
    )
    from lightloom.demand.regime import REGIMES
    from lightloom.demand.routing_log import LogLayout, from_routing_log
    from lightloom.demand.shading import SHADES, HeatMap, heat_map
    from lightloom.demand.source import DemandSource, PerTokenSource, Shape

__all__ = [
    "ELEMENT_BYTES",
    "REGIMES",
    "SHADES",
    "DemandSource",
    "HeatMap",
    "Imbalance",
    "ImbalanceStatistics",
    "LoadHistory",
    "LogLayout",
    "MemberPlacement",
    "MemberTokens",
    "PerTokenSource",
    "RoutingLog",
    "Shape",
    "bytes_per_token",
    "combine",
    "expected_distinct",
    "fold",
    "from_matrix",
    "from_routing_log",
    "heat_map",
    "history_of_log",
    "history_of_source",
    "imbalance_of",
    "member_tokens",
    "open_demand",
    "rank_matrix",
    "read_load_file",
    "read_matrix",
    "read_routing_log",
    "received",
    "statistics",
    "synthetic",
]

__getattr__ = exports(
    __name__,
    {
        "deduplicate": ["MemberPlacement", "MemberTokens", "expected_distinct", "member_tokens"],
        "generator": ["synthetic"],
        "imbalance_measures": [
            "Imbalance",
            "ImbalanceStatistics",
            "imbalance_of",
            "statistics",
        ],
        "load_file": ["read_load_file"],
        "load_history": ["LoadHistory", "history_of_log", "history_of_source"],
        "log_formats": ["RoutingLog", "read_routing_log"],
        "matrix_file": ["from_matrix", "read_matrix"],
        "open": ["open_demand"],
        "placement": [
            "ELEMENT_BYTES",
            "bytes_per_token",
            "combine",
            "fold",
            "rank_matrix",
            "received",
        ],
        "regime": ["REGIMES"],
        "routing_log": ["LogLayout", "from_routing_log"],
        "shading": ["SHADES", "HeatMap", "heat_map"],
        "source": ["DemandSource", "PerTokenSource", "Shape"],
    },
)
