"""One run of a daemon: followed to its end, and what comes of it."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Mapping, TypeVar

from .errors import NoMean, NotThere, UndertoneError
from .http import Api
from .missing import OVER, Missing
from .values import Encoded, by_column, encoded_as

#: Seconds between two looks at a run: at first, and at most. Our choice.
_FIRST_LOOK_S, _LAST_LOOK_S = 0.05, 0.5

#: The kind of value that was brought, and so that of its mean.
Value = TypeVar("Value")


@dataclass(frozen=True)
class Receipt:
    """What the run really cost, as this party signed it."""

    #: The bytes of receipt.json: the signature is of these very bytes.
    json: bytes = field(repr=False)
    #: The line of receipt.json.sig.
    signature: str = field(repr=False)
    #: What receipt.json says, by key.
    facts: Mapping[str, Any]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes receipt.json to the path and its signature beside it, as PATH.sig."""
        Path(path).write_bytes(self.json)
        Path(f"{os.fspath(path)}.sig").write_text(self.signature, encoding="ascii")


@dataclass(frozen=True)
class Average(Generic[Value]):
    """The mean of a run, its utility, and its cost."""

    #: Of the kind that was brought: an array, a DataFrame (a Series if it is of one record), or a
    #: dict of tensors.
    mean: Value
    #: Of the mean, by noise alone: one number for every coordinate, or where columns have noise of
    #: their own an array (a Series) in the shape of the mean. None where it is not known.
    standard_error: Any
    #: What this run may have told of one protected unit, as it turned out; infinite if nothing
    #: bounds it, and None if nothing of this party left.
    epsilon: float | None
    #: The chance that epsilon does not hold.
    delta: float
    #: "done", or "degraded": somebody of the plan is missing, or not enough members agreed.
    outcome: str
    #: How large a mean can be beside the noise, in a sentence.
    utility: str | None
    #: Names of the parties whose values are in the mean.
    included: tuple[str, ...]
    #: The signed receipt.
    receipt: Receipt
    #: The run as the API describes it.
    run: Mapping[str, Any] = field(repr=False)


class TimedOut(UndertoneError, TimeoutError):
    """The run has not ended within the time that the caller gave. It goes on: ``run.average()``
    waits further, and ``run.withdraw()`` takes it back while nothing private has left."""

    def __init__(self, message: str, run: Run[Any]) -> None:
        super().__init__(message)
        #: The run, which goes on.
        self.run = run


class Run(Generic[Value]):
    """One run of a daemon. Its mean is of the kind of value that was brought; of a run that
    :meth:`Daemon.run` came back to, an array, a DataFrame or a dict of arrays, as the plan has it.
    """

    def __init__(
        self, api: Api, digest: str, value: Encoded | None, answers: Mapping[str, str] | None = None
    ) -> None:
        self._api, self._value = api, value
        self._missing = Missing(api, digest, answers)
        #: SHA-256 of the plan's bytes, in hex: the run's name.
        self.digest = digest

    def __repr__(self) -> str:
        return f"Run({self.digest!r})"

    def status(self) -> dict[str, Any]:
        """The run as the API describes it: ``state``, ``phase``, ``waiting_for``, ``epsilon``, …"""
        status: dict[str, Any] = self._api.ask("GET", f"/v1/runs/{self.digest}").json()
        return status

    def plan(self) -> dict[str, Any]:
        """The plan, which all members have."""
        plan: dict[str, Any] = self._api.ask("GET", f"/v1/runs/{self.digest}/plan").json()
        return plan

    def wait(self, timeout: float | None = None) -> dict[str, Any]:
        """Waits for the run's end, at most so many seconds; the run as it ended. Who is missing, and
        why, is logged meanwhile as a warning of the logger ``undertone_node``.

        Raises TimedOut, which says it, too; the run then goes on."""
        until = math.inf if timeout is None else time.monotonic() + timeout
        look = _FIRST_LOOK_S
        while (status := self.status())["state"] not in OVER:
            self._missing.look_unless_followed(status, time.monotonic())
            left = until - time.monotonic()
            if left <= 0:
                where = status["phase"] or status["state"]
                missing = self._missing.waiting(status)
                waits = f", waiting for {missing}" if missing else ""
                raise TimedOut(f"the run goes on after {timeout} s ({where}{waits})", self)
            time.sleep(min(look, left))
            look = min(2 * look, _LAST_LOOK_S)
        self._missing.end_unless_followed(status)
        return status

    def average(self, timeout: float | None = None) -> Average[Value]:
        """Waits for the run's end and reads its mean and its receipt.

        Raises TimedOut, and NoMean where it ended without one."""
        run = self.wait(timeout)
        if run["outcome"] is None:
            raise NoMean(run)
        value = self._value or encoded_as(self.plan())
        try:
            mean = self._api.ask("GET", f"/v1/runs/{self.digest}/result", accept=value.accept)
        except NotThere:
            raise NoMean(run) from None
        decoded = value.decode(mean.body, run["unit"] == "record")
        return Average(
            mean=decoded,
            standard_error=self._error(run, decoded),
            epsilon=epsilon_of(run),
            delta=run["delta"],
            outcome=run["outcome"],
            utility=run["utility"],
            included=tuple(run["included"]),
            receipt=self.receipt(),
            run=run,
        )

    def _error(self, run: Mapping[str, Any], mean: Any) -> Any:
        if run["standard_error"] is None:
            return None
        utility = self._api.ask("GET", f"/v1/runs/{self.digest}/utility").json()
        return by_column([column["noise"] for column in utility.get("columns", [])], run["standard_error"], mean)

    def follow(self) -> None:
        """Says who is missing until the run is over, whatever the caller does meanwhile."""
        self._missing.follow()

    def receipt(self) -> Receipt:
        """The signed receipt of a run that is over."""
        text = self._api.ask("GET", f"/v1/runs/{self.digest}/receipt")
        line = self._api.ask("GET", f"/v1/runs/{self.digest}/receipt.sig")
        return Receipt(text.body, line.body.decode("ascii"), text.json())

    def withdraw(self) -> dict[str, Any]:
        """Takes the run back. Raises Conflict once something private has left."""
        status: dict[str, Any] = self._api.ask("DELETE", f"/v1/runs/{self.digest}").json()
        return status


def epsilon_of(run: Mapping[str, Any]) -> float | None:
    """What a run may have told of one protected unit, as it turned out."""
    epsilon: float | None = math.inf if run["unbounded"] else run["epsilon"]
    return epsilon
