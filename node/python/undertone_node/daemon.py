"""A running daemon, and how runs of it are begun."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Callable, Union
from urllib.parse import urlencode

from . import settings
from .errors import NoMean, NotThere
from .http import Api
from .rounds import Progress, Rounds
from .run import Average, Run, Value
from .statistics import Statistics, encode_cells
from .values import Encoded, encode, encode_part

#: A path, or the bytes of a file.
File = Union[str, "os.PathLike[str]", bytes]


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
        """Peers and whether they answer, runs, offers, budgets, schedules, as the API describes them."""
        status: dict[str, Any] = self._api.ask("GET", "/v1/status").json()
        return status

    def runs(self) -> list[dict[str, Any]]:
        """The runs that the daemon remembers, the newest first."""
        runs: list[dict[str, Any]] = self._api.ask("GET", "/v1/runs").json()["runs"]
        return runs

    def schedules(self) -> list[dict[str, Any]]:
        """The runs that the daemon's group makes by itself: when each is due next, who met at the last
        times, and how many more the budget pays for, as the API describes them."""
        schedules: list[dict[str, Any]] = self._api.ask("GET", "/v1/schedules").json()["schedules"]
        return schedules

    def revoked_keys(self) -> list[dict[str, Any]]:
        """The keys that are not to be trusted any more, each with the statement that revokes it."""
        revoked: list[dict[str, Any]] = self._api.ask("GET", "/v1/keys").json()["revoked"]
        return revoked

    def revoke(self, line: str) -> dict[str, Any]:
        """Revokes a key of the peer list, by the line that ``undertone identity revoke`` printed, and tells
        the other daemons. For ever: nothing takes it back."""
        answer = self._api.ask("POST", "/v1/keys", body=line.encode(), media_type="text/plain")
        key: dict[str, Any] = answer.json()
        return key

    def average(
        self,
        value: Value,
        *,
        plan: File | None = None,
        offer: str | None = None,
        propose: File | None = None,
        data_set: str | None = None,
        records: int | None = None,
        timeout: float | None = None,
    ) -> Average[Value]:
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
        value: Value,
        *,
        plan: File | None = None,
        offer: str | None = None,
        propose: File | None = None,
        data_set: str | None = None,
        records: int | None = None,
    ) -> Run[Value]:
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
        run: Run[Any] = Run(self._api, taken["digest"], encoded, answers)
        notes = self._api.ask("GET", f"/v1/runs/{run.digest}/table").json()["sentences"]
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
        return Statistics(results[0], results[1], run.receipt(), status, notes)

    def run(self, digest: str, *, like: Value | None = None) -> Run[Value]:
        """Comes back to a run that this daemon has, after a restart of the caller, say: to wait for
        its end, or to read what came of it. ``like`` is a value of the kind in which the mean is
        wanted.

        Raises NotThere."""
        run: Run[Value] = Run(self._api, _digest(digest), None if like is None else encode(like))
        run.status()
        return run

    def rounds(
        self,
        first: Value | None = None,
        *,
        plan: File | None = None,
        offer: str | None = None,
        propose: File | None = None,
        attach: str | None = None,
        after: int | None = None,
        like: Value | None = None,
        data_set: str | None = None,
        records: int | None = None,
        timeout: float | None = None,
        progress: Callable[[Progress], object] | None = None,
    ) -> Rounds[Value]:
        """Takes part in a sequence of means (task = "rounds") with this first part: an array, or a
        mapping of named tensors; where records are protected each has an axis of rows in front,
        unless the program clips them itself and hands over their sum. Iterating gives one mean
        after another; :meth:`Rounds.hand_over` takes the part that follows from it.

        ``attach`` instead of a first part comes back to rounds that this daemon takes part in, by
        the digest of their plan: iterating then begins with the latest mean, or with the one after
        round ``after``, if the daemon still keeps it. ``like`` is a value of the kind in which
        means are wanted.

        ``timeout`` is the seconds that a mean may take, after which TimedOut is raised; the rounds
        go on, and so may the iteration. ``progress`` is called after each mean. Who is missing
        meanwhile, and why, is logged as a warning of the logger ``undertone_node``."""
        if attach is not None:
            if (first, plan, offer, propose, data_set, records) != (None,) * 6:
                raise TypeError("attach= comes back to rounds, which have their plan and first part")
            run: Run[Value] = Run(self._api, _digest(attach), None)
            rounds = Rounds.attached(self._api, run, like, after)
        else:
            if first is None:
                raise TypeError("say the first part, or attach=")
            encoded = encode_part(first)
            taken, answers = self._bring(
                encoded, plan=plan, offer=offer, propose=propose, data_set=data_set, records=records
            )
            run = Run(self._api, taken["digest"], encoded, answers)
            rounds = Rounds(self._api, run, encoded, taken["iterations"])
        rounds.timeout, rounds.progress = timeout, progress
        return rounds

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
            method, path = "POST", f"/v1/offers/{_digest(offer)}/accept"
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


def _digest(text: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise ValueError("a plan is named by its digest: 64 digits of lower-case hex")
    return text
