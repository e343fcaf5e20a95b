"""Single links over time on the page of a packet simulation."""

import numpy as np
import pytest

from lightloom.packets import NetworkTable, PacketScenario, Record, make_flows, simulate_flows
from lightloom.report.page_packets import render_packets
from lightloom.report.plots_packets import MOST_LINKS, busiest_series


def played(rows, sample_s=1e-6):
    draw = np.random.default_rng(rows)
    source = np.arange(1, 16)
    flows = make_flows(source, np.where(source < 9, 0, source - 1), draw.integers(10**4, 10**6, 15))
    network = NetworkTable(hosts=16, rate_gbps=100, topology="star")
    scenario = PacketScenario(network=network, transport="dctcp", seed=1)
    return simulate_flows(flows, scenario, record=Record(series=rows, sample_s=sample_s)), scenario


@pytest.mark.parametrize(("rows", "sample_s"), [(10**6, 1e-6), (10**6, 1e-7), (200, 1e-6)])
def test_rates_over_time_add_up_to_what_each_link_sent(rows, sample_s):
    run, _ = played(rows, sample_s)
    found = busiest_series(run)
    assert len(found) == MOST_LINKS
    names = [f"{run.nodes[a]} to {run.nodes[b]}" for a, b in
             zip(run.links.source, run.links.destination, strict=True)]  # fmt: skip
    sent = dict(zip(names, run.links.sent_bytes.tolist(), strict=True))
    peaks = dict(zip(names, run.links.peak_queue_bytes.tolist(), strict=True))
    # eight hosts send to host 0: no link carries more, or has a longer queue
    assert found[0].name == "switch to 0" == max(sent, key=sent.__getitem__)
    least = min(sent[link.name] for link in found)
    assert sum(size > least for size in sent.values()) < MOST_LINKS
    for link in found:
        assert len(link.gbps) <= 300
        # but for acknowledgments on the wire at the end
        carried = link.gbps.sum() * link.period_s * 1e9 / 8
        assert carried == pytest.approx(sent[link.name], rel=1e-3)
        assert link.gbps.max() <= 100 * (1 + 4200 * 8 / (100e9 * link.period_s))
        assert link.queue_bytes.max() == peaks[link.name]


def test_the_page_has_a_line_of_each_link_where_series_were_kept():
    run, scenario = played(10**6)
    page = render_packets(run, scenario)
    section = page[page.index('<section id="links">') :]
    section = section[: section.index("</section>")]
    for link in busiest_series(run):
        assert section.count(f'data-tip="{link.name}"') == 2
        assert f"</i>{link.name}</li>" in section
    without, _ = played(0)
    assert busiest_series(without) == []
    assert 'id="links"' not in render_packets(without, scenario)
