"""Sweeps: one study at many points, on processes of this machine or on a Ray cluster."""

from typing import TYPE_CHECKING

from lightloom.lazy import export_on_use

if TYPE_CHECKING:
    from lightloom.study.sweep.driver import SweepDriver as SweepDriver
    from lightloom.study.sweep.study import SweepStudy as SweepStudy
    from lightloom.study.sweep.study import load_sweep as load_sweep

export_on_use()
