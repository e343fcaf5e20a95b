"""The first screen answers: the verdict, how far it holds, and cost against speed."""

import dataclasses

import pytest
from tests.unit.report.hand_made_results import comparison

from lightloom.report.page import render
from lightloom.report.story import doubts, story

DRAWN = "[data-chart=pareto][data-drawn] svg"


def plain(page, selector):
    """Text of an element with the spaces of the sentence that it is made of."""
    return page.locator(selector).inner_text().replace("\u00a0", " ")


def test_the_verdict_is_the_headline_and_is_seen_first(open_page, hand_made):
    page = open_page(hand_made)
    assert plain(page, "h1") == story(comparison())
    assert plain(page, ".doubt") == doubts(comparison())
    for part in ("h1", ".doubt", ".tiles", DRAWN):
        assert page.locator(part).bounding_box()["y"] < 900


def test_names_next_to_the_marks_do_not_overlap(open_page, hand_made):
    for width in (1280, 800, 400):
        page = open_page(hand_made, width=width)
        boxes = [
            page.locator(f"{DRAWN} text", has_text=name).last.bounding_box()
            for name in ("fat-tree", "topoopt", "mixnet")
        ]
        for i, a in enumerate(boxes):
            for b in boxes[:i]:
                apart = a["x"] + a["width"] <= b["x"] or b["x"] + b["width"] <= a["x"]
                assert apart or abs(a["y"] - b["y"]) >= 0.8 * a["height"]


def test_hovering_a_fabric_tells_its_numbers(open_page, hand_made):
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    page = open_page(hand_made)
    box = page.locator(f"{DRAWN} text", has_text="topoopt").last.bounding_box()
    places = (box["x"] - 12, box["x"] + box["width"] + 12)
    tip = page.locator("[data-chart=pareto] div", has_text="of network").last
    for x in places:
        page.mouse.move(x, box["y"] + box["height"] / 2)
        try:
            tip.wait_for(timeout=15_000)
        except api.TimeoutError:
            continue
        break
    assert "38,462 tokens/s" in tip.inner_text()
    assert "$2,000,000 of network" in tip.inner_text()
    assert "on the Pareto front" in tip.inner_text()


def test_the_cost_is_that_of_the_network_or_of_the_cluster(open_page, hand_made):
    page = open_page(hand_made)
    assert page.locator(f"{DRAWN} >> text=cost of the network [M$]").count() == 1
    page.get_by_label("cluster").check()
    assert page.locator(f"{DRAWN} >> text=cost of the cluster [M$]").count() == 1


def test_without_scripts_the_plot_is_a_drawing(open_page, hand_made):
    page = open_page(hand_made, scripts=False)
    assert page.locator("[data-chart=pareto] svg .mark").count() == 3
    assert plain(page, "h1") == story(comparison())


def test_a_page_fits_every_width(open_page, hand_made):
    for width in (1280, 800, 400):
        page = open_page(hand_made, width=width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_dark_is_dark_and_follows_the_button(open_page, hand_made):
    page = open_page(hand_made, scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    name = "getComputedStyle(document.querySelector('[data-chart] svg text:last-of-type')).fill"
    dark = page.evaluate(ground), page.evaluate(name)
    page.locator("#theme").click()
    assert "light" in page.locator("#theme").inner_text()
    light = page.evaluate(ground), page.evaluate(name)
    assert dark[0] != light[0]
    assert dark[1] != light[1]


def test_a_fabric_that_costs_as_much_and_is_as_fast_keeps_its_name(open_page):
    made = comparison()
    first = made.results[0]
    twin = dataclasses.replace(first, fabric="its-twin", kind="rail")
    page = open_page(render(dataclasses.replace(made, results=(*made.results, twin))))
    one, other = (
        page.locator(f"{DRAWN} text", has_text=name).last.bounding_box()
        for name in ("fat-tree", "its-twin")
    )
    apart = one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
    assert apart or abs(one["y"] - other["y"]) >= 0.8 * one["height"]
