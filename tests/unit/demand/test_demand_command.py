"""``lightloom demand``: what it prints, writes and refuses."""

import csv
import io
import json

import numpy as np
import pytest

from lightloom.cli.commands import COMMANDS
from lightloom.cli.root import make_entry
from lightloom.demand import rank_matrix, synthetic
from lightloom.errors import InputError, LightloomError

ROWS = [[6, 2, 0, 0], [1, 2, 3, 2]]


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command; returns its standard output."""
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments):
        make_entry("demand", COMMANDS["demand"])([*map(str, arguments)], standalone_mode=False)
        return capsys.readouterr().out

    return call


@pytest.fixture
def matrix(tmp_path):
    path = tmp_path / "matrix.txt"
    path.write_text(json.dumps(ROWS))
    return path


def entries(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_statistics_and_matrix_of_a_file(run, matrix):
    text = run(matrix)
    assert "matrix.txt: 2 EP ranks x 4 experts, 8 token copies per rank" in text
    assert "exact" in text
    # loads 7, 4, 3, 2: mean 4, largest 7
    assert "1.750" in text
    assert "columns: expert; rows: source EP rank" in text
    drawn = [line for line in text.splitlines() if line.startswith(("0 ", "1 "))]
    assert "█6" in drawn[0]
    assert "MB" in text
    assert "8,192 bytes per token (4,096 elements of 2 bytes)" in text


def test_regime_prints_what_was_read(run):
    text = run("mixtral", "--seed", 3, "--set", "rho=0.5")
    assert "seed: 3" in text
    assert "rho: 0.5 (given)" in text
    assert "logit_sd: 0.774\n" in text
    assert "sources of these: -v" in text
    text = run("mixtral", "-v")
    assert "logit_sd: 0.774 (token matrix of Mixtral 8x7B" in text
    assert "topics" not in text


def test_csv_is_the_matrix_with_bytes(run):
    text = run("mixtral", "--csv", "-", "--view", "rank", "--hidden", 10, "--layer", 3, "--step", 7)
    rows = entries(text)
    source = synthetic("mixtral", ranks=8, experts=8, tokens_per_rank=16_384, top_k=2, seed=0)
    counts = source.tokens(group=0, layers=[3], micro_batches=1, step=7)[0, 0]
    expected = rank_matrix(counts)
    assert len(rows) == 64
    for row in rows:
        count = expected[int(row["source_ep_rank"]), int(row["destination_ep_rank"])]
        assert int(row["tokens"]) == count
        assert int(row["size_bytes"]) == count * 20


def test_json_holds_inputs_statistics_and_matrix(run, tmp_path):
    path = tmp_path / "demand.json"
    run("pair", "--json", path, "--experts", 16, "--ranks", 4, "--micro-batch", 1)
    content = json.loads(path.read_text())
    assert content["schema_version"] == 1
    assert content["inputs"]["shape"]["experts"] == 16
    assert content["inputs"]["micro_batch"] == 1
    assert not content["inputs"]["exact"]
    assert content["statistics"]["total"] == 4 * 32_768
    tokens = np.array(content["matrix"]["tokens"])
    assert tokens.shape == (4, 16)
    assert (tokens.sum(axis=1) == 32_768).all()
    assert [file.name for file in tmp_path.iterdir()] == ["demand.json"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "diagonal: copies between ranks of one server"),
        (("--deduplicate",), "each token once per server (expected from counts)"),
    ],
)
def test_server_view(run, options, message):
    text = run("mixtral", "--view", "server", "--ranks-per-server", 4, *options)
    assert message in " ".join(text.split())
    rows = entries(
        run("mixtral", "--view", "server", "--ranks-per-server", 4, *options, "--csv", "-")
    )
    assert len(rows) == 4


def test_node_limit_keeps_more_inside(run):
    arguments = (
        "mixtral",
        "--experts",
        64,
        "--experts-per-token",
        6,
        "--view",
        "server",
        "--deduplicate",
    )

    def leaving(*options):
        rows = entries(run(*arguments, *options, "--csv", "-"))
        return sum(
            int(row["tokens"]) for row in rows if row["source_server"] != row["destination_server"]
        )

    assert leaving("--node-limit", "3/8") < 0.8 * leaving()


def test_wide_matrices_are_summed_into_cells(run):
    text = run("sparse", "--experts", 256, "--ranks", 128, "--experts-per-token", 8)
    assert "a cell sums 2 rows x 6 columns" in text
    assert max(len(line) for line in text.splitlines()) <= 140


def test_matrix_for_a_job(run, matrix):
    assert "exact" in run(matrix, "--experts-per-token", 1, "--tokens", 8)
    assert "rows of 8-8 copies scaled to 16" in run(matrix, "--tokens", 16, "--scale")


def test_routing_log(run, tmp_path):
    path = tmp_path / "log.jsonl"
    line = {
        "step": 0,
        "stage": "pre_dispatch",
        "block": "decoder",
        "layer": 0,
        "num_tokens": 2,
        "topk": 2,
        "top_indices": [[0, 1], [2, 3]],
    }
    path.write_text("\n".join(json.dumps({**line, "rank": rank}) for rank in range(2)))
    text = run(path, "--experts", 4)
    assert "2 EP ranks x 4 experts, 4 token copies per rank" in text
    text = run(path, "--experts", 4, "--view", "server", "--deduplicate")
    assert "exact, token by token" in " ".join(text.split())
    text = run(path, "--experts", 4, "--resample", "--seed", 1, "--tokens", 50)
    assert "drawn with replacement" in " ".join(text.split())
    with pytest.raises(InputError, match="does not say how many experts; give --experts"):
        run(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mixtrl",), "'mixtrl' is neither a regime .* nor a file; did you mean 'mixtral'"),
        (("mixtral", "--scale"), "--scale does not apply to a regime"),
        (("mixtral", "--resample"), "--resample does not apply to a regime"),
        (("mixtral", "--set", "rho"), "--set rho: expected KEY=VALUE, such as rho=0.9"),
        (("mixtral", "--set", "rho=x"), "--set rho=x: expected a number"),
        (("mixtral", "--set", "roh=1"), "no parameter 'roh'; did you mean 'rho'"),
        (("mixtral", "--micro-batch", "-1"), "--micro-batch -1: expected at least 0"),
        (("mixtral", "--layer", "-1"), "--layer -1: expected at least 0"),
        (("mixtral", "--layer", "99"), "--layer 99: mixtral-8x7b has 32 layers; expected 0 to 31"),
        (("mixtral", "--layer", "32"), "--layer 32: mixtral-8x7b has 32 layers; expected 0 to 31"),
        (("mixtral", "--hidden", "0"), "--hidden 0: expected at least 1"),
        (("mixtral", "--ranks", "3"), "8 experts do not divide over 3 EP ranks"),
        (("mixtral", "--deduplicate"), "need --view server"),
        (("mixtral", "--ranks-per-server", "2"), "need --view server"),
        (("mixtral", "--node-limit", "4/8"), "--node-limit needs --deduplicate"),
        (
            ("mixtral", "--view", "server", "--deduplicate", "--node-limit", "4"),
            "--node-limit: expected TOP/GROUPS such as 4/8, got '4'",
        ),
        (
            ("mixtral", "--view", "server", "--deduplicate", "--node-limit", "4/3"),
            "8 experts do not divide into 3 expert groups",
        ),
        (
            ("mixtral", "--view", "server", "--ranks-per-server", "3"),
            "8 EP ranks do not fill servers of 3 ranks",
        ),
        (("mixtral", "--json", "-", "--csv", "-"), "both ask for standard output"),
        (("MATRIX", "--seed", "1"), "--seed does not apply to a token matrix"),
        (("MATRIX", "--set", "rho=1"), "--set does not apply to a token matrix"),
        (("MATRIX", "--resample"), "--resample does not apply to a token matrix"),
        (("MATRIX", "--scale"), "--scale: give the --tokens and --experts-per-token to scale to"),
        (("MATRIX", "--experts", "8"), "2 ranks x 4 experts does not fit a job of 2 EP ranks x 8"),
        (("MATRIX", "--tokens", "9"), "row 1 holds 8 token copies, the job routes 9 per EP rank"),
        (
            ("MATRIX", "--view", "server", "--deduplicate"),
            "no duplicates; give --experts-per-token",
        ),
    ],
)
def test_refusals_are_one_line(run, matrix, arguments, message):
    words = [str(matrix) if argument == "MATRIX" else argument for argument in arguments]
    with pytest.raises(LightloomError, match=message) as caught:
        run(*words)
    assert "\n" not in str(caught.value)


def test_nothing_is_written_where_it_cannot_be(run, tmp_path):
    with pytest.raises(LightloomError, match="absent"):
        run("mixtral", "--csv", tmp_path / "absent" / "matrix.csv")
    assert list(tmp_path.iterdir()) == []
