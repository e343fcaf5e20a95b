"""Files that commands write their results to, checked before any work begins.

JSON and CSV are text and may go to standard output; tables and remarks then go to standard error.
Every other output is a file that is there whole or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lightloom.errors import InputError
from lightloom.output.files import STDOUT, RowWriter, check_all_writable


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Where results go besides the terminal; ``-`` is standard output.

    The names are those of the options; a command gives those that it has.
    """

    html: Path | None = None
    json: str | None = None
    csv: str | None = None
    parquet: Path | None = None
    trace: Path | None = None
    out: Path | None = None
    svg: Path | None = None

    def files(self) -> list[Path]:
        """Every file that will be written."""
        return [Path(name) for name in vars(self).values() if name not in {None, STDOUT}]

    @property
    def on_stdout(self) -> bool:
        """Whether a file's content goes to standard output."""
        return STDOUT in {self.json, self.csv}

    def check(self) -> None:
        """Refuse what cannot be written, before anything is computed.

        Raises
        ------
        InputError
            If two outputs want standard output, or one that is not text does, or a device.
        OutputError
            If a file cannot be written.
        """
        if self.json == self.csv == STDOUT:
            raise InputError("--json - and --csv - both ask for standard output; name one's file")
        whole = {name: path for name, path in vars(self).items() if isinstance(path, Path)}
        for option, path in whole.items():
            if str(path) == STDOUT:
                raise InputError(f"--{option} -: expected the name of a file, such as ./out")
        if self.out is not None and self.out.suffix != ".npz":
            raise InputError(f"--out {self.out}: expected a name that ends in .npz")
        check_all_writable(self.files())
        for option, path in whole.items():
            if path.exists() and not path.is_file():
                raise InputError(f"--{option} {path}: expected the name of a file, not a device")

    def rows(self) -> RowWriter:
        """The writer of rows to the CSV and Parquet that were asked for."""
        return RowWriter(self.csv, self.parquet)
