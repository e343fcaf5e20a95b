"""The strategy of an all-to-all for each sequence length and demand that a scenario asks for."""

from __future__ import annotations

from dataclasses import dataclass

from lightloom.demand.byte_matrix import read_byte_matrix
from lightloom.errors import InputError
from lightloom.planner.all_to_all import AllToAll, BytesMoved, Choice
from lightloom.planner.scenario import AllToAllScenario
from lightloom.planner.strategy import AllToAllStrategy
from lightloom.planner.volume import AllToAllVolume, Shares, balanced, shares_of, skewed


@dataclass(frozen=True)
class LengthResult:
    """The choice for one sequence length under one demand, and the bytes of each strategy."""

    seq: int
    demand: str
    choice: Choice
    traffic: dict[AllToAllStrategy, BytesMoved]

    def as_row(self) -> dict[str, object]:
        """Plain values; times in seconds, bytes of the busiest GPU."""
        choice = self.choice
        return {
            "seq": self.seq,
            "demand": self.demand,
            "strategy": str(choice.chosen),
            "next_best": choice.next_best and str(choice.next_best),
            "chunks": choice.times[choice.chosen].chunks,
            "speed_up": choice.speed_up,
            "time_s": {str(s): timed.time_s for s, timed in choice.times.items()},
            "chunks_of": {str(s): timed.chunks for s, timed in choice.times.items()},
            "bytes": {str(s): traffic._asdict() for s, traffic in self.traffic.items()},
        }


def choose_strategies(scenario: AllToAllScenario) -> list[LengthResult]:
    """Return the choice for each demand and sequence length.

    Raises
    ------
    InputError
        If what is asked for cannot be.
    """
    scenario.check_degrees()
    all_to_all = AllToAll(scenario.where, scenario.tp, scenario.ep, scenario.late_s)
    chunks = None if scenario.chunks == "auto" else scenario.chunks
    token_bytes = scenario.token_bytes * scenario.micro_batch_size
    results = []
    for demand, shares in _demands(scenario).items():
        for seq in scenario.seq:
            volume = AllToAllVolume.of(shares, token_bytes * seq, all_to_all.ranks_per_server)
            results.append(
                LengthResult(
                    seq,
                    demand,
                    all_to_all.choose(volume, chunks),
                    {
                        strategy: all_to_all.traffic(strategy, volume)
                        for strategy in AllToAllStrategy
                    },
                )
            )
    return results


def _demands(scenario: AllToAllScenario) -> dict[str, Shares]:
    """The shares of each demand by name: balanced, and another one where it is given.

    Raises
    ------
    InputError
        If the demand is neither a number nor a matrix of the EP ranks.
    """
    ranks, demand = scenario.ep, scenario.demand
    demands = {"balanced": balanced(ranks)}
    if isinstance(demand, float):
        demands[f"busiest x {demand:g}"] = skewed(ranks, demand)
    elif demand != "balanced":
        matrix = read_byte_matrix(demand)
        if matrix.shape != (ranks, ranks):
            raise InputError(
                f"--demand {demand}: a matrix of {matrix.shape[0]} x {matrix.shape[1]}; "
                f"expected one of the {ranks} EP ranks"
            )
        demands["given"] = shares_of(matrix)
    return demands
