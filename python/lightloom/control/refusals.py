"""What the controller refuses, and why: one line each, for whoever called it."""

from __future__ import annotations

from lightloom.errors import InputError, LightloomError


class PortMapError(InputError):
    """A port map is wrong, or does not fit the switch."""


class RegionFileError(InputError):
    """The description of a region cannot be used."""


class RequestError(InputError):
    """A request to the service is malformed, or names what the region does not have."""


class ControlError(LightloomError):
    """The controller cannot or must not do what was requested; no circuit was touched by it."""


class ConflictError(ControlError):
    """A change would disturb cross-connects that are not the controller's."""


class OpticalPowerError(ControlError):
    """A port gets more light than the switch stands."""


class StateError(ControlError):
    """The switch does not hold what the controller believes, or nobody knows what it holds."""


class LeaseError(ControlError):
    """Another controller holds the lease of the region, or took it over."""


class JournalError(ControlError):
    """The journal cannot be written or read: without it no circuit is touched."""


class ServiceError(ControlError):
    """The service refused a request, or cannot be reached."""
