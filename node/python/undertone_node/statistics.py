"""Statistics of tables: what a run of ``task = "describe"`` says, and the run file that asks for it."""

from __future__ import annotations

import json
import math
from typing import Any, Mapping, Sequence

import numpy as np

from .errors import unusable
from .values import Encoded, is_frame, read_exactly

#: Of a normal distribution 95 % lie within so many standard deviations.
_WITHIN = 1.959963984540054


def encode_cells(frame: Any) -> Encoded:
    """A DataFrame as .csv with its cells as they are: texts, categories, truth values, numbers, and
    missing ones as nothing. Dates are refused: give days as numbers."""
    if not is_frame(frame):
        raise unusable("statistics are of a DataFrame", "pandas.DataFrame({'age': [61, None], …})")
    dates = [str(name) for name, kind in frame.dtypes.items() if getattr(kind, "kind", "") in "Mm"]
    if dates:
        hint = f"give days as numbers: (frame[{dates[0]!r}] - start).dt.days"
        raise unusable(f"column {dates[0]!r} is of dates", hint)
    text = frame.to_csv(index=False, lineterminator="\n", na_rep="")
    return Encoded("text/csv", text.encode(), lambda data, _: data)


class Statistics:
    """The statistics of a run, with the noise of each. Intervals are of 95 %, and of the noise."""

    def __init__(
        self,
        figures: bytes,
        table: bytes,
        receipt: Any,
        run: Mapping[str, Any],
        notes: Sequence[str] = (),
    ) -> None:
        from pandas import to_numeric

        #: The file that ``undertone figures`` reads, as it was answered.
        self.json = figures
        self._file: dict[str, Any] = json.loads(figures)
        # Names stay texts, also of columns that are called 2019.
        texts = dict.fromkeys(["group", "column", "statistic"], str)
        frame = read_exactly(table, keep_default_na=False, dtype=texts)
        numbers = ["value", "raw", "noise", "low", "high", "sampling"]
        frame[numbers] = frame[numbers].apply(to_numeric, errors="coerce")
        # An upper end that is not reached is an empty cell: the interval is open.
        frame.loc[frame["low"].notna() & frame["high"].isna(), "high"] = math.inf
        #: A row for each figure: by group, column and statistic its value as shown and as computed
        #: (raw), noise, low, high (inf where it is not reached), sampling.
        self.frame = frame.set_index(["group", "column", "statistic"])
        #: The signed receipt.
        self.receipt = receipt
        #: The run as the API describes it.
        self.run = run
        #: A sentence on each column of this party's own DataFrame with missing cells, or with others
        #: than the plan describes. Only this party learns of them.
        self.notes = list(notes)

    def __repr__(self) -> str:
        return f"Statistics({len(self.frame)} figures of {self.rows or 'a private number of'} rows)"

    def _repr_html_(self) -> str:
        shown = self.frame.copy()
        shown["high"] = shown["high"].map(lambda high: "not reached" if high == math.inf else high)
        html: str = shown.to_html(float_format=lambda value: f"{value:.6g}", na_rep="")
        return html + "<p>Intervals are of 95 %, and of the noise: one in twenty misses.</p>"

    @property
    def rows(self) -> float | None:
        """How many rows there are; None where nobody says."""
        rows: float | None = self._file["rows"]
        return rows

    def save(self, path: Any) -> None:
        """Writes the file that ``undertone figures`` reads."""
        with open(path, "wb") as file:
            file.write(self.json)

    def _statistic(self, column: str, want: str, group: str | None) -> dict[str, Any]:
        for of_group in self._file["figures"]["groups"]:
            if of_group["group"] != group:
                continue
            for statistic in of_group["statistics"]:
                if (statistic["column"], statistic["want"]) == (column, want):
                    found: dict[str, Any] = statistic
                    return found
        raise KeyError(f"no {want} of {column!r} in group {group!r}")

    def _edges(self, column: str, want: str) -> np.ndarray[Any, Any]:
        """The edges of a column's bins, as its description says."""
        described = next(entry for entry in self._file["describe"]["column"] if entry["name"] == column)
        if "edges" in described:
            return np.array(described["edges"], float)
        low, high = described["low"], described["high"]
        if described.get("whole"):
            return np.arange(low, high + 2.0)
        bins = described.get("bins", {"quantiles": 128, "histogram": 32, "survival": 60}[want])
        return np.linspace(low, high, bins + 1)

    def quantile(self, column: str, q: float, group: str | None = None) -> float:
        """The number below which this share of the column's numbers lies. ``undertone figures
        --quantile`` gives its interval, too."""
        if not 0 < q < 1:
            raise ValueError("q is a share above 0 and below 1")
        counts = np.array(self._statistic(column, "quantiles", group)["cumulative"])
        edges, rank = self._edges(column, "quantiles"), q * counts[-1]
        at = int(np.argmax((counts[1:] >= rank) & (np.diff(counts) > 0)))
        if self._is_whole(column):
            return float(edges[at])
        inside = (rank - counts[at]) / (counts[at + 1] - counts[at])
        return float(edges[at] + (edges[at + 1] - edges[at]) * inside)

    def _is_whole(self, column: str) -> bool:
        entries = self._file["describe"]["column"]
        return any(entry["name"] == column and entry.get("whole") for entry in entries)

    def curve(self, column: str, group: str | None = None) -> Any:
        """A survival curve with its noise, or the cumulative share of rows, by the column's edges."""
        import pandas

        try:
            points = self._statistic(column, "survival", group)["curve"]
        except KeyError:
            counts = np.array(self._statistic(column, "quantiles", group)["cumulative"])
            edges = self._edges(column, "quantiles")
            return pandas.Series(counts / max(counts[-1], 1e-300), index=edges, name=column)
        return pandas.DataFrame(points).set_index("to")

    def difference(self, column: str, one: str, other: str, statistic: str = "mean") -> dict[str, float]:
        """The difference of two groups' means, or of their shares of a category: with noise,
        sampling, and a p-value that counts both and is not corrected for how many you look at."""
        name = statistic if statistic == "mean" else f"share {statistic}"
        a, b = (self.frame.loc[(group, column, name)] for group in (one, other))
        noise = math.hypot(a["noise"], b["noise"])
        sampling = math.hypot(a["sampling"], b["sampling"])
        value, both = float(a["raw"] - b["raw"]), math.hypot(noise, sampling)
        p = math.erfc(abs(value) / both / math.sqrt(2.0))
        reach = _WITHIN * both
        found = {"value": value, "noise": noise, "sampling": sampling, "p": p}
        return {**found, "low": value - reach, "high": value + reach}

    def correlation(self, at: int = 0) -> Any:
        """The correlations of a covariance entry, the first one without ``at``."""
        import pandas

        entry = self._file["figures"]["covariances"][at]
        return pandas.DataFrame(entry["correlation"], index=entry["columns"], columns=entry["columns"])


def describe_run_file(
    name: str,
    *,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    categories: Mapping[str, Sequence[Any]] | None = None,
    want: Mapping[str, Sequence[str]] | None = None,
    group_by: str | None = None,
    records: int | None = None,
    epsilon: float = 1.0,
    delta: float = 1e-6,
) -> str:
    """The run file of ``task = "describe"``, as TOML. Bounds and categories are public: they come from
    what is known of each column. That is why this takes no DataFrame."""
    if any(is_frame(value) for value in (name, bounds, categories)):
        raise TypeError("bounds and categories come from what is known, never from the data")
    lines = ["version = 1", 'task = "describe"', f"name = {json.dumps(name)}", ""]
    if records is not None:
        lines += ["[data]", f"records = {records}", ""]
    if group_by is not None:
        lines += ["[describe]", f"group_by = {json.dumps(group_by)}", ""]
    for column, (low, high) in (bounds or {}).items():
        lines += ["[[describe.column]]", f"name = {json.dumps(column)}", f"low = {low}", f"high = {high}"]
        lines += _wanted(want, column)
    for column, texts in (categories or {}).items():
        listed = ", ".join(json.dumps(str(text)) for text in texts)
        lines += ["[[describe.column]]", f"name = {json.dumps(column)}", f"categories = [{listed}]"]
        lines += _wanted(want, column)
    lines += ["[privacy]", f"epsilon = {epsilon}", f"delta = {delta}"]
    return "\n".join(lines) + "\n"


def _wanted(want: Mapping[str, Sequence[str]] | None, column: str) -> list[str]:
    """The line of a column's statistics, and the empty one behind the column."""
    wanted = (want or {}).get(column)
    return [f"want = [{', '.join(json.dumps(one) for one in wanted)}]", ""] if wanted else [""]
