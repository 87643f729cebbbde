"""The same for asyncio::

    daemon = undertone_node.aio.Daemon("alice/node.toml")
    async for mean in (rounds := await daemon.rounds(first, plan="plan.json")):
        if await rounds.awaited():
            await rounds.hand_over(step(mean))

Each call runs in a thread. One that is cancelled is not waited for any more; what it asked of the
daemon goes on."""

from __future__ import annotations

import asyncio
from typing import Any, AsyncIterator, Generic

from . import daemon as blocking
from .rounds import Rounds as BlockingRounds
from .run import Average, Receipt, Value
from .run import Run as BlockingRun
from .statistics import Statistics

#: What follows the last mean: no exception of a thread may be StopIteration.
_END = object()


class Run(Generic[Value]):
    """One run of a daemon, as :class:`undertone_node.Run`."""

    def __init__(self, run: BlockingRun[Value]) -> None:
        #: The run whose methods wait in the caller's thread.
        self.blocking = run
        #: SHA-256 of the plan's bytes, in hex.
        self.digest = run.digest

    async def status(self) -> dict[str, Any]:
        """The run as the API describes it."""
        return await asyncio.to_thread(self.blocking.status)

    async def wait(self, timeout: float | None = None) -> dict[str, Any]:
        """Waits for the run's end. Raises TimedOut; the run then goes on."""
        return await asyncio.to_thread(self.blocking.wait, timeout)

    async def average(self, timeout: float | None = None) -> Average[Value]:
        """Waits for the run's end and reads its mean and its receipt."""
        return await asyncio.to_thread(self.blocking.average, timeout)

    async def receipt(self) -> Receipt:
        """The signed receipt of a run that is over."""
        return await asyncio.to_thread(self.blocking.receipt)

    async def withdraw(self) -> dict[str, Any]:
        """Takes the run back. Raises Conflict once something private has left."""
        return await asyncio.to_thread(self.blocking.withdraw)


class Rounds(Generic[Value]):
    """A sequence of means, as :class:`undertone_node.Rounds`."""

    def __init__(self, rounds: BlockingRounds[Value]) -> None:
        #: The rounds whose methods wait in the caller's thread.
        self.blocking = rounds
        #: SHA-256 of the plan's bytes, in hex.
        self.digest = rounds.digest
        #: How many means there are.
        self.count = rounds.count

    @property
    def round(self) -> int:
        """The round of the mean that was read last, from 1; 0 before the first."""
        return self.blocking.round

    @property
    def more(self) -> bool:
        """Whether another round follows the mean that was read last."""
        return self.blocking.more

    async def awaited(self) -> bool:
        """Whether the daemon waits for this party's part of the next round."""
        return await asyncio.to_thread(lambda: self.blocking.awaited)

    async def status(self) -> dict[str, Any]:
        """What the daemon says of the rounds now."""
        return await asyncio.to_thread(self.blocking.status)

    async def gone(self) -> tuple[str, ...]:
        """Names of parties that are out of reach, or without which the rounds started."""
        return await asyncio.to_thread(lambda: self.blocking.gone)

    async def epsilon(self) -> float | None:
        """ε as it turned out once the rounds are over, before that the most that it can be."""
        return await asyncio.to_thread(lambda: self.blocking.epsilon)

    async def receipt(self) -> Receipt:
        """The signed receipt, once the rounds are over."""
        return await asyncio.to_thread(lambda: self.blocking.receipt)

    async def hand_over(self, part: Any) -> None:
        """Hands over this party's part of the round after the mean that was read last."""
        await asyncio.to_thread(self.blocking.hand_over, part)

    async def wait(self, timeout: float | None = None) -> dict[str, Any]:
        """Waits for the end of the rounds. Raises TimedOut; they then go on."""
        return await asyncio.to_thread(self.blocking.wait, timeout)

    def __aiter__(self) -> AsyncIterator[Value]:
        return self

    async def __anext__(self) -> Value:
        mean: Any = await asyncio.to_thread(next, self.blocking, _END)
        if mean is _END:
            raise StopAsyncIteration
        return mean  # type: ignore[no-any-return]


class Daemon:
    """A running daemon, as :class:`undertone_node.Daemon`, with the same arguments."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        #: The daemon whose methods wait in the caller's thread.
        self.blocking = blocking.Daemon(*arguments, **named)

    async def status(self) -> dict[str, Any]:
        """Peers, runs, offers and budgets, as the API describes them."""
        return await asyncio.to_thread(self.blocking.status)

    async def runs(self) -> list[dict[str, Any]]:
        """The runs that the daemon remembers, the newest first."""
        return await asyncio.to_thread(self.blocking.runs)

    async def schedules(self) -> list[dict[str, Any]]:
        """The runs that the daemon's group makes by itself, as the API describes them."""
        return await asyncio.to_thread(self.blocking.schedules)

    async def revoked_keys(self) -> list[dict[str, Any]]:
        """The keys that are not to be trusted any more, each with the statement that revokes it."""
        return await asyncio.to_thread(self.blocking.revoked_keys)

    async def revoke(self, line: str) -> dict[str, Any]:
        """Revokes a key of the peer list for ever, and tells the other daemons."""
        return await asyncio.to_thread(self.blocking.revoke, line)

    async def average(self, value: Value, **named: Any) -> Average[Value]:
        """Takes part in a run with this value, waits for its end, and reads the mean."""
        return await asyncio.to_thread(self.blocking.average, value, **named)

    async def describe(self, frame: Any, **named: Any) -> Statistics:
        """Takes part in statistics of tables with this DataFrame, and waits for them."""
        return await asyncio.to_thread(self.blocking.describe, frame, **named)

    async def submit(self, value: Value, **named: Any) -> Run[Value]:
        """What :meth:`average` does up to where it waits."""
        return Run(await asyncio.to_thread(self.blocking.submit, value, **named))

    async def run(self, digest: str, *, like: Value | None = None) -> Run[Value]:
        """Comes back to a run that this daemon has."""
        return Run(await asyncio.to_thread(lambda: self.blocking.run(digest, like=like)))

    async def rounds(self, first: Value | None = None, **named: Any) -> Rounds[Value]:
        """Takes part in a sequence of means, or comes back to one (``attach=``)."""
        return Rounds(await asyncio.to_thread(self.blocking.rounds, first, **named))
