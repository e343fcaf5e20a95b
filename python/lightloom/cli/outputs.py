"""Files that commands write their results to, checked before any work begins.

JSON and CSV are text and may go to standard output; tables and remarks then go to standard error.
Every other output is a file that is there whole or not at all.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from lightloom.cli.options import CommandCall, Option, Panel, option
from lightloom.cli.terminal import note_files, remarks_console, results_console
from lightloom.errors import InputError, LightloomError, OutputError, printable
from lightloom.inputs.strict import File, Name, Strict, Switch
from lightloom.optional import need
from lightloom.output.files import STDOUT, RowWriter, check_all_writable, write_json

if TYPE_CHECKING:
    from rich.console import Console

#: how the names of a kind of file end
_ENDINGS = {
    "html": (".html", ".htm"),
    "json_target": (".json", ".json.gz"),
    "csv_target": (".csv",),
    "parquet": (".parquet",),
    "timeline": (".json", ".json.gz", ".pftrace"),
    "events": (".csv",),
    "operations": (".csv",),
    "series": (".csv", ".parquet"),
    "svg": (".svg",),
}
#: what else a file may be called by its ending, which promises another kind
_FOREIGN = {
    *(ending for endings in _ENDINGS.values() for ending in endings),
    *(".doc", ".docx", ".jpeg", ".jpg", ".md", ".pdf", ".png", ".tex", ".toml", ".txt", ".xls"),
    *(".xlsx", ".yaml", ".yml", ".zip"),
}


class Outputs(Strict):
    """Where results go in addition to the terminal; ``-`` is standard output.

    A command has some of them as options.
    """

    html: File | None = Field(None, description="Write the results as an HTML page with plots.")
    json_target: Name | None = Field(
        None, description="Write the results as JSON; '-' is standard output."
    )
    csv_target: Name | None = Field(
        None, description="Write the results as CSV, row by row; '-' is standard output."
    )
    parquet: File | None = Field(None, description="Write the rows of the CSV as Parquet.")
    timeline: File | None = Field(
        None, description="Write the timeline of GPUs and circuits as a Perfetto file."
    )
    launch: File | None = Field(
        None,
        description="Write the plan as arguments of Megatron-Core, Megatron-Bridge and torchtitan.",
    )
    events: File | None = Field(None, description="Write the events of packets as CSV.")
    operations: File | None = Field(
        None, description="Write when each operation of programs began and ended, as CSV."
    )
    series: File | None = Field(
        None,
        description="Write bytes and queues of every link and flow over time (.csv or .parquet).",
    )
    out: File | None = Field(None, description="Write the results as arrays (.npz).")
    svg: File | None = Field(None, description="Write the results as an SVG drawing.")
    open: Switch = Field(
        False, description="Open the page of --html, or else one in a temporary file."
    )

    def files(self) -> list[Path]:
        """Every file that will be written."""
        names = [name for name in vars(self).values() if isinstance(name, str | Path)]
        return [Path(name) for name in names if str(name) != STDOUT]

    @property
    def on_stdout(self) -> bool:
        """Whether a file's content goes to standard output."""
        return STDOUT in {self.json_target, self.csv_target}

    def check(self, inputs: Any = ()) -> None:
        """Refuse what cannot be written, before anything is computed.

        Parameters
        ----------
        inputs
            Other values of the command, in tables and lists: files among them are read.

        Raises
        ------
        InputError
            If two outputs want standard output, or one that is not text does, or a device, or a
            file that is read.
        OutputError
            If a file cannot be written.
        """
        for name in map(str, self.files()):
            if name.startswith("--"):
                raise InputError(
                    f"{name}: expected a file to write to; name it ./{name} if it is one"
                )
        if self.json_target == self.csv_target == STDOUT:
            raise InputError("--json - and --csv - both ask for standard output; name one's file")
        whole = {name: path for name, path in vars(self).items() if isinstance(path, Path)}
        for name, path in whole.items():
            if str(path) == STDOUT:
                raise InputError(f"--{name} -: expected the name of a file, such as ./out")
        if self.out is not None and self.out.suffix != ".npz":
            raise InputError(f"--out {self.out}: expected a name that ends in .npz")
        if self.series is not None and self.series.suffix.lower() not in _ENDINGS["series"]:
            raise InputError(
                f"--series {self.series}: expected a name that ends in .csv or .parquet"
            )
        check_all_writable(self.files())
        read = {place.resolve() for place in _files_among(inputs)}
        for path in self.files():
            if path.resolve() in read:
                raise InputError(f"{path}: is read as well; write results to another file")
        for name, path in whole.items():
            if path.exists() and not path.is_file():
                raise InputError(f"--{name} {path}: expected the name of a file, not a device")
        self._check_endings()
        if self.parquet or any(path.suffix.lower() == ".parquet" for path in self.files()):
            need("polars", "a Parquet file")
        if self.files():
            note_files()

    def _check_endings(self) -> None:
        """Refuse a name that promises another kind of file than is written.

        Raises
        ------
        InputError
            If the name ends as files of another kind do, such as ``.pdf`` for a page.
        """
        for key, endings in _ENDINGS.items():
            name = str(getattr(self, key) or "")
            ending = "".join(Path(name).suffixes[-1:]).lower()
            if ending in _FOREIGN and not name.lower().endswith(endings):
                words = " or ".join(endings)
                option = f"--{key.removesuffix('_target')}"
                raise InputError(f"{option} {name}: expected a name that ends in {words}")

    def with_page(self) -> Outputs:
        """The same with a page in a temporary file, if one is opened and has no name."""
        if not self.open or self.html is not None:
            return self
        handle, name = tempfile.mkstemp(prefix="lightloom-", suffix=".html")
        os.close(handle)
        return self.model_copy(update={"html": Path(name)})

    def show_page(self) -> None:
        """Open the page in a browser, if that is wanted; say where it is if there is none."""
        if not self.open or self.html is None:
            return
        import webbrowser

        if not webbrowser.open(self.html.resolve().as_uri()):
            remarks_console().print(f"no browser here: open {self.html}", soft_wrap=True)

    def say(self, *lines: str) -> None:
        """Print lines as they come, if any, unless a file's content goes to standard output.

        What a switch or a client put into them does nothing to the terminal.
        """
        if lines and not self.on_stdout:
            parts = (part for line in lines for part in line.split("\n"))
            print(*map(printable, parts), sep="\n", flush=True)

    def write_json(self, content: Mapping[str, Any]) -> None:
        """Write what a command has found, where JSON is wanted.

        Raises
        ------
        OutputError
            If it cannot be written.
        """
        if self.json_target is not None:
            write_json({"schema_version": 1, **content}, self.json_target)

    def print_and_write(
        self, show: Callable[[Console], None], content: Callable[[], Mapping[str, Any]]
    ) -> None:
        """Print results, and then write the same as JSON where it is wanted.

        Raises
        ------
        OutputError
            If it cannot be written.
        """
        if not self.on_stdout:
            show(results_console())
        if (target := self.json_target) is not None:
            write_each({target: lambda: self.write_json(content())})

    def write_all(
        self,
        rows: Callable[[], Iterable[dict[str, Any]]],
        content: Callable[[], Mapping[str, Any]],
        page: Callable[[Path], None] | None = None,
    ) -> None:
        """Write results as a page, as CSV and as JSON, each where it is wanted.

        Raises
        ------
        OutputError
            If one of them cannot be written; the others are there nevertheless.
        """
        writers: dict[str, Callable[[], None]] = {}
        if page is not None and (html := self.html) is not None:
            writers[str(html)] = lambda: page(html)
        if (csv := self.csv_target) is not None:
            writers[csv] = lambda: self.write_rows(rows())
        if (json := self.json_target) is not None:
            writers[json] = lambda: self.write_json(content())
        write_each(writers)

    def write_rows(self, rows: Iterable[dict[str, Any]]) -> None:
        """Write rows that are known at once to the CSV and Parquet that were asked for.

        Raises
        ------
        OutputError
            If one of them cannot be written.
        """
        writer = self.rows()
        for row in rows:
            writer.write(row)
        writer.close()

    def rows(self) -> RowWriter:
        """The writer of rows to the CSV and Parquet that were asked for."""
        return RowWriter(self.csv_target, self.parquet)


def checked_outputs(call: CommandCall) -> Outputs:
    """The files that a call writes; the rest of its tables may name files that it reads.

    Raises
    ------
    InputError, OutputError
        If they cannot be written, see :meth:`Outputs.check`.
    """
    outputs = call.take(Outputs, "output")
    outputs.check(call.tables)
    return outputs


def say_written(names: Iterable[object]) -> None:
    """Say which files are there now; standard output is none."""
    for name in names:
        if name != STDOUT:
            remarks_console().print(f"wrote {name}", style="dim", soft_wrap=True, markup=False)


def write_each(writers: Mapping[str, Callable[[], None]]) -> None:
    """Write files by name, once results are printed: each of them, even if others fail.

    Raises
    ------
    OutputError
        One line that names every file that was not written.
    """
    remarks = remarks_console()
    failures: dict[str, Exception] = {}
    for name, write in writers.items():
        try:
            with remarks.status(f"writing {name}"):
                write()
        except BrokenPipeError:
            raise
        except LightloomError as error:
            failures[str(error)] = error
        except Exception as error:  # a defect of a page costs the page alone
            reason = f"{type(error).__name__}: {error}"
            failures[f"{name}: not written, by a defect of Lightloom: {reason}"] = error
        else:
            say_written([name])
    if failures:
        raise OutputError("; ".join(failures)) from next(iter(failures.values()))


def path_of_point(path: Path, title: str) -> Path:
    """The file of one of several runs: ``t.json.gz`` becomes ``t-ndp-100-gb-s.json.gz``."""
    words = re.sub(r"[^a-z0-9.]+", "-", title.lower().replace(",", "")).strip("-")
    suffixes = path.suffixes[-2:] if path.suffix == ".gz" else path.suffixes[-1:]
    kept = "".join(suffixes)
    return path.with_name(f"{path.name.removesuffix(kept)}-{words}{kept}")


def _files_among(values: Any) -> Iterator[Path]:
    """Files that are named anywhere in nested tables and lists."""
    if isinstance(values, Mapping):
        values = values.values()
    if isinstance(values, str | Path):
        # what is too long for a path, or has a null character, is none
        with contextlib.suppress(OSError, ValueError):
            # a folder stands for the configuration in it
            for place in (Path(values), Path(values) / "config.json"):
                if place.is_file():
                    yield place
    elif isinstance(values, Iterable):
        for value in values:
            yield from _files_among(value)


def json_output() -> Option:
    """The option of results as JSON."""
    return option(Outputs, "json_target", "--json", common=True, below="output", metavar="PATH|-")


def json_panel() -> Panel:
    """The panel of a command that writes JSON and nothing else."""
    return Panel("Output", (json_output(),))


def text_outputs() -> tuple[Option, Option]:
    """The options of results as text, which may go to standard output."""
    return (
        json_output(),
        option(Outputs, "csv_target", "--csv", common=True, below="output", metavar="PATH|-"),
    )


def comparison_outputs() -> Panel:
    """The files that a comparison writes."""
    return Panel(
        "Output",
        (
            option(Outputs, "html", common=True, below="output"),
            option(Outputs, "open", below="output"),
            *text_outputs(),
            option(Outputs, "timeline", common=True, below="output"),
            option(Outputs, "parquet", below="output"),
            option(Outputs, "launch", below="output"),
        ),
    )
