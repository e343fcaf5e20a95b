"""Tables: dollars under the reader's own assumptions."""

import pytest


def cell(page, fabric, column):
    row = page.locator(f"#ownership-table tr[data-fabric={fabric}]")
    return float(row.locator("td").nth(column).inner_text().replace(",", ""))


def test_dollars_follow_the_readers_assumptions(open_page, hand_made):
    page = open_page(hand_made)
    before = cell(page, "mixnet", 2)
    page.fill("#life-years", "2")
    page.fill("#usd-per-kwh", "0")
    # 3 M$ over two years, electricity for nothing
    assert cell(page, "mixnet", 2) == 1_500_000
    assert cell(page, "mixnet", 1) == 0
    page.fill("#life-years", "0")
    assert cell(page, "mixnet", 2) == 1_500_000
    assert before != 1_500_000


def texts(page, selector):
    return [" ".join(cell.split()) for cell in page.locator(selector).all_inner_texts()]


def test_every_table_sorts_by_every_column(open_page, hand_made):
    page = open_page(hand_made)
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    tables = page.locator("table.sortable")
    assert tables.count() > 5
    wrong = page.evaluate("""() => {
      const wrong = [];
      for (const table of document.querySelectorAll("table.sortable")) {
        const rows = () => [...table.tBodies[0].rows];
        const number = rows().length;
        [...table.tHead.rows[0].cells].forEach((head, column) => {
          if (head.classList.contains("plain")) return;
          const order = () => rows().map((row) => row.cells[column].dataset.sort
            ?? row.cells[column].textContent.trim());
          head.click();
          const up = order();
          if (head.getAttribute("aria-sort") !== "ascending") wrong.push(head.textContent);
          head.click();
          const down = order();
          const values = up.map(Number);
          if (rows().length !== number) wrong.push("rows of " + head.textContent);
          if (values.every((value) => !isNaN(value))
              && values.some((value, i) => i && value < values[i - 1])) wrong.push(up.join());
          if (new Set(up).size === up.length && up.join() !== down.reverse().join()) {
            wrong.push(head.textContent + " down");
          }
        });
      }
      return wrong;
    }""")
    assert not wrong


def test_tables_sort_by_keyboard(open_page, hand_made):
    page = open_page(hand_made)
    head = page.locator("#results thead th").nth(1)
    head.focus()
    page.keyboard.press(" ")
    assert texts(page, "#results tbody th") == ["fat-tree", "mixnet", "topoopt"]
    page.keyboard.press("Enter")
    assert texts(page, "#results tbody th") == ["topoopt", "mixnet", "fat-tree"]


def test_a_fabric_that_is_left_out_is_nowhere(open_page, hand_made):
    page = open_page(hand_made)
    page.get_by_role("group", name="Fabrics shown").get_by_text("topoopt").click()
    assert texts(page, "#results tbody tr:visible th") == ["fat-tree", "mixnet"]
    assert "topoopt" not in " ".join(texts(page, ".bar-row:visible"))
    plot = page.locator("[data-chart=pareto] svg")
    assert "topoopt" not in plot.inner_html()
    page.get_by_role("group", name="Fabrics shown").get_by_text("topoopt").click()
    assert "topoopt" in plot.inner_html()
    assert len(texts(page, "#results tbody tr:visible th")) == 3


def test_the_first_column_stays_in_sight_on_a_phone(open_page, hand_made):
    page = open_page(hand_made, width=400)
    page.get_by_label("all columns").check()
    page.locator("#results .scroll").evaluate("(box) => { box.scrollLeft = 500; }")
    name = page.locator("#results tbody th").first.bounding_box()
    assert 0 <= name["x"] < 60
    assert page.locator("#results tbody td").first.bounding_box()["x"] < 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_what_decides_without_scrolling(open_page, hand_made, scheme):
    page = open_page(hand_made, width=390, scheme=scheme)
    box = page.locator("#results .scroll")
    assert box.evaluate("(box) => box.scrollWidth - box.clientWidth") <= 0
    shown = page.locator("#results thead th:visible").all_inner_texts()
    assert [text.split()[0] for text in shown] == ["fabric", "step", "slower", "network", "per"]
    everything = page.locator("#results thead th").count()
    page.get_by_label("all columns").check()
    assert page.locator("#results thead th:visible").count() == everything > 5
    assert "gradient" in box.evaluate("(box) => getComputedStyle(box).backgroundImage")


def test_tiles_are_filled(open_page, hand_made):
    page = open_page(hand_made)
    for tile in page.locator(".tile").all():
        used = tile.evaluate("""(tile) => (tile.lastElementChild.getBoundingClientRect().bottom
          - tile.getBoundingClientRect().top) / tile.getBoundingClientRect().height""")
        assert used > 0.6


def test_paper_cuts_nothing_off(open_page, hand_made):
    page = open_page(hand_made, width=720)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    wide = page.evaluate("""() => [...document.querySelectorAll("main *")]
      .filter((part) => part.getBoundingClientRect().right > 721 && part.checkVisibility())
      .map((part) => part.outerHTML.slice(0, 80))""")
    assert not wide
