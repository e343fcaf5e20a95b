"""``--set``: any key of a command's TOML file, one at a time on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightloom.cli.options import CommandCall, put
from lightloom.errors import InputError, did_you_mean, echo
from lightloom.inputs.fields import parse
from lightloom.inputs.strict import Strict

#: tables that ``lightloom packets`` alone has, and what stands for them elsewhere
_TABLES_OF_PACKETS = ("network", "queue", "transport")
_HINT_OF_PACKETS = (
    "; 'lightloom packets' has it: here the fabric is the network, of which fat-tree.ecmp says "
    "what hashing reaches; packets.transport says which flows are hashed (roce) or sprayed (ndp)"
)


def split_setting(text: str, example: str) -> tuple[str, str]:
    """Split ``KEY=VALUE``.

    Raises
    ------
    InputError
        If it has another form; the message shows the ``example``.
    """
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not all(key.split(".")):
        raise InputError(f"--set {echo(text, quoted=False)}: expected KEY=VALUE, such as {example}")
    return key, value


def read_settings(
    texts: tuple[str, ...], tables: Mapping[str, type[Strict]], example: str
) -> dict[str, Any]:
    """Parse settings of the form ``TABLE.KEY=VALUE``, of a fabric or another table.

    Parameters
    ----------
    texts
        One for each ``--set``.
    tables
        The models of the tables, but for those of fabrics, by the name that ``--set`` has for them.
    example
        For messages.

    Returns
    -------
    dict[str, Any]
        Values by table and key, such as ``{"mixnet": {"ports": 4}}``.

    Raises
    ------
    InputError
        If a setting has another form, its table or key is unknown, it is given twice, or the
        package of its fabric cannot be imported.
    """
    from lightloom.fabric.read import fabric_class, fabric_kinds

    settings: dict[str, Any] = {}
    table_names = (*fabric_kinds(), *tables)
    for text in texts:
        key, value = split_setting(text, example)
        table, dot, name = key.partition(".")
        option = f"--set {echo(text, quoted=False)}"
        if table not in table_names:
            known = table_names if "all" in tables else tuple(tables)
            hint = did_you_mean(table, known) or f"; known: {', '.join(known)}"
            hint = _HINT_OF_PACKETS if table in _TABLES_OF_PACKETS else hint
            raise InputError(f"{option}: unknown table '{echo(table, quoted=False)}'{hint}")
        model = tables[table] if table in tables else fabric_class(table)
        fields = model.model_fields
        if not dot:
            raise InputError(f"{option}: expected TABLE.KEY=VALUE, such as {example}")
        if name not in fields:
            hint = did_you_mean(name, fields) or f"; known: {', '.join(fields)}"
            raise InputError(f"{option}: {table} has no option '{echo(name, quoted=False)}'{hint}")
        if name in settings.get(table, {}):
            raise InputError(f"--set {key} is given twice; leave one of them out")
        put(settings, key, parse(model, name, value))
    return settings


def apply_settings(call: CommandCall, tables: Mapping[str, type[Strict]], example: str) -> None:
    """Add what ``--set`` gives to the tables of a call; those that are not ``tables`` are fabrics'.

    Raises
    ------
    InputError
        If a setting cannot be used, or an option of the call says the same.
    """
    texts = call.tables.pop("set", ())
    for table, values in read_settings(texts, tables, example).items():
        for name, value in values.items():
            is_fabric = table not in tables or table == "all"
            key = f"fabric_options.{table}.{name}" if is_fabric else f"{table}.{name}"
            if call.has(key):
                raise InputError(
                    f"--set {table}.{name} and {call.flag(key)} are both given; leave one of "
                    "them out"
                )
            put(call.tables, key, value)
            call.settings.add(key)
