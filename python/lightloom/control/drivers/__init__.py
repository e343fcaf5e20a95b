"""Drivers of optical circuit switches, one file per switch and protocol."""

from lightloom.control.drivers.catalog import open_driver, schemes

__all__ = ["open_driver", "schemes"]
