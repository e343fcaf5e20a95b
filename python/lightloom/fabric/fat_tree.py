"""Fat-tree: a non-blocking (1:1) tree of packet switches, all NICs on it."""

from __future__ import annotations

from typing import ClassVar

from lightloom.fabric.base import PacketSwitched


class FatTree(PacketSwitched):
    """A non-blocking (1:1) fat-tree with every NIC on it."""

    kind: ClassVar[str] = "fat-tree"
    title: ClassVar[str] = "fat-tree"
