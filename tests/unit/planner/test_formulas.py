"""Published memory formulas, as printed and corrected, against hand calculations."""

import pytest

from lightloom.errors import PlanError
from lightloom.planner.formulas import FormulaJob

#: two experts of Llama-70B on 16 GPUs, TP 8, EP 2: 12.6e9 parameters outside of experts
TWO_EXPERTS = {
    "parameters": 12.6e9,
    "expert_parameters": 112.7e9,
    "layers": 80,
    "hidden": 8192,
    "heads": 64,
    "top_k": 1,
    "seq": 8192,
    "batch": 1,
    "pp": 1,
    "tp": 8,
    "ep": 2,
    "dp": 2,
}


def test_states_of_a_run_of_16_gpus():
    """GB under ZeRO-0 to 3; no choice fits the 80 GB of the paper's GPUs."""
    rows = FormulaJob(**TWO_EXPERTS).states()
    corrected = [row.corrected_bytes / 1e9 for row in rows]
    assert corrected == pytest.approx([138.0, 128.5, 126.9, 125.3], abs=0.1)
    printed = [row.printed_bytes / 1e9 for row in rows]
    assert printed == pytest.approx([138.0, 86.2, 77.6, 69.0], abs=0.1)


def test_activations_of_its_first_stage():
    rows = {row.name: row for row in FormulaJob(**TWO_EXPERTS).activations()}
    expected = {
        "no parallelism": (1900.5, 1900.5),
        "PP, TP, EP": (1769.0, 284.5),
        "... and SP": (1733.8, 237.6),
        "... selective": (15.77, 22.82),
        "... full": (1.342, 1.342),
    }
    for name, (printed, corrected) in expected.items():
        assert rows[name].printed_bytes / 1e9 == pytest.approx(printed, rel=1e-3)
        assert rows[name].corrected_bytes / 1e9 == pytest.approx(corrected, rel=1e-3)


def test_laws_of_the_corrected_ones():
    """A higher stage keeps no more; with one copy of each expert nothing of it is sharded."""
    for dp, ep in ((8, 2), (8, 8), (16, 4)):
        job = FormulaJob(**TWO_EXPERTS | {"dp": dp, "ep": ep})
        sizes = [row.corrected_bytes for row in job.states()]
        assert sizes == sorted(sizes, reverse=True)
        assert all(row.corrected_bytes >= row.printed_bytes for row in job.states())
    alone = FormulaJob(**TWO_EXPERTS | {"parameters": 0.0, "dp": 8, "ep": 8})
    assert len({row.corrected_bytes for row in alone.states()}) == 1


def test_ep_that_does_not_divide_dp_is_refused():
    with pytest.raises(PlanError, match="EP 3 does not divide the 2 data-parallel ranks"):
        FormulaJob(**TWO_EXPERTS | {"ep": 3})
