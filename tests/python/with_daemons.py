"""Four daemons' owners at once, each by the package alone; tests/tests/python.rs runs this.

The folder has plans (array, model, table, rounds, dear, alone), four parties' keys, tables and
daemons, and the true means as truth.json."""

import asyncio
import json
import logging
import logging.handlers
import math
import os
import queue
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd

from undertone_node import (
    AlreadySpent,
    BudgetRefused,
    Conflict,
    Daemon,
    InputRefused,
    Misconfigured,
    NoMean,
    NotThere,
    PlanRefused,
    PolicyRefused,
    Refused,
    Run,
    Statistics,
    TimedOut,
    Unauthorized,
    UndertoneError,
    Unreachable,
    describe_run_file,
)
from undertone_node import aio
from undertone_node.http import Answer
from undertone_node.missing import Missing
from undertone_node.values import encode

NAMES = ["alice", "bob", "carol", "dave"]
os.chdir(sys.argv[1])
daemons = {name: Daemon(f"{name}.node.toml") for name in NAMES}
alice, bob = daemons["alice"], daemons["bob"]



def all_at_once(work):
    """What each party gets, all working at the same time."""
    with ThreadPoolExecutor(len(NAMES)) as threads:
        return dict(zip(NAMES, threads.map(lambda name: work(name, daemons[name]), NAMES)))


def refused(kind, work, about=""):
    """The error of this very type that it is refused with."""
    try:
        work()
    except UndertoneError as error:
        assert type(error) is kind, f"{type(error).__name__} instead of {kind.__name__}: {error}"
        assert about in str(error), str(error)
        traceback.print_exception(error)  # the Rust side looks for the token in it
        return error
    raise AssertionError(f"not refused with {kind.__name__}")


def close(found, truth, error):
    """Within seven standard errors."""
    assert error > 0 and np.all(np.abs(np.asarray(found) - truth) < 7 * error), (found, truth, error)


def arrays():
    values = {name: np.load(f"{name}.npy") for name in NAMES}
    results = all_at_once(lambda name, daemon: daemon.average(values[name], plan="array.json", timeout=120))
    for name, result in results.items():
        assert result.mean.shape == (2, 3) and result.mean.dtype == np.float64
        close(result.mean, sum(values.values()) / 4, result.standard_error)
        assert 0 < result.epsilon <= 1.0 + 1e-9 and result.delta == 1e-6 and result.outcome == "done"
        assert sorted(result.included) == NAMES and result.utility
        assert result.receipt.facts["party"] == name and result.receipt.facts["epsilon"] == result.epsilon
        assert np.array_equal(result.mean, results["alice"].mean), "all hold the same bits"
        result.receipt.save(f"{name}.receipt.json")


def models():
    def model(name):
        rng = np.random.default_rng(NAMES.index(name))
        return {
            "out.weight": rng.uniform(-0.2, 0.2, (2, 3)).astype(np.float32),
            "steps": np.array(NAMES.index(name)),
            "bias": rng.uniform(-0.2, 0.2, 4),
        }

    sent = {name: model(name) for name in NAMES}
    results = all_at_once(lambda name, daemon: daemon.average(sent[name], plan="model.json", timeout=120))
    for name, result in results.items():
        assert list(result.mean) == ["out.weight", "steps", "bias"], list(result.mean)
        assert result.mean["steps"] == NAMES.index(name), "whole numbers never leave"
        for tensor in "out.weight", "bias":
            assert result.mean[tensor].dtype == sent[name][tensor].dtype
            assert result.mean[tensor].shape == sent[name][tensor].shape
            close(result.mean[tensor], sum(model[tensor] for model in sent.values()) / 4, result.standard_error)


def tables():
    tables = {name: pd.read_csv(f"{name}.csv") for name in NAMES}
    results = all_at_once(
        lambda name, daemon: daemon.average(tables[name], plan="table.json", data_set="rows", timeout=120)
    )
    everybody = pd.concat(tables.values())
    for result in results.values():
        assert isinstance(result.mean, pd.Series) and list(result.mean.index) == ["age", "weight"]
        assert list(result.standard_error.index) == ["age", "weight"]
        # Noise is proportional to a column's public range: 82 and 120.
        ratio = result.standard_error["weight"] / result.standard_error["age"]
        assert abs(ratio - 120 / 82) < 1e-9, ratio
        for column in "age", "weight":
            close(result.mean[column], everybody[column].mean(), result.standard_error[column])
    # Labels that are numbers: names where the plan has them, and none where they count columns.
    for plan, labels in ("years.json", [2019, 2020]), ("plain.json", [0, 1]):
        labelled = {name: table.set_axis(labels, axis=1) for name, table in tables.items()}
        results = all_at_once(
            lambda name, daemon: daemon.average(labelled[name], plan=plan, data_set="rows", timeout=120)
        )
        for result in results.values():
            assert list(result.mean.index) == list(result.standard_error.index) == labels
            for label, column in zip(labels, ["age", "weight"]):
                close(result.mean[label], everybody[column].mean(), result.standard_error[label])
    other = tables["alice"].rename(columns={"age": "years"})
    refused(InputRefused, lambda: alice.submit(other, plan="table-2.json", data_set="rows"), "age")
    swapped = tables["alice"].set_axis([2020, 2019], axis=1)
    refused(InputRefused, lambda: alice.submit(swapped, plan="years-2.json", data_set="rows"), "2019")
    text = tables["alice"].astype({"age": str})
    refused(InputRefused, lambda: alice.submit(text, plan="table-2.json", data_set="rows"), "'age'")


def statistics():
    """Alice proposes a run file that Python wrote, and everybody describes a table of their own."""

    def table(name):
        frame = pd.read_csv(f"{name}.csv")
        row = np.arange(len(frame))
        frame["arm"] = pd.Categorical(np.where(row % 4 < 2, "old", "new"))
        frame["smokes"] = row % 5 == 0
        frame["age"] = frame["age"].where(row % 10 != 3)
        return frame

    run_file = describe_run_file(
        "table-1",
        bounds={"age": (18, 100), "weight": (40, 160)},
        categories={"arm": ["old", "new"], "smokes": [True, False]},
        want={"age": ["mean", "quantiles"]},
        group_by="arm",
        records=1000,
    ).encode()
    frames = {name: table(name) for name in NAMES}
    everybody = pd.concat(frames.values())

    def offered(daemon):
        while True:
            for offer in daemon.status()["offers"]:
                if offer["name"] == "table-1":
                    return offer["digest"]
            time.sleep(0.05)

    def work(name, daemon):
        way = {"propose": run_file} if name == "alice" else {"offer": offered(daemon)}
        if name == "dave":
            later = aio.Daemon(f"{name}.node.toml")
            return asyncio.run(later.describe(frames[name], data_set="rows", timeout=120, **way))
        return daemon.describe(frames[name], data_set="rows", timeout=120, **way)

    results = all_at_once(work)
    for name, found in results.items():
        assert isinstance(found, Statistics) and found.rows == 4000, found
        assert found.run["outcome"] == "done" and found.frame.equals(results["alice"].frame)
        for arm in "old", "new":
            own = everybody[everybody["arm"] == arm]
            truths = {
                ("age", "mean"): own["age"].mean(),
                ("age", "missing"): own["age"].isna().sum(),
                ("weight", "mean"): own["weight"].mean(),
                ("smokes", "True"): own["smokes"].sum(),
                ("smokes", "share True"): own["smokes"].mean(),
            }
            for key, truth in truths.items():
                line = found.frame.loc[(arm, *key)]
                close(line["value"], truth, line["noise"])
                assert line["low"] < line["high"], line
            median = found.quantile("age", 0.5, arm)
            line = found.frame.loc[(arm, "age", "median")]
            assert line["low"] <= median <= line["high"] and abs(median - own["age"].median()) < 10, median
            curve = found.curve("age", arm)
            assert curve.is_monotonic_increasing and curve.iloc[-1] == 1.0
        own = frames[name]["age"].isna().sum()
        assert own == 0 or f"{own} missing" in "".join(found.notes), found.notes
        assert "raw" in found.frame.columns
        inside = found.frame.dropna(subset=["value", "low", "high"])
        assert ((inside["low"] <= inside["value"]) & (inside["value"] <= inside["high"])).all(), inside
        apart = found.difference("age", "old", "new")
        assert apart["low"] < apart["value"] < apart["high"] and 0 <= apart["p"] <= 1
        html = found._repr_html_()
        assert "<table" in html and "one in twenty misses" in html
        found.save(f"{name}.figures.json")
        found.receipt.save(f"{name}.figures.receipt.json")
    frame = frames["alice"].assign(born=pd.Timestamp("2020-01-01"))
    refused(InputRefused, lambda: alice.describe(frame, propose=run_file, data_set="rows"), "'born'")
    lacking = frames["alice"].drop(columns="weight")
    refused(InputRefused, lambda: alice.describe(lacking, propose=run_file, data_set="rows"), "weight")


def open_intervals():
    """A median time whose interval has no upper end, as a daemon answers it: an empty cell."""
    table = (
        "group,column,statistic,value,raw,noise,low,high,sampling\n"
        ",months,median time,34,,,29,,\n"
        ",months,S(12),0.8,0.8,0.01,0.78,0.82,0.02\n"
        ",months,S(60),,,,,,\n"
    )
    found = Statistics(b'{"rows": null}', table.encode(), None, {}, ["months: of 300 cells 1 missing"])
    median = found.frame.loc[("", "months", "median time")]
    assert (median["value"], median["low"], median["high"]) == (34, 29, math.inf), median
    assert found.frame.loc[("", "months", "S(12)"), "high"] == 0.82
    assert math.isnan(found.frame.loc[("", "months", "S(60)"), "high"]), "not shown is not open"
    html = found._repr_html_()
    assert "not reached" in html and "inf" not in html, html
    assert "0.82" in html and "nan" not in html.lower(), html
    assert repr(found) == "Statistics(3 figures of a private number of rows)", repr(found)
    assert found.notes == ["months: of 300 cells 1 missing"]
    years = Statistics(b'{"rows": 9}', table.replace("months", "2019").encode(), None, {})
    assert years.frame.loc[("", "2019", "S(12)"), "value"] == 0.8 and years.notes == []


def rounds():
    """Each party hands over its number, plus the mean before."""

    def work(name, daemon):
        own = 0.01 * NAMES.index(name)
        session = daemon.rounds(np.full((1000, 2), own), plan="rounds.json", data_set="rows")
        means = []
        for mean in session:
            means.append(mean)
            if session.more:
                assert session.round == len(means)
                session.hand_over(np.full((1000, 2), own) + mean)
                refused(Conflict, lambda: session.hand_over(np.zeros((1000, 2))), "before")
        assert session.count == session.round == len(means) == 3 and not session.more
        return means

    results = all_at_once(work)
    for means in results.values():
        for k, mean in enumerate(means, start=1):
            close(mean, 0.015 * k, 0.02)
        assert all(np.array_equal(a, b) for a, b in zip(means, results["alice"]))


def sessions():
    """Tensors with an axis of rows; alice's caller is restarted after the first mean."""
    first = {"out.weight": np.full((1000, 2, 2), 0.02), "bias": np.full((1000, 2), -0.01)}
    seen = []

    def tell(progress):
        seen.append((progress.round, progress.count, progress.gone, progress.left_s is None))

    began = alice.rounds(first, plan="session.json", data_set="rows", timeout=0.2, progress=tell)
    late = refused(TimedOut, lambda: next(began), "round 1 has no mean after 0.2 s")
    assert late.run.digest == began.digest and began.epsilon == began.status()["epsilon_claimed"]
    refused(Conflict, lambda: began.receipt)
    digest = began.digest
    assert alice.rounds(attach=digest).round == 0, "it may be come back to before the first mean"

    def goes_on(rounds):
        means = []
        for mean in rounds:
            means.append(mean)
            assert list(mean) == ["out.weight", "bias"] or list(mean) == ["bias", "out.weight"]
            assert mean["out.weight"].shape == (2, 2) and mean["bias"].shape == (2,)
            if rounds.awaited:
                rounds.hand_over(first)
                assert not rounds.awaited
        return means

    def work(name, daemon):
        if name != "alice":
            return goes_on(daemon.rounds(first, plan="session.json", data_set="rows"))
        began.timeout = 120
        mean = next(began)
        again = alice.rounds(attach=digest, progress=tell)
        assert (again.count, again.round, again.awaited) == (3, 0, False), "its mean is read first"
        same = next(again)
        assert all(np.array_equal(same[name], mean[name]) for name in same) and again.awaited
        again.hand_over(first)
        return [same, *goes_on(alice.rounds(attach=digest, like=first, progress=tell))][-3:]

    results = all_at_once(work)
    for name, means in results.items():
        assert len(means) == 3, (name, len(means))
        close(means[-1]["out.weight"], 0.02, 0.01)
        close(means[-1]["bias"], -0.01, 0.01)
    assert seen[0] == (1, 3, (), True) and seen[-1] == (3, 3, (), False), seen
    over = alice.rounds(attach=digest)
    assert over.wait(timeout=60)["outcome"] == "done" and over.gone == () and not over.awaited
    assert 0 < over.epsilon <= 8 + 1e-9 and over.receipt.facts["party"] == "alice"
    last = next(over)
    assert np.array_equal(last["bias"], results["bob"][-1]["bias"]) and not over.more
    run = alice.run(digest)
    result = run.average(timeout=60)
    assert np.array_equal(result.mean["bias"], last["bias"]) and result.epsilon == over.epsilon
    like = alice.run(alice.runs()[-1]["digest"], like=np.zeros((2, 3))).average()
    assert like.mean.shape == (2, 3), "the first run of all was of arrays"
    refused(NotThere, lambda: alice.run("0" * 64))
    for wrong in ({"first": first, "attach": digest}, {}, {"attach": "x"}):
        try:
            alice.rounds(**wrong)
            raise AssertionError(wrong)
        except (TypeError, ValueError):
            pass


def sums():
    """Each party's program clips its rows, tensor by tensor, and hands over their sum, by asyncio."""

    async def work(name):
        daemon = aio.Daemon(api=f"unix:{name}.state/api.sock", token_file=f"{name}.state/api.token")
        own = {"weight": np.full((2, 2), 0.03 * 1000), "bias": np.array([0.05, -0.05]) * 1000}
        rounds = await daemon.rounds(own, plan="sums.json", data_set="rows", records=1000)
        means = []
        async for mean in rounds:
            means.append(mean)
            if await rounds.awaited():
                await rounds.hand_over(own)
        status = await rounds.wait(60)
        assert status["outcome"] == "done" and await rounds.gone() == ()
        assert (await rounds.status())["digest"] == rounds.digest
        assert (await rounds.receipt()).facts["epsilon"] == await rounds.epsilon()
        return means

    async def everybody():
        return await asyncio.gather(*(work(name) for name in NAMES))

    for means in asyncio.run(everybody()):
        assert len(means) == 2
        for mean in means:
            close(mean["weight"], 0.03, 0.01)
            close(mean["bias"], [0.05, -0.05], 0.01)


def refusals():
    value = np.load("alice.npy")
    spent = refused(AlreadySpent, lambda: alice.average(value, plan="array.json"))
    assert (spent.status, spent.kind, spent.exit_code) == (409, "spent", 6)
    budget = refused(BudgetRefused, lambda: alice.average(value, plan="array-2.json"))
    assert (budget.status, budget.exit_code) == (403, 6) and budget.hint
    refused(PolicyRefused, lambda: alice.average(value, plan="dear.json"), "epsilon")
    plan = json.load(open("alone.json"))
    plan["claims"][0]["epsilon"] /= 2
    refused(PlanRefused, lambda: alice.average(value, plan=json.dumps(plan).encode()))
    refused(InputRefused, lambda: bob.average(value[:1], plan="alone.json"), "shape")
    refused(InputRefused, lambda: bob.average(value * math.nan, plan="alone.json"), "coordinate 0")
    refused(InputRefused, lambda: bob.average([["a"]], plan="alone.json"), "real numbers")
    masked = np.ma.masked_array(value, mask=value > value.mean())
    for some in masked, [list(value[0]), [1.0, np.ma.masked, 1.0]], {"bias": masked}, ([masked[0], masked[1]],):
        refused(InputRefused, lambda: bob.average(some, plan="alone.json"), "masked")
    assert encode(np.ma.masked_array(value)).data == encode(value).data, "nothing is masked"
    refused(NotThere, lambda: alice.average(value, offer="0" * 64))
    run = bob.submit(value, plan="alone.json")
    while not run.status()["waiting_for"]:
        time.sleep(0.05)
    absent = "alice (it answers, and does not take part in this plan yet)"
    slow = refused(TimedOut, lambda: run.average(timeout=0.2), absent)
    assert isinstance(slow, TimeoutError) and slow.run is run
    assert run.status()["state"] == "gathering"
    refused(Conflict, lambda: bob.average(value, plan="alone.json"))
    assert run.withdraw()["state"] == "withdrawn"
    none = refused(NoMean, run.average, "withdrawn")
    assert none.run["charged"] is None


class Fake:
    """An API with these peers, for what is said of them."""

    def __init__(self, **problems):
        side = {name: {"problem": problem, "address": f"/at/{name}"} for name, problem in problems.items()}
        self.peers = [{"name": name, "private": side[name], "public": side[name]} for name in problems]

    def ask(self, method, path):
        assert (method, path) == ("GET", "/v1/status?limit=0"), path
        return Answer(200, "application/json", json.dumps({"peers": self.peers}).encode())


def missing():
    """Who is missing, and why, is said once it has lasted, and once."""
    said = queue.SimpleQueue()
    handler = logging.handlers.QueueHandler(said)
    logging.getLogger("undertone_node").addHandler(handler)

    def lines():
        return [said.get_nowait().getMessage() for _ in range(said.qsize())]

    api = Fake(bob=None, carol="it refuses connections", dave=None)
    found = Missing(api, "ab" * 32, {"bob": "refused: too dear", "carol": "not reached: x", "dave": "open"})
    first, second = "bob (refused: too dear)", "carol (not reached: x)"
    assert lines() == [f"run {'ab' * 6} was offered, and not taken by {first}, {second}"]
    found = Missing(api, "ab" * 32)

    def look(now, *waiting, state="gathering", unreachable=()):
        found.look({"state": state, "waiting_for": list(waiting), "unreachable": list(unreachable)}, now)
        return [line.removeprefix(f"run {'ab' * 6} ") for line in lines()]

    assert look(0, "bob", "carol") == look(2.9, "bob", "carol") == []
    apart = "bob (it answers, and does not take part in this plan yet)"
    refusing = "carol (it refuses connections: /at/carol)"
    assert look(3, "bob", "carol") == [f"waits for {apart}, {refusing}"]
    assert look(60, "bob", "carol") == look(61, "carol") == look(63.9, "carol") == []
    assert look(64, "carol") == [f"waits for {refusing}"]
    assert look(65) == ["goes on: it waits for nobody any more"]
    late = "dave (it answers, and is late)"
    assert look(66, "dave", state="running") == []
    assert look(69, "dave", state="running") == [f"waits for {late}"]
    lost = "dave (its connection was lost)"
    assert look(70, "dave", state="running", unreachable=["dave"]) == [f"has lost {lost}"]
    assert look(90, state="running", unreachable=["dave"]) == ["goes on: it waits for nobody any more"]
    found.end({"outcome": "degraded", "reason": "3 of 4 parties, without dave"})
    found.end({"outcome": "done", "reason": None})
    assert lines() == [f"run {'ab' * 6} ended degraded: 3 of 4 parties, without dave"]

    # Of a daemon, while somebody waits: for a mean, and for the first of several.
    session = bob.rounds(np.zeros((1000, 2)), plan="rounds-2.json", data_set="rows")
    line = said.get(timeout=60).getMessage()
    absent = "alice (it answers, and does not take part in this plan yet)"
    assert line.startswith(f"run {session.digest[:12]} waits for ") and absent in line, line
    run = next(run for run in bob.runs() if run["digest"] == session.digest)
    assert run["state"] == "gathering"
    refused(TimedOut, lambda: Run(bob._api, session.digest, session._first, {}).wait(timeout=4), absent)
    assert any(absent in line for line in lines())
    Run(bob._api, session.digest, session._first, {}).withdraw()
    refused(NoMean, lambda: next(session), "withdrawn")
    logging.getLogger("undertone_node").removeHandler(handler)


def settings():
    """What is said of the daemon never has its token in it."""
    token = open("alice.state/api.token").read().strip()
    with open("other.token", "w") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(token[::-1] + "\n")
    address = "unix:alice.state/api.sock"
    stranger = Daemon(api=address, token_file="other.token")
    refused(Unauthorized, stranger.runs, "token")
    with open("two.token", "w") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(token + "\nX-Other: 1\n")
    refused(Misconfigured, lambda: Daemon(api=address, token_file="two.token"), "holds no token")
    os.chmod("two.token", 0o644)
    refused(Misconfigured, lambda: Daemon(api=address, token_file="two.token"), "0644")
    refused(Misconfigured, lambda: Daemon("absent.toml"), "absent.toml")
    for odd in "unix:", "7300", ":7300", "localhost", "localhost:70000", "::1:7300", "https://a:1", "http://a/b:1":
        refused(Misconfigured, lambda: Daemon(api=odd, token_file="other.token"), "address of an API")
    for form in "http://localhost:1", "http://localhost:1/", "localhost:1":
        refused(Unreachable, Daemon(api=form, token_file="other.token").runs, "daemon at localhost:1:")
    assert "\x1b" not in str(Refused({"detail": "\x1b[2J"})), "a terminal would obey it"
    refused(Unreachable, Daemon(api="unix:absent", token_file="other.token").runs, "unix:absent")
    for shown in repr(alice), str(alice), repr(vars(alice)), repr(vars(alice._api)):
        assert token not in shown, "the token is shown"
    assert alice.status()["party"] == "alice"
    assert type(Refused({"type": "urn:undertone:problem:new", "detail": "x"})) is Refused


def keys():
    """Last of all: who is revoked takes part in nothing more."""
    assert alice.schedules() == [] and alice.revoked_keys() == []
    refused(Refused, lambda: alice.revoke("no statement"), "identity revoke")
    key = alice.revoke(open("dave.revoked").read())
    assert key["name"] == "dave" and key["id"] == key["by"], key
    assert alice.revoked_keys() == [key] and alice.status()["revoked"] == [key]


if __name__ == "__main__":
    for step in arrays, models, tables, statistics, open_intervals, rounds, sessions, sums, refusals, missing, settings, keys:
        step()
        print("done:", step.__name__, flush=True)
