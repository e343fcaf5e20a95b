"""The page of lists: scaling curves, crossovers, one table."""

import pytest
from tests.unit.study.test_compare_scaling import content, point

from lightloom.report.page_scaling import render_scaling
from lightloom.study.compare.scaling import Scaling

WIDTHS = (1280, 800, 400)


@pytest.fixture(scope="module")
def text():
    """Three sizes at two rates; the fat-tree is best where there are few GPUs."""
    speeds = [(2, 1), (4, 4), (4, 8), (3, 2), (6, 7), (8, 16)]
    results = {
        number: content(fat_tree=1e5 * first, mixnet=1e5 * second)
        for number, (first, second) in enumerate(speeds)
    }
    for found in results.values():
        for result in found["results"]:  # as of real clusters: tens of tokens/s per k$
            result["perf_per_cluster_usd"] = 1e-7 * result["tokens_per_s"]
    points = tuple(point(gpus, rate) for rate in (100.0, 400.0) for gpus in (128, 512, 2048))
    return render_scaling(Scaling(points, results))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_every_width(open_page, text, width, scheme):
    page = open_page(text, width=width, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_its_labels_are_large_enough_and_do_not_overlap(open_page, text, width):
    page = open_page(text, width=width)
    labels = page.evaluate("""() => [...document.querySelectorAll("#scaling .plot")].map((svg) =>
      [...svg.querySelectorAll("text")].map((text) => {
        const { x, y, right, bottom } = text.getBoundingClientRect();
        const size = parseFloat(getComputedStyle(text).fontSize) * svg.getScreenCTM().a;
        return { x, y, right, bottom, size, text: text.textContent };
      }))""")
    assert len(labels) == 10  # two metrics along each of five lines
    for plot in labels:
        assert min(label["size"] for label in plot) > 10
        for number, one in enumerate(plot):
            for other in plot[number + 1 :]:
                apart = (
                    one["right"] <= other["x"] or other["right"] <= one["x"]
                    or one["bottom"] <= other["y"] or other["bottom"] <= one["y"]
                )  # fmt: skip
                assert apart, (one["text"], other["text"])


def test_fabrics_look_as_on_the_page_of_one_comparison(open_page, text, hand_made):
    """By their kind, not by their place in a list."""
    fill = "(mark) => [getComputedStyle(mark).fill, mark.getAttribute('d')]"
    page, other = open_page(text), open_page(hand_made)
    for name in ("fat-tree", "mixnet"):
        here = page.locator("#scaling .legend li", has_text=name).locator(".mark").evaluate(fill)
        row = other.locator(f"#results tr[data-fabric={name}] .mark").first
        assert here == row.evaluate(fill)


def test_a_mark_says_its_value(open_page, text):
    page = open_page(text)
    page.locator("#scaling .plot .mark").first.hover()
    page.locator("#tip").get_by_text("fat-tree: 200").wait_for()


def test_it_is_printed_in_black_on_white_without_scrolling(open_page, text):
    page = open_page(text, width=800, scheme="dark")
    page.emulate_media(media="print", color_scheme="light")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("document.documentElement.scrollWidth") <= 800
    assert len(page.pdf()) > 10_000


def test_it_is_whole_without_scripts(open_page, text):
    page = open_page(text, scripts=False)
    assert page.locator("#scaling polyline").count() == 20
    assert page.locator("#crossovers tbody tr").count() >= 2
    assert page.locator("td.best").count() == 6
