"""A client of RESTCONF (RFC 8040), with or without TLS: what its drivers have in common.

One connection, one request at a time, and never the same request twice. What the switch refuses,
and what becomes of a connection, are the errors of :mod:`lightloom.control.switch`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lightloom.control.drivers.options import DriverSettings, SwitchAddress, optional_import
from lightloom.control.switch import (
    InvalidTargetError,
    LoginRefusedError,
    SwitchBusyError,
    SwitchDeniedError,
    SwitchDisconnectedError,
    SwitchProtocolError,
    SwitchTimeoutError,
    SwitchUnreachableError,
)

MEDIA_TYPE = "application/yang-data+json"
MAX_BODY_BYTES = 4 * 1024 * 1024
_DENIALS = {
    400: InvalidTargetError,
    404: InvalidTargetError,
    409: SwitchBusyError,
    412: SwitchBusyError,
    423: SwitchBusyError,
}


@dataclass(frozen=True, slots=True)
class RestconfReply:
    """A response that was read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def parsed(self) -> Any:
        """Return the JSON of the body.

        Raises
        ------
        SwitchProtocolError
            If it is none.
        """
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise SwitchProtocolError("the switch sent a reply that is not JSON") from None


class RestconfClient:
    """One connection to a switch.

    Parameters
    ----------
    address
        Host, port, user and password.
    settings
        Time-outs, and the certificates that are trusted.
    root
        Path before every other, such as ``/api/``.
    tls
        Whether to use HTTPS.
    """

    def __init__(
        self, address: SwitchAddress, settings: DriverSettings, root: str, *, tls: bool
    ) -> None:
        self._address, self._settings, self._root, self._tls = address, settings, root, tls
        self._httpx = optional_import("httpx", "RESTCONF")
        self._client: Any = None

    @property
    def is_open(self) -> bool:
        """Whether it may be asked."""
        return self._client is not None

    async def close(self) -> None:
        """Close the connection."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def open(self) -> None:
        """Make a client with the given certificates; it never sends a request twice."""
        settings, credentials = self._settings, self._address.credentials
        verify: Any = self._tls  # plain HTTP needs no certificates, which take 30 ms to load
        if self._tls and settings.ca_file:
            import ssl

            try:
                verify = ssl.create_default_context(cafile=settings.ca_file)
            except OSError as error:
                raise SwitchUnreachableError(f"certificates {settings.ca_file}: {error}") from None
        scheme = "https" if self._tls else "http"
        self._client = self._httpx.AsyncClient(
            base_url=f"{scheme}://{self._address}",
            auth=(credentials.user, credentials.password) if credentials.user else None,
            headers={"accept": MEDIA_TYPE},
            timeout=self._httpx.Timeout(
                settings.reply_timeout_s,
                # half for TCP and half for TLS: httpx closes what it gives up by itself
                connect=settings.connect_timeout_s / 2,
            ),
            limits=self._httpx.Limits(max_connections=1),
            verify=verify,
            trust_env=False,
        )

    async def request(
        self,
        method: str,
        path: str,
        *,
        content: Any = None,
        headers: dict[str, str] | None = None,
    ) -> RestconfReply:
        """Send one request and return its response; a refusal is an error."""
        httpx, where = self._httpx, f"switch {self._address}"
        if self._client is None:
            raise SwitchDisconnectedError(f"{where}: not connected")
        body = None if content is None else json.dumps(content).encode()
        headers = {**(headers or {}), **({"content-type": MEDIA_TYPE} if body else {})}
        # each wait has a limit of its own; a switch that sends byte by byte needs one for all
        limit_s = self._settings.connect_timeout_s + self._settings.reply_timeout_s
        try:
            # with a slash in front: httpx would take the name of a module for a scheme
            async with (
                asyncio.timeout(limit_s),
                self._client.stream(
                    method, f"{self._root}{path}", content=body, headers=headers
                ) as response,
            ):
                reply = RestconfReply(
                    response.status_code, response.headers, await _body_of(response)
                )
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            reason = str(error) or "no connection in time"
            raise SwitchUnreachableError(
                f"{where}: {reason}; check address, port and TLS"
            ) from None
        except (httpx.TimeoutException, TimeoutError) as error:
            await self.close()
            if isinstance(error, httpx.TimeoutException):
                limit_s = self._settings.reply_timeout_s
            raise SwitchTimeoutError(f"{method} {path}: no reply within {limit_s:g} s") from None
        except httpx.TransportError as error:
            await self.close()
            raise SwitchDisconnectedError(f"{where}: {str(error) or 'connection cut'}") from None
        except httpx.DecodingError:
            await self.close()
            raise SwitchProtocolError(
                f"{method} {path}: the reply is not as its header says"
            ) from None
        if reply.status in {401, 403}:
            raise LoginRefusedError(f"{where}: login refused")
        if reply.status >= 400:
            kind = _DENIALS.get(reply.status, SwitchDeniedError)
            raise kind(str(reply.status), _error_text(reply), f"{method} {path}")
        return reply


async def _body_of(response: Any) -> bytes:
    """Return a response's body; too long a one is an error."""
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise SwitchProtocolError(f"the switch sent a reply of over {MAX_BODY_BYTES} bytes")
    return bytes(body)


def _error_text(reply: RestconfReply) -> str:
    """Return the message of an error (RFC 8040, section 7.1)."""
    try:
        data = json.loads(reply.body)
        while isinstance(data, dict) and len(data) == 1:
            (data,) = data.values()
        error = data[0] if isinstance(data, list) else data
        return " ".join(str(error.get("error-message", "")).split())[:200]
    except (ValueError, RecursionError, LookupError, AttributeError):
        return ""
