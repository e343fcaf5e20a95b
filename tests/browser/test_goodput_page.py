"""The page of a job's useful time: bars that say what they are, on every width, with its data."""

import json

import pytest

from lightloom.report.page_goodput import LOST, render_goodput
from lightloom.study.compare.scenario import Scenario
from lightloom.study.goodput import goodput
from lightloom.study.goodput.options import RecoveryOptions


@pytest.fixture(scope="module")
def found():
    job = Scenario(
        model="mixtral-8x7b",
        gpus=64,
        cluster={"rate_gbps": 400},
        plan={"tp": 4, "pp": 2, "ep": 8, "micro_batches": 2},
        fabrics=("fat-tree", "mixnet"),
    )
    return goodput(job, RecoveryOptions(runs=5))


@pytest.mark.parametrize("width", [1280, 800, 400])
def test_the_page_fits_every_width(open_page, found, width):
    page = open_page(render_goodput(found), width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_bar_is_as_long_as_its_share_and_says_so(open_page, found):
    page = open_page(render_goodput(found))
    bars = page.locator("#lost rect[data-tip]")
    assert bars.count() == len(LOST) * len(found.results)
    bar = bars.nth(LOST.index("detection"))
    bar.hover()
    page.get_by_text("fat-tree, detection: ").first.wait_for()
    widths = bars.evaluate_all("all => all.map(one => one.width.baseVal.value)")
    shares = [one.shares[name] for one in found.results for name in LOST]
    scale = sum(widths) / sum(shares)
    assert widths == pytest.approx([scale * share for share in shares], abs=0.02)


def test_the_page_holds_its_data(open_page, found):
    page = open_page(render_goodput(found))
    with page.expect_download() as download:
        page.get_by_text("goodput.json").click()
    content = json.loads(download.value.path().read_text())
    assert [one["fabric"] for one in content["results"]] == ["fat-tree", "mixnet"]
    assert page.locator("#sources a[href='https://arxiv.org/abs/2407.21783']").count() > 3
