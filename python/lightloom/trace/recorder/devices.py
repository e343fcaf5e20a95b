"""A GPU that is not there: queries are answered, and what it would do is left out."""

from __future__ import annotations

import contextlib
import functools
import itertools
import types
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _foreach_utils

from .invented import follow, follow_math, followed, plain, source_of
from .values import INSIDE, Values, is_meta, to_meta

#: what programs see: sizes and names of a common accelerator
NAME = "NVIDIA H100 80GB HBM3"
CAPABILITY = (9, 0)
MEMORY_BYTES = 80 * 10**9

CPU = torch.device("cpu")

#: index of the GPU that is current; the process of a rank sets it
PLACE = [0]

#: what a class of tensors has that replies no operators of its own
PLAIN = torch._C._disabled_torch_dispatch_impl

_number = itertools.count(1)


class StandInStream:
    """A queue of work that has a number and nothing else."""

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        self.device = torch.device("cuda", 0) if device is None else device
        self.device_index, self.device_type = 0, 1
        self.priority = priority
        self.stream_id = self.cuda_stream = next(_number)

    def wait_stream(self, stream: Any) -> None:
        """Begin what comes later once another stream has done what it was given."""
        self.wait_event(stream.record_event())

    def wait_event(self, event: Any) -> None:
        """Let the work of this stream wait up to an event."""
        if event.place is not None and STREAMS.session is not None:
            STREAMS.session.computes.wait(self.stream_id, event.place)

    def record_event(self, event: Any = None) -> Any:
        event = event or StandInEvent()
        event.record(self)
        return event

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def synchronize(self) -> None:
        """Nothing is pending."""

    def __enter__(self) -> Any:
        self._entered = context_of(self)
        return self._entered.__enter__()

    def __exit__(self, *error: Any) -> Any:
        return self._entered.__exit__(*error)


class StandInEvent:
    """A point in a queue of work."""

    def __init__(self, *_: Any, **__: Any) -> None:
        #: `Computes.place` where it was recorded
        self.place: Any = None

    def record(self, stream: Any = None) -> None:
        if STREAMS.session is not None:
            stream = stream or STREAMS.current
            self.place = STREAMS.session.computes.place(stream.stream_id)

    def wait(self, stream: Any = None) -> None:
        (stream or STREAMS.current).wait_event(self)

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: Any) -> float:
        return 1.0

    def synchronize(self) -> None:
        """Nothing is pending."""


class Streams:
    """The stream that is current."""

    def __init__(self) -> None:
        self.default = StandInStream()
        self.default.stream_id = self.default.cuda_stream = 0
        self.current = self.default
        self.session: Any = None

    def use(self, stream: Any) -> None:
        self.current = stream or self.default
        if self.session is not None:
            self.session.stream = self.current.stream_id


STREAMS = Streams()


@contextlib.contextmanager
def context_of(stream: Any) -> Any:
    """Make a stream current for a while."""
    before = STREAMS.current
    STREAMS.use(stream if stream is not None else before)
    try:
        yield stream
    finally:
        STREAMS.use(before)


def spoof_devices(local_world_size: int, real: bool = False) -> None:
    """Let programs find a GPU, and let their tensors say that they are on it."""
    replies = _replies(local_world_size)
    for name, reply in replies.items():
        setattr(torch.cuda, name, reply)
        for part in (torch.cuda.memory, torch.cuda.random, torch.cuda.streams):
            if hasattr(part, name):
                setattr(part, name, reply)
    for name in ("range_push", "range_pop", "mark", "range_start", "range_end"):
        setattr(torch.cuda.nvtx, name, _constant(0))
    accelerator = getattr(torch, "accelerator", None)
    replies |= {
        "current_accelerator": _constant(torch.device("cuda")),
        "current_device_index": replies["current_device"],
        "current_device_idx": replies["current_device"],
        "set_device_index": replies["set_device"], "set_device_idx": replies["set_device"],
    }  # fmt: skip
    for name, reply in replies.items():
        if accelerator is not None and hasattr(accelerator, name):
            setattr(accelerator, name, reply)
    spoof_tensors("cuda", real)


def _replies(number: int) -> dict[str, Any]:
    """What the functions of ``torch.cuda`` return, by their names."""
    state = torch.get_rng_state()

    def set_device(device: Any) -> None:
        index = device if isinstance(device, int) else torch.device(device).index
        PLACE[0] = PLACE[0] if index is None or index < 0 else index

    replies: dict[str, Any] = {
        "_lazy_call": lambda call, **_: call(),
        "current_device": lambda: PLACE[0],
        "current_stream": lambda *_: STREAMS.current,
        "default_generators": tuple(torch.Generator() for _ in range(number)),
        "default_stream": lambda *_: STREAMS.default,
        "device": lambda *_: contextlib.nullcontext(),
        "get_rng_state": lambda *_, **__: state.clone(),
        "get_rng_state_all": lambda: [state.clone() for _ in range(number)],
        "set_device": set_device,
        "set_stream": STREAMS.use,
        "stream": context_of,
        "Event": StandInEvent,
        "ExternalStream": StandInStream,
        "Stream": StandInStream,
    }
    constants = {
        "_device_count_nvml": number, "_is_in_bad_fork": False, "can_device_access_peer": True,
        "current_blas_handle": 0, "device_count": number, "get_arch_list": ["sm_90"],
        "get_device_capability": CAPABILITY, "get_device_name": NAME,
        "get_device_properties": types.SimpleNamespace(**PROPERTIES), "initial_seed": 0,
        "is_available": True, "is_bf16_supported": True, "is_current_stream_capturing": False,
        "is_initialized": True, "mem_get_info": (MEMORY_BYTES, MEMORY_BYTES),
        "memory_snapshot": [], "memory_stats": {}, "memory_summary": "", "utilization": 0,
    }  # fmt: skip
    replies |= {name: _constant(value) for name, value in constants.items()}
    replies |= {name: _constant(0) for name in _SIZES}
    return replies | {name: _constant(None) for name in _NOTHING}


#: of the GPU that programs find
PROPERTIES = {
    "name": NAME, "major": CAPABILITY[0], "minor": CAPABILITY[1], "total_memory": MEMORY_BYTES,
    "multi_processor_count": 132, "warp_size": 32, "is_integrated": False, "gcnArchName": "",
    "is_multi_gpu_board": False, "max_threads_per_multi_processor": 2048, "uuid": "GPU-0",
    "L2_cache_size": 50 * 2**20, "regs_per_multiprocessor": 65536,
    "shared_memory_per_block_optin": 232448, "shared_memory_per_multiprocessor": 233472,
}  # fmt: skip

_SIZES = (
    "max_memory_allocated", "max_memory_cached", "max_memory_reserved", "memory_allocated",
    "memory_cached", "memory_reserved",
)  # fmt: skip

_NOTHING = (
    "_lazy_init", "cudart", "empty_cache", "init", "ipc_collect", "manual_seed", "manual_seed_all",
    "reset_max_memory_allocated", "reset_peak_memory_stats", "seed",
    "set_per_process_memory_fraction", "set_rng_state", "set_rng_state_all", "synchronize",
)  # fmt: skip


def _constant(value: object) -> Callable[..., object]:
    def reply(*_: object, **__: object) -> object:
        return value

    return reply


def _on_cpu(make: Callable[..., object]) -> Callable[..., object]:
    """A function that makes tensors of numbers, and would ask a driver for a GPU to put them on."""

    @functools.wraps(make)
    def on_cpu(*args: object, **kwargs: object) -> object:
        kwargs.pop("device", None)
        kwargs.pop("pin_memory", None)
        return followed(make, [_numbers(arg) for arg in args], kwargs)

    return on_cpu


def _numbers(values: object) -> object:
    """Lists of tensors of one number each, nested or not, as lists of numbers."""
    if not isinstance(values, (list, tuple)) or not values:
        return values
    if isinstance(values[0], (list, tuple)):
        return [_numbers(value) for value in values]
    return [
        value.item() if isinstance(value, torch.Tensor) and value.dim() == 0 else value
        for value in values
    ]


def spoof_tensors(kind: str, real: bool = False) -> None:
    """Tensors say that they are on a device, and stay where they are when they are moved.

    While an operator is answered, PyTorch's own code has to see where a tensor really is.
    """
    tensor: Any = torch.Tensor
    shown = {
        "device": lambda: torch.device("cuda", PLACE[0]) if kind == "cuda" else CPU,
        "is_cuda": lambda: kind == "cuda",
        "is_cpu": lambda: kind == "cpu",
        "is_meta": lambda: False,
    }
    for name, reply in shown.items():
        setattr(tensor, name, _shown(getattr(torch._C.TensorBase, name).__get__, reply))
    for name in ("tensor", "as_tensor", "asarray", "scalar_tensor"):
        setattr(torch, name, _on_cpu(getattr(torch, name)))
    tensor.__repr__ = lambda self, **_: f"tensor(..., size={tuple(self.shape)}, dtype={self.dtype})"
    _let_shapes_be_asked()
    devices = _foreach_utils._get_foreach_kernels_supported_devices
    _foreach_utils._get_foreach_kernels_supported_devices = lambda: [*devices(), "meta"]
    before = torch.nn.Parameter.__new__

    def parameter(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
        """A parameter has no data, however small it is: its gradient has none."""
        if type(data) is torch.Tensor and not is_meta(data) and data.dtype.is_floating_point:
            with INSIDE:
                data = to_meta(data.detach())
        return before(cls, data, requires_grad)

    if not real:
        torch.nn.Parameter.__new__ = staticmethod(parameter)  # type: ignore[assignment]
        tensor.numpy = _answered(tensor.numpy, Values.array)
        tensor.tolist = _answered(tensor.tolist, Values.numbers)
        tensor.item = _taking(tensor.item)
        for holder, name in _OF_NUMBERS:
            setattr(holder, name, follow(getattr(holder, name)))
        torch.arange = _sized_by_numbers(torch.arange)
        follow_math()
        tensor.data = _replaceable_data()
        tensor.__deepcopy__ = _copied_deeply(tensor.__deepcopy__)
    move = torch.Tensor.to

    @functools.wraps(move)
    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Only the dtype changes; PyTorch would ask a driver which device is current."""
        kwargs.pop("device", None)
        kept = [arg for arg in args if not isinstance(arg, (str, int, torch.device)) or arg is True]
        kept = [
            arg.dtype if isinstance(arg, torch.Tensor) else arg for arg in kept if arg is not None
        ]
        if any(isinstance(arg, torch.dtype) for arg in (*kept, *kwargs.values())) or kwargs:
            return move(self, *kept, **kwargs)
        return self

    tensor.to = to
    if kind == "cuda":
        _spoof_methods()


#: what makes tensors of numbers that are no tensors
_OF_NUMBERS: tuple[tuple[Any, str], ...] = (
    (torch, "full"), (torch, "full_like"), (torch, "linspace"), (torch.Tensor, "new_full"),
    (torch.Tensor, "new_tensor"),
)  # fmt: skip


def _sized_by_numbers(make: Callable[..., object]) -> Callable[..., object]:
    """A function that makes as many numbers as those say that it is given."""

    @functools.wraps(make)
    def sized(*args: object, **kwargs: object) -> object:
        if source := source_of([*args, *kwargs.values()]):
            source.assume()
        return make(*plain(args), **{name: plain(value) for name, value in kwargs.items()})

    return sized


def _answered(take: Callable[..., object], answer: Callable[..., object]) -> Callable[..., object]:
    """What takes numbers out of PyTorch: those that there are, or invented ones."""

    @functools.wraps(take)
    def read(self: torch.Tensor, *args: object, **kwargs: object) -> object:
        session = STREAMS.session
        if session is None or session.values is None or type(self).__torch_dispatch__ is not PLAIN:
            return take(self, *args, **kwargs)
        with INSIDE:
            return answer(session.values, self, lambda known: take(known, *args, **kwargs))

    return read


def _taking(take: Callable[[torch.Tensor], object]) -> Callable[[torch.Tensor], object]:
    """What takes a number out of a tensor: of an invented one it is told if it steers."""

    @functools.wraps(take)
    def item(self: torch.Tensor) -> object:
        session = STREAMS.session
        if INSIDE or session is None or session.values is None:
            return take(self)
        return session.values.number(lambda: take(self))

    return item


def _replaceable_data() -> property:
    """The data of a tensor, which may be replaced by some of another size, known or not."""
    plain: Any = torch._C.TensorBase.data

    def replace(self: torch.Tensor, data: torch.Tensor) -> None:
        with INSIDE:
            if is_meta(self) and not is_meta(data):
                data = to_meta(data)
            elif is_meta(data) and not is_meta(self):
                data = torch.zeros((), dtype=data.dtype, device="cpu").expand(data.shape)
            plain.__set__(self, data)

    return property(plain.__get__, replace)


def _copied_deeply(copy: Callable[..., object]) -> Callable[..., object]:
    """PyTorch would copy the storage, of which tensors without data have none."""

    def copied(self: Any, copies: dict[int, Any]) -> Any:
        if type(self) is not torch.Tensor or not is_meta(self) or not self.is_leaf:
            return copy(self, copies)
        if id(self) not in copies:
            copies[id(self)] = self.detach().clone().requires_grad_(self.requires_grad)
        return copies[id(self)]

    return copied


def _spoof_methods() -> None:
    """Methods of tensors that only GPUs have, or that move from or to them."""
    tensor: Any = torch.Tensor
    tensor.get_device = lambda self: PLACE[0]
    tensor.cuda = lambda self, *_, **__: self
    tensor.cpu = lambda self, *_, **__: self.detach().clone()
    tensor.pin_memory = lambda self, *_, **__: self
    tensor.is_pinned = lambda self, *_, **__: True
    tensor.record_stream = lambda self, stream: None
    change = torch.Tensor.type

    @functools.wraps(change)
    def type_of(self: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if dtype is None:
            return _type_name(self.dtype)
        if isinstance(dtype, (str, type)):
            name = dtype if isinstance(dtype, str) else dtype.__name__
            dtype = _DTYPES[name.rsplit(".", 1)[-1]]
        return change(self, dtype, *args, **kwargs)

    tensor.type = type_of
    for name, dtype in _DTYPES.items():
        setattr(torch.cuda, name, _TypedTensor(name, (), {"dtype": dtype}))


def _let_shapes_be_asked() -> None:
    """PyTorch runs operators on tensors of its own to know their shapes: nothing of the program."""
    enter, leave = FakeTensorMode.__enter__, FakeTensorMode.__exit__

    def entered(self: Any) -> Any:
        INSIDE.__enter__()
        return enter(self)

    def left(self: Any, *error: Any) -> Any:
        INSIDE.__exit__()
        return leave(self, *error)

    FakeTensorMode.__enter__, FakeTensorMode.__exit__ = entered, left  # type: ignore[assignment]


def _shown(real: Callable[..., object], reply: Callable[[], object]) -> property:
    return property(lambda self: real(self) if INSIDE else reply())


class _TypedTensor(type):
    """The old classes of GPU tensors, of which isinstance is wanted."""

    dtype: torch.dtype

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.dtype is cls.dtype


_DTYPES = {
    "FloatTensor": torch.float32, "DoubleTensor": torch.float64, "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16, "LongTensor": torch.int64, "IntTensor": torch.int32,
    "ShortTensor": torch.int16, "ByteTensor": torch.uint8, "CharTensor": torch.int8,
    "BoolTensor": torch.bool,
}  # fmt: skip


def _type_name(dtype: torch.dtype) -> str:
    return next((f"torch.cuda.{name}" for name, dtype_ in _DTYPES.items() if dtype_ is dtype), "")
