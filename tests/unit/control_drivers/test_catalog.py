"""URLs of switches: which driver they open, and what is wrong with them in one line."""

import subprocess
import sys

import pytest
from tests.control_switches import ADMIN, change, pairs, run

from lightloom.control.drivers import open_driver, schemes
from lightloom.control.drivers.options import (
    DriverSettings,
    optional_import,
    parse_switch_url,
    settings_from,
)
from lightloom.control.emulator.emulator import MODELS
from lightloom.control.switch import SwitchDisconnectedError
from lightloom.errors import InputError


def test_every_service_of_the_emulator_has_a_driver():
    urls = {scheme for services in MODELS.values() for scheme in services.values()}
    # RESTCONF of SONiC without TLS, and SNMP, are there for other clients
    assert urls - {"http", "snmp"} == set(schemes())


@pytest.mark.parametrize("scheme", schemes())
def test_drivers_have_the_methods_of_the_protocol_and_no_password_in_sight(scheme):
    pytest.importorskip("pygnmi")
    driver = open_driver(f"{scheme}://192.0.2.1", credentials=ADMIN)
    for method in ("connect", "read_back", "apply", "watch", "close"):
        assert callable(getattr(driver, method))
    assert "root" not in repr(driver)
    run(driver.close())


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("10.0.0.5", "expected scheme://host:port, such as polatis+tl1://10.0.0.5:3082"),
        ("polatis+tl1://", "expected scheme://host:port"),
        ("polatis+tl1://host:99999", "expected scheme://host:port"),
        ("polatis+tl1://host/path", "expected scheme://host:port"),
        ("polatis+tl1://[::1", "expected scheme://host:port"),
        ("polatis+tl2://host", "unknown scheme 'polatis+tl2': expected one of polatis+tl1"),
        ("polatis+tl1://admin:root@host", "give user and password as credentials"),
        ("polatis+tl1://host?retries=3", "unknown setting 'retries': expected one of"),
        ("polatis+tl1://host?moves=maybe", "moves = 'maybe': expected yes or no"),
        ("polatis+tl1://host?max_pairs=x", "max_pairs = 'x': expected a number, 0 or more"),
        ("polatis+tl1://host?reply_timeout_s=0", "expected a number, 0.001 or more"),
        ("polatis+tl1://host?reply_timeout_s=nan", "expected a number"),
        ("emulator://host", "emulator://host: expected a size, such as 48x48"),
        ("emulator://8x8?seed=x", "seed = 'x': expected a whole number"),
        ("emulator://8x8?settle_time=x", "expected measured, a time such as '20 ms'"),
        ("emulator://8x0", "expected 1 to 4096 ports per side"),
    ],
)
def test_wrong_urls(url, message):
    with pytest.raises(InputError) as caught:
        open_driver(url)
    assert message in str(caught.value)
    assert "root" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_settings():
    query = parse_switch_url("a://b?moves=no&replace=yes&max_pairs=7&ca_file=/x&keepalive_s=0")[3]
    assert settings_from(query) == DriverSettings(
        moves=False, replace=True, max_pairs=7, ca_file="/x", keepalive_s=0
    )


def test_an_emulated_switch_in_this_process():
    async def check():
        driver = open_driver("emulator://8x6?seed=3&settle_time=1ms&keepalive_s=0")
        with pytest.raises(SwitchDisconnectedError):
            await driver.read_back()
        description = await driver.connect()
        assert (description.size, description.serial) == ((8, 6), "000003")
        await driver.apply(change("1-9"))
        driver.emulator.switch.cut_all()
        await driver.connect()
        assert (await driver.read_back()).cross_connects == set(pairs("1-9"))
        await driver.close()
        await driver.connect()
        assert (await driver.read_back(ports=False)).cross_connects == set(pairs("1-9"))
        await driver.close()

    run(check())


def test_a_missing_package_is_one_line():
    with pytest.raises(InputError) as caught:
        optional_import("a_package_that_is_not_there.inner", "RESTCONF")
    assert str(caught.value) == (
        "RESTCONF needs the package 'a_package_that_is_not_there': pip install 'lightloom[control]'"
    )


def test_importing_drivers_and_emulator_needs_no_optional_package():
    code = (
        "import sys; import lightloom.control.drivers, lightloom.control.emulator; "
        "from lightloom.control.drivers import open_driver; open_driver('polatis+tl1://h'); "
        "print([m for m in ('asyncssh', 'httpx', 'ncclient', 'grpc', 'pygnmi', 'h11', 'lxml') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
