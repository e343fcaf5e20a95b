"""What is wrong with the files to write is said before anything runs."""

from pathlib import Path

import pytest

from lightloom import optional
from lightloom.cli.outputs import Outputs
from lightloom.optional import MissingPackageError


@pytest.mark.parametrize("file", [{"parquet": Path("rows.pq")}, {"series": Path("s.parquet")}])
def test_a_parquet_file_is_refused_at_once_without_polars(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outputs = Outputs(**file)
    outputs.check()
    monkeypatch.setattr(optional.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingPackageError, match=r"pip install 'lightloom\[tables\]'"):
        outputs.check()
