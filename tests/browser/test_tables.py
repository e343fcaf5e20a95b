"""Tables: dollars under the reader's own assumptions."""


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
