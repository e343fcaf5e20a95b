"""Arrays of tokens x layers x top-k, as vLLM returns the experts of an output."""

import json

import numpy as np
import pytest

from lightloom.demand.log_formats import read_routing_log
from lightloom.demand.open import kind_of
from lightloom.errors import DemandError
from lightloom.trace.importers.open import Form, form_of

#: three tokens, of which the first layer is dense, top-2
FOUND = [[[0, 0], [3, 1], [2, 5]], [[0, 0], [1, 0], [4, 2]], [[0, 0], [3, 2], [5, 1]]]


@pytest.mark.parametrize("name", ["experts.npy", "experts.json"])
def test_arrays_are_streams_of_tokens(tmp_path, name):
    path = tmp_path / name
    if name.endswith("json"):
        path.write_text(json.dumps(FOUND))
    else:
        np.save(path, np.array(FOUND, dtype=np.int16))
    assert kind_of(str(path)) == "log"
    assert form_of(path) is Form.ROUTING
    log = read_routing_log(path)
    assert (log.form, log.top_k, log.experts, log.streamed) == ("array of experts", 2, None, True)
    assert log.layers == [1, 2]
    assert log.calls[0, 0, 2][0].tolist() == [[2, 5], [4, 2], [5, 1]]


def test_token_matrices_stay_what_they_are(tmp_path):
    path = tmp_path / "matrix.json"
    path.write_text("[[1, 2], [3, 4]]")
    assert kind_of(str(path)) == "matrix"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([[[1, 1]]], "token 0 chooses an expert of layer 0 twice: [1, 1]"),
        ([[[0, -1]]], "expected expert numbers below 65535, got -1"),
        ([[[0, 70000]]], "expected expert numbers below 65535, got 70000"),
        ([[[0.5, 1.5]]], "expected experts as an array of tokens x layers x top-k, got 1 x 1 x 2"),
        ([[[[1]]]], "expected experts as an array of tokens x layers x top-k, got 1 x 1 x 1 x 1"),
        ([[[0, 0]]], "all choices are expert 0"),
        ([[[1, 2], [1]]], "got lists of different lengths"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(tmp_path, content, message):
    path = tmp_path / "experts.json"
    path.write_text(json.dumps(content))
    with pytest.raises(DemandError) as refused:
        read_routing_log(path)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_files_of_numpy_that_are_cut_or_lie(tmp_path):
    path = tmp_path / "experts.npy"
    np.save(path, np.array(FOUND, dtype=np.int16))
    whole = path.read_bytes()
    huge = whole.replace(b"(3, 3, 2)", b"(9**99,)", 1)
    objects = tmp_path / "objects.npy"
    np.save(objects, np.array([[[{}]]], dtype=object))
    for content in (whole[:-1], whole[:40], b"", b"\x93NUMPY\x09\x00", huge, objects.read_bytes()):
        path.write_bytes(content)
        with pytest.raises(DemandError) as refused:
            read_routing_log(path)
        assert "\n" not in str(refused.value)
