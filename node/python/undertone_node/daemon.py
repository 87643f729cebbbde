"""A running daemon, and the runs that it takes part in."""

from __future__ import annotations

import math
import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping
from urllib.parse import urlencode

from . import settings
from .errors import NoMean, NotThere, UndertoneError
from .http import Api
from .missing import OVER, Missing
from .rounds import Rounds
from .statistics import Statistics, encode_cells
from .values import Encoded, by_column, encode, encode_part

#: Seconds between two looks at a run: at first, and at most. Our choice.
_FIRST_LOOK_S, _LAST_LOOK_S = 0.05, 0.5

#: A path, or the bytes of a file.
File = str | os.PathLike[str] | bytes


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
class Average:
    """The mean of a run, its utility, and its cost."""

    #: Of the kind that was brought: an array, a DataFrame (a Series if it is of one record), or a
    #: dict of tensors.
    mean: Any
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

    def __init__(self, message: str, run: Run) -> None:
        super().__init__(message)
        #: The run, which goes on.
        self.run = run


class Run:
    """One run of a daemon."""

    def __init__(self, api: Api, digest: str, value: Encoded, answers: Mapping[str, str]) -> None:
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

    def wait(self, timeout: float | None = None) -> dict[str, Any]:
        """Waits for the run's end, at most so many seconds; the run as it ended. Who is missing, and
        why, is logged meanwhile as a warning of the logger ``undertone_node``.

        Raises TimedOut, which says it, too; the run then goes on."""
        until = math.inf if timeout is None else time.monotonic() + timeout
        look = _FIRST_LOOK_S
        while (status := self.status())["state"] not in OVER:
            self._missing.look(status, time.monotonic())
            left = until - time.monotonic()
            if left <= 0:
                where = status["phase"] or status["state"]
                missing = self._missing.waiting(status)
                waits = f", waiting for {missing}" if missing else ""
                raise TimedOut(f"the run goes on after {timeout} s ({where}{waits})", self)
            time.sleep(min(look, left))
            look = min(2 * look, _LAST_LOOK_S)
        self._missing.end(status)
        return status

    def average(self, timeout: float | None = None) -> Average:
        """Waits for the run's end and reads its mean and its receipt.

        Raises TimedOut, and NoMean where it ended without one."""
        run = self.wait(timeout)
        if run["outcome"] is None:
            raise NoMean(run)
        try:
            mean = self._api.ask("GET", f"/v1/runs/{self.digest}/result", accept=self._value.media_type)
        except NotThere:
            raise NoMean(run) from None
        decoded = self._value.decode(mean.body, run["unit"] == "record")
        return Average(
            mean=decoded,
            standard_error=self._error(run, decoded),
            epsilon=math.inf if run["unbounded"] else run["epsilon"],
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

    def receipt(self) -> Receipt:
        """The signed receipt of a run that is over."""
        text = self._api.ask("GET", f"/v1/runs/{self.digest}/receipt")
        line = self._api.ask("GET", f"/v1/runs/{self.digest}/receipt.sig")
        return Receipt(text.body, line.body.decode("ascii"), text.json())

    def withdraw(self) -> dict[str, Any]:
        """Takes the run back. Raises Conflict once something private has left."""
        status: dict[str, Any] = self._api.ask("DELETE", f"/v1/runs/{self.digest}").json()
        return status


class Daemon:
    """A running daemon. Whoever may read its token may spend its privacy budget.

    ``config`` is its node.toml; without one the environment (UNDERTONE_STATE, …) says where it is.
    ``api`` ("HOST:PORT", "http://HOST:PORT" or "unix:PATH") and ``token_file`` beat both. Raises
    Misconfigured."""

    def __init__(
        self,
        config: str | os.PathLike[str] | None = None,
        *,
        api: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
    ) -> None:
        address, token = settings.load(config, os.environ)
        self._api = Api(settings.address(api or address), settings.read_token(Path(token_file or token)))

    def __repr__(self) -> str:
        return f"Daemon({self._api.address!r})"

    def status(self) -> dict[str, Any]:
        """Peers and whether they answer, runs, offers and budgets, as the API describes them."""
        status: dict[str, Any] = self._api.ask("GET", "/v1/status").json()
        return status

    def runs(self) -> list[dict[str, Any]]:
        """The runs that the daemon remembers, the newest first."""
        runs: list[dict[str, Any]] = self._api.ask("GET", "/v1/runs").json()["runs"]
        return runs

    def average(
        self,
        value: Any,
        *,
        plan: File | None = None,
        offer: str | None = None,
        propose: File | None = None,
        data_set: str | None = None,
        records: int | None = None,
        timeout: float | None = None,
    ) -> Average:
        """Takes part in a run with this value, waits for its end, and reads the mean.

        ``value`` is an array (anything that numpy makes one of), a DataFrame, or a state_dict: a
        mapping of names to tensors. Exactly one of these says what is computed: ``plan``, the file
        that all parties have; ``offer``, the digest of a plan that another daemon proposed; or
        ``propose``, a run file, of which this daemon makes a plan and offers it to the others.
        ``data_set`` names whose budget pays, where the daemon has several. ``records`` says how many
        records a clipped sum is of, where the plan only bounds it; a table's rows are counted.
        ``timeout`` is in
        seconds, and counts from when the run was taken. Who is missing meanwhile, and why, is
        logged as a warning of the logger ``undertone_node``.

        Raises BudgetRefused, AlreadySpent, PlanRefused, PolicyRefused or InputRefused before
        anything has left, TimedOut while the run goes on, and NoMean if it ended without one."""
        run = self.submit(
            value, plan=plan, offer=offer, propose=propose, data_set=data_set, records=records
        )
        return run.average(timeout)

    def submit(
        self,
        value: Any,
        *,
        plan: File | None = None,
        offer: str | None = None,
        propose: File | None = None,
        data_set: str | None = None,
        records: int | None = None,
    ) -> Run:
        """What :meth:`average` does up to where it waits: the run has its place and goes on."""
        encoded = encode(value)
        taken, answers = self._bring(
            encoded, plan=plan, offer=offer, propose=propose, data_set=data_set, records=records
        )
        return Run(self._api, taken["digest"], encoded, answers)

    def describe(
        self,
        frame: Any,
        *,
        plan: File | None = None,
        offer: str | None = None,
        propose: File | None = None,
        data_set: str | None = None,
        timeout: float | None = None,
    ) -> Statistics:
        """Takes part in statistics of tables (task = "describe") with this DataFrame, whose columns
        are found by name, and waits for them. Missing cells are counted. Dates are refused."""
        encoded = encode_cells(frame)
        taken, answers = self._bring(
            encoded, plan=plan, offer=offer, propose=propose, data_set=data_set, records=None
        )
        run = Run(self._api, taken["digest"], encoded, answers)
        status = run.wait(timeout)
        if status["outcome"] is None:
            raise NoMean(status)
        try:
            results = [
                self._api.ask("GET", f"/v1/runs/{run.digest}/result", accept=kind).body
                for kind in ("application/json", "text/csv")
            ]
        except NotThere:
            raise NoMean(status) from None
        return Statistics(results[0], results[1], run.receipt(), status)

    def rounds(
        self,
        first: Any,
        *,
        plan: File | None = None,
        offer: str | None = None,
        propose: File | None = None,
        data_set: str | None = None,
        records: int | None = None,
    ) -> Rounds:
        """Takes part in a sequence of means (task = "rounds") with this first part. Iterating gives
        one mean after another; :meth:`Rounds.hand_over` takes the part that follows from it. Who is
        missing meanwhile, and why, is logged as a warning of the logger ``undertone_node``."""
        encoded = encode_part(first)
        taken, answers = self._bring(
            encoded, plan=plan, offer=offer, propose=propose, data_set=data_set, records=records
        )
        Missing(self._api, taken["digest"], answers).follow()
        return Rounds(self._api, taken, encoded)

    def _bring(
        self,
        value: Encoded,
        *,
        plan: File | None,
        offer: str | None,
        propose: File | None,
        data_set: str | None,
        records: int | None,
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """The run that was taken, and what members said to its offer."""
        if sum(way is not None for way in (plan, offer, propose)) != 1:
            raise TypeError("say one of plan=, offer= and propose=")
        method = "PUT"
        if offer is not None:
            if not re.fullmatch("[0-9a-f]{64}", offer):
                raise ValueError("an offer is named by the digest of its plan: 64 digits of lower-case hex")
            method, path = "POST", f"/v1/offers/{offer}/accept"
        elif plan is not None:
            path = f"/v1/runs/{self._hand_in(plan, 'application/json')}"
        else:
            assert propose is not None
            path = f"/v1/offers/{self._hand_in(propose, 'application/toml')}"
        named = {"data_set": data_set, "records": records}
        query = urlencode({name: value for name, value in named.items() if value is not None})
        if query:
            path += f"?{query}"
        taken = self._api.ask(method, path, body=value.data, media_type=value.media_type)
        answer: dict[str, Any] = taken.json()
        return (answer["run"], answer["members"]) if propose is not None else (answer, {})

    def _hand_in(self, file: File, media_type: str) -> str:
        """The digest of a plan, or of one that the daemon makes of a run file."""
        body = file if isinstance(file, bytes) else Path(file).read_bytes()
        digest: str = self._api.ask("POST", "/v1/plans", body=body, media_type=media_type).json()["digest"]
        return digest
