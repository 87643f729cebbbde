"""A sequence of means: each round a part is handed over that follows from the means before."""

from __future__ import annotations

from typing import Any, Iterator

from .errors import NoMean, NotThere, RoundMissed, UndertoneError
from .http import Api
from .values import Encoded, encode_part


class Rounds:
    """A run with task = "rounds", as an iterator over its means::

        rounds = daemon.rounds(first, plan="plan.json")
        for mean in rounds:
            if rounds.more:
                rounds.hand_over(step(mean))

    The daemon waits for each part as long as the plan says (``iteration_ms``); what is late counts
    as zero, and the rounds go on without it."""

    def __init__(self, api: Api, run: dict[str, Any], first: Encoded) -> None:
        self._api, self._first = api, first
        #: SHA-256 of the plan's bytes, in hex: the run's name.
        self.digest: str = run["digest"]
        #: How many means there are.
        self.count: int = run["iterations"]
        #: The round of the mean that was read last, from 1; 0 before the first.
        self.round = 0

    def __repr__(self) -> str:
        return f"Rounds({self.digest!r}, {self.round} of {self.count})"

    @property
    def more(self) -> bool:
        """Whether another round follows the mean that was read last."""
        return self.round < self.count

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        """The next mean, once it is there.

        Raises NoMean if the rounds ended before it, and RoundMissed if a later one has replaced it.
        """
        if not self.more:
            raise StopIteration
        wanted = self.round + 1
        while True:
            try:
                answer = self._api.ask("GET", f"/v1/runs/{self.digest}/rounds/{wanted}")
            except NotThere:
                raise self._ended_or_missed(wanted) from None
            if answer.status == 200:
                self.round = wanted
                return self._first.decode(answer.body, False)

    def hand_over(self, part: Any) -> None:
        """Hands over this party's part of the round after the mean that was read last: an array, or
        a mapping of tensors, in the shape of the first.

        Raises Conflict if it is too late, or handed over already, and InputRefused for another
        shape."""
        encoded = encode_part(part)
        path = f"/v1/runs/{self.digest}/rounds/{self.round + 1}"
        self._api.ask("POST", path, body=encoded.data, media_type=encoded.media_type)

    def status(self) -> dict[str, Any]:
        """The run as the API describes it."""
        status: dict[str, Any] = self._api.ask("GET", f"/v1/runs/{self.digest}").json()
        return status

    def _ended_or_missed(self, wanted: int) -> UndertoneError:
        run = self.status()
        latest = run.get("iteration") or 0
        if latest > wanted:
            self.round = latest - 1
            return RoundMissed(wanted, latest)
        return NoMean(run)
