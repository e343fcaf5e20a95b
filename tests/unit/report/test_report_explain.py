"""Where the milliseconds went, from a file of results."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from lightloom.errors import InputError
from lightloom.output.files import write_json
from lightloom.report.explain import WORDS, differences, load_results, print_explanation
from lightloom.workload.categories import StepCategory


@pytest.fixture
def results(make_comparison, tmp_path):
    path = tmp_path / "results.json"
    write_json(make_comparison().to_json(), str(path))
    return path


def explained(path, first, second):
    console = Console(width=160, record=True, file=io.StringIO())
    print_explanation(path, first, second, console)
    return console.export_text()


def test_every_category_has_words():
    traced = {"forward", "backward", "other", "transfers"}
    assert set(WORDS) == {category.name.lower() for category in StepCategory} | traced


def test_differences_are_largest_first_and_sum_to_the_whole(results):
    found = load_results(results)
    rows = differences(found["fat-tree"], found["mixnet"])
    assert rows == [("reconfiguration", 0.0, 0.5), ("expert", 18.0, 18.0), ("ep", 2.0, 2.0)]
    assert sum(b - a for _, a, b in rows) == pytest.approx(20.5 - 20.0)


def test_explanation_in_words(results):
    text = explained(results, "fat-tree", "mixnet")
    assert "mixnet is 500.00 ms slower than fat-tree" in text
    assert "the largest part is waiting for circuits (+500.00 ms)" in text
    back = explained(results, "mixnet", "fat-tree")
    assert "fat-tree is 500.00 ms faster than mixnet" in back
    assert "+2.50 %" in text


def test_a_fabric_beside_itself(results):
    assert "fat-tree and fat-tree take the same time." in explained(results, "fat-tree", "fat-tree")


def test_a_step_without_time_has_no_shares(results):
    content = json.loads(results.read_text())
    content["results"][0]["breakdown_critical_path_s"] = {"ep": 0.0}
    results.write_text(json.dumps(content))
    assert "mixnet is 20,500.00 ms slower" in explained(results, "fat-tree", "mixnet")


def test_an_unknown_fabric_is_refused_with_a_hint(results):
    with pytest.raises(InputError, match=r"no fabric 'mixnett'.*mixnet") as caught:
        explained(results, "fat-tree", "mixnett")
    assert "fat-tree, topoopt, mixnet" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not valid JSON"),
        ("[]", "no results in it"),
        ("{}", "no results in it"),
        ('{"results": []}', "schema None"),
        ('{"results": [], "schema_version": 99}', "schema 99"),
        ('{"results": 5, "schema_version": 1}', "no results in it"),
        ('{"results": [5], "schema_version": 1}', "without a fabric"),
        ('{"results": [{"fabric": "a"}], "schema_version": 1}', "a has no times"),
        ('{"results": [{"fabric": "a", "step_time_s": "x", "breakdown_critical_path_s": {}}], '
         '"schema_version": 1}', "a has no times"),
        ("[" * 100_000, "not valid JSON"),
    ],
)  # fmt: skip
def test_wrong_files_are_one_line(tmp_path, content, message):
    path = tmp_path / "r.json"
    path.write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        load_results(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_file_and_one_that_is_no_text(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        load_results(tmp_path / "none.json")
    binary = tmp_path / "b.json"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8 text"):
        load_results(binary)


values = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
trees = st.recursive(
    values,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["results", "schema_version", "fabric", "breakdown_critical_path_s",
                         "step_time_s", "x"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(trees)
def test_any_json_is_read_or_refused(tmp_path_factory, tree):
    path = tmp_path_factory.mktemp("fuzz") / "r.json"
    path.write_text(json.dumps(tree))
    try:
        found = load_results(path)
    except InputError:
        return
    assert all(result["fabric"] == name for name, result in found.items())
