"""Loads of experts as Megatron-LM logs them: one file per rank, one line per layer."""

import json

import pytest

from lightloom.demand.load_file import is_load_file, read_load_file
from lightloom.demand.log_formats import read_routing_log
from lightloom.errors import DemandError


def line(step, layer, batches, block="decoder", **others):
    return json.dumps({"iter": step, "block": block, **others, "layer": layer, "tpe": batches})


@pytest.fixture
def log(tmp_path):
    def write(*ranks):
        folder = tmp_path / "tokens_per_expert"
        folder.mkdir(exist_ok=True)
        for rank, lines in enumerate(ranks):
            (folder / f"rank{rank}.jsonl").write_text("\n".join(lines) + "\n")
        return folder

    return write


#: two ranks of two experts, two micro-batches; and multi-token prediction
RANKS = (
    (line(100, 1, [[84, 195], [66, 115]]), line(100, 2, [[80, 176], [165, 170]]),
     line(100, 1, [[50, 50]], "mtp", mtp_idx=0),
     line(101, 1, [[57, 149], [160, 50]]), line(101, 2, [[1, 0], [0, 0]])),
    (line(100, 1, [[62, 68], [180, 144]]), line(100, 2, [[90, 180], [102, 129]]),
     line(101, 1, [[92, 168], [71, 81]]), line(101, 2, [[0, 2], [3, 0]])),
)  # fmt: skip


def test_experts_are_numbered_by_rank_and_place(log):
    folder = log(*RANKS)
    for path in (folder, folder.parent):
        assert is_load_file(path)
        trace = read_load_file(path)
        assert trace.counts.shape == (2, 2, 1, 4)
        # micro-batches are added up: 84 + 66, 195 + 115, 62 + 180, 68 + 144
        assert trace.counts[0, 0, 0].tolist() == [150, 310, 242, 212]
        assert trace.counts[1, 1, 0].tolist() == [1, 0, 3, 2]
        assert not trace.sources_known
        assert trace.provenance["left out"] == "1 lines of layers outside the decoder"


def test_loads_of_several_groups_are_added_up(log):
    """With two experts, each rank is an EP group of its own."""
    trace = read_load_file(log(*RANKS), experts=2)
    assert trace.counts[0, 0, 0].tolist() == [150 + 242, 310 + 212]


def test_stages_number_their_layers_each(log):
    trace = read_load_file(log(*RANKS), stages=2)
    assert trace.counts.shape == (2, 4, 1, 2)
    assert trace.counts[0, :, 0].tolist() == [[150, 310], [245, 346], [242, 212], [192, 309]]


def test_one_rank_alone_is_all_experts(tmp_path):
    path = tmp_path / "rank0.jsonl"
    path.write_text(RANKS[0][0] + "\n")
    assert read_load_file(path).counts[0, 0, 0].tolist() == [150, 310]


@pytest.mark.parametrize(
    ("ranks", "options", "message"),
    [
        (RANKS, {"experts": 3}, "2 ranks of 2 experts each are not EP groups of 3 experts"),
        (RANKS, {"experts": 8}, "2 ranks of 2 experts each are not EP groups of 8 experts"),
        (RANKS, {"stages": 3}, "2 ranks in the log are not of 3 stages"),
        ((RANKS[0], RANKS[1][:3]), {}, "iteration 101 has no loads of layer 2 by rank 1"),
        (((line(1, 1, [[1, 2]]),), (line(1, 1, [[1]]),)), {}, "ranks have 1 and 2 experts"),
        (((line(1, 1, [[1]]), line(1, 1, [[1]])),), {}, "line 2: iteration 1, layer 1 occurs more"),
        (((line(1, 1, []),),), {}, "line 1: tpe: expected a list of counts for each micro-batch"),
        (((line(1, 1, [[1], [1, 2]]),),), {}, "tpe: expected a list of counts for each micro"),
        (((line(1, 1, [[-1]]),),), {}, "tpe: expected a list of counts for each micro-batch"),
        (((line("1", 1, [[1]]),),), {}, "line 1: iter: expected a whole number, got '1'"),
        (((line(1, 1, [[1]], "mtp"),),), {}, "no layer of the decoder"),
        (((line(1, 1, [[0]]),),), {}, "no tokens in layer 0 of step 0"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(log, ranks, options, message):
    with pytest.raises(DemandError) as refused:
        read_load_file(log(*ranks), **options)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_of_one_rank_among_others_is_not_enough(log):
    with pytest.raises(DemandError, match="has the experts of one rank of 2; give the folder"):
        is_load_file(log(*RANKS) / "rank1.jsonl")


def test_what_needs_tokens_says_so(log):
    with pytest.raises(DemandError, match="not which tokens chose them: lightloom predict reads"):
        read_routing_log(log(*RANKS))
