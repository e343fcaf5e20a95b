"""The pages of packets and of schedules."""

import numpy as np
import pytest

import lightloom
from lightloom.packets.several import PacketCase
from lightloom.report.page_packets import render_cases, render_packets
from lightloom.report.page_schedule import render_schedule
from lightloom.study.scheduling import MethodChoice, Problem, compare_schedules


@pytest.fixture(scope="module")
def packets():
    rng = np.random.default_rng(7)
    flows = lightloom.make_flows(
        rng.integers(0, 8, 60), rng.integers(8, 16, 60), rng.integers(10_000, 900_000, 60)
    )
    run = lightloom.simulate_flows(flows, hosts=16, rate="100 Gb/s", transport="dcqcn")
    return render_packets(run, run.scenario)


@pytest.fixture(scope="module")
def schedules():
    demand = np.random.default_rng(3).integers(1, 10**8, (8, 8)).astype(np.uint64)
    np.fill_diagonal(demand, 0)
    problem = Problem("eight", demand, 400.0, 1e-5)
    return render_schedule(compare_schedules(problem, MethodChoice(("bvn", "open-shop"), ())))


def test_distributions_show_their_median_and_tail(open_page, packets):
    page = open_page(packets)
    for of in ("time", "slowdown"):
        plot = page.locator(f"[data-of={of}][data-drawn] svg")
        plot.wait_for()
        assert plot.get_by_text("p50").count() == 1
        assert plot.get_by_text("p99").count() == 1
    box = page.locator("[data-of=time]").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.get_by_text("% of flows within").first.wait_for()


def test_worst_flows_and_busiest_links_are_listed_and_mapped(open_page, packets):
    page = open_page(packets)
    for title in ("Worst flows", "Busiest links", "Where and which"):
        assert page.get_by_role("heading", name=title).count() == 1
    assert page.locator("#map .matrix rect[data-tip]").count() > 16


@pytest.mark.parametrize("width", [1280, 800, 400])
def test_other_pages_fit_every_width(open_page, packets, schedules, width):
    for text in (packets, schedules):
        page = open_page(text, width=width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_page_of_two_runs_begins_with_the_answer(open_page):
    flows = lightloom.make_flows(range(8), range(8, 16), [10**5 * n for n in range(1, 9)])
    cases = [
        PacketCase({"transport": name}, run.scenario, run)
        for name in ("dcqcn", "ndp")
        if (run := lightloom.simulate_flows(flows, hosts=16, rate="100 Gb/s", transport=name))
    ]
    page = open_page(render_cases(cases))
    assert page.locator("h1").inner_text().startswith("p99 of completion: shortest with ")
    flows = page.locator("section", has_text="Slowest flows").locator("tbody th").all_inner_texts()
    assert sorted(map(int, flows)) == list(range(8))
    colors = page.evaluate("""() => lightloom.chartOf(document.querySelector("[data-of=time]"))
      .getOption().series.map((series) => series.lineStyle.color)""")
    assert colors == ["#0072b2", "#d55e00"]
    labels = page.evaluate("""() => [...document.querySelectorAll("[data-of=time] text")]
      .map((text) => text.getBoundingClientRect())
      .map(({ x, y, right, bottom }) => [x, y, right, bottom])""")
    for number, one in enumerate(labels):
        for other in labels[number + 1 :]:
            apart = one[2] <= other[0] or other[2] <= one[0]
            assert apart or one[3] <= other[1] or other[3] <= one[1]


def test_the_best_of_each_column_is_marked(open_page, schedules):
    page = open_page(schedules)
    rows = page.locator("table").first.locator("tbody tr").all()
    lengths = [float(row.locator("td").first.inner_text()) for row in rows]
    marked = ["best" in (row.locator("td").first.get_attribute("class") or "") for row in rows]
    assert [length == min(lengths) for length in lengths] == marked or len(set(lengths)) == 1


def test_other_runs_are_overlaid_from_their_pages(open_page, packets, tmp_path):
    flows = lightloom.make_flows([0, 1], [9, 9], [5_000_000, 90_000_000])
    run = lightloom.simulate_flows(flows, hosts=16, rate="100 Gb/s", transport="ideal")
    other = tmp_path / "slow.html"
    other.write_text(render_packets(run, run.scenario), encoding="utf-8")
    page = open_page(packets)
    page.set_input_files("#other-runs", other)
    plot = page.locator("[data-of=time] svg")
    plot.get_by_text("slow.html: ideal: flows").wait_for()
    ends = page.evaluate("""() => lightloom.chartOf(document.querySelector("[data-of=time]"))
      .getOption().series.map((series) => series.data.at(-1)[0])""")
    # in the unit of the page, whatever that of the other
    unit_s = page.evaluate("lightloom.data.distributions.time.unit")
    assert ends[1] * unit_s == pytest.approx(run.fct_s.max())
    assert unit_s < 1e-3
    page.set_input_files("#other-runs", {"name": "x.html", "mimeType": "text/html", "buffer": b"a"})
    page.wait_for_function(  # a file is read while the page goes on
        "document.getElementById('other-runs').validationMessage.includes('no page of a packet')"
    )


@pytest.fixture(scope="module")
def cases():
    """Three runs of the same flows, and one that is stuck."""
    flows = lightloom.make_flows(range(8), range(8, 16), 400_000)
    found = []
    for name in ("ideal", "dctcp", "ndp"):
        run = lightloom.simulate_flows(flows, hosts=16, rate="100 Gb/s", transport=name)
        found.append(PacketCase({"transport": name}, run.scenario, run))
    return [*found, PacketCase({"transport": "roce"}, run.scenario, stuck="links wait")]


def test_several_runs_are_one_chart_and_one_table(open_page, cases):
    page = open_page(render_cases(cases))
    for of in ("time", "slowdown"):
        page.locator(f"[data-of={of}][data-drawn] svg").wait_for()
    series = page.evaluate("""() => lightloom.chartOf(document.querySelector("[data-of=time]"))
      .getOption().series.map((series) => [series.name, series.data.at(-1)[0]])""")
    unit_s = page.evaluate("lightloom.data.distributions.time.unit")
    for (name, end), case in zip(series, cases, strict=False):
        assert name == case.title
        assert end * unit_s == pytest.approx(case.run.fct_s.max())
    assert len(series) == 3
    rows = page.locator("table").first.locator("tbody tr").all_inner_texts()
    assert [row.split()[0] for row in rows] == ["ideal", "dctcp", "ndp", "roce"]
    assert page.get_by_text("roce: stuck: links wait.").count() == 1


def test_several_runs_are_drawn_without_scripts(open_page, cases):
    page = open_page(render_cases(cases), scripts=False)
    assert page.locator("[data-chart] path.line").count() == 6
    assert page.locator(".legend li").all_inner_texts() == ["ideal", "dctcp", "ndp"]


@pytest.mark.parametrize("width", [1280, 800, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_of_several_runs_fits_every_width(open_page, cases, width, scheme):
    page = open_page(render_cases(cases), width=width, scheme=scheme)
    page.locator("[data-of=time][data-drawn] svg").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_other_pages_are_overlaid_on_all_runs(open_page, cases, packets, tmp_path):
    other = tmp_path / "other.html"
    other.write_text(packets, encoding="utf-8")
    page = open_page(render_cases(cases))
    page.set_input_files("#other-runs", other)
    plot = page.locator("[data-of=time] svg")
    plot.get_by_text("other.html: dcqcn: flows").wait_for()
    assert plot.get_by_text("ndp", exact=True).count() == 1
