"""Conditions on points: comparisons of options and numbers, joined by ``and``, ``or`` and ``not``.

They are Python's expressions without calls, subscripts or anything else that acts.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lightloom.errors import InputError, echo

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_ALLOWED = (
    *(ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.BinOp),
    *(ast.Compare, ast.Constant, ast.Name, ast.Attribute, ast.Load, ast.List, ast.Tuple),
    *_COMPARE,
    *_ARITHMETIC,
)
#: an expression of more characters is refused
_LONGEST = 1000


@dataclass(frozen=True)
class Condition:
    """An expression over options, by their dotted paths.

    Examples
    --------
    >>> Condition.of("gpus <= 256 or cluster.rate_gbps > 100").holds({"gpus": 64})
    True
    """

    text: str
    tree: ast.expr

    @classmethod
    def of(cls, text: str) -> Condition:
        """Read an expression.

        Raises
        ------
        InputError
            If it is none, or does more than compare.
        """
        if len(text) > _LONGEST:
            raise InputError(f"condition {echo(text)}: expected {_LONGEST} characters at most")
        try:
            tree = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise InputError(
                f"condition {echo(text)}: expected a comparison, such as 'gpus <= 256'"
            ) from None
        for node in ast.walk(tree):
            if not isinstance(node, _ALLOWED):
                raise InputError(
                    f"condition {echo(text)}: expected comparisons of options, numbers and texts"
                )
        return cls(text, tree)

    @property
    def names(self) -> list[tuple[str, ...]]:
        """Paths of the options in it."""
        parts = []
        todo: list[ast.AST] = [self.tree]
        while todo:
            node = todo.pop()
            if isinstance(node, ast.Name | ast.Attribute):
                parts.append(_path(node))
            else:
                todo.extend(ast.iter_child_nodes(node))
        return parts

    def holds(self, values: Mapping[str, object]) -> bool:
        """Whether it is true of values by path.

        Raises
        ------
        InputError
            If values cannot be compared, or one that matters is missing.
        """
        try:
            return bool(_value(self.tree, values))
        except (TypeError, ValueError, ArithmeticError) as error:
            raise InputError(f"condition {echo(self.text)}: {error}") from None
        except KeyError as error:
            raise InputError(
                f"condition {echo(self.text)}: {error.args[0]} has no value in the study"
            ) from None


def _path(node: ast.AST) -> tuple[str, ...]:
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute):
        return (*_path(node.value), node.attr)
    raise InputError("condition: expected the dotted path of an option")


def _value(node: ast.AST, values: Mapping[str, object]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name | ast.Attribute):
        return values[".".join(_path(node))]
    if isinstance(node, ast.BoolOp):
        decides = isinstance(node.op, ast.Or)
        return any(_value(part, values) for part in node.values) if decides else all(
            _value(part, values) for part in node.values
        )  # fmt: skip
    if isinstance(node, ast.UnaryOp):
        inner = _value(node.operand, values)
        return not inner if isinstance(node.op, ast.Not) else -inner
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, values), _value(node.right, values)
        if not (isinstance(left, int | float) and isinstance(right, int | float)):
            raise TypeError("only numbers are computed with")
        return _ARITHMETIC[type(node.op)](left, right)
    if isinstance(node, ast.Compare):
        left = _value(node.left, values)
        for sign, operand in zip(node.ops, node.comparators, strict=True):
            right = _value(operand, values)
            if not _COMPARE[type(sign)](left, right):
                return False
            left = right
        return True
    assert isinstance(node, ast.List | ast.Tuple)
    return [_value(part, values) for part in node.elts]
