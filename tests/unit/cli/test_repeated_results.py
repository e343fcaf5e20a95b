"""Results of former runs: repeated, and compared across files."""

import gzip
import json
from importlib import resources

import pytest

SMALL = (
    "compare mixtral-8x7b --gpus 128 --plan published --micro-batches 4 --seeds 1 "
    "--fabrics fat-tree,mixnet --no-policies --no-imbalances"
)


@pytest.fixture
def files(lightloom, tmp_path):
    """Results at two rates, the first of them compressed."""
    paths = tmp_path / "slow.json.gz", tmp_path / "fast.json"
    for path, rate in zip(paths, (200, 400), strict=True):
        assert lightloom(f"{SMALL} --rate {rate} --json {path}").status == 0
    return paths


def change(path, edit):
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


def test_results_are_repeated(lightloom, files, tmp_path):
    slow, fast = files
    again = tmp_path / "again.json"
    done = lightloom(f"run {slow} --json {again}")
    assert done.status == 0, done.err
    assert done.err.endswith(f"the same results as in {slow}\n")
    former = json.loads(gzip.decompress(slow.read_bytes()))
    assert json.loads(again.read_text())["inputs"] == former["inputs"]

    def edit(content):
        content["results"][1]["run_hash"] = "another"
        content["results"].append({**content["results"][0], "fabric": "rail"})
        content["inputs"]["lightloom"] = "0.0.1"

    change(fast, edit)
    last = lightloom(f"run {fast}").err.splitlines()[-1]
    assert last.startswith(f"other results than in {fast} (made by lightloom 0.0.1, now ")
    assert "mixnet " in last
    assert "fat-tree" not in last
    assert last.endswith("rail is gone")


def test_results_are_not_written_over(refused, files):
    assert "is read as well" in refused(f"run {files[1]} --json {files[1]}")


def test_results_without_a_scenario_are_refused(refused, files):
    change(files[1], lambda content: content["inputs"].pop("scenario"))
    assert "no scenario in it" in refused(f"run {files[1]}")


def test_two_files_are_compared(lightloom, files):
    slow, fast = files
    text = lightloom(f"explain {slow} {fast}").out
    assert text.startswith("cluster.rate_gbps: 200 -> 400\n")
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.startswith(" ")
            and line.strip() and line.split()[0] in {"fat-tree", "mixnet"}}  # fmt: skip
    content = json.loads(lightloom(f"explain {slow} {fast} --json -").out)
    for name, row in rows.items():
        before, after = content["fabrics"][name]["step_time_s"]
        assert row[1:4] == [
            f"{1000 * before:,.2f}", f"{1000 * after:,.2f}", f"{1000 * (after - before):+,.2f}"
        ]  # fmt: skip
        parts = content["fabrics"][name]["breakdown_critical_path_s"].values()
        assert sum(b - a for a, b in parts) == pytest.approx(after - before, abs=1e-9)
    one = lightloom(f"explain {slow} {fast} mixnet").out
    assert f"mixnetof{fast}" in "".join(one.split())  # a long path takes several lines
    assert "Critical path [ms]" in one
    assert "the same inputs" in lightloom(f"explain {fast} {fast}").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("explain {fast} mixnet", "SECOND is missing: the fabric that mixnet is compared with"),
        ("explain {fast} {slow} rail", "no fabric 'rail'"),
        ("explain {fast} none.json", "none.json: no such file"),
        ("explain {fast} fat-tre mixnet", "did you mean 'fat-tree'?"),
    ],
)
def test_what_cannot_be_compared_is_refused(refused, files, words, message):
    slow, fast = files
    assert message in refused(words.format(slow=slow, fast=fast))


@pytest.mark.parametrize("field", ["fabric", "category", "schema"])
def test_escapes_in_a_file_never_reach_the_terminal(lightloom, files, field):
    evil = "\x1b[31mred"

    def edit(content):
        if field == "schema":
            content["schema_version"] = evil
        elif field == "fabric":
            content["results"][0]["fabric"] = evil
        else:
            content["results"][0]["breakdown_critical_path_s"][evil] = 1.0

    change(files[1], edit)
    done = lightloom(f"explain {files[1]} fat-tree mixnet")
    assert done.status == 2
    assert "\x1b" not in done.out + done.err


@pytest.mark.parametrize(
    ("cut", "message"),
    [
        (lambda raw: raw[:-9], "ends too early"),
        (lambda raw: raw[:2] + b"?" * 9, "not a valid gzip"),
    ],
)
def test_broken_gzip_is_refused(refused, files, cut, message):
    files[0].write_bytes(cut(files[0].read_bytes()))
    assert message in refused(f"explain {files[0]} fat-tree mixnet")


def test_a_bomb_of_gzip_is_refused(refused, files, monkeypatch):
    monkeypatch.setattr("lightloom.report.explain.MAX_FILE_BYTES", 100_000)
    files[0].write_bytes(gzip.compress(b" " * 1_000_000))
    assert "exceeds the limit of 100,000 bytes" in refused(f"explain {files[0]} a b")


def test_differences_fit_a_terminal(lightloom, files, monkeypatch):
    slow, fast = files
    monkeypatch.chdir(fast.parent)
    for words in (f"{fast.name} fat-tree mixnet", f"{slow.name} {fast.name} mixnet"):
        tables = lightloom(f"explain {words}").out.rpartition("mixnet ")[0]
        assert "share" in tables
        assert max(len(line.rstrip()) for line in tables.splitlines()) <= 80


SHAPE = {
    "architectures": ["MixtralForCausalLM"],
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "num_attention_heads": 16,
    "num_hidden_layers": 4,
    "num_key_value_heads": 8,
    "num_experts_per_tok": 2,
    "num_local_experts": 8,
    "vocab_size": 32000,
}


def test_results_of_a_file_need_no_file_to_be_repeated(lightloom, refused, tmp_path, monkeypatch):
    folder, elsewhere = tmp_path / "job", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(folder)
    (folder / "config.json").write_text(json.dumps(SHAPE))
    job = "compare config.json --gpus 8 --rate 400 --tp 1 --pp 1 --ep 8 --seeds 1"
    job += " --fabrics fat-tree --no-policies --no-imbalances --json results.json"
    done = lightloom(job)
    assert done.status == 0, done.err
    content = json.loads((folder / "results.json").read_text())
    (elsewhere / "results.json").write_text(json.dumps(content))
    monkeypatch.chdir(elsewhere)
    again = lightloom("run results.json --json again.json")
    assert again.err.endswith("the same results as in results.json\n")
    repeated = json.loads((elsewhere / "again.json").read_text())
    assert repeated["inputs"]["model"] == content["inputs"]["model"]
    del content["inputs"]["scenario"]["model_shape"]["hidden_size"]
    (elsewhere / "results.json").write_text(json.dumps(content))
    assert "its recorded shape has a wrong or missing value: hidden_size" in refused(
        "run results.json"
    )


def test_results_have_the_users_own_prices_and_powers(lightloom, tmp_path, monkeypatch):
    folder, elsewhere = tmp_path / "job", tmp_path / "elsewhere"
    data = resources.files("lightloom.hardware") / "data"
    for place in (folder, elsewhere):
        place.mkdir()
    prices = (data / "prices.toml").read_text().replace("\n[links.400]", "\n[links.410]")
    assert "[links.410]" in prices
    (folder / "own.toml").write_text(prices)
    (folder / "watts.toml").write_text(
        (data / "power.toml").read_text().replace("\n[links.400]", "\n[links.410]")
    )
    monkeypatch.chdir(folder)
    job = "compare mixtral-8x7b --gpus 128 --rate 410 --seeds 1 --micro-batches 2"
    job += " --power watts.toml"
    job += " --fabrics fat-tree --no-policies --no-imbalances --plan published"
    done = lightloom(f"{job} --prices own.toml --json {elsewhere}/results.json")
    assert done.status == 0, done.err
    scenario = json.loads((elsewhere / "results.json").read_text())["inputs"]["scenario"]
    assert "410" in scenario["price_list"]["links"]
    assert "410" in scenario["power_list"]["links"]
    monkeypatch.chdir(elsewhere)
    again = lightloom("run results.json --json again.json")
    assert again.err.endswith("the same results as in results.json\n")
    files = [json.loads((elsewhere / f"{n}.json").read_text()) for n in ("results", "again")]
    costs = [[one["network_cost_usd"] for one in file["results"]] for file in files]
    assert costs[0] == costs[1]
    assert files[0]["inputs"]["prices"] == files[1]["inputs"]["prices"]


def test_usual_prices_are_not_recorded(lightloom, tmp_path):
    path = tmp_path / "r.json"
    words = (
        "compare mixtral-8x7b --gpus 128 --rate 400 --seeds 1 --micro-batches 2 --plan published"
    )
    lightloom(f"{words} --fabrics fat-tree --no-policies --no-imbalances --json {path}")
    scenario = json.loads(path.read_text())["inputs"]["scenario"]
    assert scenario["price_list"] is scenario["power_list"] is None


STUDY = """model = "mixtral-8x7b"
gpus = 128
seeds = 1
fabrics = ["fat-tree", "mixnet"]
policies = false
imbalances = false
[cluster]
rate_gbps = 400
[plan]
micro_batches = 4
[demand]
source = "balanced"
[fabric_options.mixnet]
ports = 4
"""


def scenario_of(lightloom, tmp_path, options):
    (tmp_path / "study.toml").write_text(STUDY)
    done = lightloom(f"run {tmp_path / 'study.toml'} {options} --json {tmp_path / 'r.json'}")
    assert done.status == 0, done.err
    return json.loads((tmp_path / "r.json").read_text())["inputs"]["scenario"]


def test_a_study_may_be_varied(lightloom, tmp_path, monkeypatch):
    # a default of the user does not change what a study says
    monkeypatch.setenv("LIGHTLOOM_GPUS", "64")
    options = "--gpus 256 --demand skewed --set plan.vpp=1 --fabrics fat-tree"
    found = scenario_of(lightloom, tmp_path, options)
    assert (found["gpus"], found["fabrics"]) == (256, ["fat-tree"])
    assert found["demand"]["source"] == "skewed"
    assert found["plan"]["vpp"] == 1
    assert found["plan"]["micro_batches"] == 4
    assert found["cluster"]["rate_gbps"] == 400
    assert scenario_of(lightloom, tmp_path, "--fabrics fat-tree")["gpus"] == 128


def test_a_study_may_be_varied_at_several_points(lightloom, refused, tmp_path):
    (tmp_path / "study.toml").write_text(STUDY)
    done = lightloom(f"run {tmp_path / 'study.toml'} --rate 200,400 --fabrics fat-tree")
    assert done.status == 0, done.err
    assert "200" in done.out
    assert "400" in done.out
    line = refused(f"run {tmp_path / 'study.toml'} --set mixnet.ports=8")
    assert line.startswith("mixnet: ports = 8: ")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("rate = 400", "unknown key 'rate'; did you mean rate_gbps of [cluster]?"),
        ("tp = 4", "unknown key 'tp'; did you mean tp of [plan]?"),
        ('"--gpu" = "h100"', "unknown key '--gpu'; did you mean gpu of [cluster]?"),
        ("micro-batch-size = 1", "did you mean micro_batch_size of [plan]?"),
        ("resample = true", "did you mean resample of [demand]?"),
        (
            "[cluster]\ngpus = 128",
            "unknown key 'cluster.gpus'; did you mean gpus, above all tables?",
        ),
        ("[plan]\nrate_gbps = 400", "did you mean rate_gbps of [cluster]?"),
        ("gpuss = 128", "did you mean 'gpus'?"),
    ],
)
def test_a_key_of_another_table_says_which(refused, tmp_path, line, message):
    (tmp_path / "study.toml").write_text(f'model = "mixtral-8x7b"\n{line}\n')
    assert message in refused(f"run {tmp_path / 'study.toml'}")
