"""Drivers of optical circuit switches, one file per switch and protocol."""
