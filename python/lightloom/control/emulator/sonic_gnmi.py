"""gNMI of an emulated SONiC switch."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from lightloom.control.connections import tcp_address
from lightloom.control.drivers.options import optional_import
from lightloom.control.emulator.device import (
    EmulatedSwitch,
    NoReplyError,
    SessionCutError,
)
from lightloom.control.emulator.matrix import MatrixRefusalError
from lightloom.control.emulator.sonic import SonicRefusedError, SonicTables
from lightloom.control.emulator.sonic_platform import PLATFORM, platform_of
from lightloom.control.emulator.sonic_tree import MODULES, PathStep, SonicPathError, SonicTree
from lightloom.control.emulator.tls import Identity

#: how often subscribed tables are looked at
_LOOK_S = 0.02
#: SONiC takes no shorter interval of samples
_LEAST_SAMPLE_NS = 20 * 10**9


class SonicGnmiService:
    """Serves ``Get``, ``Set``, ``Subscribe`` and ``Capabilities``.

    Subscriptions are those that SONiC's own tests make: once, by polls, and as a stream on change;
    what is sampled is sent when it changes, too.

    Parameters
    ----------
    switch
        Whose users and faults apply.
    tables
        What is read and changed.
    tls
        Key and certificate, for TLS.
    """

    def __init__(
        self, switch: EmulatedSwitch, tables: SonicTables, tls: Identity | None = None
    ) -> None:
        self._switch = switch
        self._tables = tables
        self._tree = SonicTree(tables, lambda: platform_of(switch))
        self._tls = tls
        self._grpc = optional_import("grpc", "the emulator's gNMI")
        self._messages = optional_import("pygnmi.spec.v080.gnmi_pb2", "the emulator's gNMI")
        self._services = optional_import("pygnmi.spec.v080.gnmi_pb2_grpc", "the emulator's gNMI")
        self._server: Any = None

    async def start(self, host: str, port: int) -> int:
        """Listen and return the port."""
        self._server = self._grpc.aio.server()
        self._services.add_gNMIServicer_to_server(self, self._server)
        address = tcp_address(host, port)
        if self._tls is None:
            bound = self._server.add_insecure_port(address)
        else:
            credentials = self._grpc.ssl_server_credentials(
                [(self._tls.key, self._tls.certificate)]
            )
            bound = self._server.add_secure_port(address, credentials)
        await self._server.start()
        return int(bound)

    async def close(self) -> None:
        """Stop listening and drop all connections."""
        if self._server is not None:
            await self._server.stop(None)

    async def Capabilities(self, _: Any, context: Any) -> Any:  # noqa: N802
        """Return the models and encodings."""
        await self._admit(context)
        models = [
            self._messages.ModelData(name=name, organization="SONiC", version="0.5")
            for name in self._tree.modules
        ]
        models.append(
            self._messages.ModelData(name=PLATFORM, organization="OpenConfig working group")
        )
        encodings = [self._messages.Encoding.Value(name) for name in ("JSON", "JSON_IETF")]
        return self._messages.CapabilityResponse(
            supported_models=models, supported_encodings=encodings, gNMI_version="0.8.0"
        )

    async def Get(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Return what is below paths."""
        await self._admit(context)
        encodings = self._messages.Encoding
        if request.encoding not in {encodings.Value("JSON"), encodings.Value("JSON_IETF")}:
            codes = self._grpc.StatusCode
            await context.abort(codes.UNIMPLEMENTED, "only JSON is offered")

        async def run() -> Any:
            notification = self._messages.Notification(
                timestamp=time.time_ns(), prefix=request.prefix
            )
            for path in request.path or [self._messages.Path()]:
                value = json.dumps(self._tree.read(self._steps(request.prefix, path))).encode()
                is_ietf = request.encoding == encodings.Value("JSON_IETF")
                typed = self._messages.TypedValue(
                    **{"json_ietf_val" if is_ietf else "json_val": value}
                )
                notification.update.append(self._messages.Update(path=path, val=typed))
            return self._messages.GetResponse(notification=[notification])

        return await self._execute(run, context, is_change=False)

    async def Set(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Delete, replace and update cross-connects in this order; all of them, or none."""
        await self._admit(context)

        async def run() -> Any:
            deletes: list[tuple[int, int]] = []
            creates: list[tuple[int, int]] = []
            for path in request.delete:
                deletes += self._tree.below(self._steps(request.prefix, path))
            for update in request.replace:
                steps = self._steps(request.prefix, update.path)
                pairs = self._given(steps, update)
                deletes += [pair for pair in self._tree.below(steps) if pair not in pairs]
                creates += pairs
            for update in request.update:
                creates += self._given(self._steps(request.prefix, update.path), update)
            if len(set(creates)) < len(creates):
                raise SonicPathError("one entry is given twice")
            await self._tables.change(list(dict.fromkeys(deletes)), creates)
            results = [
                self._messages.UpdateResult(path=path, op=operation)
                for paths, operation in (
                    (request.delete, 1),
                    ([update.path for update in request.replace], 2),
                    ([update.path for update in request.update], 3),
                )
                for path in paths
            ]
            return self._messages.SetResponse(prefix=request.prefix, response=results)

        return await self._execute(run, context, is_change=True)

    def _steps(self, prefix: Any, path: Any) -> list[PathStep]:
        """Return the steps of a path; its module may be its origin, as pygnmi sends it."""
        elements = [*prefix.elem, *path.elem]
        steps = [PathStep(element.name, dict(element.key)) for element in elements]
        origin = path.origin or prefix.origin
        if origin in (*MODULES, PLATFORM) and steps and ":" not in steps[0].name:
            steps[0] = PathStep(f"{origin}:{steps[0].name}", steps[0].keys)
        elif origin not in {"", "openconfig", "rfc7951"}:
            raise SonicPathError(f"origin {origin[:40]} is unknown")
        return steps

    def _given(self, steps: list[PathStep], update: Any) -> list[tuple[int, int]]:
        """Return the cross-connects that a value gives."""
        value = update.val
        kind = value.WhichOneof("value")
        if kind not in {"json_ietf_val", "json_val"}:
            raise SonicPathError("the value is not JSON")
        try:
            data = json.loads(getattr(value, kind))
        except (ValueError, RecursionError):
            raise SonicPathError("the value is not JSON") from None
        return self._tree.given(steps, data)

    async def Subscribe(self, requests: Any, context: Any) -> Any:  # noqa: N802
        """Send the leaves below paths: once, whenever asked, or again when they have changed."""
        await self._admit(context)
        wanted = (await anext(requests)).subscribe
        await self._check_subscription(wanted, context)
        leaves = await self._subscribed_leaves(wanted, context)
        yield self._told({} if wanted.updates_only else leaves, {})
        yield self._messages.SubscribeResponse(sync_response=True)
        modes = self._messages.SubscriptionList.Mode
        if wanted.mode == modes.Value("ONCE"):
            return
        if wanted.mode == modes.Value("POLL"):
            async for request in requests:
                if not request.HasField("poll"):
                    await context.abort(self._grpc.StatusCode.INVALID_ARGUMENT, "expected a poll")
                yield self._told(await self._subscribed_leaves(wanted, context), {})
                yield self._messages.SubscribeResponse(sync_response=True)
            return
        while True:
            await asyncio.sleep(_LOOK_S)
            before, leaves = leaves, await self._subscribed_leaves(wanted, context)
            if leaves != before:
                yield self._told(leaves, before)

    async def _check_subscription(self, wanted: Any, context: Any) -> None:
        """Refuse what SONiC's own tests see refused."""
        codes = self._grpc.StatusCode
        given = {item.path.origin for item in wanted.subscription} - {""}
        origin = wanted.prefix.origin
        if origin and given - {origin}:
            await context.abort(codes.INVALID_ARGUMENT, "a path has another origin than the prefix")
        origins = given | ({origin} if origin else set())
        if origins - {"openconfig"} or not (origins or wanted.prefix.target):
            await context.abort(codes.UNIMPLEMENTED, "expected the origin openconfig, or a target")
        if not wanted.subscription:
            await context.abort(codes.INVALID_ARGUMENT, "no path")
        sample = self._messages.SubscriptionMode.Value("SAMPLE")
        if any(
            item.mode == sample and 0 < item.sample_interval < _LEAST_SAMPLE_NS
            for item in wanted.subscription
        ):
            await context.abort(codes.INVALID_ARGUMENT, "the interval of samples is too short")

    async def _subscribed_leaves(self, wanted: Any, context: Any) -> dict[bytes, str]:
        """Return the leaves below the paths of a subscription, by path."""
        codes, leaves = self._grpc.StatusCode, {}
        for item in wanted.subscription:
            try:
                steps = self._steps(wanted.prefix, item.path)
                for found, value in self._tree.leaves(steps):
                    elements = [
                        self._messages.PathElem(name=step.name, key=step.keys) for step in found
                    ]
                    path = self._messages.Path(elem=elements, target=wanted.prefix.target)
                    leaves[path.SerializeToString(deterministic=True)] = value
            except KeyError:
                await context.abort(codes.NOT_FOUND, "no such path")
            except SonicPathError as error:
                await context.abort(codes.INVALID_ARGUMENT, str(error))
        return leaves

    def _told(self, leaves: dict[bytes, str], before: dict[bytes, str]) -> Any:
        """Return a response with what was not so before, and what is no more."""
        messages = self._messages
        notification = messages.Notification(timestamp=time.time_ns())
        for path in before.keys() - leaves.keys():
            notification.delete.append(messages.Path.FromString(path))
        for path, value in leaves.items():
            if before.get(path) != value:
                typed = messages.TypedValue(json_ietf_val=json.dumps(value).encode())
                update = messages.Update(path=messages.Path.FromString(path), val=typed)
                notification.update.append(update)
        return messages.SubscribeResponse(update=notification)

    async def _admit(self, context: Any) -> None:
        """Refuse the call of who is no user, and every call while the switch starts."""
        metadata = dict(context.invocation_metadata() or ())
        if not self._switch.is_up:
            await context.abort(self._grpc.StatusCode.UNAVAILABLE, "starting")
        if not self._switch.is_user(metadata.get("username", ""), metadata.get("password", "")):
            await context.abort(self._grpc.StatusCode.UNAUTHENTICATED, "unknown user")

    async def _execute(self, run: Any, context: Any, *, is_change: bool) -> Any:
        async def deny() -> Any:
            raise SonicRefusedError("refused on demand")

        codes = self._grpc.StatusCode
        try:
            reply, _ = await self._switch.execute(run, deny, is_change=is_change)
        except NoReplyError:
            await asyncio.Event().wait()
        except SessionCutError:
            await context.abort(codes.UNAVAILABLE, "connection cut")
        except SonicPathError as error:
            await context.abort(codes.INVALID_ARGUMENT, str(error))
        except (SonicRefusedError, MatrixRefusalError) as error:
            await context.abort(codes.FAILED_PRECONDITION, str(error))
        except KeyError:
            await context.abort(codes.NOT_FOUND, "no such path")
        return reply
