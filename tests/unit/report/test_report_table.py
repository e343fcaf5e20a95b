"""Tables in the terminal."""

import dataclasses
import io
import itertools
import re

import pytest
from markupsafe import escape
from rich.console import Console
from tests.unit.report.hand_made_results import make_load

from lightloom.report.page import render
from lightloom.report.story import story
from lightloom.report.table import BREAKDOWN, grouped, print_comparison
from lightloom.study.compare.imbalance import LEARNED
from lightloom.study.compare.results import PolicyResult
from lightloom.workload.categories import StepCategory


@pytest.fixture
def printed(make_comparison):
    def run(comparison=None, width=100, details=True):
        console = Console(width=width, record=True, file=io.StringIO(), force_terminal=True)
        print_comparison(comparison or make_comparison(), console, details=details)
        return console.export_text()

    return run


def row_of(text, fabric, table):
    """Words of the row of a fabric in the table of speeds, costs, money, paths or mean GPUs."""
    rows = [line.split() for line in text.splitlines() if line.startswith(f" {fabric} ")]
    assert len(rows) == 5
    return rows[table]


def test_every_category_has_one_column():
    names = [name for names in BREAKDOWN.values() for name in names]
    traced = ("forward", "backward", "other", "transfers")
    assert sorted(names) == sorted((*(one.name.lower() for one in StepCategory), *traced))


def test_groups_sum_to_the_whole():
    parts = {name: float(n) for n, names in enumerate(BREAKDOWN.values()) for name in names}
    assert sum(grouped(parts).values()) == sum(parts.values())
    assert grouped({"tp": 1.0, "cp": 2.0})["TP"] == 3.0


def test_an_unknown_category_is_our_bug():
    with pytest.raises(AssertionError, match="nonsense"):
        grouped({"nonsense": 1.0})


def test_results_are_printed(printed, make_comparison):
    text = printed()
    assert text.startswith("tiny-moe: 8 layers\n128 GPUs\n")
    sentence = " ".join(text.split())
    assert sentence.endswith(" ".join(story(make_comparison()).split()))
    assert row_of(text, "fat-tree", 0) == [
        "fat-tree", "20.0", "18.0-22.0", "1.000=", "10.00", "30.00", "20.0", "390.6", "231"
    ]  # fmt: skip
    assert row_of(text, "fat-tree", 1) == [
        "fat-tree", "10.00", "30.00", "100", "50,000", "5.000", "1.667", "0.786"
    ]  # fmt: skip
    assert row_of(text, "mixnet", 0)[3] == "1.025="
    assert row_of(text, "topoopt", 0)[3] == "1.300"
    assert row_of(text, "mixnet", 1)[-1] == "1.000"
    assert "=: as fast, within 0.5 % or in one sample" in " ".join(text.split())


def test_what_decides_is_one_table_that_fits_a_terminal(printed, make_comparison):
    comparison = make_comparison()
    text = printed(width=80, details=False)
    rows = [line.split() for line in text.splitlines() if line.startswith((" fat-tree ", " mix"))]
    assert rows == [
        ["fat-tree", "20.0", "1.000=", "10.00", "30.00", "20.0", "390.6", "10.00", "1.667"],
        ["mixnet", "20.5", "1.025=", "10.25", "30.75", "19.5", "381.1", "3.00", "2.121"],
    ]
    assert all(len(line) <= 80 for line in text.splitlines())
    traced = tuple(
        dataclasses.replace(r, loads=(), mfu=None, tokens_per_s=None, tokens_per_s_per_gpu=None)
        for r in comparison.results
    )
    text = printed(dataclasses.replace(comparison, results=traced), details=False)
    assert "steps/h/k$" in text
    assert "MFU" not in text


def test_a_wide_terminal_has_more_columns(printed):
    def header(width, details):
        text = printed(width=width, details=details)
        assert all(len(line.rstrip()) <= width for line in text.splitlines()[3:])
        lines = text.splitlines()
        return lines[next(n for n, line in enumerate(lines) if line.startswith(" fabric")) - 1]

    assert "interval" not in header(80, False)
    assert "interval" in header(100, False)
    assert "power" not in header(100, False)
    assert "power" in header(120, False)
    # all columns of two tables in one
    assert "vs best per" not in header(120, True)
    assert "vs best per" in header(200, True)


def test_values_that_read_alike_are_marked_alike(make_comparison):
    comparison = make_comparison()
    first, *others = comparison.results
    twin = dataclasses.replace(first, fabric="twin", step_time_s=first.step_time_s * (1 + 1e-6))
    both = dataclasses.replace(comparison, results=(first, twin, *others))
    console = Console(width=100, record=True, file=io.StringIO(), force_terminal=True)
    print_comparison(both, console, details=True)
    lines = console.export_text(styles=True).splitlines()
    marked = [line for line in lines if re.search(r";32m *20\.00\x1b", line)]
    assert ["fat-tree" in marked[0], "twin" in marked[1], len(marked)] == [True, True, 2]
    page = render(both)
    assert len(re.findall(r'<td class="best" data-sort="[\d.]+">20\.00<', page)) == 2


def test_a_model_without_experts_has_no_other_loads(printed, make_comparison):
    comparison = make_comparison()
    bare = tuple(dataclasses.replace(r, loads=()) for r in comparison.results)
    text = printed(dataclasses.replace(comparison, results=bare))
    assert row_of(text, "fat-tree", 0)[3:5] == ["1.000=", "20.0"]
    assert "balanced" not in text


def test_the_mean_gpu_waits_for_stragglers_and_the_pipeline(printed, make_comparison):
    comparison = make_comparison()
    mean = {"expert": 11.5, "straggler": 0.5, "ep": 3.0, "pp": 0.25, "bubble": 4.75}
    results = tuple(dataclasses.replace(r, mean_s=mean) for r in comparison.results)
    assert row_of(printed(dataclasses.replace(comparison, results=results)), "mixnet", 4)[1:] == [
        "11.50", "-", "3.00", "0.50", "-", "0.25", "4.75", "-"
    ]  # fmt: skip


@pytest.mark.parametrize("unit", ["[s]", "[M$]", "[kW]", "tok/s/k$", "[TB]"])
def test_columns_have_units(printed, unit):
    assert unit in printed()


def test_tables_fit_a_terminal_of_80_columns(printed):
    text = printed(width=80)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    assert "…" not in text


def test_digits_are_kept_where_a_terminal_is_narrow(printed):
    narrow = [line.rstrip() for line in printed(width=50).splitlines() if line.startswith(" ")]
    wide = [line.rstrip() for line in printed(width=100).splitlines() if line.startswith(" ")]
    assert narrow == wide


def test_breakdown_has_blanks_for_nothing(printed):
    assert row_of(printed(), "mixnet", 3)[1:] == [
        "18.00", "-", "2.00", "-", "0.50", "-", "-", "1.00", "1.00", "-"
    ]  # fmt: skip


def test_short_steps_are_in_milliseconds(printed, make_comparison):
    comparison = make_comparison()
    short = tuple(
        dataclasses.replace(r, step_time_s=r.step_time_s / 100) for r in comparison.results
    )
    text = printed(dataclasses.replace(comparison, results=short))
    assert "critical path [ms]" in text
    assert row_of(text, "mixnet", 3)[1] == "18,000.0"


def test_equal_notes_are_said_once(printed, make_comparison):
    comparison = make_comparison(warnings=("too large",))
    last = dataclasses.replace(comparison.results[2], notes=("all-to-all flat", "16 regions"))
    text = printed(dataclasses.replace(comparison, results=(*comparison.results[:2], last)))
    assert "fat-tree, topoopt, mixnet: all-to-all flat\nmixnet: 16 regions\n" in text
    # before any result is read
    assert text.splitlines()[2] == "warning: too large"


def test_square_brackets_in_names_are_no_markup(printed, make_comparison):
    comparison = make_comparison(name="[red]x[/red]")
    comparison = dataclasses.replace(comparison, warnings=("[bold]",))
    text = printed(comparison)
    assert "[red]x[/red]" in text
    assert "warning: [bold]" in text


def with_policies(comparison):
    policies = (
        PolicyResult("never", 20.0, 0.0, 0.0, 0, 0.0),
        PolicyResult("break-even", 19.0, 1.0, 0.0125, 4321, 2.5e-3),
    )
    *others, last = comparison.results
    parameters = {**last.parameters, "when": "break-even"}
    last = dataclasses.replace(last, policies=policies, parameters=parameters)
    return dataclasses.replace(comparison, results=(*others, last))


def test_policies_have_a_table_of_their_own(printed, make_comparison):
    text = printed(with_policies(make_comparison()))
    rows = [line.split() for line in text.splitlines() if line.startswith(" mixnet ")]
    assert rows[-2:] == [
        ["mixnet", "never", "20", "-", "-", "-", "-"],
        ["mixnet", "break-even", "*", "19", "5.00", "12.5", "4,321", "2.500"],
    ]
    assert "under each policy" not in printed()


def test_policies_that_change_no_circuit_are_a_sentence(printed, make_comparison):
    comparison = with_policies(make_comparison())
    *others, last = comparison.results
    still = tuple(
        dataclasses.replace(p, step_time_s=20.0, gain_s=0.0, reconfigurations=0)
        for p in last.policies
    )
    results = (*others, dataclasses.replace(last, policies=still))
    unchanged = dataclasses.replace(comparison, results=results)
    said = "mixnet: no policy (never and break-even) changes a circuit; "
    said += "the first sample's step takes 20 s."
    text = printed(unchanged)
    assert said in " ".join(text.split())
    assert "When circuits are switched" not in text
    page = render(unchanged)
    assert escape(said) in page
    assert "what each policy of switching gains" not in page


def test_tables_have_no_blanks_at_the_end_and_one_line_between_them(make_comparison):
    for width in (60, 80, 120):
        console = Console(width=width, file=io.StringIO())
        print_comparison(with_policies(make_comparison()), console, details=True)
        lines = console.file.getvalue().splitlines()
        assert lines == [line.rstrip() for line in lines]
        assert all(one or other for one, other in itertools.pairwise(lines))
        for title in ("Training speed", "Cost and power", "When circuits are switched"):
            (place,) = (n for n, line in enumerate(lines) if line.startswith(title))
            assert lines[place - 1] == ""


def test_policies_are_on_the_page(make_comparison):
    page = render(with_policies(make_comparison()))
    assert "what each policy of switching gains" in page
    assert "<td>5.00</td>" in page
    assert "break-even <em>used</em>" in page
    assert "what each policy of switching gains" not in render(make_comparison())


def test_circuits_are_idle_where_they_are_paid_for_and_carry_nothing(make_comparison):
    """The bytes of every fabric are listed by all carriers; a tree's are not those of circuits."""
    tree, panel, mixnet = make_comparison().results
    assert tree.carried_bytes["ocs"] == 0
    assert not tree.has_idle_circuits
    assert not panel.has_idle_circuits
    assert not mixnet.has_idle_circuits
    silent = dict(mixnet.carried_bytes, ocs=0)
    assert dataclasses.replace(mixnet, carried_bytes=silent).has_idle_circuits


def test_learned_loads_have_a_table_of_their_own_where_that_of_speeds_is_full(
    printed, make_comparison
):
    comparison = make_comparison()
    more = [
        dataclasses.replace(r, loads=(*r.loads, *(make_load(name, 1.5) for name in LEARNED)))
        for r in comparison.results
    ]
    comparison = dataclasses.replace(comparison, results=tuple(more))
    for width, is_apart in ((80, True), (130, False)):
        text = printed(comparison, width)
        assert ("Step while a gate learns to balance" in text) is is_apart
        words = " ".join(text.split())
        assert words.count("learned: under the load of a gate balanced by biases") == 1
        assert words.count("early [s]") == words.count("late [s]") == 1
        rows = [line for line in text.splitlines() if line.startswith((" fat-tree ", " ──"))]
        assert max(map(len, rows)) <= width
