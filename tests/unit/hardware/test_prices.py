"""Prices and powers: MixNet's Table 4, ratios that follow from it, refusals."""

from importlib import resources

import pytest

from lightloom.errors import HardwareError
from lightloom.hardware import (
    crossbar_names,
    crossbar_technology,
    load_power,
    load_prices,
    switch_names,
    switch_technology,
)

TABLE_4 = {
    100: (99, 659, 187, 520, 100),
    200: (239, 1079, 374, 520, 100),
    400: (659, 1499, 1090, 520, 100),
    800: (1399, 2248, 1400, 520, 100),
}
NAMES = ("transceiver_usd", "nic_usd", "switch_port_usd", "ocs_port_usd", "patch_port_usd")


@pytest.mark.parametrize("rate", TABLE_4)
def test_table_4(rate):
    row = load_prices().at(rate)
    assert tuple(row.get(name) for name in NAMES) == TABLE_4[rate]
    assert not any(row.provenance[name].assumed for name in NAMES)


@pytest.mark.parametrize(
    ("rate", "ratio"), [(100, 1.524), (200, 1.790), (400, 2.289), (800, 2.331)]
)
def test_prices_give_the_papers_cost_ratio(rate, ratio):
    """Per NIC: fat-tree n + 5e + 6t + 3f; MixNet 2 of 8 NICs on it, 6 on an OCS n + t + o + f."""
    prices = load_prices()
    transceiver, nic, port, ocs, _ = (prices.at(rate).get(name) for name in NAMES)
    fat_tree = nic + 5 * port + 6 * transceiver + 3 * prices.fiber_usd
    optical = nic + transceiver + ocs + prices.fiber_usd
    assert fat_tree / ((2 * fat_tree + 6 * optical) / 8) == pytest.approx(ratio, abs=5e-4)


def test_fiber_and_server():
    prices = load_prices()
    assert prices.fiber_usd == pytest.approx(150)
    assert prices.server_usd_per_gpu() == pytest.approx(7500)
    assert prices.look_ahead_switch_usd == 25
    assert prices.rates_gbps() == [100, 200, 400, 800, 1600]


def test_what_nobody_published_at_1600_gbps_is_assumed():
    prices = load_prices().at(1600).provenance
    assert all(prices[name].assumed for name in ("nic_usd", "transceiver_usd", "switch_port_usd"))
    assert "extrapolated from" in prices["nic_usd"].source
    assert load_power().at(1600).provenance["nic_w"].assumed


@pytest.mark.parametrize("rate", [300, 3200, 0, -1])
def test_rates_between_rows_are_refused(rate):
    with pytest.raises(HardwareError):
        load_prices().at(rate)
    with pytest.raises(HardwareError):
        load_power().at(rate)


def test_unknown_component_suggests():
    with pytest.raises(HardwareError, match=r"at 400 Gb/s: no 'nic_us'; did you mean 'nic_usd'"):
        load_prices().at(400).get("nic_us")


def packaged(name: str) -> str:
    return resources.files("lightloom.hardware").joinpath("data", name).read_text()


def test_own_file_replaces_a_price(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text(packaged("prices.toml").replace("value = 659", "value = 333"))
    prices = load_prices(path)
    assert prices.at(400).get("transceiver_usd") == 333
    assert prices.name == str(path)
    assert load_prices().at(400).get("transceiver_usd") == 659


def test_rates_ascend_as_numbers(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text(packaged("prices.toml").replace("[links.800]", "[links.3200]"))
    assert load_prices(path).rates_gbps() == [100, 200, 400, 1600, 3200]


def test_missing_price_is_refused_where_it_is_used(tmp_path):
    lines = packaged("prices.toml").splitlines()
    path = tmp_path / "p.toml"
    path.write_text("\n".join(line for line in lines if not line.startswith("dac_usd")))
    prices = load_prices(path)
    assert prices.at(400).get("nic_usd") == 1499
    with pytest.raises(HardwareError, match=r"at 400 Gb/s: no 'dac_usd'.*add it to the file"):
        prices.at(400).get("dac_usd")


def test_missing_server_price(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text(packaged("prices.toml").replace("price_usd = { value = 60000", "# {"))
    with pytest.raises(HardwareError, match="server: no 'price_usd'"):
        load_prices(path).server_usd_per_gpu()


def test_server_without_gpus_to_share_it(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text(packaged("prices.toml").replace("gpus = { value = 8", "gpus = { value = 0"))
    with pytest.raises(HardwareError, match="gpus must be at least 1"):
        load_prices(path).server_usd_per_gpu()


def test_misspelt_component_is_refused(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text(packaged("prices.toml").replace("nic_usd", "nics_usd", 1))
    with pytest.raises(HardwareError, match=r"'links\.100\.nics_usd'; did you mean 'nic_usd'"):
        load_prices(path)


def test_row_that_is_not_a_rate_is_refused(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text(packaged("prices.toml").replace("[links.100]", "[links.fast]"))
    with pytest.raises(HardwareError, match="row 'fast' must be a rate"):
        load_prices(path)


def test_powers_grow_with_the_rate_and_circuits_need_little():
    powers = load_power()
    for name in ("switch_port_w", "transceiver_w", "nic_w"):
        values = [powers.at(rate).get(name) for rate in TABLE_4]
        assert values == sorted(values)
        assert values[0] > powers.ports.get("ocs_port_w")
    assert powers.ports.get("patch_port_w") == 0
    assert powers.server_w_per_gpu() == pytest.approx(375)


@pytest.mark.parametrize("load", [load_prices, load_power])
def test_everything_has_provenance(load):
    values = load().provenance()
    assert any(key.startswith("links.400.") for key in values)
    assert "server.gpus" in values
    assert all(value.source and value.date for value in values.values())


def test_a_kind_of_circuit_switch_without_a_price_takes_that_of_its_rate(tmp_path):
    """Files from before kinds had prices stay readable."""
    text = resources.files("lightloom.hardware").joinpath("data/prices.toml").read_text()
    start, end = text.index("[circuit_switches.robotic]"), text.index("[fiber]")
    path = tmp_path / "mine.toml"
    path.write_text(text[:start] + text[end:])
    mine, packaged = load_prices(path), load_prices()
    assert mine.circuit_switch("plzt", 400).get("ocs_port_usd") == 520
    assert packaged.circuit_switch("plzt", 400).get("ocs_port_usd") == 1040
    assert packaged.circuit_switch("piezo", 400).get("ocs_port_usd") == 520
    assert packaged.circuit_switch("robotic", 1600).get("ocs_port_usd") == 100


def test_every_kind_of_circuit_switch_that_has_a_price_is_known():
    names = set(switch_names())
    assert set(load_prices().file.circuit_switches) <= names
    assert set(load_power().file.circuit_switches) <= names
    assert {crossbar_technology(name).switch for name in crossbar_names()} <= names | {None}


def test_parts_of_1600_gbps_are_sampled():
    assert load_prices().availability(400) == "volume"
    assert load_prices().availability(1600) == "sampled"
    assert switch_technology("piezo").availability == "volume"
    assert crossbar_technology("electronic").availability == "paper"
