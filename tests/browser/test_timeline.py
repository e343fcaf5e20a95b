"""The timeline can be zoomed, moved and filtered, for every fabric."""

import pytest

CHART = "[data-chart=timeline]"
#: numbers of the chart itself: what is in sight and what is drawn of it
STATE = """() => {
  const option = lightloom.chartOf(document.querySelector("[data-chart=timeline]")).getOption();
  const zoom = option.dataZoom[0];
  return { from: zoom.startValue, to: zoom.endValue, rows: option.series[0].data };
}"""


@pytest.fixture
def page(open_page, hand_made):
    page = open_page(hand_made, at="#timeline-mixnet")
    page.wait_for_selector(f"{CHART}[data-fabric=mixnet]")
    return page


def rows_of(page):
    return page.evaluate(STATE)["rows"]


def test_every_fabric_can_be_chosen_and_linked_to(page, open_page, hand_made):
    assert page.locator(CHART).get_attribute("data-fabric") == "mixnet"
    page.select_option("#timeline-fabric", "topoopt")
    page.wait_for_selector(f"{CHART}[data-fabric=topoopt]")
    assert page.url.endswith("#timeline-topoopt")
    assert page.get_by_text("topoopt: One worker per pipeline stage").is_visible()
    again = open_page(hand_made, at="#timeline-fat-tree")
    again.wait_for_selector(f"{CHART}[data-fabric=fat-tree]")
    assert again.locator("#timeline").bounding_box()["y"] < 900


def test_the_fabric_to_build_is_shown_first(open_page, hand_made):
    page = open_page(hand_made)
    page.wait_for_selector(f"{CHART}[data-fabric=fat-tree]")
    assert "Build fat-tree" in page.locator("h1").inner_text()


def test_zooming_by_button_wheel_and_keys(page):
    detail = page.evaluate(STATE)  # a forward and a backward pass at first
    assert 2.9 < detail["to"] - detail["from"] < 3.6
    page.focus(CHART)
    page.keyboard.press("+")
    closer = page.evaluate(STATE)
    assert closer["to"] - closer["from"] == pytest.approx((detail["to"] - detail["from"]) / 2)
    page.keyboard.press("ArrowRight")
    assert page.evaluate(STATE)["from"] > closer["from"]
    page.click("#timeline-whole")
    assert page.evaluate(STATE)["to"] == 20.5
    page.hover(CHART)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    page.wait_for_function(f"({STATE})().to - ({STATE})().from < 20")


def test_dragging_moves_the_window(page):
    page.click("#timeline-detail")
    before = page.evaluate(STATE)
    box = page.locator(CHART).bounding_box()
    page.mouse.move(box["x"] + 600, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 500, box["y"] + 40, steps=5)
    page.mouse.up()
    page.wait_for_function(f"({STATE})().from > {before['from']} + 0.05")


def test_waits_for_the_last_member_are_apart_from_the_all_to_all(page):
    page.click("#timeline-detail")
    waits = [row for row in rows_of(page) if row[3] == 3]
    sent = {row[4]: row for row in rows_of(page) if row[3] == 0}
    assert waits
    for _, start, end, _, number in waits:
        # a quarter of each, by the timeline made by hand
        assert (end - start) * 3 == pytest.approx(sent[number][2] - sent[number][1])


def test_keys_switch_off_what_they_name(page):
    page.click("#timeline-detail")
    every = len(rows_of(page))
    key = page.get_by_role("button", name="all-to-all: waiting for its last member")
    assert key.get_attribute("aria-pressed") == "true"
    key.press("Enter")
    assert key.get_attribute("aria-pressed") == "false"
    left = rows_of(page)
    assert 0 < len(left) < every
    assert not [row for row in left if row[3] == 3]
    key.click()
    assert len(rows_of(page)) == every


def test_hovering_a_span_tells_what_it_is(page):
    page.click("#timeline-whole")
    page.locator(CHART).scroll_into_view_if_needed()
    box = page.locator(CHART).bounding_box()
    page.mouse.move(box["x"] + 78, box["y"] + 22)
    tip = page.locator(f"{CHART} div", has_text="compute: attention").last
    tip.wait_for()
    assert "layer 0, micro-batch 0" in tip.inner_text()
    assert "250 ms, from 0" in tip.inner_text()
