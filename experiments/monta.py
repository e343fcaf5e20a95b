"""MoNTA's cluster and volumes, on which its claims and figures are computed: EP 2, TP 8."""

from __future__ import annotations

from lightloom.planner.all_to_all import AllToAll
from lightloom.planner.cluster import Penalties, load_cluster
from lightloom.planner.strategy import AllToAllStrategy
from lightloom.planner.volume import AllToAllVolume, balanced

#: bytes of a token in table 8, whose 8K tokens are 256 MB, and chunks of its figures
TOKEN_BYTES, CHUNKS = 31_250, 4
TP, EP = 8, 2
#: rates of links per GPU and direction, which efficiencies are of
NIC_GBPS, NVLINK_GBPS = 200.0, 1600.0


def all_to_alls(*, fitted: bool = False) -> AllToAll:
    """All-to-alls on two servers, with the costs of a chunk that are fitted if wanted."""
    cluster = load_cluster("a800x16")
    if not fitted:
        cluster = cluster.model_copy(update={"penalties": Penalties()})
    return AllToAll(cluster, tp=TP, ep=EP)


def volume(tokens: int) -> AllToAllVolume:
    """What a rank sends and gets."""
    return AllToAllVolume.of(balanced(EP), tokens * TOKEN_BYTES)


def ratio(strategy: AllToAllStrategy, tokens: int, *, fitted: bool = False) -> float:
    """A strategy with four chunks over the baseline."""
    runs = all_to_alls(fitted=fitted)
    base = runs.time_s(AllToAllStrategy.BASELINE, volume(tokens))
    return runs.time_s(strategy, volume(tokens), CHUNKS) / base


def step(strategy: AllToAllStrategy, tokens: int, share: float) -> float:
    """A step over that of the baseline, of which all-to-alls are a share; the rest stays."""
    return 1 - share * (1 - ratio(strategy, tokens, fitted=True))
