"""Which driver speaks to a switch, by the scheme of its URL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lightloom.control.drivers.options import (
    DriverSettings,
    SwitchAddress,
    parse_switch_url,
    settings_from,
)
from lightloom.control.switch import Credentials, SwitchDriver
from lightloom.errors import InputError, expected_one_of


@dataclass(frozen=True, slots=True)
class Scheme:
    """A kind of switch and protocol."""

    summary: str
    port: int
    make: Callable[[SwitchAddress, DriverSettings], SwitchDriver]


def _polatis_tl1(address: SwitchAddress, settings: DriverSettings) -> SwitchDriver:
    from lightloom.control.drivers.polatis_tl1 import PolatisTl1

    return PolatisTl1(address, settings)


def _polatis_ssh(address: SwitchAddress, settings: DriverSettings) -> SwitchDriver:
    from lightloom.control.drivers.polatis_tl1 import PolatisTl1

    return PolatisTl1(address, settings, ssh=True)


def _polatis_restconf(address: SwitchAddress, settings: DriverSettings) -> SwitchDriver:
    from lightloom.control.drivers.polatis_restconf import PolatisRestconf

    return PolatisRestconf(address, settings)


def _polatis_restconf_tls(address: SwitchAddress, settings: DriverSettings) -> SwitchDriver:
    from lightloom.control.drivers.polatis_restconf import PolatisRestconf

    return PolatisRestconf(address, settings, tls=True)


def _polatis_netconf(address: SwitchAddress, settings: DriverSettings) -> SwitchDriver:
    from lightloom.control.drivers.polatis_netconf import PolatisNetconf

    return PolatisNetconf(address, settings)


def _polatis_scpi(address: SwitchAddress, settings: DriverSettings) -> SwitchDriver:
    from lightloom.control.drivers.polatis_scpi import PolatisScpi

    return PolatisScpi(address, settings)


def _calient_tl1(address: SwitchAddress, settings: DriverSettings) -> SwitchDriver:
    from lightloom.control.drivers.calient_tl1 import CalientTl1

    return CalientTl1(address, settings)


def _sonic_ssh(address: SwitchAddress, settings: DriverSettings) -> SwitchDriver:
    from lightloom.control.drivers.sonic_cli import SonicCli

    return SonicCli(address, settings)


def _sonic_gnmi(address: SwitchAddress, settings: DriverSettings) -> SwitchDriver:
    from lightloom.control.drivers.sonic_gnmi import SonicGnmi

    return SonicGnmi(address, settings)


def _sonic_gnmi_tls(address: SwitchAddress, settings: DriverSettings) -> SwitchDriver:
    from lightloom.control.drivers.sonic_gnmi import SonicGnmi

    return SonicGnmi(address, settings, tls=True)


def _sonic_restconf_tls(address: SwitchAddress, settings: DriverSettings) -> SwitchDriver:
    from lightloom.control.drivers.sonic_restconf import SonicRestconf

    return SonicRestconf(address, settings)


#: scheme of a switch inside this process; its host is a size
EMULATOR = "emulator"
_SCHEMES = {
    "polatis+tl1": Scheme("Polatis, TL1 over TCP (plain text)", 3082, _polatis_tl1),
    "polatis+ssh": Scheme("Polatis, TL1 over SSH", 6252, _polatis_ssh),
    "polatis+restconf": Scheme("Polatis, RESTCONF (plain text)", 8008, _polatis_restconf),
    "polatis+restconfs": Scheme("Polatis, RESTCONF over TLS", 443, _polatis_restconf_tls),
    "polatis+netconf": Scheme("Polatis, NETCONF over SSH", 830, _polatis_netconf),
    "polatis+scpi": Scheme("Polatis, SCPI over TCP (plain text, no login)", 5025, _polatis_scpi),
    "calient+tl1": Scheme("Calient, TL1 over TCP (plain text)", 3082, _calient_tl1),
    "sonic+ssh": Scheme("SONiC, its commands over SSH", 22, _sonic_ssh),
    "sonic+gnmi": Scheme("SONiC, gNMI (plain text)", 8080, _sonic_gnmi),
    "sonic+gnmis": Scheme("SONiC, gNMI over TLS", 8080, _sonic_gnmi_tls),
    "sonic+restconfs": Scheme("SONiC, RESTCONF over TLS", 443, _sonic_restconf_tls),
}


def schemes() -> dict[str, Scheme]:
    """Return the kinds of switches and protocols that have a driver, by scheme."""
    return dict(_SCHEMES)


def open_driver(url: str, *, credentials: Credentials | None = None) -> SwitchDriver:
    """Return the driver of a switch; it is not connected yet.

    Parameters
    ----------
    url
        Such as ``polatis+tl1://10.0.0.5:3082?reply_timeout_s=2``, or ``emulator://48x48?seed=1``
        for an emulated switch inside this process. The query sets fields of
        :class:`~lightloom.control.drivers.options.DriverSettings`.
    credentials
        User and password; without them the driver does not log in.

    Raises
    ------
    InputError
        If the URL is malformed, its scheme unknown or a setting cannot be used.

    Examples
    --------
    >>> from lightloom.control.drivers import open_driver
    >>> from lightloom.control.switch import Credentials
    >>> driver = open_driver("polatis+tl1://10.0.0.5", credentials=Credentials("admin", "secret"))
    """
    scheme, host, port, query = parse_switch_url(url)
    if scheme == EMULATOR:
        from lightloom.control.drivers.emulated import EmulatedDriver

        of_emulated = {key: text for key, text in query.items() if key in EmulatedDriver.KEYS}
        query = {key: text for key, text in query.items() if key not in of_emulated}
        return EmulatedDriver.from_url(host, of_emulated, settings_from(query))
    driver = _SCHEMES.get(scheme)
    if driver is None:
        names = [*_SCHEMES, EMULATOR]
        raise InputError(f"switch URL: unknown scheme '{scheme}': {expected_one_of(scheme, names)}")
    address = SwitchAddress(
        host, driver.port if port is None else port, credentials or Credentials()
    )
    return driver.make(address, settings_from(query))
