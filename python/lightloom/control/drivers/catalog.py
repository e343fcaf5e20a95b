"""Which driver speaks to a switch, by the scheme of its URL."""

from __future__ import annotations

import importlib
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
    """A kind of switch and protocol, and the module and class of its driver."""

    summary: str
    port: int
    driver: str
    is_encrypted: bool = False

    def make(self, address: SwitchAddress, settings: DriverSettings) -> SwitchDriver:
        """Return the driver of a switch; only its own module is loaded."""
        module, _, name = self.driver.partition(".")
        loaded = importlib.import_module(f"lightloom.control.drivers.{module}")
        made: SwitchDriver = getattr(loaded, name)(
            address, settings, is_encrypted=self.is_encrypted
        )
        return made


#: scheme of a switch inside this process; its host is a size
EMULATOR = "emulator"
_SCHEMES = {
    "polatis+tl1": Scheme("Polatis, TL1 over TCP (plain text)", 3082, "polatis_tl1.PolatisTl1"),
    "polatis+ssh": Scheme("Polatis, TL1 over SSH", 6252, "polatis_tl1.PolatisTl1", True),
    "polatis+restconf": Scheme(
        "Polatis, RESTCONF (plain text)", 8008, "polatis_restconf.PolatisRestconf"
    ),
    "polatis+restconfs": Scheme(
        "Polatis, RESTCONF over TLS", 443, "polatis_restconf.PolatisRestconf", True
    ),
    "polatis+netconf": Scheme(
        "Polatis, NETCONF over SSH", 830, "polatis_netconf.PolatisNetconf", True
    ),
    "polatis+scpi": Scheme(
        "Polatis, SCPI over TCP (plain text, no login)", 5025, "polatis_scpi.PolatisScpi"
    ),
    "calient+tl1": Scheme("Calient, TL1 over TCP (plain text)", 3082, "calient_tl1.CalientTl1"),
    "sonic+ssh": Scheme("SONiC, its commands over SSH", 22, "sonic_cli.SonicCli", True),
    "sonic+gnmi": Scheme("SONiC, gNMI (plain text)", 8080, "sonic_gnmi.SonicGnmi"),
    "sonic+gnmis": Scheme("SONiC, gNMI over TLS", 8080, "sonic_gnmi.SonicGnmi", True),
    "sonic+restconfs": Scheme(
        "SONiC, RESTCONF over TLS", 443, "sonic_restconf.SonicRestconf", True
    ),
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
