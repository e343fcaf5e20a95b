"""Results of a sweep, as a folder has them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightloom.inputs.arguments import path_of
from lightloom.output.sweep_folder import read_manifest, rows_of_folder
from lightloom.shown import ShownRows
from lightloom.study.sweep.axes import GOALS

if TYPE_CHECKING:
    import polars

#: points that are listed as the best
MOST_BEST = 5


@dataclass(frozen=True, repr=False)
class SweepResults(ShownRows):
    """What a sweep has found so far; tables are read when they are asked for.

    Attributes
    ----------
    path
        The folder.
    manifest
        What is done, failed and open.
    """

    path: Path
    manifest: dict[str, Any]

    @classmethod
    def read(cls, path: Path | str) -> SweepResults:
        """The results of a folder.

        Raises
        ------
        InputError
            If it has none.
        """
        path = path_of(path, "results", "the folder of a sweep")
        manifest = read_manifest(path)
        if not manifest:
            rows_of_folder(path)  # refuses what is none
        return cls(path, manifest)

    def __repr__(self) -> str:
        done, points = self.manifest.get("done", 0), self.manifest.get("points", 0)
        return f"SweepResults({self.path}: {done:,} of {points:,} points)"

    @property
    def goal(self) -> str:
        """What the best point is chosen by."""
        return str(self.manifest["study"]["sweep"]["best"])

    @property
    def axes(self) -> list[str]:
        """Columns of the axes."""
        return list(self.manifest["axes"])

    def to_polars(self) -> polars.DataFrame:
        """Return all rows, sorted by point and fabric."""
        return rows_of_folder(self.path).collect()

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows, sorted by point and fabric."""
        return self.to_polars().to_dicts()

    def best(self, count: int = MOST_BEST) -> list[dict[str, Any]]:
        """The best rows by the goal of the study, of equal results one."""
        if not self.manifest["done"]:
            return []
        import polars

        more = GOALS[self.goal][1]
        rows = rows_of_folder(self.path).filter(polars.col(self.goal).is_not_null())
        order = rows.sort([self.goal, "point", "fabric"], descending=[more, False, False])
        # options that a fabric does not have leave its results as they are
        same = ["fabric", self.goal, "step_time_s", "cluster_cost_usd"]
        best = order.unique(same, keep="first", maintain_order=True).head(count)
        return best.collect().to_dicts()

    def plan_sources(self) -> dict[str, list[int]]:
        """Numbers of GPUs by where the plans come from there."""
        if not self.manifest["done"]:
            return {}
        rows = rows_of_folder(self.path).select("gpus", "plan_source").unique().collect()
        found: dict[str, list[int]] = {}
        for gpus, source in sorted(rows.drop_nulls().rows()):
            if source:
                found.setdefault(source, []).append(gpus)
        return found

    def plan_note(self) -> str:
        """Where the plan changes its source, in a sentence; empty where it does not."""
        sources = self.plan_sources()
        if len(sources) < 2:
            return ""
        parts = [f"{source} at {_listed(gpus)} GPUs" for source, gpus in sources.items()]
        return (
            f"plans change their source: {', '.join(parts)}, which moves a curve over sizes, too;"
            ' plan.source = "search" makes it one'
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values for a file."""
        kept = ("points", "done", "failed", "open", "open_points", "wall_s", "reuse", "lightloom")
        return {
            **{name: self.manifest[name] for name in kept},
            "axes": self.axes,
            "best_by": self.goal,
            "best": self.best(),
            "plan_sources": self.plan_sources(),
        }


def _listed(numbers: list[int]) -> str:
    shown = [f"{number:,}" for number in numbers[:8]]
    return ", ".join(shown) + (" ..." if len(numbers) > 8 else "")
