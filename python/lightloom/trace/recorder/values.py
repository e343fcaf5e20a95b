"""What the tensors of a traced program hold.

Floating-point tensors have a shape and a dtype but no data: they live on PyTorch's meta device,
where an operator costs microseconds whatever the size. Integers and booleans steer a program (token
counts, splits, masks, flags), so they are real, on the CPU, and so are small floating-point tensors
that are computed from numbers that the program wrote (loss scales, learning rates, statistics).
Where a program asks for a number that depends on data (a loss, a norm, the experts of a token), one
is invented, by rules that are listed here, and noted; the experts are drawn by a routing oracle.
Integers and flags that are derived from invented ones remember where these came from: only if the
program reads them, or a shape depends on them, is that an assumption. A floating-point number that
it takes out of a tensor is followed until it decides by it (see `invented`).
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload

from .invented import InventedNumber
from .places import call_site
from .shapes import MAX_TENSORS, UNKNOWN, Shapes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .oracle import RoutingOracle

aten = torch.ops.aten

#: larger integer tensors have no data either
MAX_KNOWN_BYTES = 1 << 28

#: floating-point numbers of a tensor that keeps what the program wrote
MAX_KNOWN_FLOATS = 1 << 10

#: elements of known tensors beyond which it is asked whether a result is kept at all
LARGE = 1 << 16

#: read from the class of tensors, where `devices` replaces what programs see
is_meta = torch._C.TensorBase.is_meta.__get__


class Inside(threading.local):
    """Whether this thread answers an operator: tensors then say where they are."""

    def __init__(self) -> None:
        self.depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1

    def __bool__(self) -> bool:
        return self.depth > 0


INSIDE = Inside()


class Taking(threading.local):
    """Whether this thread takes a number out of a tensor, and where that was invented."""

    def __init__(self) -> None:
        self.is_followed = False
        self.origin: str | None = None


_TAKING = Taking()

#: operators that ask for one number of a tensor
_NUMBER = {aten._local_scalar_dense.default, aten.item.default}

#: operators whose integers are the state of a generator of random numbers, which nobody reads
_RANDOM = {
    aten._scaled_dot_product_flash_attention.default,
    aten._scaled_dot_product_cudnn_attention.default,
}

#: what they make holds nothing yet: a number in it is as good as unknown
_UNSET = {aten.empty.memory_format, aten.empty_strided.default}

#: tests of floating-point numbers, of which all pass
_PASS = {aten.isfinite.default, aten.equal.default, aten.allclose.default}

#: such tests which write whether any number fails, and tests that none passes
_PASS_INTO = {
    aten._amp_foreach_non_finite_check_and_unscale_.default,
    aten._amp_foreach_non_finite_check_and_unscale.default,
}
_FAIL = {
    aten.isnan.default, aten.isinf.default, aten.isposinf.default, aten.isneginf.default,
}  # fmt: skip


def tensors_of(values: object) -> list[torch.Tensor]:
    """Every tensor of arguments or results, also in lists."""
    tensors: list[torch.Tensor] = []
    if isinstance(values, torch.Tensor):
        tensors.append(values)
    elif isinstance(values, (list, tuple, dict)):
        _add_tensors(values.values() if isinstance(values, dict) else values, tensors)
    return tensors


def _add_tensors(values: Iterable[object], tensors: list[torch.Tensor]) -> None:
    for value in values:
        if isinstance(value, torch.Tensor):
            tensors.append(value)
        elif isinstance(value, (list, tuple)):
            _add_tensors(value, tensors)
        elif isinstance(value, dict):
            _add_tensors(value.values(), tensors)


def replace_tensors(values: Any, by: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Arguments or results with each tensor replaced; others are kept as they are."""
    if isinstance(values, torch.Tensor):
        return by(values)
    if isinstance(values, (list, tuple)):
        replaced = [
            by(value)
            if isinstance(value, torch.Tensor)
            else replace_tensors(value, by)
            if isinstance(value, (list, tuple))
            else value
            for value in values
        ]
        return tuple(replaced) if isinstance(values, tuple) else replaced
    return values


def to_meta(tensor: torch.Tensor) -> torch.Tensor:
    """The same tensor without data."""
    return torch._C.TensorBase.to(tensor, "meta")


def is_known(tensor: torch.Tensor) -> bool:
    """Whether a tensor has data that a program may read."""
    if is_meta(tensor):
        return False
    return not tensor.dtype.is_floating_point or tensor.numel() <= MAX_KNOWN_FLOATS


def origin_of(tensor: torch.Tensor) -> str | None:
    """Where numbers were invented that a tensor's are derived from; None where none were."""
    return getattr(tensor.untyped_storage(), _ORIGIN, None) if _ANY[0] else None


#: of the storage of a tensor, which its views share; and whether any has one
_ORIGIN, _ANY = "_lightloom_invented_at", [False]


def common_origin(tensors: list[torch.Tensor]) -> str | None:
    """The first of the origins of tensors."""
    if not _ANY[0]:
        return None
    return next((origin for tensor in tensors if (origin := origin_of(tensor))), None)


def derive(result: Any, origin: str | None) -> Any:
    """Note of which invented numbers results are derived, if of any."""
    if origin is not None:
        _ANY[0] = True
        for tensor in tensors_of(result):
            if not is_meta(tensor):
                setattr(tensor.untyped_storage(), _ORIGIN, origin)
    return result


def overwritten(func: OpOverload, args: tuple[Any, ...]) -> None:
    """Forget where numbers came from that an operator replaces, all of them."""
    if _ANY[0] and func in _REPLACING:
        storage = args[0].untyped_storage()
        if args[0].numel() * args[0].element_size() == storage.nbytes():
            setattr(storage, _ORIGIN, None)


@dataclass(frozen=True)
class InventedAt:
    """Where a number was invented, for those that go on with it."""

    values: Values
    origin: str

    def assume(self) -> None:
        """Note that the program decides by the number."""
        self.values.assume(self.origin)

    def derive(self, result: object) -> object:
        """Note that what tensors hold is derived from the number; returns them."""
        return derive(result, self.origin)


class Values:
    """Executes operators on tensors of which only some have data.

    Attributes
    ----------
    invented
        How often each operator asked for a number that depends on data.
    """

    def __init__(self, oracle: RoutingOracle) -> None:
        self.oracle = oracle
        self.shapes = Shapes()
        #: of operators on large known tensors: those whose results are kept
        self.kept: set[Any] = set()
        self.invented: Counter[str] = Counter()
        #: how often each place read what was invented, and where that was
        self.assumed: Counter[str] = Counter()

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Execute one operator."""
        if self.shapes.is_view(func) and isinstance(args[0], torch.Tensor) and is_meta(args[0]):
            return func(*args, **kwargs)
        kwargs.pop("pin_memory", None)
        tensors = tensors_of(args)
        if kwargs:
            tensors += tensors_of(kwargs)
        if not tensors:
            return self._create(func, args, kwargs)
        if all(map(is_known, tensors)):
            if max(tensor.numel() for tensor in tensors) > LARGE:
                result = self._without_numbers(func, args, kwargs)
                if result is not None:
                    return result
            if "device" in kwargs:
                kwargs["device"] = torch.device("cpu")
            overwritten(func, args)
            origin = common_origin(tensors)
            if origin is not None and (func in _NUMBER or _is_shaped_by(func, args)):
                self._taken(origin, args[0])
            result = replace_tensors(_executed(func, args, kwargs), _forget_large)
            return derive(result, origin)
        return self._run_unknown(func, args, kwargs)

    def assume(self, origin: str) -> None:
        """Note that the program reads what was invented."""
        site = call_site()
        read = "" if site in origin else f", read at {site}"
        self.assumed[f"{origin}: numbers that depend on data were invented{read}"] += 1

    def number(self, take: Callable[[], object]) -> object:
        """A number that a program takes out of a tensor, which tells if it decides by it."""
        _TAKING.is_followed, _TAKING.origin = True, None
        try:
            number = take()
        finally:
            _TAKING.is_followed = False
        origin = _TAKING.origin
        if origin is None:
            return number
        if not isinstance(number, float):
            self.assume(origin)
            return number
        return InventedNumber(number, InventedAt(self, origin))

    def _taken(self, origin: str, tensor: torch.Tensor) -> None:
        """Note where a number was invented, or that it is read, where nothing follows it."""
        if _TAKING.is_followed and tensor.dtype.is_floating_point:
            _TAKING.origin = origin
        else:
            self.assume(origin)

    def array(self, tensor: torch.Tensor, take: Callable[[torch.Tensor], object]) -> object:
        """The numbers of a tensor that a program takes out of PyTorch; invented where unknown."""
        known, origin = self._read(tensor)
        if origin is not None:
            self.assume(origin)
        return take(known)

    def numbers(self, tensor: torch.Tensor, take: Callable[[torch.Tensor], object]) -> object:
        """The same as lists of numbers, which tell if the program decides by them."""
        known, origin = self._read(tensor)
        numbers = take(known)
        if origin is None:
            return numbers
        if not tensor.dtype.is_floating_point:
            self.assume(origin)
            return numbers
        return _invented(numbers, InventedAt(self, origin))

    def _read(self, tensor: torch.Tensor) -> tuple[torch.Tensor, str | None]:
        """A tensor with data, and where that was invented, if it was."""
        if is_known(tensor):
            return tensor, origin_of(tensor)
        shape, dtype = tensor.shape, tensor.dtype
        self.invented["read"] += 1
        known = torch.ones(shape, dtype=dtype, device="cpu")
        if dtype.is_floating_point:
            return known, f"a tensor that is read at {call_site()}"
        return known, f"a tensor of {tuple(shape)} whose numbers are not kept"

    def _without_numbers(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Floating-point results of known tensors, which are not kept; None for others."""
        key = None if func in _DATA_SHAPED else self.shapes.key_of_new(func, args, kwargs)
        if key is None or key in self.kept:
            return None
        result = self.shapes.recall(key, args)
        if result is UNKNOWN:
            where = {"device": torch.device("meta")} if "device" in kwargs else {}
            result = func(*replace_tensors(args, to_meta), **(kwargs | where))
            self.shapes.remember(key, result)
        if all(t.is_floating_point() and t.numel() > MAX_KNOWN_FLOATS for t in tensors_of(result)):
            return result
        self.kept.add(key)
        return None

    def _create(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A factory: the shape first, then the data where it is known."""
        if not any(argument.name == "device" for argument in func._schema.arguments):
            return func(*args, **kwargs)
        result = func(*args, **(kwargs | {"device": torch.device("meta")}))
        if not isinstance(result, torch.Tensor) or not _is_small(result):
            return result
        if result.dtype.is_floating_point and func in _UNSET:
            return result  # may be given data that is not there
        if result.dtype.is_floating_point and result.numel() > 1:
            return result  # may be a leaf, whose gradient has no data
        if result.dtype.is_floating_point and str(kwargs.get("device")) == "meta":
            return result  # wanted by PyTorch, for tensors that have no data
        return func(*args, **(kwargs | {"device": torch.device("cpu")}))

    def _run_unknown(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func in _NUMBER:
            self.note(func)
            origin = f"item at {call_site()}"
            if _TAKING.is_followed:
                _TAKING.origin = origin
            else:  # by C code, such as float
                self.assume(origin)
            return _number(args[0].dtype)
        if func in _PASS and not func._schema.returns[0].type.isSubtypeOf(_TENSOR):
            self.note(func)
            return True
        if func in _DATA_SHAPED:
            done = _DATA_SHAPED[func](self, func, args, kwargs)
            if done is not NotImplemented:
                return done
        if "device" in kwargs:
            kwargs["device"] = torch.device("meta")
        key = self.shapes.key(func, args, kwargs)
        if key is not None and (result := self.shapes.recall(key, args)) is not UNKNOWN:
            return result
        result = self._run_on_meta(func, args, kwargs)
        if key is not None:
            self.shapes.remember(key, result)
        return result

    def _run_on_meta(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        originals: dict[int, torch.Tensor] = {}

        def without_data(tensor: torch.Tensor) -> torch.Tensor:
            if is_meta(tensor):
                return tensor
            bare = to_meta(tensor)
            originals[id(bare)] = tensor
            kept.append(bare)
            return bare

        kept: list[torch.Tensor] = []
        tensors = tensors_of(args)
        bare = replace_tensors(args, without_data)
        out = func(*bare, **{name: replace_tensors(v, without_data) for name, v in kwargs.items()})
        passed = {id(tensor) for tensor in tensors}

        def known_again(tensor: torch.Tensor) -> torch.Tensor:
            if func in _PASS_INTO:
                return originals.get(id(tensor), tensor)
            if id(tensor) in originals:  # written in place: it keeps the value that it had
                return derive(originals[id(tensor)], f"{_called(func)} at {call_site()}")
            if id(tensor) in passed or tensor.dtype.is_floating_point or tensor.is_complex():
                return tensor
            return self._invent(func, args, tensor)

        return replace_tensors(out, known_again)

    def note(self, func: Any) -> None:
        """Remember that a number was invented."""
        self.invented[str(func).removeprefix("aten.")] += 1

    def _invent(self, func: Any, args: tuple[Any, ...], like: torch.Tensor) -> torch.Tensor:
        """Integers or booleans that an operator derives from data that there is not."""
        if like.numel() * like.element_size() > MAX_KNOWN_BYTES:
            return like
        if func in _RANDOM:
            return torch.zeros(like.shape, dtype=like.dtype)
        self.note(func)
        chosen = chosen_experts(self.oracle, func, args, like)
        if chosen is not None:
            return chosen
        if func in _PASS or _says_finite(func, args):
            return torch.ones(like.shape, dtype=like.dtype)
        if func in _FAIL or _says_infinite(func, args):
            return torch.zeros(like.shape, dtype=like.dtype)
        return derive(self._guess(func, args, like), f"{_called(func)} at {call_site()}")

    def _guess(self, func: OpOverload, args: tuple[Any, ...], like: torch.Tensor) -> torch.Tensor:
        """Integers or flags that are as good as any others."""
        if func in _SORTED:
            dim = args[1] if func is aten.sort.default and len(args) > 1 else -1
            order = torch.arange(like.shape[dim])
            shape = [1] * like.dim()
            shape[dim] = -1
            return order.view(shape).expand(like.shape).contiguous()
        return torch.zeros(like.shape, dtype=like.dtype)


def _invented(numbers: Any, source: InventedAt) -> Any:
    """Numbers, in lists or not, that were invented."""
    if isinstance(numbers, list):
        return [_invented(number, source) for number in numbers]
    return InventedNumber(numbers, source)


_TENSOR = torch._C.TensorType.get()

#: operators whose largest score of the last dimension is a choice
_LARGEST = {aten.argmax.default, aten.max.dim}
_SORTED = {aten.sort.default, aten.sort.stable, aten.argsort.default, aten.argsort.stable}
#: operators that may choose experts
CHOOSING = {aten.topk.default, aten.multinomial.default, *_LARGEST, *_SORTED}

#: scores beyond which what is sorted is no choice of experts
MAX_EXPERTS = 1 << 10

#: operators on known numbers that sizes depend on
_SHAPED_BY_DATA = {
    aten.nonzero.default, aten.masked_select.default, aten.repeat_interleave.Tensor,
    aten.is_nonzero.default, aten.bincount.default, aten._unique2.default,
    aten.unique_consecutive.default, aten.unique_dim.default, aten.equal.default,
    aten.allclose.default,
}  # fmt: skip

#: operators that replace what their first argument holds
_REPLACING = {aten.zero_.default, aten.fill_.Scalar, aten.fill_.Tensor, aten.copy_.default}


def _is_shaped_by(func: OpOverload, args: tuple[Any, ...]) -> bool:
    """Whether what an operator returns has sizes that depend on known numbers, or is none."""
    if func is aten.index.Tensor:
        masks = (index for index in args[1] if index is not None)
        return any(mask.dtype is torch.bool and origin_of(mask) is not None for mask in masks)
    return func in _SHAPED_BY_DATA


def chosen_experts(
    oracle: RoutingOracle, func: OpOverload, args: tuple[Any, ...], like: torch.Tensor
) -> torch.Tensor | None:
    """Experts of tokens, of the shape of `like`, if that is what an operator is asked for."""
    if func not in CHOOSING:
        return None
    scores = args[0]
    if func is aten.topk.default:
        return oracle.choose(scores.shape, args[1])
    if scores.dim() < 2 or (func is not aten.argmax.default and scores.shape[-1] > MAX_EXPERTS):
        return None
    if func is aten.multinomial.default:
        with_repeats = len(args) > 2 and bool(args[2])
        draws = like.shape[-1]
        return None if with_repeats and draws > 1 else oracle.choose(scores.shape, draws)
    place_of_dim = 2 if func is aten.sort.stable else 1
    dim = args[place_of_dim] if len(args) > place_of_dim else -1
    if func in _LARGEST:
        if dim not in (-1, scores.dim() - 1):
            return None
        return oracle.choose(scores.shape, 1).view(like.shape)
    if dim not in (-1, scores.dim() - 1) or scores.shape[-1] < 2:
        return None
    first = oracle.choose(scores.shape, 1)
    return (first + torch.arange(scores.shape[-1])) % scores.shape[-1]


def _called(func: OpOverload) -> str:
    """An operator as a program knows it."""
    return str(func._schema.name).rpartition("::")[2]


def _executed(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of an operator; of one that only GPUs have for whole numbers, by other numbers."""
    try:
        return func(*args, **kwargs)
    except NotImplementedError:
        first = tensors_of(args)[0]
        if first.dtype.is_floating_point or func._schema.name.endswith("_"):
            raise

        def widened(tensor: torch.Tensor) -> torch.Tensor:
            return torch._C.TensorBase.to(tensor, torch.float64)

        result = func(*replace_tensors(args, widened), **kwargs)
        return replace_tensors(result, lambda t: torch._C.TensorBase.to(t, first.dtype))


def _says_finite(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether every finite number passes a comparison: with itself, or with what is not finite."""
    if func is aten.eq.Tensor:
        return args[0] is args[1]
    return func is aten.ne.Scalar and not math.isfinite(args[1])


def _says_infinite(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether no finite number passes a comparison."""
    if func is aten.ne.Tensor:
        return args[0] is args[1]
    return func is aten.eq.Scalar and not math.isfinite(args[1])


def _is_small(tensor: torch.Tensor) -> bool:
    if tensor.dtype.is_floating_point or tensor.is_complex():
        return tensor.numel() <= MAX_KNOWN_FLOATS and not tensor.is_complex()
    return tensor.numel() * tensor.element_size() <= MAX_KNOWN_BYTES


def _forget_large(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if _is_small(tensor) else to_meta(tensor)


def _number(dtype: torch.dtype) -> float | int | bool:
    """The number of a tensor whose data is unknown: one, and a flag that is not set."""
    if dtype.is_floating_point:
        return 1.0
    return False if dtype is torch.bool else 0


def _index(values: Values, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Selection by a known mask: as many elements as it has ones."""
    indices: list[Any] = []
    for index in args[1]:
        if index is not None and index.dtype in (torch.bool, torch.uint8):
            mask = torch.zeros(index.shape, dtype=torch.bool) if is_meta(index) else index
            if func is aten.index.Tensor and (origin := origin_of(mask)):
                values.assume(origin)
            indices += mask.nonzero().unbind(1)
        else:
            indices.append(index)
    if len(indices) == len(args[1]):
        return NotImplemented
    return values.run(func, (args[0], indices, *args[2:]), kwargs)


def _masked_select(values: Values, func: Any, args: tuple[Any, ...], _: dict[str, Any]) -> Any:
    data, mask = args
    if is_meta(mask):
        values.note(func)
        mask = torch.ones(mask.shape, dtype=torch.bool, device="cpu")
    shape = torch.broadcast_shapes(data.shape, mask.shape)
    copies = math.prod(shape) // max(mask.numel(), 1)
    if origin := origin_of(mask):
        values.assume(origin)
    number = int(mask.count_nonzero()) * copies
    return torch.empty(number, dtype=data.dtype, device="meta")


def _nonzero(values: Values, func: Any, args: tuple[Any, ...], _: dict[str, Any]) -> Any:
    """The places of the nonzero numbers of unknown data: all."""
    values.note(func)
    return torch.ones(args[0].shape, dtype=torch.bool).nonzero()


def _cat(values: Values, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Many tensors in a row, such as the tokens of each expert: only their lengths are added."""
    tensors, dim = args[0], args[1] if len(args) > 1 else kwargs.get("dim", 0)
    first = tensors[0]
    if len(tensors) <= MAX_TENSORS or not first.dtype.is_floating_point:
        return NotImplemented
    length = 0
    for tensor in tensors:
        if (
            tensor.dtype is not first.dtype
            or tensor.dim() != first.dim()
            or not (is_meta(tensor) and tensor.is_contiguous())
        ):
            return NotImplemented
        length += tensor.shape[dim]
    shape = list(first.shape)
    shape[dim] = length
    return torch.empty(shape, dtype=first.dtype, device="meta")


_DATA_SHAPED: dict[Any, Callable[..., Any]] = {
    aten.cat.default: _cat,
    aten.index.Tensor: _index,
    aten.index_put.default: _index,
    aten.index_put_.default: _index,
    aten.masked_select.default: _masked_select,
    aten.nonzero.default: _nonzero,
}
