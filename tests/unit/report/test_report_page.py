"""The page: whole, self-contained, escaped, and saying what the results say."""

import dataclasses
import json
import re
from html.parser import HTMLParser

import pytest

from lightloom.errors import InputError, OutputError
from lightloom.fabric import network
from lightloom.report.explain import read_comparison
from lightloom.report.page import render, tiles, write_page
from lightloom.report.plots_svg import fabric_styles
from lightloom.report.result_columns import column
from lightloom.report.story import story
from lightloom.report.table import grouped, intervals
from lightloom.study.compare.results import FabricResult
from lightloom.study.compare.run import compare
from lightloom.study.compare.scenario import Scenario, check
from lightloom.units import show_column
from lightloom.workload.categories import StepCategory

VOID = {"meta", "link", "br", "hr", "img", "input"}
HOSTILE = "\"><script>alert(1)</script><b a='x'>&amp;"


class Outline(HTMLParser):
    """Checks that tags close in order; keeps text, attributes and tags."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.links, self.text, self.tips = [], [], [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        for name, value in attributes:
            if name in {"src", "href", "action", "poster", "srcset"}:
                self.links.append(value)
            if name == "data-tip":
                self.tips.append(value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in {"style", "script"}:
            self.text.append(data)

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())


@pytest.fixture
def page(make_comparison):
    return render(make_comparison())


def test_page_is_well_formed(page):
    outline = Outline(page)
    assert not outline.open
    assert page.lstrip().startswith("<!doctype html>")
    assert outline.tags.count("title") == 1


def test_every_category_has_a_color(page):
    # without one, bars are invisible and blocks of the timeline black
    for category in StepCategory:
        assert re.search(rf"\.cat-{category.name.lower()}\b[^{{]*{{ --part: var\(--", page)


def test_every_carrier_has_a_name_and_a_color(make_comparison):
    carriers = {part.kind for part in vars(network).values() if hasattr(part, "kind")}
    # the bytes of described switches are those of packets
    carriers = carriers - {"switches"} | {"nvswitch", "relayed"}
    assert {"eps", "racks", "crossbar", "scheduled"} <= carriers
    comparison = make_comparison()
    first, *others = comparison.results
    carrying = dataclasses.replace(first, carried_bytes=dict.fromkeys(sorted(carriers), 10**12))
    text = render(dataclasses.replace(comparison, results=(carrying, *others)))
    for name in carriers:
        assert re.search(rf"\.carrier-{name} {{ --part: ", text), name
        assert f"carrier-{name}" in text.split("</style>")[-1], name


def test_page_needs_no_other_file_and_no_network(page):
    outline = Outline(page)
    assert all(link.startswith(("#", "data:", "https://", "http://")) for link in outline.links)
    assert not {"link", "img", "iframe", "object", "embed", "base", "form"} & set(outline.tags)
    # the browser itself refuses whatever else a script or a style sheet might load
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page).group(1)
    assert policy.startswith("default-src 'none'; script-src 'unsafe-inline'; style-src")
    assert "http" not in policy
    # our own scripts and styles, without the library and the data
    own = re.sub(r"/\*\s*\* Licensed.*?</script>", "", page, flags=re.DOTALL)
    assert len(own) < len(page) - 1_000_000
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest", own)
    assert len(page) < 3_000_000


def test_links_lead_to_sections(page):
    links = [link for link in Outline(page).links if link.startswith("#")]
    assert len(links) > 10
    for link in links:
        assert f'id="{link[1:]}"' in page


@pytest.mark.parametrize(
    "heading",
    ["Results", "Where the time goes", "Timeline", "Demand", "Circuits",
     "Cost and power of the network", "Memory and traffic", "Every parameter used"],
)  # fmt: skip
def test_sections_are_there(page, heading):
    assert f"<h2>{heading}<a class" in page


def test_table_says_what_the_results_say(make_comparison, page):
    words = Outline(page).words
    for low, high in intervals(make_comparison().results):
        assert f"{low} to {high}" in words
    for result in make_comparison().results:
        assert f"{result.step_time_s:.1f}" in words
        assert f"{result.tokens_per_s:,.0f}" in words
        assert f"{result.tokens_per_s_per_gpu:,.1f}" in words
        assert f"{100 * result.mfu:.1f}" in words
        assert f"{result.days_per_trillion_tokens:,.0f}" in words
        for load in result.loads:
            longer = f"{100 * (load.ratio_to_fastest - 1):+.1f} %"
            (text,) = show_column([load.step_time_s], total=10.0)
            assert f"{text} {longer}" in words
    for name in ("perf_per_usd", "perf_per_cluster_usd", "network_power_w"):
        assert all(text in words for text in column(make_comparison().results, name))


def test_loads_are_listed(make_comparison):
    comparison = make_comparison()
    results = tuple(
        dataclasses.replace(
            result,
            loads=(*result.loads, dataclasses.replace(result.loads[0], imbalance="learned late")),
        )
        for result in comparison.results
    )
    words = Outline(render(dataclasses.replace(comparison, results=results))).words
    assert "The step under balanced, skewed and learned late load of the experts" in words


def test_times_of_the_groups_and_their_differences(make_comparison, page):
    words = Outline(page).words
    fast = grouped(make_comparison().results[0].critical_path_s)
    mixnet = grouped(make_comparison().result("mixnet").critical_path_s)
    assert f"{mixnet['reconfig.']:.2f} +0.50" in words
    assert f"{fast['compute']:.2f}" in words
    assert "+0.00" not in words


def test_hostile_text_is_escaped_everywhere(make_comparison):
    comparison = make_comparison(name=HOSTILE, model=HOSTILE, warnings=(HOSTILE,))
    first = dataclasses.replace(
        comparison.results[0], notes=(HOSTILE,), parameters={HOSTILE: HOSTILE}
    )
    comparison = dataclasses.replace(comparison, results=(first, *comparison.results[1:]))
    page = render(comparison)
    outline = Outline(page)
    assert not outline.open
    assert outline.tags.count("script") == Outline(render(make_comparison())).tags.count("script")
    assert "<script>alert" not in page
    assert f"Warning {HOSTILE}" in outline.words
    assert any(tip.startswith(f"{HOSTILE}: 50,000 tokens/s") for tip in outline.tips)


def test_findings(make_comparison):
    comparison = make_comparison()
    styles = fabric_styles([(r.fabric, r.kind) for r in comparison.results])
    build, cheaper, by_network, by_cluster = tiles(comparison, styles)
    assert (build.style.name, build.value) == ("fat-tree", "20 s")
    assert build.notes == ("$10.00M of network",)
    assert cheaper.style.name == "mixnet"
    assert cheaper.notes == ("+2.5 % (2.5 to 2.5)", "$3.00M of network")
    # 1e6/26 tokens/s for 2 M$ against 1e6/20 for 10 M$
    assert by_network.notes[0] == f"{(20 / 26) * 5:.2f} x fat-tree"
    # 1e6/20.5 for 23 M$ against 1e6/20 for 30 M$ and 1e6/26 for 22 M$
    assert by_cluster.style.name == "mixnet"
    assert by_cluster.notes == (
        f"{(20 / 20.5) * (30 / 23):.2f} x fat-tree",
        f"{(26 / 20.5) * (22 / 23):.2f} x topoopt",
    )


def test_the_page_begins_with_the_verdict(make_comparison, page):
    assert story(make_comparison()) in Outline(page).words


def test_decisions_that_changed_circuits_are_drawn(page):
    words = Outline(page).words
    assert "layer 0, micro-batch 0: switched in 25 ms; needs 4 ms at line rate" in words
    assert "layer 4, micro-batch 0" in words
    assert "layer 5, micro-batch 0" not in words  # one and four more
    assert "of them changed circuits 6" in words


def test_circuits_that_never_change_are_said_to(make_comparison):
    comparison = make_comparison()
    done = comparison.details["runs"]["mixnet"]
    still = tuple(dataclasses.replace(s, ready_s=s.time_s) for s in done.run.snapshots)
    done.run = dataclasses.replace(done.run, snapshots=still)
    words = Outline(render(comparison)).words
    assert "No circuit of this EP group ever has to change" in words
    assert "switched in" not in words


def test_fixed_circuits_are_drawn_both_ways(page):
    tips = Outline(page).tips
    assert "servers 0 - 1: 2 circuits" in tips
    assert "servers 0 - 15: 1 circuit" in tips
    assert "0 to 15: 1 circuit" in tips
    assert "15 to 0: 1 circuit" in tips


def test_parts_of_cost_and_power(make_comparison, page):
    tips = Outline(page).tips
    assert "mixnet, circuit switch ports: $1.00M" in tips
    assert "topoopt, packet switch ports: 80.0 kW" in tips
    comparison = make_comparison()
    bare = tuple(dataclasses.replace(r, power_by_component_w={}) for r in comparison.results)
    assert "network power [kW]" not in render(dataclasses.replace(comparison, results=bare))


def test_every_parameter_is_listed_with_its_source(page):
    words = Outline(page).words
    assert "links.400.nic_usd 1,499 assumed MixNet, Table 4 (2025-09-08)" in words
    assert "scenario" not in words.split("Every parameter used")[0]
    assert "cluster.rate_gbps 400" in words
    assert "Fabric: mixnet" in words
    assert "conventions.prices prices.toml" in words


def test_memory_that_does_not_fit_is_said(make_comparison):
    comparison = make_comparison(warnings=("the plan does not fit",))
    memory = comparison.memory | {"fits": False}
    page = render(dataclasses.replace(comparison, memory=memory))
    assert "The plan does NOT fit." in page
    assert "<b>Warning</b> the plan does not fit" in page


def test_without_timelines_runs_or_demand_the_page_is_shorter(make_comparison):
    whole = make_comparison(timeline=False)
    bare = dataclasses.replace(whole, details={}, demand={}, memory={}, traffic_shares={})
    page = render(bare)
    assert not Outline(page).open
    for heading in ("Timeline", "Demand", "Circuits"):
        assert f"<h2>{heading}<" not in page
        assert f'href="#{heading.lower()}"' not in page
    assert "<h2>Timeline<" not in render(whole)


def test_page_is_written_whole_or_not_at_all(make_comparison, tmp_path):
    target = tmp_path / "report.html"
    write_page(make_comparison(), target)
    assert "</html>" in target.read_text(encoding="utf-8")[-20:]
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(OutputError, match="nowhere"):
        write_page(make_comparison(), tmp_path / "nowhere" / "report.html")


def test_page_of_a_real_comparison():
    values = {
        "model": "mixtral-8x7b",
        "gpus": 128,
        "fabrics": ("fat-tree", "mixnet"),
        "cluster": {"rate_gbps": 400.0},
        "plan": {"tp": 8, "pp": 2, "ep": 8, "dp": 1, "micro_batches": 4, "micro_batch_size": 1},
        "seeds": 1,
    }
    comparison = compare(check(Scenario, values, "test"), with_timeline=True)
    page = render(comparison)
    outline = Outline(page)
    assert not outline.open
    assert "Which fabric for mixtral-8x7b on 128 GPUs?" in outline.words
    # an all-to-all waits for its last member somewhere
    waited = comparison.details["runs"]["fat-tree"].run.timeline.waited_s
    assert waited.sum() > 0
    assert "fat-tree: One worker per pipeline stage" in outline.words


def test_a_fabric_alone_is_compared_with_nothing(make_comparison):
    made = make_comparison()
    alone = dataclasses.replace(made, results=made.results[:1])
    words = Outline(render(alone)).words
    assert "every other is slower" not in words
    assert "fat-tree takes 20 s per step" in words


def test_a_page_is_made_again_of_a_file(make_comparison, tmp_path):
    made = make_comparison()
    file = tmp_path / "results.json"
    file.write_text(json.dumps(made.to_json()))
    again = read_comparison(file)
    assert again.to_json() == json.loads(json.dumps(made.to_json()))
    words = Outline(render(again)).words
    assert story(made) in words
    for result in made.results:
        assert f"{result.step_time_s:.1f}" in words


def test_every_attribute_of_a_result_is_in_its_file(make_comparison):
    for result in make_comparison().results:
        assert FabricResult.from_json(json.loads(json.dumps(result.to_json()))) == result


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: content.pop("inputs"),
        lambda content: content["results"][0].pop("loads"),
        lambda content: content["results"][0].update(step_time_interval_s=[1]),
        lambda content: content["results"][0].update(policies=[{"when": "x"}]),
        lambda content: content.update(results=[]),
        lambda content: content.update(results=[1]),
    ],
)
def test_a_file_of_something_else_is_refused(make_comparison, tmp_path, spoil):
    content = json.loads(json.dumps(make_comparison().to_json()))
    spoil(content)
    file = tmp_path / "results.json"
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"results\.json: no results"):
        read_comparison(file)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda result: result["loads"].pop(),
            r"results\[1\]\.loads: balanced.*; expected those of",
        ),
        (lambda result: result.update(loads=[]), r"results\[1\]\.loads: none; expected those of"),
        (
            lambda result: result["loads"][0].update(step_time_s="1"),
            r"results\[1\]\.loads\.0\.step_time_s: '1': ",
        ),
        (lambda result: result.update(power_w=[1]), r"results\[1\]\.power_w: \[1\]: "),
        (
            lambda result: result.update(sample_step_times_s=[]),
            r"results\[1\]\.sample_step_times_s: 0 numbers; expected ",
        ),
        (lambda result: result.update(step_time_s=-1.0), r"results\[1\]: a step time .*0 or less"),
        (
            lambda result: result.update(step_time_s=0.0, tokens_per_s=None),
            r"results\[1\]: a step time .*0 or less",
        ),
        (lambda result: result.update(tokens_per_s=-1.0), r"results\[1\]: .*pace.* of 0 or less"),
        (lambda result: result.update(plan={"gpus": 8, "tp": {}}), r"results\[1\]\.plan\.tp: "),
        (lambda result: result.update(plan={"gpus": 8, "tp": 0}), r"results\[1\]\.plan: "),
    ],
)
def test_a_file_that_was_edited_is_refused_by_its_key(make_comparison, tmp_path, spoil, message):
    content = json.loads(json.dumps(make_comparison().to_json()))
    spoil(content["results"][1])
    file = tmp_path / "results.json"
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match=rf"results\.json: {message}"):
        read_comparison(file)


@pytest.mark.parametrize(
    ("edited", "message"),
    [
        ({"demand": 1.0}, r"demand: 1\.0: "),
        ({"warnings": [1]}, r"warnings\.0: 1: "),
        ({"traffic_shares": {"ep": "all"}}, r"traffic_shares\.ep: 'all': "),
        ({"memory": {"stages": [], "fits": True}}, r"memory\.limit_bytes: "),
        ({"inputs": {"summary": [[1]]}}, r"inputs\.summary\.0: \[1\]: "),
        ({"inputs": {"strategies": -1}}, r"inputs\.strategies: -1: "),
        (
            {"inputs": {"plan_candidates": [{"is_screened": True, "schedule": {}}]}},
            r"inputs\.plan_candidates\.0\.schedule: ",
        ),
    ],
)
def test_tables_that_were_edited_are_refused_by_their_key(
    make_comparison, tmp_path, edited, message
):
    content = json.loads(json.dumps(make_comparison().to_json()))
    file = tmp_path / "results.json"
    file.write_text(json.dumps(content | edited))
    with pytest.raises(InputError, match=rf"results\.json: {message}"):
        read_comparison(file)


@pytest.mark.parametrize("key", ["inputs", "demand", "memory", "traffic_shares"])
@pytest.mark.parametrize("value", [[], "many", 3])
def test_a_file_with_another_value_for_a_table_is_refused(make_comparison, tmp_path, key, value):
    content = json.loads(json.dumps(make_comparison().to_json())) | {key: value}
    file = tmp_path / "results.json"
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match=rf"results\.json: {key}: "):
        read_comparison(file)
