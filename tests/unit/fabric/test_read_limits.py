"""Files of users are read with a bound."""

import pytest

from lightloom.errors import FabricError, HardwareError
from lightloom.fabric import load_fabric
from lightloom.hardware import load_prices


def test_a_huge_fabric_file_is_refused_unread(tmp_path):
    path = tmp_path / "huge.toml"
    path.write_bytes(b"#" * 1_000_001)
    with pytest.raises(FabricError, match="1,000,001 bytes exceed the limit of 1,000,000"):
        load_fabric(path)


def test_a_huge_price_file_is_refused_unread(tmp_path):
    path = tmp_path / "huge.toml"
    path.write_bytes(b"#" * 1_000_001)
    with pytest.raises(HardwareError, match="1,000,001 bytes exceed the limit of 1,000,000"):
        load_prices(path)


def test_an_unknown_key_with_a_line_break_stays_one_line(tmp_path):
    path = tmp_path / "odd.toml"
    path.write_text('"a\\nb" = 1\n')
    with pytest.raises(HardwareError) as caught:
        load_prices(path)
    assert "\n" not in str(caught.value)
    assert "unknown key" in str(caught.value)
