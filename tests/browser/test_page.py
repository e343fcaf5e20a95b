"""What holds for the whole page: it can be read by anyone, linked to, and taken along."""

import base64
import dataclasses
import json
import urllib.parse
from pathlib import Path

import pytest
from tests.unit.report.hand_made_results import comparison

from lightloom.report.explain import WORDS
from lightloom.report.page import render

CONTRAST = (Path(__file__).parent / "contrast.js").read_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_told_from_its_ground(open_page, hand_made, scheme):
    page = open_page(hand_made, scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    assert page.evaluate(CONTRAST) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_time_in_a_part_of_a_bar_can_be_read(open_page, hand_made, scheme):
    page = open_page(hand_made, scheme=scheme)
    page.evaluate(
        """(names) => document.querySelector("main").insertAdjacentHTML("beforeend", names.map(
            (name) => `<div class="bar"><span class="cat-${name}" style="width: 99px"><b>${name}` +
            "</b></span></div>").join(""))""",
        [name for name in WORDS if name != "bubble"],  # time of no part of a critical path
    )
    assert page.evaluate(CONTRAST) == []


def test_results_can_be_taken_along(open_page, hand_made):
    page = open_page(hand_made)
    for name, read in (("results.json", json.loads), ("results.csv", str.splitlines)):
        with page.expect_download() as started:
            page.get_by_role("link", name=name).click()
        assert started.value.suggested_filename == name
        found = read(Path(started.value.path()).read_text(encoding="utf-8"))
        if name == "results.json":
            assert found == json.loads(json.dumps(comparison().to_json(), default=str))
        else:
            assert len(found) == 1 + len(comparison().results)
            assert found[0].startswith("fabric,kind,step_time_s")


def test_downloads_work_without_scripts(open_page, hand_made):
    page = open_page(hand_made, scripts=False)
    address = page.get_by_role("link", name="results.json").get_attribute("href")
    kind, content = address.split(",", 1)
    assert kind == "data:application/json;base64"
    assert json.loads(base64.b64decode(urllib.parse.unquote(content)))["schema_version"]


def test_sections_and_fabrics_can_be_linked_to(open_page, hand_made):
    page = open_page(hand_made, at="#fabric-mixnet")
    assert page.locator("#fabric-mixnet").get_attribute("open") is not None
    assert -1 <= page.locator("#fabric-mixnet").bounding_box()["y"] < 900
    for place in page.locator("a.permalink").all():
        assert page.locator(place.get_attribute("href")).count() == 1


def test_the_command_and_the_sources_are_there(open_page):
    made = comparison()
    command = "lightloom compare 'my model' --gpus 128"
    prices = made.inputs["prices"] | {
        "links.800.nic_usd": {"value": 1.0, "source": "a shop", "url": "https://example.org/nic"},
    }
    inputs = made.inputs | {"command": command, "prices": prices}
    page = open_page(render(dataclasses.replace(made, inputs=inputs)))
    assert page.locator("#command").inner_text() == command
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    assert (
        page.get_by_role("link", name="a shop").get_attribute("href") == "https://example.org/nic"
    )


def test_a_plan_that_does_not_fit_dims_everything(open_page):
    made = comparison(warnings=("stage 0 needs 120 GB of 80 GB",))
    page = open_page(render(dataclasses.replace(made, memory=made.memory | {"fits": False})))
    opacity = "(part) => Number(getComputedStyle(part).opacity)"
    for part in ("h1", ".tiles, .answer", "#results", "#timeline"):
        assert page.locator(part).first.evaluate(opacity) < 0.6
    for warning in page.locator(".warning").all():
        assert warning.evaluate(opacity) == 1
        assert warning.is_visible()
    page.click("#undim")
    assert page.locator("#results").evaluate(opacity) == 1


def test_the_keyboard_reaches_what_a_mouse_does(open_page, hand_made):
    page = open_page(hand_made)
    reached = set()
    for _ in range(150):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("""() => {
          const at = document.activeElement;
          return at.dataset.chart ?? at.dataset.filter ?? at.id ?? at.tagName;
        }""")
        )
    assert {"theme", "fat-tree", "timeline-whole", "timeline-fabric", "timeline"} <= reached
