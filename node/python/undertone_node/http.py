"""HTTP/1.1 over TCP or a Unix socket, one connection a request. Nothing is sent twice."""

from __future__ import annotations

import http.client
import json
import socket
from dataclasses import dataclass
from typing import Any

from .errors import Refused, Unreachable, refusal
from .settings import Token

#: Seconds without a byte after which a daemon counts as unreachable. It answers within 30 s where
#: it waits for a place, and within 20 s where it waits for a mean; verifying a plan of many parties
#: takes some seconds more. Our guess.
_SILENCE_S = 120.0


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Silence(Unreachable):
    """The daemon did not answer within the time that it had."""


@dataclass(frozen=True)
class Answer:
    """An answer that is no refusal."""

    status: int
    media_type: str
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            raise Unreachable("what answers at the API's address is no Undertone daemon") from None


class Api:
    """The daemon's API."""

    def __init__(self, address: str, token: Token) -> None:
        self.address = address
        self._token = token

    def ask(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        media_type: str | None = None,
        accept: str | None = None,
        within: float | None = None,
    ) -> Answer:
        """Sends a request and reads its answer, for which the daemon has ``within`` seconds. A
        refusal (4xx, 5xx) is raised as what it is."""
        connection = self._connection(_SILENCE_S if within is None else min(within, _SILENCE_S))
        try:
            connection.putrequest(method, path)
            connection.putheader("Authorization", self._token.header())
            connection.putheader("Connection", "close")
            if media_type is not None:
                connection.putheader("Content-Type", media_type)
            if accept is not None:
                connection.putheader("Accept", accept)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            answer = self._exchange(connection, body)
        except socket.timeout:  # Before Python 3.10 it is no TimeoutError.
            raise Silence(f"the daemon at {self.address}: does not answer") from None
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"the daemon at {self.address}: {str(error) or 'broke off'}") from None
        finally:
            connection.close()
        if answer.status >= 400:
            raise _refused(answer)
        return answer

    def _connection(self, silence: float) -> http.client.HTTPConnection:
        if self.address.startswith("unix:"):
            return _UnixConnection(self.address.removeprefix("unix:"), silence)
        return http.client.HTTPConnection(self.address, timeout=silence)

    @staticmethod
    def _exchange(connection: http.client.HTTPConnection, body: bytes | None) -> Answer:
        connection.endheaders()
        try:
            if body is not None:
                connection.send(body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # A refusal may come before the body is taken; it is still there to read.
        response = connection.getresponse()
        media_type = (response.getheader("Content-Type") or "").split(";")[0].strip()
        return Answer(response.status, media_type, response.read())


def _refused(answer: Answer) -> Refused:
    try:
        problem = json.loads(answer.body)
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        problem = {"status": answer.status, "detail": f"HTTP status {answer.status}"}
    return refusal(problem)
