"""Testbed: servers, NICs and switches in the kernel of one machine, for programs that really run.

Network namespaces are servers, veth pairs are NICs with a rate; one switch is a bridge, the other
is the emulated circuit switch, whose circuits carry frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightloom.lazy import export_on_use

if TYPE_CHECKING:
    from lightloom.testbed.layout import ServerLayout as ServerLayout
    from lightloom.testbed.layout import ServerNic as ServerNic
    from lightloom.testbed.testbed import LitCircuit as LitCircuit
    from lightloom.testbed.testbed import Testbed as Testbed
    from lightloom.testbed.tools import NicBytes as NicBytes

export_on_use()
