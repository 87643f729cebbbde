"""Who is missing from a run, and why: said while its owner waits for it."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Mapping

from .errors import UndertoneError
from .http import Api

#: Takes what is said, as warnings: Python shows them on standard error unless the caller has set up
#: logging otherwise.
_LOG = logging.getLogger("undertone_node")

#: Seconds for which the same parties are waited for before that is said, and between two looks.
#: Our choice: most runs begin and end within them.
_PATIENCE_S, _LOOK_S = 3.0, 1.0

#: States after which nothing more happens.
OVER = ("ended", "withdrawn", "interrupted")
#: What a member may answer to an offer and still take part.
_FINE = ("accepted", "open", "taken")


class Missing:
    """Whom one run waits for or goes on without. ``answers`` is what members said to its offer."""

    def __init__(self, api: Api, digest: str, answers: Mapping[str, str] | None = None) -> None:
        self._api, self._digest = api, digest
        self._refusals = {name: said for name, said in (answers or {}).items() if said not in _FINE}
        #: Whom it waits for, since when, and whether that was said.
        self._waiting: tuple[str, ...] = ()
        self._since, self._said = 0.0, False
        self._lost: set[str] = set()
        self._followed = False
        if self._refusals:
            self._say("was offered, and not taken by " + _list(self._refusals))

    def why(self, run: Mapping[str, Any], names: list[str]) -> dict[str, str]:
        """Each of these parties, with why it is missing in a few words."""
        status = self._api.ask("GET", "/v1/status?limit=0").json()
        peers = {peer["name"]: peer for peer in status["peers"]}
        return {name: self._reason(run, name, peers.get(name)) for name in names}

    def waiting(self, run: Mapping[str, Any]) -> str:
        """Whom the run waits for and why, in words; empty if it waits for nobody."""
        names = run["waiting_for"]
        return _list(self.why(run, names)) if names else ""

    def look(self, run: Mapping[str, Any], now: float) -> None:
        """Says what is new: who was lost, and whom it has waited for longer than a moment. ``now``
        is in seconds on any clock."""
        lost = [name for name in run["unreachable"] if name not in self._lost]
        if lost:
            self._say("has lost " + _list(self.why(run, lost)))
        self._lost = set(run["unreachable"])
        waiting = tuple(run["waiting_for"])
        if waiting != self._waiting:
            if self._said and not waiting:
                self._say("goes on: it waits for nobody any more")
            self._waiting, self._since, self._said = waiting, now, False
        if waiting and not self._said and now - self._since >= _PATIENCE_S:
            self._said = True
            self._say("waits for " + self.waiting(run))

    def end(self, run: Mapping[str, Any]) -> None:
        """Says why a run that is over is not what was planned."""
        if run["outcome"] == "degraded":
            self._say(f"ended degraded: {run['reason'] or 'no reason is known'}")

    def look_unless_followed(self, run: Mapping[str, Any], now: float) -> None:
        """Looks, unless a thread of its own does."""
        if not self._followed:
            self.look(run, now)

    def end_unless_followed(self, run: Mapping[str, Any]) -> None:
        """Says why the end is not what was planned, unless a thread of its own does."""
        if not self._followed:
            self.end(run)

    def follow(self) -> None:
        """Looks again and again until the run is over, beside whoever asks for its means."""
        self._followed = True
        threading.Thread(target=self._follow, name="undertone-missing", daemon=True).start()

    def _follow(self) -> None:
        try:
            while True:
                run = self._api.ask("GET", f"/v1/runs/{self._digest}").json()
                if run["state"] in OVER:
                    return self.end(run)
                self.look(run, time.monotonic())
                time.sleep(_LOOK_S)
        except UndertoneError:
            pass  # Whoever asks for means is told of it.

    def _reason(self, run: Mapping[str, Any], name: str, peer: Mapping[str, Any] | None) -> str:
        if name in self._refusals:
            return self._refusals[name]
        for side in ("private", "public"):
            if peer is not None and peer[side]["problem"] is not None:
                return f"{peer[side]['problem']}: {peer[side]['address']}"
        if run["state"] in ("accepted", "waiting", "gathering"):
            return "it answers, and does not take part in this plan yet"
        return "its connection was lost" if name in run["unreachable"] else "it answers, and is late"

    def _say(self, what: str) -> None:
        _LOG.warning("run %s %s", self._digest[:12], what)


def _list(why: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({reason})" for name, reason in why.items())
