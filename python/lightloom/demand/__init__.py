"""Demand: who sends how many tokens to whom in each MoE layer.

A :class:`DemandSource` gives token copies from EP ranks to experts, made lazily: drawn by the
calibrated generator (:func:`synthetic`), read from a token matrix (:func:`from_matrix`) or
replayed from per-token routing logs (:func:`from_routing_log`). Placement then folds them to
server x server, with or without de-duplication. A :class:`LoadHistory` has loads of experts over
layers and steps, which :mod:`lightloom.demand.predictors` predict.
"""

from typing import TYPE_CHECKING

from lightloom.lazy import export_on_use

if TYPE_CHECKING:
    from lightloom.demand.deduplicate import MemberPlacement as MemberPlacement
    from lightloom.demand.deduplicate import MemberTokens as MemberTokens
    from lightloom.demand.deduplicate import expected_distinct as expected_distinct
    from lightloom.demand.deduplicate import member_tokens as member_tokens
    from lightloom.demand.generator import synthetic as synthetic
    from lightloom.demand.imbalance_measures import Imbalance as Imbalance
    from lightloom.demand.imbalance_measures import ImbalanceStatistics as ImbalanceStatistics
    from lightloom.demand.imbalance_measures import imbalance_of as imbalance_of
    from lightloom.demand.imbalance_measures import statistics as statistics
    from lightloom.demand.load_file import read_load_file as read_load_file
    from lightloom.demand.load_history import LoadHistory as LoadHistory
    from lightloom.demand.load_history import history_of_log as history_of_log
    from lightloom.demand.load_history import history_of_source as history_of_source
    from lightloom.demand.log_formats import RoutingLog as RoutingLog
    from lightloom.demand.log_formats import read_routing_log as read_routing_log
    from lightloom.demand.matrix_file import from_matrix as from_matrix
    from lightloom.demand.matrix_file import read_matrix as read_matrix
    from lightloom.demand.open import open_demand as open_demand
    from lightloom.demand.placement import ELEMENT_BYTES as ELEMENT_BYTES
    from lightloom.demand.placement import bytes_per_token as bytes_per_token
    from lightloom.demand.placement import combine as combine
    from lightloom.demand.placement import fold as fold
    from lightloom.demand.placement import rank_matrix as rank_matrix
    from lightloom.demand.placement import received as received
    from lightloom.demand.regime import REGIMES as REGIMES
    from lightloom.demand.routing_log import LogLayout as LogLayout
    from lightloom.demand.routing_log import from_routing_log as from_routing_log
    from lightloom.demand.shading import SHADES as SHADES
    from lightloom.demand.shading import HeatMap as HeatMap
    from lightloom.demand.shading import heat_map as heat_map
    from lightloom.demand.source import DemandSource as DemandSource
    from lightloom.demand.source import PerTokenSource as PerTokenSource
    from lightloom.demand.source import Shape as Shape

export_on_use()
