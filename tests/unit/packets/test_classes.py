"""Several transports in one run: which flows have which, and what comes of it."""

import json

import numpy as np
import pytest

from lightloom.errors import InputError
from lightloom.inputs.formats import parse_toml
from lightloom.inputs.strict import check
from lightloom.packets import PacketScenario, make_flows, simulate_flows
from lightloom.packets.classes import classify
from lightloom.packets.columns import as_json, completion_columns
from lightloom.packets.flows import OF_CLASS, parse_flows
from lightloom.packets.results import Finished
from lightloom.packets.scenario import ScenarioFile, load_scenario
from lightloom.packets.traffic import flows_of
from lightloom.report.packets_table import grids, heading, parameter_rows, settings_lines

BACKGROUND = {"name": "background", "transport": "dctcp"}


def scenario(**more):
    network = {"hosts": 8, "rate_gbps": 100, "topology": "star"}
    return PacketScenario(**{"network": network, "transport": "roce", "seed": 1, **more})


def line(call, *arguments):
    with pytest.raises(InputError) as caught:
        call(*arguments)
    return str(caught.value)


def ring(size=500_000):
    return make_flows(np.arange(8), (np.arange(8) + 3) % 8, size + 1_000 * np.arange(8))


def test_one_transport_named_for_all_flows_is_the_run_without_the_column():
    plain = simulate_flows(ring(), scenario())
    for named in ("roce", "", ["roce", ""] * 4):
        run = simulate_flows(ring().with_class(named), scenario())
        assert run.run_hash == plain.run_hash
        assert run.class_use() == []
    # whatever the scenario's own transport is
    assert simulate_flows(ring().with_class("roce"), scenario(transport="ndp")).run_hash == (
        plain.run_hash
    )
    by_priority = ring().with_priority([0, 1] * 4)
    assert simulate_flows(by_priority.with_class("roce"), scenario()).run_hash == (
        simulate_flows(by_priority, scenario()).run_hash
    )


def test_two_transports_on_disjoint_links_end_as_alone():
    apart = make_flows([0, 1, 4, 5], [2, 2, 6, 6], [900_000, 700_001, 800_000, 600_000])
    mixed = apart.with_class(["roce", "roce", "dctcp", "dctcp"]).with_priority([1, 1, 0, 0])
    run = simulate_flows(mixed, scenario())
    for name, members in (("roce", slice(0, 2)), ("dctcp", slice(2, 4))):
        alone = simulate_flows(
            make_flows(apart.source[members], apart.destination[members],
                       apart.size_bytes[members]),
            scenario(transport=name),
        )  # fmt: skip
        assert run.fct_s[members].tolist() == alone.fct_s.tolist()
    assert [use.flows for use in run.class_use()] == [2, 2]


def test_a_class_of_the_scenario_has_settings_and_a_priority_of_its_own():
    table = {**BACKGROUND, "priority": 2, "queue": {"ecn": {"min_bytes": 1, "max_bytes": 1}}}
    found = classify(ring().with_class(["background", ""] * 4), scenario(classes=[table]))
    own, background = found.classes
    assert (own.name, own.priority, own.settings.transport) == ("roce", 0, "roce")
    assert (background.name, background.priority) == ("background", 2)
    assert background.settings.given == {"queue.ecn.min_bytes", "queue.ecn.max_bytes"}
    assert found.of_flow.tolist() == [1, 0] * 4
    assert found.priority.tolist() == [2, 0] * 4
    raised = classify(ring().with_class(["dctcp", ""] * 4), scenario(priority=5))
    assert raised.priority.tolist() == [0, 5] * 4


def test_a_transport_and_each_of_its_priorities_are_a_class():
    flows = ring().with_class(["dctcp", "dctcp", "", ""] * 2).with_priority([0, 1, 2, 2] * 2)
    found = classify(flows, scenario())
    assert [(it.name, it.priority) for it in found.classes] == [
        ("roce", 2), ("dctcp", 0), ("dctcp", 1),
    ]  # fmt: skip
    assert found.of_flow.tolist() == [1, 2, 0, 0] * 2


def test_background_beside_a_collective():
    text = """
transport = "roce"
priority = 1
[network]
topology = "leaf-spine"
hosts = 16
hosts_per_leaf = 4
rate_gbps = 100
[traffic]
pattern = "all-to-all"
group = 4
size_bytes = "200 kB"
[[classes]]
name = "background"
transport = "dctcp"
traffic = { pattern = "load", load = 0.4, flow_sizes = "websearch", load_time_s = "200 us" }
"""
    found = check(ScenarioFile, parse_toml(text.encode(), "S"), "S")
    flows = flows_of(found)
    assert flows.name == "all-to-all in 4 groups of 4 and load of 0.4 by websearch"
    assert set(flows.classes) == {"", "background"}
    run = simulate_flows(flows, found)
    own, background = run.class_use()
    assert (own.flows, own.transport, own.priority) == (16 * 3, "roce", 1)
    assert (background.transport, background.priority, background.unfinished) == ("dctcp", 0, 0)
    assert own.bytes + background.bytes == flows.size_bytes.sum()
    alone = simulate_flows(flows_of(found.model_copy(update={"classes": ()})), found)
    # the collective has priority: the background takes a packet that has begun at each of 4 links
    # and, where NICs of RoCE go by turns, their order
    assert own.fct_s["max"] == pytest.approx(alone.fct_s[~np.isnan(alone.fct_s)].max(), rel=0.05)
    # beneath it the background ends later than where nothing is above
    lower = found.model_copy(update={"traffic": found.classes[0].traffic, "classes": ()})
    lower = lower.model_copy(update={"transport": {"name": "dctcp"}, "seed": 1 + 2**32})
    assert background.fct_s["mean"] > simulate_flows(flows_of(lower), lower).fct_s.mean()


def test_classes_are_told():
    flows = ring().with_class(["dctcp", ""] * 4).with_priority([0, 1] * 4)
    run = simulate_flows(flows, scenario())
    assert run.transports == "roce, dctcp"
    assert "8 flows, 4.028 MB, by roce, dctcp over" in heading(run, scenario())
    table = next(grid for grid in grids(run) if grid.title == "Classes")
    assert [row[:5] for row in table.rows] == [
        ["roce", "roce", "1", "4", "2.016 MB"], ["dctcp", "dctcp", "0", "4", "2.012 MB"],
    ]  # fmt: skip
    links = next(grid for grid in grids(run) if grid.title.startswith("Links"))
    heads = [head for head, _ in links.headers]
    assert {"marks", "pauses", "drops"} <= set(heads)
    assert sum("reference" in text for text in settings_lines(run)) == 2
    keys = [key for key, _, _ in parameter_rows(run)]
    assert "roce: queue.size_bytes" in keys
    assert "dctcp: queue.size_bytes" in keys
    classes = json.loads(json.dumps(as_json(run, scenario())))["classes"]
    assert [it["transport"] for it in classes] == ["roce", "dctcp"]
    assert classes[0]["settings"]["queue"]["pfc"] is not None
    assert all(0 < it["fct_s"]["p50"] <= it["fct_s"]["max"] for it in classes)
    every = Finished(np.arange(8), run.fct_s, run.slowdown, run.began_s)
    rows = completion_columns(flows, every)
    assert rows["class"].tolist() == ["dctcp", ""] * 4


def test_a_class_without_a_finished_flow_is_told():
    flows = ring(50_000_000).with_class(["dctcp", ""] * 4).with_priority([0, 1] * 4)
    flows = flows.joined(make_flows([0], [1], 1_000).with_class("dctcp"))
    run = simulate_flows(flows, scenario(until_s=1e-4))
    own, other = run.class_use()
    assert (own.fct_s, own.unfinished, other.unfinished) == (None, 4, 4)
    table = next(grid for grid in grids(run) if grid.title == "Classes")
    assert table.rows[0][5:] == ["-"] * 3


def test_paths_of_classes_are_those_of_their_file(tmp_path):
    (tmp_path / "more.csv").write_text("src,dst,bytes\n4,5,1000\n")
    (tmp_path / "S.toml").write_text(
        'transport = "roce"\nnetwork = { hosts = 8, rate_gbps = 100 }\n'
        'traffic = { pattern = "permutation", size_bytes = 1000 }\n'
        '[[classes]]\ntransport = "dctcp"\npriority = 1\ntraffic = { flows = "more.csv" }\n'
    )
    flows = flows_of(load_scenario(tmp_path / "S.toml"))
    assert flows.classes == ("",) * 8 + ("dctcp",)


def test_the_column_of_a_file():
    flows = parse_flows(b"src,dst,bytes,class,priority\n0,1,5,dctcp,0\n1,2,5,,1\n", "F")
    assert flows.classes == ("dctcp", "")


def test_an_empty_priority_is_that_of_the_class():
    rows = ["0,1,5,background,", "1,2,5,,3", "2,3,5,background,1", "3,4,5,,"]
    flows = parse_flows("\n".join(["src,dst,bytes,class,priority", *rows]).encode(), "F")
    described = scenario(classes=[{**BACKGROUND, "priority": 1}])
    run = simulate_flows(flows, described)
    assert run.flows.priority.tolist() == [1, 3, 1, 0]
    assert [(it.name, it.priority, it.flows) for it in run.class_use()] == [
        ("roce", 0, 1), ("roce", 3, 1), ("background", 1, 2),
    ]  # fmt: skip
    for wrong in ("-1", "8"):
        flows = parse_flows(f"src,dst,bytes,priority\n0,1,5,\n1,2,5,{wrong}\n".encode(), "F")
        with pytest.raises(InputError, match=f"F, line 3: priority {wrong}: expected 0 to 7"):
            simulate_flows(flows, described)


def test_joined_flows_keep_what_each_has():
    first = make_flows([0], [1], 5, routes=["0 s 1"], name="A").waiting([""])
    second = make_flows([1, 2], [2, 0], 7, 1e-6, name="B").with_priority(3).with_class("dctcp")
    both = first.joined(second)
    assert (both.name, len(both)) == ("A and B", 3)
    assert both.routes == ("0 s 1", "", "")
    assert both.after == ("", "", "")
    assert both.delay_s.tolist() == [0, 0, 0]
    assert both.priority.tolist() == [OF_CLASS, 3, 3]
    assert both.priorities.tolist() == [0, 3, 3]
    assert both.classes == ("", "dctcp", "dctcp")
    assert both.start_s.tolist() == [0, 1e-6, 1e-6]


@pytest.mark.parametrize(
    ("values", "flows", "expected"),
    [
        ({}, ring().with_class("dctpc"), "flows: flow 0: class dctpc: expected one of "),
        (
            {"classes": [BACKGROUND, BACKGROUND]},
            ring(),
            "classes: two are called background; give each a name of its own",
        ),
        (
            {"classes": [{**BACKGROUND, "priority": 1}]},
            ring().with_class(["", "background"] * 4).with_priority([0, 2] * 4),
            "flows: flow 1: priority 2, and flows of background have priority 1; leave one of them "
            "out",
        ),
        (
            {"priority": 1},
            ring().with_priority(2),
            "flows: flow 0: priority 2, and flows of roce have priority 1; leave one of them out",
        ),
        (
            {"classes": [{**BACKGROUND, "transport": {"name": "dctcp", "pulls": 1}}]},
            ring().with_class(["", "background"] * 4),
            "classes.background.transport.pulls is no parameter of dctcp; it has ",
        ),
        (
            {},
            ring().with_class(["", "dctcp"] * 4),
            "roce and dctcp share the queues of priority 0, and differ in size_bytes; give them "
            "other priorities, or the same queues",
        ),
    ],
)
def test_what_is_wrong_is_one_line(values, flows, expected):
    assert line(lambda: simulate_flows(flows, scenario(**values))).startswith(expected)


def test_a_text_for_each_flow_is_expected():
    assert line(ring().with_class, ["roce"]) == "flows: class: expected a text for each of 8 flows"


def test_flows_of_a_class_wait_for_none(tmp_path):
    (tmp_path / "more.csv").write_text("src,dst,bytes,after\n4,5,1000,\n5,6,1000,0\n")
    table = parse_toml(
        b'transport = "roce"\nnetwork = { hosts = 8, rate_gbps = 100 }\n'
        b'traffic = { pattern = "permutation", size_bytes = 1000 }\n'
        b'[[classes]]\ntransport = "dctcp"\npriority = 1\n', "S"
    )  # fmt: skip
    found = check(ScenarioFile, table, "S")
    table = found.classes[0].model_copy(
        update={"traffic": found.traffic.model_copy(
            update={"pattern": None, "size_bytes": None, "flows": tmp_path / "more.csv"})}
    )  # fmt: skip
    found = found.model_copy(update={"classes": (table,)})
    assert line(flows_of, found) == (
        f"classes.dctcp.traffic: {tmp_path / 'more.csv'}: flows of a class wait for none and name "
        "no class; expected these in [traffic]"
    )


@pytest.mark.parametrize("says", ["own", "class"])
def test_flows_that_say_their_priority_go_beside_a_class_that_has_one(says, tmp_path):
    rows = {"own": "src,dst,bytes\n0,1,9000\n", "class": "src,dst,bytes\n2,3,9000\n"}
    levels = {"own": 1, "class": 3}
    head, row = rows[says].splitlines()
    rows[says] = f"{head},priority\n{row},{levels[says]}\n"
    for name, text in rows.items():
        (tmp_path / f"{name}.csv").write_text(text)
    path = tmp_path / "scenario.toml"
    # a recorded step, whose flows have priorities, beside background
    path.write_text(
        f"""transport = "roce"
{"priority = 1" if says == "class" else ""}
[network]
topology = "star"
hosts = 8
rate_gbps = 100
[traffic]
flows = "own.csv"
[[classes]]
transport = "dctcp"
priority = 3
traffic = {{ flows = "class.csv" }}
"""
    )
    found = load_scenario(path)
    classified = classify(flows_of(found), found)
    assert classified.priority.tolist() == [1, 3]
    assert [it.name for it in classified.classes] == ["roce", "dctcp"]
