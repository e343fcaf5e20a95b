"""Failures in a comparison: which are simulated, what they add, what is refused."""

import pytest

import lightloom
from lightloom.errors import InputError
from lightloom.study.compare.failed_parts import failures_note, parse_parts


def test_parts_are_called_as_a_fabric_calls_them():
    assert parse_parts(["nic:3/0", "nic:13", "link:3/1", "eps:0/1", "server:4"], 6) == [
        ("nic:3/0", "nic:3/0"),
        ("nic:13", "nic:2/1"),
        ("link:3/1", "nic:3/1"),
        ("eps:0/1", "eps:0/1"),
        ("server:4", "server:4"),
    ]


@pytest.mark.parametrize("text", ["gpu:1/2", "port:ocs/3", "switch:ocs"])
def test_what_is_not_simulated_is_refused(text):
    kind = text.partition(":")[0]
    with pytest.raises(InputError, match=rf"^fail {text}: the failure of a {kind} is not simulat"):
        parse_parts([text], 6)


def test_what_failures_add_in_words():
    variants = {"first=reuse": 9.0, "failed=nic:3/0": 10.1, "failed=server:4": 12.0}
    assert failures_note(10.0, variants) == (
        "failures: 10 s with all parts, without nic:3/0 10.1 s (+1.0%), without server:4 12 s "
        "(+20.0%)"
    )
    assert failures_note(10.0, {"first=reuse": 9.0}) is None


def compared(**options):
    return lightloom.compare(
        "mixtral-8x7b",
        gpus=64,
        rate=400,
        seeds=1,
        policies=False,
        imbalances=False,
        compute_spread=0.0,
        plan={"tp": 4, "pp": 2, "ep": 8, "micro_batches": 2},
        fabric_options={"mixnet": {"link_up_delay_s": 0.0}},
        **options,
    )


def test_a_server_costs_more_than_a_nic():
    found = compared(fabrics=["fat-tree", "mixnet"], fail=["nic:0/0", "server:1"])
    tree, mixnet = found.results
    assert not [name for name in tree.variants_s if name.startswith("failed")]
    base = mixnet.sample_step_times_s[0]
    nic, server = (mixnet.variants_s[f"failed={part}"] for part in ("nic:0/0", "server:1"))
    assert base <= nic * 1.001
    assert nic < server
    assert [note for note in mixnet.notes if note.startswith("failures: ")]


def test_a_part_that_is_not_there_is_refused_before_anything_runs():
    with pytest.raises(InputError) as refusal:
        compared(fabrics=["mixnet"], fail=["server:99"])
    assert "\n" not in str(refusal.value)
