"""The page of an advice: marks that say why they lost, a tornado, on every width, with its data."""

import json

import pytest

from lightloom.report.page_purchase import render_purchase
from lightloom.study.compare.scenario import Scenario
from lightloom.study.purchase import PurchaseOptions, advise_purchase


@pytest.fixture(scope="module")
def advice():
    job = Scenario(
        model="mixtral-8x7b",
        gpus=32,
        cluster={"rate_gbps": 100},
        plan={"tp": 2, "pp": 2, "ep": 8, "micro_batches": 2},
    )
    fabrics = ("rail-only", "mixnet")
    return advise_purchase(job, PurchaseOptions(gpus=(32,), rates_gbps=(100.0,), fabrics=fabrics))


@pytest.mark.parametrize("width", [1280, 800, 400])
def test_the_page_fits_every_width(open_page, advice, width):
    page = open_page(render_purchase(advice), width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_mark_says_what_it_is_and_why_it_lost(open_page, advice):
    page = open_page(render_purchase(advice))
    marks = page.locator("#candidates path[data-tip]")
    shown = [one for one in advice.candidates if one.predicted_s is not None]
    assert marks.count() == len(shown)
    last = marks.last
    last.hover()
    page.get_by_text(f"{advice.recommended.number}: {advice.recommended.design}").first.wait_for()
    assert "recommended" in last.get_attribute("data-tip")


def test_bars_of_the_tornado_are_as_long_as_the_lead_moves(open_page, advice):
    page = open_page(render_purchase(advice))
    bars = page.locator("#flips rect[data-tip]")
    widths = bars.evaluate_all("all => all.map(one => one.width.baseVal.value)")
    moved = [
        abs(lead - effect.lead_now)
        for effect in advice.effects[:12]
        for lead in (effect.lead_low, effect.lead_high)
    ]
    scale = sum(widths) / sum(moved)
    assert widths == pytest.approx([scale * one for one in moved], abs=0.05)


def test_the_page_holds_its_data(open_page, advice):
    page = open_page(render_purchase(advice))
    with page.expect_download() as download:
        page.get_by_text("advice.json").click()
    content = json.loads(download.value.path().read_text())
    assert len(content["candidates"]) == len(advice.candidates)
