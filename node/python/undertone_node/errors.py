"""What can go wrong, each a type of its own. No message holds a private value or the token."""

from __future__ import annotations

from typing import Any, Mapping


def _shown(text: str) -> str:
    """A text of a file or a peer as a terminal may show it: nothing in it is a command to that."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


class UndertoneError(Exception):
    """All errors of this package."""

    def __str__(self) -> str:
        return _shown(super().__str__())


class Misconfigured(UndertoneError):
    """node.toml or the token's file cannot be used."""


class Unreachable(UndertoneError):
    """No daemon answers. If that was while something was submitted it may have been taken:
    look at :meth:`Daemon.runs` before submitting again."""


class NoMean(UndertoneError):
    """The run ended without a mean here. It may have cost privacy all the same: ``run`` says what
    was charged."""

    def __init__(self, run: Mapping[str, Any]) -> None:
        #: The run as the API describes it: ``outcome``, ``reason``, ``epsilon``, ``charged``, …
        self.run = dict(run)
        #: Why there is no mean.
        self.reason: str | None = run.get("reason")
        ended = run.get("outcome") or run.get("state")
        super().__init__(f"the run ended without a mean ({ended}): {self.reason or 'no reason is known'}")


class RoundMissed(UndertoneError):
    """The daemon keeps the latest means, and this one was not read in time. Iterating on
    continues with the latest."""

    def __init__(self, round: int, latest: int) -> None:
        super().__init__(f"the mean of round {round} is not kept any more; the latest is of round {latest}")
        #: The round whose mean was missed, from 1.
        self.round = round
        #: The latest round that has a mean.
        self.latest = latest


class Refused(UndertoneError):
    """The daemon did not do what it was asked (RFC 9457). Nothing was charged by this request."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        #: The HTTP status.
        self.status = int(problem.get("status", 0))
        #: Which kind of refusal it is, such as "budget".
        self.kind = str(problem.get("type", "")).rsplit(":", 1)[-1]
        #: What is wrong, in a sentence.
        self.detail = str(problem.get("detail", "no reason was given"))
        #: The part, header or key at fault.
        self.field: str | None = problem.get("field")
        #: What to do about it.
        self.hint: str | None = problem.get("hint")
        #: What ``undertone submit`` would have exited with.
        self.exit_code: int | None = problem.get("exit_code")
        field = f" ({self.field})" if self.field else ""
        hint = f"; {self.hint}" if self.hint else ""
        super().__init__(f"{self.detail}{field}{hint}")


class BudgetRefused(Refused):
    """The data set's budget has not enough left for the plan."""


class AlreadySpent(Refused):
    """This node has taken part in the plan before. A plan is spent once."""


class PlanRefused(Refused):
    """The plan does not verify: it does not keep what it claims."""


class PolicyRefused(Refused):
    """The plan may keep its claims, but they are not within this node's policy."""


class InputRefused(Refused, ValueError):
    """The array cannot be used: its shape, type or columns are not the plan's, or a value is not a
    finite number."""


class Conflict(Refused):
    """What is asked for is in another state than that needs: submitted before, begun, or over."""


class NotThere(Refused):
    """There is no such run, offer, round or file."""


class Unauthorized(Refused):
    """The token is not this daemon's."""


class Unavailable(Refused):
    """The daemon is ending, has too much under way, or cannot write to its disk."""


_BY_KIND: dict[str, type[Refused]] = {
    "budget": BudgetRefused,
    "spent": AlreadySpent,
    "plan-refused": PlanRefused,
    "policy": PolicyRefused,
    "input-unusable": InputRefused,
    "conflict": Conflict,
    "unknown": NotThere,
    "unauthorized": Unauthorized,
    "busy": Unavailable,
    "unavailable": Unavailable,
    "storage": Unavailable,
}


def refusal(problem: Mapping[str, Any]) -> Refused:
    """The error that stands for a problem; one of an unknown kind is a plain :class:`Refused`."""
    kind = str(problem.get("type", "")).rsplit(":", 1)[-1]
    return _BY_KIND.get(kind, Refused)(problem)


def unusable(what: str, hint: str) -> InputRefused:
    """What is refused here already, before anything is sent."""
    return InputRefused(
        {"type": "urn:undertone:problem:input-unusable", "detail": what, "hint": hint, "exit_code": 7}
    )
