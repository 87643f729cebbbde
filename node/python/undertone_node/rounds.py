"""A sequence of means: each round a part is handed over that follows from the means before."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Callable, Generic, Iterator

from .errors import NoMean, NotThere, RoundMissed, UndertoneError
from .http import Api, Silence
from .run import Receipt, Run, TimedOut, Value, epsilon_of
from .values import Encoded, encode_part, part_as


@dataclass(frozen=True)
class Progress:
    """How far rounds are, as a callback is told after each mean."""

    #: The round of the latest mean, from 1.
    round: int
    #: How many means there are.
    count: int
    #: Names of parties that are out of reach, or without which the rounds started.
    gone: tuple[str, ...]
    #: Seconds since the first mean that was read here; 0.0 with that.
    elapsed_s: float
    #: Seconds that the remaining rounds take if they last as long as those that were seen; None
    #: after the first.
    left_s: float | None


class Rounds(Generic[Value]):
    """A run with task = "rounds", as an iterator over its means::

        rounds = daemon.rounds(first, plan="plan.json")
        for mean in rounds:
            if rounds.awaited:
                rounds.hand_over(step(mean))

    The daemon waits for each part as long as the plan says (``iteration_ms``); what is late counts
    as zero, and the rounds go on without it."""

    def __init__(self, api: Api, run: Run[Value], first: Encoded, count: int) -> None:
        self._api, self._run, self._first = api, run, first
        #: SHA-256 of the plan's bytes, in hex: the run's name.
        self.digest: str = run.digest
        #: How many means there are.
        self.count = count
        #: The round of the mean that was read last, from 1; 0 before the first.
        self.round = 0
        #: Seconds that a mean may take before TimedOut is raised; None: any time.
        self.timeout: float | None = None
        #: Is called after each mean.
        self.progress: Callable[[Progress], object] | None = None
        self._begun: tuple[int, float] | None = None
        run.follow()

    @classmethod
    def attached(cls, api: Api, run: Run[Value], like: Any, after: int | None) -> Rounds[Value]:
        """Rounds that go on already; the next mean is the one after a round, or the latest one."""
        status = run.status()
        plan = run.plan()
        if status["asked"] is None:
            raise NoMean(status)
        value = part_as(plan) if like is None else encode_part(like)
        rounds = cls(api, run, value, status["iterations"])
        rounds.round = max(status["asked"] - 2, 0) if after is None else after
        return rounds

    def __repr__(self) -> str:
        return f"Rounds({self.digest!r}, {self.round} of {self.count})"

    @property
    def more(self) -> bool:
        """Whether another round follows the mean that was read last."""
        return self.round < self.count

    @property
    def awaited(self) -> bool:
        """Whether the daemon waits for this party's part of the round after the mean that was read
        last: not where it was handed over before, by a caller that was restarted, say."""
        status = self.status()
        return self.more and status["asked"] == self.round + 1 and status["part"] == "awaited"

    @property
    def gone(self) -> tuple[str, ...]:
        """Names of parties that are out of reach, or without which the rounds started."""
        status = self.status()
        return tuple(dict.fromkeys([*status["without"], *status["unreachable"]]))

    @property
    def epsilon(self) -> float | None:
        """What the rounds may have told of one protected unit, as it turned out, once they are
        over; before that the most that it can be, which the plan claims."""
        status = self.status()
        claimed: float | None = status["epsilon_claimed"]
        return claimed if status["outcome"] is None else epsilon_of(status)

    @property
    def receipt(self) -> Receipt:
        """The signed receipt, once the rounds are over.

        Raises Conflict before that."""
        return self._run.receipt()

    def __iter__(self) -> Iterator[Value]:
        return self

    def __next__(self) -> Value:
        """The next mean, once it is there.

        Raises NoMean if the rounds ended before it, RoundMissed if a later one has replaced it, and
        TimedOut if it takes longer than ``timeout``."""
        if not self.more:
            raise StopIteration
        wanted = self.round + 1
        until = None if self.timeout is None else time.monotonic() + self.timeout
        while True:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise TimedOut(f"round {wanted} has no mean after {self.timeout} s; the rounds go on", self._run)
            try:
                answer = self._api.ask("GET", f"/v1/runs/{self.digest}/rounds/{wanted}", within=left)
            except Silence:
                if left is None:
                    raise
                continue
            except NotThere:
                raise self._ended_or_missed(wanted) from None
            if answer.status == 200:
                self.round = wanted
                self._tell()
                mean: Value = self._first.decode(answer.body, False)
                return mean

    def hand_over(self, part: Any) -> None:
        """Hands over this party's part of the round after the mean that was read last: an array, or
        a mapping of tensors, in the shape of the first.

        Raises Conflict if it is too late, or handed over already, and InputRefused for another
        shape."""
        encoded = encode_part(part)
        path = f"/v1/runs/{self.digest}/rounds/{self.round + 1}"
        self._api.ask("POST", path, body=encoded.data, media_type=encoded.media_type)

    def wait(self, timeout: float | None = None) -> dict[str, Any]:
        """Waits for the end of the rounds, at most so many seconds; the run as it ended.

        Raises TimedOut; the rounds then go on."""
        return self._run.wait(timeout)

    def status(self) -> dict[str, Any]:
        """The run as the API describes it."""
        return self._run.status()

    def _tell(self) -> None:
        now = time.monotonic()
        if self._begun is None:
            self._begun = (self.round, now)
        if self.progress is None:
            return
        first, begun = self._begun
        seen = self.round - first
        left = (now - begun) / seen * (self.count - self.round) if seen else None
        self.progress(Progress(self.round, self.count, self.gone, now - begun, left))

    def _ended_or_missed(self, wanted: int) -> UndertoneError:
        run = self.status()
        latest = run.get("iteration") or 0
        if latest > wanted:
            self.round = latest - 1
            return RoundMissed(wanted, latest)
        return NoMean(run)
