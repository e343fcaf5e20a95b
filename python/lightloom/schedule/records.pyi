"""The records that users write; their fields are those of the core."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy.typing as npt

@dataclass(frozen=True, init=False)
class SwitchTiming:
    fixed_s: float
    per_pair_s: float
    control_s: float
    link_up_s: float
    keep_unchanged: bool
    def __init__(
        self,
        fixed_s: float | str,
        per_pair_s: float | str = ...,
        control_s: float | str = ...,
        link_up_s: float | str = ...,
        keep_unchanged: bool = ...,
    ) -> None: ...
    @classmethod
    def of(cls, timing: SwitchTiming | float | str) -> SwitchTiming: ...
    def expected_s(self, pairs: int) -> float: ...

@dataclass(frozen=True, init=False)
class Failures:
    nics: Sequence[tuple[int, int]]
    eps_nics: Sequence[tuple[int, int]]
    servers: Sequence[int]
    planes: Sequence[int]
    def __init__(
        self,
        nics: Sequence[tuple[int, int]] = ...,
        eps_nics: Sequence[tuple[int, int]] = ...,
        servers: Sequence[int] = ...,
        planes: Sequence[int] = ...,
    ) -> None: ...
    @property
    def parts(self) -> str: ...
    @property
    def names(self) -> tuple[str, ...]: ...

@dataclass(frozen=True, init=False)
class Region:
    ports: int | npt.ArrayLike
    circuit_gbps: float
    eps_gbps: float | npt.ArrayLike
    split: bool
    allowed: npt.ArrayLike | None
    failed: Failures | None
    eps_nics: int | None
    def __init__(
        self,
        ports: int | npt.ArrayLike,
        circuit_gbps: float | str,
        eps_gbps: float | str | npt.ArrayLike,
        split: bool = ...,
        allowed: npt.ArrayLike | None = ...,
        failed: Failures | None = ...,
        eps_nics: int | None = ...,
    ) -> None: ...

@dataclass(frozen=True, init=False)
class Policy:
    allocator: str
    when: str
    relaying: RelayCost | None
    def __init__(
        self,
        allocator: str = ...,
        when: str = ...,
        relaying: RelayCost | None = ...,
    ) -> None: ...

@dataclass(frozen=True, init=False)
class RelayCost:
    nvswitch_gbps: float | None
    chunk_bytes: int
    relay_delay_s: float
    memory_limit_bytes: int | None
    def __init__(
        self,
        nvswitch_gbps: float | str | None = ...,
        chunk_bytes: int = ...,
        relay_delay_s: float | str = ...,
        memory_limit_bytes: int | None = ...,
    ) -> None: ...
    @classmethod
    def free(cls) -> RelayCost: ...
