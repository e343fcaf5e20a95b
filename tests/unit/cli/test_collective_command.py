"""``lightloom collective``: what is printed, and what is written as rows."""

import csv
import io
import json

import pytest

WORDS = "collective all-to-all --bytes 64MB --gpus 16 --rate 400 --gpu h100"


def test_the_table_has_a_row_for_each_fabric_and_says_what_is_counted(lightloom):
    outcome = lightloom(f"{WORDS} --fabrics fat-tree,mixnet")
    assert outcome.status == 0
    assert "all-to-all on 16 h100 GPUs, 8 NICs of 400 Gb/s per 8-GPU server" in outcome.out
    rows = [line for line in outcome.out.splitlines() if line.startswith((" fat-tree", " mixnet"))]
    # the times, then what carries how much
    assert [row.split()[0] for row in rows] == ["fat-tree", "mixnet"] * 2
    assert max(map(len, rows)) <= 80
    assert "bus: what a GPU sends over time, as NCCL's tests count" in outcome.out


def test_rows_are_the_same_in_both_formats(lightloom):
    words = f"{WORDS} --fabrics fat-tree,rail"
    content = json.loads(lightloom(f"{words} --json -").out)
    rows = list(csv.DictReader(io.StringIO(lightloom(f"{words} --csv -").out)))
    assert content["inputs"]["size_bytes"] == [64_000_000]
    for found, row in zip(content["collectives"], rows, strict=True):
        assert {name: str(value) for name, value in found.items()} == row


def test_a_layer_is_said_to_be_counted_as_deep_ep_does(lightloom):
    words = "collective all-to-all --model deepseek-v3 --gpus 16 --rate 400 --fabrics rail"
    out = lightloom(f"{words} --demand balanced").out
    assert "those that stay included, as DeepEP counts" in out
    kinds = [line.split()[0] for line in out.splitlines() if " rail" in line]
    assert kinds == ["dispatch", "combine"] * 2


def test_fabrics_take_their_options(lightloom):
    words = f"{WORDS} --fabrics mixnet --json -"
    few, many = (
        json.loads(lightloom(f"{words} --set mixnet.ports={ports}").out)["collectives"][0]
        for ports in (2, 6)
    )
    assert few["ocs_bytes"] < many["ocs_bytes"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (f"{WORDS} --fabric rail", "did you mean '--fabrics'?"),
        (f"{WORDS} --bytes much", "--bytes"),
        (f"{WORDS} --set rail.much=1", "rail has no option 'much'"),
        (f"{WORDS} --fabrics rail --set mixnet.ports=4", "which is not compared"),
        ("collective all-to-some --gpus 16 --rate 400 --bytes 1MB", "did you mean 'all-to-all'?"),
        ("collective all-to-all --gpus 16 --rate 400", "expected either sizes with --bytes"),
        ("collective all-to-all --bytes 1MB --gpus 16", "--rate is missing"),
    ],
)
def test_what_cannot_be_is_one_line(refused, words, expected):
    assert expected in refused(words)
