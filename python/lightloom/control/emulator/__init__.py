"""An emulated optical circuit switch, with the protocols that real ones speak."""

from lightloom.control.emulator.device import BootMode, CompletionTime
from lightloom.control.emulator.emulator import EmulatedBehavior, Emulator
from lightloom.control.emulator.faults import Fault, FaultKind, FaultScript
from lightloom.control.emulator.matrix import Atomicity, BusyPolicy, OpticalMatrix
from lightloom.control.emulator.timing import FixedTime, MeasuredTime, RecordedTimes, SettleTime

__all__ = [
    "Atomicity",
    "BootMode",
    "BusyPolicy",
    "CompletionTime",
    "EmulatedBehavior",
    "Emulator",
    "Fault",
    "FaultKind",
    "FaultScript",
    "FixedTime",
    "MeasuredTime",
    "OpticalMatrix",
    "RecordedTimes",
    "SettleTime",
]
