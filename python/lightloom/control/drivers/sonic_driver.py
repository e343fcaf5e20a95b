"""What drivers of SONiC switches do alike: find the model, compare what is wanted with what is."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from lightloom.control.drivers.base import BaseDriver
from lightloom.control.drivers.openconfig_platform import (
    CONTAINER,
    Component,
    components_of,
    described,
    equipment_of,
)
from lightloom.control.drivers.options import DriverSettings, SwitchAddress
from lightloom.control.drivers.sonic import (
    FEATURES,
    MODELS,
    SonicModel,
    description_of,
    readback_of,
    rows_of,
)
from lightloom.control.switch import (
    EquipmentStatus,
    InvalidTargetError,
    Readback,
    SwitchDeniedError,
    SwitchDescription,
)

#: codes of gNMI and of HTTP that say that a table is not there: it is empty
_NOT_THERE = ("NOT_FOUND", "404")


class SonicDriver(BaseDriver):
    """Driver of one SONiC switch; parameters as of :class:`BaseDriver`."""

    #: the models that a switch may have
    models: ClassVar[tuple[SonicModel, ...]]

    def __init__(
        self, address: SwitchAddress, settings: DriverSettings, *, is_encrypted: bool = False
    ) -> None:
        super().__init__(address, settings, is_encrypted=is_encrypted)
        self._model = self.models[0]

    @abc.abstractmethod
    async def _dial(self) -> None:
        """Open a connection."""

    @abc.abstractmethod
    async def _rows(self, names: Sequence[str]) -> list[dict[str, str]]:
        """Return the rows of a table."""

    @abc.abstractmethod
    async def _described(self, description: SwitchDescription) -> SwitchDescription:
        """Complete a description by what the switch is made of."""

    @abc.abstractmethod
    async def _equipment(self) -> tuple[EquipmentStatus, ...]:
        """Return power supplies, fans and sensors."""

    async def _open(self) -> SwitchDescription:
        await self._dial()
        rows: list[dict[str, str]] | None = None
        for model in self.models:
            self._model = model
            try:
                rows = await self._rows(model.ports)
            except InvalidTargetError:  # the switch has another model, if it has any
                if rows is None and model is self.models[-1]:
                    raise
            if rows:
                break
        return await self._described(description_of(rows or [], FEATURES))

    async def read_back(self, *, ports: bool = True) -> Readback:
        """Return all circuits with their states and, on request, all ports."""
        self._connected()
        configured = await self._rows(self._model.configured)
        reported = await self._rows(self._model.reported)
        if not ports:
            return readback_of(configured, reported, [])
        readback = readback_of(configured, reported, await self._rows(self._model.ports))
        return replace(readback, equipment=await self._equipment())


class SonicTreeDriver(SonicDriver):
    """Driver that reads JSON below paths; parameters as of :class:`BaseDriver`."""

    models = MODELS
    _has_platform = True

    @abc.abstractmethod
    async def _values(self, names: Sequence[str]) -> list[bytes]:
        """Return the JSON below a path."""

    async def _open(self) -> SwitchDescription:
        self._has_platform = True  # what was refused once may be there since a restart
        return await super()._open()

    async def _rows(self, names: Sequence[str]) -> list[dict[str, str]]:
        try:
            return [row for value in await self._values(names) for row in rows_of(value)]
        except SwitchDeniedError as error:
            if error.code in _NOT_THERE:
                return []
            raise

    async def _described(self, description: SwitchDescription) -> SwitchDescription:
        return described(description, await self._components())

    async def _equipment(self) -> tuple[EquipmentStatus, ...]:
        return equipment_of(await self._components())

    async def _components(self) -> list[Component]:
        """Return what the switch is made of; nothing if it does not have the model."""
        if not self._has_platform:
            return []
        try:
            values = await self._values([CONTAINER])
        except SwitchDeniedError:
            self._has_platform = False
            return []
        return [part for value in values for part in components_of(value)]
