"""A token matrix from a file: JSON list of lists, rows are source ranks, columns experts.

This is the form in which a Mixtral 8x7B matrix was published with the MixNet simulator. One
matrix says nothing about layers, micro-batches or steps, so every one of them gets it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lightloom.demand.source import (
    MAX_COPIES,
    MAX_EXPERTS,
    MAX_RANKS,
    Counts,
    Shape,
    check_index,
    whole,
)
from lightloom.errors import DemandError, echo
from lightloom.inputs.files import read_file
from lightloom.inputs.formats import parse_json

MAX_FILE_BYTES = 256 * 10**6


def read_matrix(path: Path | str) -> Counts:
    """Read a token matrix, ``(ranks, experts)``.

    Raises
    ------
    DemandError
        If the file cannot be read or holds no rectangular matrix of whole, non-negative counts.
    """
    path = Path(path)
    content = read_file(path, "token matrix", MAX_FILE_BYTES, DemandError)
    return parse_matrix(content, str(path))


def parse_matrix(text: bytes, name: str) -> Counts:
    """Parse the text of a matrix file; ``name`` begins error messages.

    Raises
    ------
    DemandError
        See :func:`read_matrix`.
    """
    if not text.strip():
        raise DemandError(f"{name}: the file is empty; expected a JSON list of lists of counts")
    rows = parse_json(text, name, DemandError)
    if not isinstance(rows, list) or not rows or not all(isinstance(row, list) for row in rows):
        raise DemandError(f"{name}: expected a JSON list of lists of counts, got {echo(rows)}")
    width = len(rows[0])
    if not 1 <= width <= MAX_EXPERTS or len(rows) > MAX_RANKS:
        raise DemandError(
            f"{name}: expected up to {MAX_RANKS:,} rows of 1 to {MAX_EXPERTS:,} counts, "
            f"got {len(rows):,} rows, the first of {width:,}"
        )
    for number, row in enumerate(rows, start=1):
        if len(row) != width:
            raise DemandError(
                f"{name}: row {number} has {len(row)} counts, row 1 has {width}; "
                "expected rows of equal length"
            )
        for value in row:
            if not whole(value) or not 0 <= value <= MAX_COPIES:
                raise DemandError(
                    f"{name}: row {number}: expected token counts, whole numbers from 0 to "
                    f"{MAX_COPIES}, got {echo(value)}"
                )
    return np.array(rows, dtype=np.int64)


def from_matrix(path: Path | str, shape: Shape, *, scale: bool = False) -> MatrixSource:
    """Make a source of a token matrix file.

    Parameters
    ----------
    path
        JSON list of lists of token counts.
    shape
        The job. A matrix of another size is refused, never tiled.
    scale
        Whether rows may be scaled to the job's ``copies_per_rank`` (by largest remainders). The
        source is then marked as not exact.

    Raises
    ------
    DemandError
        If the file is no matrix, or does not fit the job.
    """
    matrix = read_matrix(path)
    name = str(path)
    if matrix.shape != (shape.ranks, shape.experts):
        raise DemandError(
            f"{name}: a matrix of {matrix.shape[0]} ranks x {matrix.shape[1]} experts does not "
            f"fit a job of {shape.ranks} EP ranks x {shape.experts} experts; "
            "it is not tiled or cut"
        )
    sums = matrix.sum(axis=1)
    wanted = shape.copies_per_rank
    provenance = {"matrix": name}
    scaled = bool((sums != wanted).any())
    if scaled:
        row = int(np.argmax(sums != wanted))
        if not scale:
            raise DemandError(
                f"{name}: row {row + 1} holds {sums[row]:,} token copies, the job routes "
                f"{wanted:,} per EP rank ({shape.tokens_per_rank:,} tokens x top-{shape.top_k}); "
                "scale the matrix explicitly or change the micro-batch"
            )
        matrix = scale_rows(matrix, wanted, name)
        provenance["scaled"] = f"rows of {sums.min():,}-{sums.max():,} copies scaled to {wanted:,}"
    if (matrix > shape.tokens_per_rank).any():
        row, column = np.argwhere(matrix > shape.tokens_per_rank)[0]
        raise DemandError(
            f"{name}: rank {row} sends expert {column} {matrix[row, column]:,} copies, more than "
            f"its {shape.tokens_per_rank:,} tokens; a token chooses an expert at most once"
        )
    return MatrixSource(Path(name).name, matrix, shape, provenance=provenance, exact=not scaled)


class MatrixSource:
    """The same counts for every group, layer, micro-batch and step."""

    def __init__(
        self,
        name: str,
        matrix: Counts,
        shape: Shape,
        *,
        provenance: dict[str, str],
        exact: bool,
    ) -> None:
        self.name = name
        self.shape = shape
        self.exact = exact
        self.provenance = {
            **provenance,
            "repeated": "one matrix for every group, layer, micro-batch and step",
        }
        self._matrix = matrix

    def tokens(self, *, group: int, layers: Sequence[int], micro_batches: int, step: int) -> Counts:
        """See :class:`~lightloom.demand.source.DemandSource`."""
        check_index(group, layers, micro_batches, step)
        full = (len(layers), micro_batches, *self._matrix.shape)
        return np.broadcast_to(self._matrix, full).copy()


def scale_rows(matrix: Counts, total: int, name: str) -> Counts:
    """Scale each row to a total, remainders to the largest fractions, the leftmost first.

    Raises
    ------
    DemandError
        If a row is empty.
    """
    sums = matrix.sum(axis=1, keepdims=True)
    if (sums == 0).any():
        row = int(np.argmax(sums[:, 0] == 0)) + 1
        raise DemandError(f"{name}: row {row} holds no copies and cannot be scaled")
    whole_part, fraction = np.divmod(matrix * total, sums)
    short = total - whole_part.sum(axis=1, keepdims=True)
    place = np.argsort(np.argsort(-fraction, axis=1, kind="stable"), axis=1)
    return np.asarray(whole_part + (place < short), dtype=np.int64)
