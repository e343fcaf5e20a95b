"""Metrics as Prometheus reads them, the dashboard that shows them, and logs without secrets."""

import asyncio
import importlib.resources
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from tests.control_regions import WHY, controlled, pairs

from lightloom.control.logs import ControlLog
from lightloom.control.metrics import ControlMetrics, pair_bucket
from lightloom.control.port_map import SwitchPort
from lightloom.control.refusals import RegionFileError
from lightloom.control.region_pages import loopback_server
from lightloom.control.report import Drift, RegionState
from lightloom.control.switch import PortStatus

DATA = Path(__file__).parents[3] / "python" / "lightloom" / "control" / "data"


def test_buckets_of_pairs():
    names = [pair_bucket(pairs) for pairs in (1, 2, 4, 5, 16, 17, 64, 256, 257)]
    assert names == ["1", "2-4", "2-4", "5-16", "5-16", "17-64", "17-64", "65-256", "257+"]


def events_of(folder):
    stream, metrics = io.StringIO(), ControlMetrics("r0")
    log = ControlLog(stream, "r0", ["hunter2"], metrics, clock=lambda: 1.5)

    async def scenario():
        async with controlled(folder, retries=0) as (controller, switch):
            controller._notify = log
            await controller.apply(pairs("0/0-1/0"), WHY)
            switch.faults.append("deny")
            await controller.apply(pairs("2/0-3/0"), WHY)
            switch.faults.append("stuck")
            await controller.apply(pairs("0/1-3/0"), WHY)

    asyncio.run(scenario())
    return [json.loads(line) for line in stream.getvalue().splitlines()], metrics


def test_changes_are_logged_and_counted(tmp_path):
    pytest.importorskip("prometheus_client")
    events, metrics = events_of(tmp_path)
    changed = [event for event in events if event["event"] == "changed"]
    assert [event["result"] for event in changed] == ["done", "failed", "partial"]
    assert changed[0] | {"seconds": 0} == {
        "at": 1.5,
        "region": "r0",
        "event": "changed",
        "kind": "apply",
        "change": 1,
        "result": "done",
        "pairs": 1,
        "seconds": 0,
        "failed": {},
    }
    text = metrics.text()
    assert 'lightloom_denied_total{code="IPNV",region="r0"} 4.0' in text
    assert 'lightloom_verify_mismatches_total{region="r0"} 1.0' in text
    count = r'lightloom_reconfiguration_seconds_count\{pairs="1",region="r0",result="done"\} 1\.0'
    assert re.search(count, text)


def test_the_state_of_a_region_is_shown():
    pytest.importorskip("prometheus_client")
    metrics = ControlMetrics("r0")
    drift = Drift(missing=tuple(pairs("0/0-1/0")))
    metrics.observe_region(RegionState.DRIFTED, drift, {"connected": 3}, (True, 7))
    status = PortStatus("1", power_dbm=-2.5, loss_db=1.25)
    metrics.observe_ports({SwitchPort("ocs", "1"): status})
    metrics.count_request("demand")
    metrics.observe_latency(0.0012)
    text = metrics.text()
    for line in (
        'lightloom_state{region="r0",state="drifted"} 1.0',
        'lightloom_state{region="r0",state="ready"} 0.0',
        'lightloom_drift{region="r0"} 1.0',
        'lightloom_circuits{region="r0",state="connected"} 3.0',
        'lightloom_lease_held{region="r0"} 1.0',
        'lightloom_lease_revision{region="r0"} 7.0',
        'lightloom_port_power_dbm{port="1",region="r0",switch="ocs"} -2.5',
        'lightloom_port_loss_db{port="1",region="r0",switch="ocs"} 1.25',
        'lightloom_requests_total{kind="demand",region="r0"} 1.0',
        'lightloom_decision_seconds_bucket{le="0.002",region="r0"} 1.0',
    ):
        assert line in text, line


def test_without_the_library_nothing_is_counted(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    metrics = ControlMetrics("r0")
    assert not metrics.is_counting
    metrics.count_request("demand")
    metrics.observe_latency(1.0)
    metrics.observe_region(RegionState.READY, Drift(), {}, (False, 0))
    metrics.observe_ports({})
    assert metrics.text() == ""


def test_a_taken_port_is_one_line():
    async def scenario(port):
        async with loopback_server(port, lambda _name, _facts: None):
            pass

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RegionFileError, match=rf"^serve.http_port {port}: cannot listen: "):
            asyncio.run(scenario(port))


@pytest.fixture(scope="module")
def dashboard():
    data = importlib.resources.files("lightloom.control").joinpath("data", "dashboard.json")
    return json.loads(data.read_text("utf-8"))


@pytest.fixture
def exported(tmp_path):
    """The labels of every sample that a controller exports once everything has been seen."""
    pytest.importorskip("prometheus_client")
    from prometheus_client.parser import text_string_to_metric_families

    _, metrics = events_of(tmp_path)  # done, refused, and accepted but not there
    metrics.observe_region(RegionState.READY, Drift(), {"connected": 3}, (True, 7))
    metrics.observe_watch(1, 2, 0.5)
    metrics.observe_ports({SwitchPort("ocs", "1"): PortStatus("1", power_dbm=-2.5, loss_db=1.25)})
    metrics.observe_growth({SwitchPort("ocs", "13"): 0.5}, 2.0)
    metrics.count_request("demand")
    metrics.observe_latency(0.0012)
    text = metrics.text()
    labels = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    return labels


def selectors_of(node):
    """Every metric of a query with the labels that are asked of it, those of groups included."""
    import promql_parser

    if isinstance(node, promql_parser.VectorSelector):
        yield node.name, {matcher.name for matcher in node.matchers.matchers}
    elif isinstance(node, promql_parser.MatrixSelector):
        yield from selectors_of(node.vector_selector)
    elif isinstance(node, promql_parser.AggregateExpr):
        groups = set(node.modifier.labels) if node.modifier else set()
        yield from ((name, labels | groups) for name, labels in selectors_of(node.expr))
    else:
        parts = [getattr(node, name, None) for name in ("lhs", "rhs", "expr")]
        for part in (*parts, *getattr(node, "args", ())):
            if part is not None:
                yield from selectors_of(part)


def test_every_query_of_the_dashboard_finds_its_metrics_and_labels(dashboard, exported):
    parser = pytest.importorskip("promql_parser", reason="promql-parser is not installed")
    shown = set()
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            query = target["expr"].replace("$__rate_interval", "1m").replace("$region", "r0")
            wanted = list(selectors_of(parser.parse(query)))
            assert wanted, query
            named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            for name, labels in wanted:
                assert labels | named <= exported[name], (panel["title"], name)
                shown.add(name)
            groups = re.findall(r"by \(([^)]*)\)", query)
            if groups:  # nothing else is left of the labels
                assert named <= set(re.findall(r"\w+", groups[0]))
    families = {re.sub(r"_(bucket|count|sum|total|created)$", "", name) for name in exported}
    assert {re.sub(r"_(bucket|count|sum|total|created)$", "", name) for name in shown} == families


def test_every_alert_asks_for_what_is_exported(exported):
    parser = pytest.importorskip("promql_parser", reason="promql-parser is not installed")
    data = importlib.resources.files("lightloom.control").joinpath("data", "alerts.yml")
    text = data.read_text("utf-8")
    names = re.findall(r"- alert: (\w+)", text)
    queries = re.findall(r"expr: (.*)", text)
    assert len(names) == len(set(names)) == len(queries) == text.count("summary:")
    for query in queries:
        for name, labels in selectors_of(parser.parse(query)):
            assert labels <= exported[name], query
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "run-a-region.md").read_text()
    assert re.findall(r"^\| `(Lightloom\w+)`", page, re.MULTILINE) == names


@pytest.fixture
def collector():
    data = importlib.resources.files("lightloom.control").joinpath("data", "otel-collector.yml")
    return yaml.safe_load(data.read_text("utf-8"))


def test_the_collector_reads_what_the_guide_says_is_served(collector):
    (scrape,) = collector["receivers"]["prometheus"]["config"]["scrape_configs"]
    (place,) = scrape["static_configs"]
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "control-a-switch.md").read_text()
    address = re.search(r"`http://(127.0.0.1:\d+)/metrics`", page)[1]
    assert place == {"targets": [address]}
    assert scrape.get("metrics_path", "/metrics") == "/metrics"
    (pipeline,) = collector["service"]["pipelines"].values()
    for kind in ("receivers", "exporters"):
        assert set(pipeline[kind]) == set(collector[kind])
    assert "data/otel-collector.yml" in page


def checked(*words):
    """What a tool says of a file; skipped where the tool is not there."""
    if shutil.which(words[0]) is None:
        pytest.skip(f"no {words[0]} to check with")
    environment = {**os.environ, "OTLP_ENDPOINT": "localhost:4317"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_takes_the_alerts_and_what_the_collector_reads(collector, tmp_path):
    checked("promtool", "check", "rules", str(DATA / "alerts.yml"))
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump(collector["receivers"]["prometheus"]["config"]))
    checked("promtool", "check", "config", str(file))


@pytest.mark.parametrize("name", ["otelcol", "otelcol-contrib"])
def test_the_collector_takes_its_file(name):
    checked(name, "validate", "--config", str(DATA / "otel-collector.yml"))


def test_the_dashboard_is_one_that_grafana_loads(dashboard):
    """What its schema asks for (version 39), as far as this dashboard goes."""
    assert dashboard["schemaVersion"] >= 36
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    source, region = dashboard["templating"]["list"]
    assert (source["type"], source["query"]) == ("datasource", "prometheus")
    # without a refresh no region would be known after an import, and every panel be empty
    assert region["refresh"] in (1, 2)
    name, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", region["query"]).groups()
    assert (name, label) == ("lightloom_state", "region")
    taken = set()
    for panel in dashboard["panels"]:
        assert panel["type"] in {"stat", "timeseries"}
        assert panel["datasource"] == {"type": "prometheus", "uid": f"${{{source['name']}}}"}
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken
        taken |= cells
        identifiers = [target["refId"] for target in panel["targets"]]
        assert len(set(identifiers)) == len(identifiers)
        # of a range, a state that has ended would be shown as well
        assert all(t.get("instant", False) == (panel["type"] == "stat") for t in panel["targets"])


def test_a_terminal_has_words_and_no_json():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    log = ControlLog(stream, "r0", ["hunter2"], clock=lambda: 0.0)
    log("state", {"state": "ready", "error": None, "login": "hunter2", "text": "a\nb\x1b[31m"})
    log("stopped", {})
    first, second = stream.getvalue().splitlines()
    at = time.strftime("%H:%M:%S", time.localtime(0))
    assert first == f"{at} r0: state: state ready, login [hidden], text a\\nb\\x1b[31m"
    assert second == f"{at} r0: stopped"


def test_secrets_never_reach_a_log():
    stream = io.StringIO()
    log = ControlLog(stream, "r0", ["hunter2", 'with"quote', "abc"])
    log("state", {"error": 'login hunter2 with"quote refused', "list": ["hunter2", {"a": 1}]})
    text = stream.getvalue()
    assert "hunter2" not in text
    assert "quote" not in text
    assert json.loads(text)["error"] == "login [hidden] [hidden] refused"
    assert text.count("\n") == 1


@pytest.mark.parametrize("secret", ["region", "event", "1700", "e\x1b[0m", "null", "true"])
@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_secret_that_is_a_word_of_the_log_breaks_no_line(secret, is_terminal):
    stream = io.StringIO()
    stream.isatty = lambda: is_terminal
    log = ControlLog(stream, "r0", clock=lambda: 1700.0)
    log.hide([secret])
    error = ValueError(secret)
    facts = {"at_all": 1700.5, "list": [secret], f"a {secret}": {secret: repr(secret)}}
    log.write("state", {**facts, "error": repr(error)})
    (line,) = stream.getvalue().splitlines()
    assert line.count("[hidden]") == 5
    if not is_terminal:
        record = json.loads(line)
        assert (record["region"], record["at"], record["at_all"]) == ("r0", 1700.0, 1700.5)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ValueError("closed")])
def test_a_log_that_cannot_be_written_breaks_no_change(tmp_path, error):
    class Full(io.StringIO):
        def write(self, _text):
            raise error

    async def scenario():
        async with controlled(tmp_path) as (controller, _):
            controller._notify = ControlLog(Full(), "r0")
            return await controller.apply(pairs("0/0-1/0"), WHY)

    assert asyncio.run(scenario()).result == "done"


def test_no_control_character_reaches_a_log():
    characters = "".join(map(chr, [*range(32), *range(127, 160), 0x200B, 0x202E, 0xD800]))
    for is_terminal in (False, True):
        stream = io.StringIO()
        stream.isatty = lambda shown=is_terminal: shown
        ControlLog(stream, "r0")("report", {"text": characters, characters: "x"})
        (line,) = stream.getvalue().splitlines()
        assert line.isprintable()
        assert line.isascii() or is_terminal
