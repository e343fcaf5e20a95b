"""``lightloom traffic``: a job's matrix as text, rows, arrays and a drawing."""

import csv
import io
import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from lightloom.demand.byte_matrix import read_byte_matrix

WORDS = "traffic qwen3-30b-a3b --gpus 64 --tp 2 --pp 2 --ep 16"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("traffic")


def test_all_files_have_the_same_bytes(lightloom, folder):
    names = {"json": "t.json", "csv": "t.csv", "out": "t.npz", "svg": "t.svg"}
    flags = " ".join(f"--{flag} {folder / name}" for flag, name in names.items())
    outcome = lightloom(f"{WORDS} {flags}")
    assert outcome.status == 0, outcome.err
    content = json.loads((folder / "t.json").read_text())
    arrays = np.load(folder / "t.npz")
    rows = list(csv.DictReader(io.StringIO((folder / "t.csv").read_text())))
    assert content["unit"] == "gpu"
    for kind, found in content["traffic"].items():
        sent = np.array(found["size_bytes"])
        assert sent.shape == (64, 64)
        assert sent.sum() == pytest.approx(found["total_bytes"], rel=1e-6)
        np.testing.assert_array_equal(arrays[kind], sent)
        own = [row for row in rows if row["kind"] == kind]
        assert sum(int(row["size_bytes"]) for row in own) == sent.sum()
    across = sum(found["network_bytes"] for found in content["traffic"].values())
    # which schedulers of circuits read
    assert read_byte_matrix(folder / "t.npz").sum() == pytest.approx(across, rel=1e-6)
    drawing = ET.parse(folder / "t.svg").getroot()
    texts = [element.text or "" for element in drawing.iter() if element.tag.endswith("text")]
    for kind in ("TP", "EP", "PP", "DP"):
        assert any(text.startswith(f"{kind}: ") for text in texts)
    assert not any(text.startswith("CP: ") for text in texts)


def test_the_text_has_kinds_and_a_map_of_what_crosses_servers(lightloom):
    out = lightloom(WORDS).out
    kinds = [line.split()[0] for line in out.splitlines() if line[1:3] in ("TP", "EP", "PP", "DP")]
    assert kinds == ["TP", "EP", "PP", "DP"]
    assert "between servers; rows: source GPU, columns: destination GPU" in out
    by_server = lightloom(f"{WORDS} --by server --kind ep").out
    assert "EP; rows: source server, columns: destination server" in by_server


def test_within_one_server_the_map_says_so(lightloom):
    out = lightloom("traffic qwen3-30b-a3b --gpus 8 --tp 2 --pp 1 --ep 4 --no-memory-check").out
    assert "inside the server; rows" in out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("traffic", "MODEL is missing"),
        ("traffic mixtral-8x7b", "--gpus is missing; add it, such as --gpus 128"),
        ("traffic mixtral-8x7b --gpus 100", "do not fill servers"),
        ("traffic mixtral-8x7b --gpus 128 --by rack", "--by rack"),
        ("traffic mixtral-8x22b --gpus 8192 --by gpu", "8,192 rows and columns: expected at most"),
        ("traffic mixtral-8x7b --gpus 128 --out t.json", "ends in .npz"),
        ("traffic llama-3-8b --gpus 8 --demand skewed", "has no experts"),
    ],
)
def test_what_cannot_be_is_one_line(refused, words, expected):
    assert expected in refused(words)
