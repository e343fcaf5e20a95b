"""Rail-optimized: NIC i of every server of a group is under ToR i, the layers above are 1:1.

Traffic between GPUs of one rail stays under a ToR; from one rail to another it goes over the layer
above, or inside the server first (the all-to-all ``rail``, NCCL's PXN). The parts are those of a
fat-tree, only the wiring differs. With as many ``planes`` as NICs nothing joins the rails.
"""

from __future__ import annotations

from typing import ClassVar

from lightloom.fabric.base import PacketSwitched


class Rail(PacketSwitched):
    """A rail-optimized 1:1 tree: NIC i of every server of a group is under ToR i."""

    kind: ClassVar[str] = "rail"
    title: ClassVar[str] = "rail"
    by_rail: ClassVar[bool] = True
