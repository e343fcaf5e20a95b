"""Loss that grows is told and is an alarm, over changes and restarts, until a part is mended."""

import asyncio
import io

import pytest
from tests.control_regions import WHY, controlled, emulated, pairs, port_map_of

from lightloom.cli import run_command
from lightloom.control import loss_trend
from lightloom.control.example import write_example
from lightloom.control.failure_state import RegionFailures
from lightloom.control.journal import Journal
from lightloom.control.loss_trend import LossTrend, growth_alarms
from lightloom.control.metrics import ControlMetrics
from lightloom.control.optics import LossBudget
from lightloom.control.port_map import PlacedConnect, SwitchPort
from lightloom.control.region_file import OpticsSection
from lightloom.control.running import check_once, observe, open_region, running
from lightloom.control.session import RegionSession
from lightloom.control.switch import CrossConnect

PORTS = port_map_of(4, 2, 12)
PLACED = PlacedConnect("ocs", CrossConnect("1", "15"))
DAY_S = 86_400.0


def light(loss_db, placed=PLACED, verdict="within"):
    return [LossBudget(placed, 1.0, None, loss_db, verdict)]


@pytest.fixture
def journal(tmp_path):
    journal = Journal(tmp_path / "r0.sqlite", "r0")
    yield journal
    journal.close()


def grown(trend, loss_db, ports=PORTS):
    found = trend.growth(light(loss_db), ports)
    return None if PLACED not in found else round(found[PLACED][0], 6)


def test_growth_is_over_the_lowest_reading_since_the_first(journal):
    trend = LossTrend(journal)
    assert grown(trend, 1.5) is None
    trend.note(light(1.5), PORTS, 0.0)
    assert grown(trend, 1.5) == 0.0
    assert grown(trend, 4.0) == 2.5
    trend.note(light(4.0), PORTS, DAY_S)
    trend.note(light(1.2), PORTS, 2 * DAY_S)  # cleaned
    assert grown(trend, 1.5) == 0.3
    assert grown(trend, 1.0) == 0.0
    # another that opens the journal knows the same, whether or not it may write
    path = journal.path
    for is_read_only in (False, True):
        other = Journal(path, "r0", is_read_only=is_read_only)
        assert grown(LossTrend(other), 4.0) == 2.8
        other.close()
    other = Journal(path, "r1")
    assert grown(LossTrend(other), 4.0) is None
    other.close()


@pytest.mark.parametrize(
    ("budget", "why"),
    [
        (light(None), "is not measured"),
        (light(0.0, verdict="dark"), "no light has nothing to lose"),
        (light(1.0, PlacedConnect("ocs", CrossConnect("12", "15"))), "is not the region's"),
    ],
)
def test_what_has_no_loss_is_not_kept(journal, budget, why):
    trend = LossTrend(journal)
    trend.note(budget, PORTS, 0.0)
    assert trend.growth(budget, PORTS) == {}, why


def test_other_nics_at_the_same_ports_begin_anew(journal):
    trend = LossTrend(journal)
    trend.note(light(1.5), PORTS, 0.0)
    renamed = port_map_of(4, 2, 12)
    renamed = type(renamed)(renamed.name, ("other", *renamed.servers[1:]), renamed.nics)
    assert grown(trend, 4.0, renamed) is None
    trend.forget(["node3/0"])
    assert grown(trend, 4.0) == 2.5
    trend.forget(["node1/0"])  # the receiver of port 15
    assert grown(trend, 4.0) is None
    assert grown(LossTrend(journal), 4.0) is None


def test_what_is_kept_is_bounded(journal, monkeypatch):
    monkeypatch.setattr(loss_trend, "_MAX_ROWS", 8)
    trend = LossTrend(journal)
    for number, egress in enumerate(range(13, 21)):
        for ingress in ("1", "2"):
            placed = PlacedConnect("ocs", CrossConnect(ingress, str(egress)))
            trend.note(light(1.0, placed), PORTS, float(number))
    kept = journal.rows("SELECT place FROM losses ORDER BY at")
    assert len(kept) <= 8
    assert kept[-1][0] == "2-20 of ocs"
    assert {path.place for path in trend._lowest} == {row[0] for row in kept}


def test_noise_is_not_written_again_and_again(journal):
    trend, count = LossTrend(journal), journal.rows("SELECT total_changes()")
    trend.note(light(1.50), PORTS, 0.0)
    after = journal.rows("SELECT total_changes()")
    assert after > count
    for loss_db in (1.48, 1.52, 1.49, 3.0):
        trend.note(light(loss_db), PORTS, 1.0)
    assert journal.rows("SELECT total_changes()") == after


def test_an_alarm_says_how_much_and_since_when(journal):
    trend = LossTrend(journal)
    trend.note(light(1.5), PORTS, 1.0e9)
    found = trend.growth(light(3.8), PORTS)
    assert growth_alarms(found, 2.0) == {"1-15 of ocs": "loses 2.3 dB more than on 2001-09-09"}
    assert growth_alarms(found, 2.4) == {}


def test_the_limit_is_twice_the_error_of_a_monitor_unless_it_is_given():
    limits = OpticsSection().resolved()
    assert limits.max_loss_growth_db == 2 * limits.monitor_accuracy_db
    assert OpticsSection(max_loss_growth_db=0.5).resolved().max_loss_growth_db == 0.5
    assert OpticsSection(monitor_accuracy_db=0.2).resolved().max_loss_growth_db == 0.4


def test_a_journal_that_cannot_be_read_knows_nothing_and_loses_nothing(journal, monkeypatch):
    LossTrend(journal).note(light(1.5), PORTS, 0.0)
    trend = LossTrend(journal)
    with monkeypatch.context() as broken:
        broken.setattr(journal, "rows", journal_fails)
        assert trend.growth(light(4.0), PORTS) == {}
        with pytest.raises(loss_trend.JournalError):
            trend.note(light(4.0), PORTS, 1.0)
    assert grown(trend, 4.0) == 2.5


def journal_fails(*_):
    raise loss_trend.JournalError("r0.sqlite: cannot read the journal")


def test_a_nic_that_goes_into_service_again_begins_anew(tmp_path):
    async def scenario():
        async with controlled(tmp_path) as (controller, _):
            failures = RegionFailures(controller)
            found = []
            for part in ("nic:3/1", "nic:0/0", "server:1", "switch:ocs"):
                controller.trend.note(light(1.5), PORTS, 0.0)
                await failures.add([part])
                found.append(grown(controller.trend, 4.0))
                await failures.remove([part])
                found.append(grown(controller.trend, 4.0))
            return found

    assert asyncio.run(scenario()) == [2.5, 2.5, 2.5, None, 2.5, None, 2.5, None]


def test_a_fiber_that_gets_dirty_is_an_alarm_a_metric_and_a_word_of_watch(tmp_path, capfd):
    pytest.importorskip("prometheus_client")
    stream = io.StringIO()
    with emulated() as emulator:
        path = write_example(tmp_path, emulator.url(), servers=4, nics=2, size=12)
        path.write_text(f"{path.read_text()}\n[optics]\nmax_loss_db = 20\n")

        async def look(act=None):
            region = open_region(path, stream)
            async with running(region) as controller:
                if act is not None:
                    await controller.apply(act, WHY)
                session = RegionSession(controller, metrics=region.metrics, notify=region.log)
                await check_once(region, session)
                observe(region, session)
                return dict(session.alarms), region.metrics.text()

        alarms, text = asyncio.run(look(pairs("0/0-1/0")))
        assert alarms == {}
        assert 'lightloom_loss_growth_db{port="15",region="region",switch="ocs"} 0.0' in text
        assert 'lightloom_max_loss_growth_db{region="region"} 2.0' in text
        emulator.matrix._loss_db[1] += 2.5
        # the circuit is made again, by a service that has begun since
        asyncio.run(look(pairs("")))
        alarms, text = asyncio.run(look(pairs("0/0-1/0")))
        assert list(alarms) == ["1-15 of ocs"]
        assert alarms["1-15 of ocs"].startswith("loses 2.5 dB more than on 20")
        assert 'lightloom_loss_growth_db{port="15",region="region",switch="ocs"} 2.5' in text
        assert 'lightloom_alarms{region="region"} 1.0' in text
        assert run_command(["control", "watch", str(path), "--once", "--quiet"]) == 0
        lines = capfd.readouterr().out.splitlines()
        assert lines[2].endswith("  grown by 2.5 dB")
        assert lines[3].startswith("  alarm: 1-15 of ocs loses 2.5 dB more than on ")
        asyncio.run(look(pairs("")))


def test_growth_of_circuits_that_are_gone_vanishes_from_the_metrics():
    pytest.importorskip("prometheus_client")
    metrics = ControlMetrics("r0")
    metrics.observe_growth({SwitchPort("ocs", "13"): 0.5}, 2.0)
    assert "lightloom_loss_growth_db{" in metrics.text()
    metrics.observe_growth({}, 2.0)
    assert "lightloom_loss_growth_db{" not in metrics.text()
