"""What a traced program may not do: write files and open connections.

Python tells of files and connections before it opens them (PEP 578), whatever package asks. What
C code and commands that a program starts do by themselves is not seen. Folders for temporary and
cached files may be written; for temporary ones a program is given one that is removed afterwards.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import os
import sys
import tempfile
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from .places import RefusedError, place

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

#: events of Python, and which of their arguments are paths that change
_CHANGES = {
    "os.mkdir": (0,), "os.remove": (0,), "os.rename": (0, 1), "os.rmdir": (0,), "os.truncate": (0,),
    "os.link": (1,), "os.symlink": (1,), "os.chmod": (0,), "os.chown": (0,), "os.utime": (0,),
    "shutil.rmtree": (0,), "sqlite3.connect": (0,),
}  # fmt: skip


def guard(spec: dict[str, Any]) -> None:
    """Refuse, from now on, to write files and to open connections.

    Parameters
    ----------
    spec
        Its `folder` is for temporary files, `writable` names folders that may be written, and
        `network` allows connections.
    """
    os.environ["TMPDIR"] = tempfile.tempdir = spec["folder"]
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folders = ["/dev", "/proc", spec["folder"], cache, *spec["writable"]]
    allowed = tuple(os.path.realpath(folder) + os.sep for folder in folders)
    sys.dont_write_bytecode = True

    def check(path: Any) -> None:
        if isinstance(path, int) or path is None:
            return
        name = os.path.realpath(os.fsdecode(path))
        if name.startswith(allowed) or name + os.sep in allowed:
            return
        raise RefusedError(
            f"{place()} writes {name}: a trace leaves files alone; let it write elsewhere, or "
            f"allow it by --writable {os.path.dirname(name)}"
        )

    def heard(event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = args
            if (isinstance(mode, str) and set(mode) & set("wax+")) or (flags & _WRITING):
                check(path)
        elif event in _CHANGES:
            for number in _CHANGES[event]:
                check(args[number])
        elif event in ("socket.connect", "socket.getaddrinfo") and not spec["network"]:
            address = args[1] if event == "socket.connect" else args
            host = address[0] if isinstance(address, tuple) else None
            if isinstance(host, str) and not _is_here(host):
                raise RefusedError(
                    f"{place()} connects to {host}:{address[1]}: a trace has no network; let it "
                    "read what is on disk (such as HF_HUB_OFFLINE=1), or allow it by --connections"
                )

    sys.addaudithook(heard)
    save = torch.save

    @functools.wraps(save)
    def saved(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        """A checkpoint of tensors without data is none; C++ would open its file unseen."""
        if isinstance(f, (str, os.PathLike)):
            sys.audit("open", os.fspath(f), "w", 0)
        else:
            save(obj, f, *args, **kwargs)

    torch.save = saved
    for name in _REFUSED.keys() & sys.modules.keys():
        _refuse(sys.modules[name])
    sys.meta_path.insert(0, _Refused())


#: modules of which a program may not use some functions, and why
_REFUSED = {
    "torch.distributed.checkpoint": (
        ("save", "async_save", "load"),
        "saves or loads a checkpoint of all ranks: tensors have no data in a trace; leave it out "
        "there",
    ),
    "torch.distributed._symmetric_memory": (
        ("empty", "rendezvous", "get_mem_pool", "get_symm_mem_workspace"),
        "uses symmetric memory: kernels write into that of other ranks, which a trace does not "
        "see; let it use collectives there",
    ),
}


class _Refused(importlib.abc.MetaPathFinder):
    """Finds these modules; importing them before a program does would take a second."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> Any:
        if name not in _REFUSED:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return spec
        loader: Any = spec.loader
        execute = loader.exec_module

        def executed(module: types.ModuleType) -> None:
            execute(module)
            _refuse(module)

        loader.exec_module = executed
        return spec


def _refuse(module: types.ModuleType) -> None:
    """Replace what a module may not be asked for."""
    names, why = _REFUSED[module.__name__]
    for name in names:
        setattr(module, name, _refusing(why))


def _refusing(why: str) -> Callable[..., None]:
    def refuse(*_: object, **__: object) -> None:
        raise RefusedError(f"{place()} {why}")

    return refuse


def _is_here(host: str) -> bool:
    return host in ("", "localhost", "::1", os.uname().nodename) or host.startswith("127.")
