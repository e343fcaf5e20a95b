"""What stands between a comparison's table and its verdict, in text and page alike."""

from __future__ import annotations

from lightloom.report.designs_table import chosen_designs, equal_cost_sentence
from lightloom.report.failures_table import failures_sentence
from lightloom.report.plans_table import plans_sentence
from lightloom.report.story import confidence, doubts
from lightloom.report.supply_text import assumptions
from lightloom.report.switches_table import built_of
from lightloom.report.worth_of_strategies import strategies_sentence
from lightloom.study.compare.results import Comparison


def remarks(comparison: Comparison) -> list[str]:
    """Plans, strategies, designs, prices, switches, failures, memory, doubts, and how certain."""
    sentences = (
        plans_sentence(comparison),
        strategies_sentence(comparison.inputs.get("strategies", ())),
        chosen_designs(comparison.inputs.get("designs", ())),
        equal_cost_sentence(comparison),
        assumptions(comparison.results),
        built_of(comparison.results),
        failures_sentence(comparison.results),
        # whose recomputation is part of every step
        (comparison.memory.get("repair") or {}).get("sentence", ""),
        doubts(comparison),
        confidence(comparison),
    )
    return [sentence for sentence in sentences if sentence]
