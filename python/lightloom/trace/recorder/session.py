"""The recording of one rank: notes each call, and replies it in place of the other ranks."""

from __future__ import annotations

import threading
from typing import Any

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from .calls import (
    LOCAL,
    NAMESPACES,
    OPERATIONS,
    Arguments,
    IssuedCall,
    bytes_of,
    describe,
    read_arguments,
)
from .computes import Computes
from .devices import PLAIN
from .gloo import execute, summed
from .oracle import Place, RoutingOracle
from .peers import Finish, Peers
from .places import RefusedError, call_site
from .values import CHOOSING, INSIDE, Values, aten, chosen_experts, tensors_of


class PendingWork(dist.Work):
    """The handle of a call that was answered at once; notes when the program waits for it."""

    def __init__(
        self, session: Session, call: IssuedCall, result: Any, finish: Finish | None
    ) -> None:
        super().__init__()
        self.session, self.call, self.outputs, self.finish = session, call, result, finish

    def wait(self, timeout: Any = None) -> bool:
        self.session.note_wait(self.call)
        self._finish()
        return True

    def is_completed(self) -> bool:
        if self.finish is not None and not self.finish.is_there():
            return False
        self._finish()
        return True

    def is_success(self) -> bool:
        return True

    def synchronize(self) -> None:
        self.wait()

    def result(self) -> list[torch.Tensor]:
        self._finish()
        return list(tensors_of(self.outputs))

    def _finish(self) -> None:
        if self.finish is not None:
            self.session.finish(self.finish)

    def get_future(self) -> Any:
        self._finish()
        future: torch.futures.Future[Any] = torch.futures.Future()
        future.set_result(list(tensors_of(self.outputs)))
        return future


class Session(TorchDispatchMode):
    """Records the calls of a program, and gives its tensors what data they have.

    Parameters
    ----------
    values
        What executes operators that do not communicate; None for a real run, which goes on as if
        nobody looked.
    peers
        What replies communication in place of the other ranks; None for a real run.
    """

    def __init__(
        self, values: Values | None, peers: Peers | None, oracle: RoutingOracle | None
    ) -> None:
        super().__init__()
        self.oracle = oracle
        self.values, self.peers = values, peers
        self.calls: list[IssuedCall] = []
        self.phase, self.layers, self.step = "setup", [""], 0
        #: the outermost numbered module of each of `layers`
        self.blocks = [""]
        self.computes = Computes(self)
        self.stream, self.stepped = 0, False
        self.micro_batch: int | None = None
        if oracle is not None:
            oracle.place = self.place
        self.kept: list[PendingWork] = []
        self.waiting: dict[int, tuple[IssuedCall, Finish | None]] = {}
        #: what all-to-alls of the forward pass sent, by what is differentiated
        self.forwards: dict[int, tuple[int | None, list[int], list[int]]] = {}
        self._numbering = threading.Lock()
        #: what was refused in a thread of the program
        self.refusal: RefusedError | None = None
        #: in a process that the program started
        self.refuse_call: Any = None

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled, so that no guard against it is wanted, which costs as much again."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if INSIDE or FakeTensor in types:
            return func(*args, **(kwargs or {}))  # PyTorch asks itself what a shape would be
        for kind in types:  # sharded and pending tensors: what they do comes here again
            if kind.__torch_dispatch__ is not PLAIN:
                return NotImplemented
        with INSIDE:
            return self._dispatch(func, args, {**kwargs} if kwargs else {})

    def _dispatch(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func.namespace in NAMESPACES:
            name = func._schema.name.split("::")[1]
            if name not in LOCAL:
                return self._communicate(func, args, kwargs)
            if name.startswith("wait_tensor"):
                self._wait_for(tensors_of(args))
                if self.peers is not None:
                    return args[0]
            return func(*args, **kwargs)
        if self.values is None:
            return self._real(func, args, kwargs)
        result = self.values.run(func, args, kwargs)
        self.computes.note(func, args, kwargs, result)
        return result

    def _wait_for(self, tensors: list[torch.Tensor]) -> None:
        """The program waits for what functional collectives return."""
        for tensor in tensors:
            if pending := self.waiting.pop(_storage(tensor), None):
                call, finish = pending
                self.note_wait(call)
                if finish is not None:
                    finish()

    def _communicate(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.refuse_call is not None:
            self.refuse_call()
        arguments = read_arguments(func, args, kwargs)
        self.computes.note_call(arguments.inputs)
        if OPERATIONS[arguments.name] == "receive":
            self.begin_step()  # later stages of a pipeline begin with what they receive
        call = describe(arguments)
        call.phase = self.where()
        call.layer, call.step, call.stream = self.layers[-1], self.step, self.stream
        call.micro_batch = self.micro_batch
        call.call_site = call_site()
        call.asynchronous |= func.namespace == "_c10d_functional"
        if call.input_splits and call.output_splits and self.oracle is not None:
            call.routed = self._routed(call, call.input_splits, call.output_splits)
        with self._numbering:
            call.call_id = len(self.calls)
            self.calls.append(call)
        if self.peers is not None:
            return self._reply(func, arguments, call, args, kwargs)
        if execute(arguments):
            return self._done(func, arguments, call)
        if call.reduction == "premul_sum":
            args = summed(func, args)
        result = func(*args, **kwargs)
        if func.namespace == "_c10d_functional":
            call.output_bytes = bytes_of(result)
        return result

    def _routed(self, call: IssuedCall, sent: list[int], received: list[int]) -> int | None:
        """The choice of experts that rows of an all-to-all stem from.

        The backward pass sends back what the forward pass sent: PyTorch numbers what it has to
        differentiate, so that the two are known to belong together.
        """
        assert self.oracle is not None
        if call.phase != "backward":
            routed = self.oracle.of_splits(sent, received)
            # the operator that is being executed has the number before the next one's
            self.forwards[torch.autograd._get_sequence_nr() - 1] = (routed, sent, received)
            return routed
        node = torch._C._current_autograd_node()
        forward = None if node is None else self.forwards.get(node._sequence_nr())
        if forward is not None and forward[1:] == (received, sent):
            return forward[0]
        return self.oracle.of_splits(sent, received)

    def _reply(
        self, func: Any, arguments: Arguments, call: IssuedCall, args: Any, kwargs: dict[str, Any]
    ) -> Any:
        """Return what the operator would: its outputs, and a handle where it has one."""
        assert self.peers is not None
        if func.namespace == "_c10d_functional":
            result, finish = self.peers.functional(func, arguments, call, args, kwargs)
            call.output_bytes = bytes_of(result)
            for tensor in tensors_of(result):
                self.waiting[_storage(tensor)] = (call, finish)
            return result
        finish = self.peers.reply(arguments, call)
        return self._done(func, arguments, call, finish)

    def _done(
        self, func: Any, arguments: Arguments, call: IssuedCall, finish: Finish | None = None
    ) -> Any:
        """What an operator returns; its outputs are written once the program waits for it."""
        outputs = arguments.inputs if arguments.outputs is None else arguments.outputs
        if not func._schema.returns:
            if finish is not None:
                finish()
            return None
        work = PendingWork(self, call, outputs, finish)
        self.kept.append(work)
        boxed = work.boxed()
        return boxed if len(func._schema.returns) == 1 else (outputs, boxed)

    def _real(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A real run: only routers choose as the oracle says, so that runs can be compared."""
        if "device" in kwargs:
            kwargs["device"] = torch.device("cpu")
        result = func(*args, **kwargs)
        if self.oracle is None or func not in CHOOSING:
            return result
        if not args[0].dtype.is_floating_point or args[0].numel() <= 1:
            return result
        indices = result if isinstance(result, torch.Tensor) else result[-1]
        chosen = chosen_experts(self.oracle, func, args, indices)
        if chosen is None:
            return result
        chosen = chosen.to(args[0].device)
        if isinstance(result, torch.Tensor):
            return chosen
        if func is aten.max.dim:
            return args[0].gather(-1, chosen.unsqueeze(-1)).view(chosen.shape), chosen
        return args[0].gather(-1, chosen), chosen

    def begin_step(self) -> bool:
        """What comes now is of a step: of the next one, if an optimizer has ended one."""
        ended, self.stepped = self.stepped, False
        if ended and self.values is not None:
            self.computes.close()
        self.step += ended
        if self.phase == "setup":
            self.phase = "between"
        return ended

    def finish(self, write: Finish) -> None:
        """Write what a call brings; none of it is of the program."""
        with INSIDE, torch.no_grad():
            write()

    def note_wait(self, call: IssuedCall) -> None:
        """The program waits for a call, if it did not before."""
        if call.waited_before is None:
            call.waited_before = len(self.calls)
            if self.values is not None:
                call.waited_at = self.computes.place(self.stream)

    def place(self) -> tuple[Place, bool]:
        """The layer, step and micro-batch, and whether what is run there was run before."""
        again = self.where() == "backward"
        return (self.layers[-1], self.step, self.micro_batch), again

    def where(self) -> str:
        """The phase of the step that is being executed."""
        if torch._C._current_graph_task_id() != -1:
            return "backward"
        return self.phase


def follow_threads(session: Session) -> None:
    """Record what threads do that the program starts."""
    thread: Any = threading.Thread
    begin = thread._bootstrap_inner

    def begun(self: threading.Thread) -> None:
        run = self.run

        def watched() -> None:
            try:
                run()
            except RefusedError as refusal:
                session.refusal = session.refusal or refusal
                raise

        self.run = watched  # type: ignore[method-assign]
        with session:
            begin(self)

    thread._bootstrap_inner = begun


def _storage(tensor: torch.Tensor) -> int:
    """What the same data is known by, whatever views it is seen through."""
    return tensor.untyped_storage()._cdata
