"""Arrays, tables and models as the bytes that the daemon reads, and back."""

from __future__ import annotations

import csv
import io
import sys
from dataclasses import dataclass
from typing import Any, Callable, Mapping

import numpy as np

from . import safetensors
from .errors import unusable
from .masks import refuse_masked

#: What a .npy begins with.
_MAGIC = b"\x93NUMPY"
_NPY, _CSV, _MODEL = "application/x-npy", "text/csv", "application/x-safetensors"


@dataclass(frozen=True)
class Encoded:
    """A value as it is uploaded, and how a mean of its kind is read."""

    #: In which format the value is sent, and a mean of its kind is asked for.
    media_type: str
    data: bytes
    #: The mean of these bytes; the second argument says whether it is of one record.
    decode: Callable[[bytes, bool], Any]

    @property
    def accept(self) -> str:
        """The formats in which a mean can be read: one of rows of tensors is kept as an array."""
        return f"{_MODEL}, {_NPY};q=0.5" if self.media_type == _MODEL else self.media_type


def encode(value: Any) -> Encoded:
    """A mapping of tensors as .safetensors, a DataFrame as .csv, anything else as .npy.

    Raises InputRefused for what is not made of real numbers."""
    if isinstance(value, Mapping):
        def model(data: bytes, _: bool) -> Any:
            if data.startswith(_MAGIC):
                return safetensors.cut(read_npy(data), value)
            return safetensors.decode(data, value)

        return Encoded(_MODEL, safetensors.encode(value), model)
    if is_frame(value):
        return _table(value)
    return Encoded(_NPY, npy(value), lambda data, _: read_npy(data))


def encode_part(value: Any) -> Encoded:
    """What is handed over in a round: a mapping as .safetensors, anything else as .npy. Means of
    rounds come as arrays of float64; that of a mapping is cut into its tensors again."""
    if isinstance(value, Mapping):
        def parts(data: bytes, _: bool) -> Any:
            return safetensors.cut(read_npy(data), value)

        return Encoded(_MODEL, safetensors.encode(value), parts)
    table = value.to_numpy() if is_frame(value) else value
    return Encoded(_NPY, npy(table), lambda data, _: read_npy(data))


def encoded_as(plan: Mapping[str, Any]) -> Encoded:
    """How the mean of a plan is read where no value says it: as a dict of arrays if the plan names
    tensors, as a table if it names columns and pandas is loaded, else as an array."""
    data = plan["data"]
    pandas = sys.modules.get("pandas")
    if data.get("tensors"):
        return part_as(plan)
    if data.get("columns") and pandas is not None:
        frame = pandas.DataFrame(columns=data["columns"], dtype="float64")
        return Encoded(_CSV, b"", _table(frame).decode)
    return Encoded(_NPY, b"", lambda body, _: read_npy(body))


def part_as(plan: Mapping[str, Any]) -> Encoded:
    """How means of a plan's rounds are read where no part says it."""
    shapes = plan["data"].get("tensors")
    if not shapes:
        return Encoded(_NPY, b"", lambda body, _: read_npy(body))
    like = {name: np.empty(shape) for name, shape in shapes.items()}

    def model(data: bytes, _: bool) -> Any:
        return safetensors.cut(read_npy(data), like) if data.startswith(_MAGIC) else safetensors.decode_all(data)

    return Encoded(_MODEL, b"", model)


def is_frame(value: Any) -> bool:
    """Whether it is a pandas DataFrame; pandas need not be installed."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.DataFrame)


def npy(value: Any) -> bytes:
    """The bytes of a .npy in C order: float32 and float64 as they are, other real numbers as
    float64."""
    if hasattr(value, "detach"):  # a tensor of PyTorch
        try:
            value = value.detach().cpu().numpy()
        except (TypeError, RuntimeError):
            raise unusable("numpy has no array for this tensor", "tensor.float(), or .to_dense()") from None
    refuse_masked(value, "the value")
    try:
        array = np.asarray(value)
    except ValueError:
        raise unusable("the value is not an array: its rows differ in length", "pad or cut them") from None
    if array.dtype.kind not in "fiub":
        raise unusable(f"dtype {array.dtype} is not of real numbers", "convert it: array.astype(float)")
    wanted = np.dtype("<f4") if array.dtype == np.float32 else np.dtype("<f8")
    if array.dtype.itemsize > 8:
        raise unusable(f"dtype {array.dtype} has more digits than can be sent", "array.astype(float)")
    out = io.BytesIO()
    np.save(out, np.ascontiguousarray(array, wanted).reshape(array.shape), allow_pickle=False)
    return out.getvalue()


def read_npy(data: bytes) -> np.ndarray[Any, Any]:
    """An array of the bytes of a .npy."""
    array: np.ndarray[Any, Any] = np.load(io.BytesIO(data), allow_pickle=False)
    return array


def read_exactly(data: bytes, **named: Any) -> Any:
    """Reads comma-separated numbers to the last bit. From 3.1 on pandas does so by itself, and warns
    whoever asks for it."""
    import pandas

    version = [int(part) for part in pandas.__version__.split(".")[:2] if part.isdigit()]
    if version < [3, 1]:
        named["float_precision"] = "round_trip"
    return pandas.read_csv(io.BytesIO(data), **named)


def by_column(noises: list[float], overall: float, mean: Any) -> Any:
    """The standard error of a mean: one number where that holds for every coordinate, else one for
    each, as the mean has them. None where the daemon does not list all of them: the number for all
    is then the root of their mean square, and of no column."""
    if len(set(noises)) <= 1:
        return noises[0] if noises else overall
    if len(noises) != np.size(mean):
        return None
    errors = np.array(noises).reshape(np.shape(mean))
    if hasattr(mean, "index"):
        errors = type(mean)(errors, index=mean.index)
    return errors


def _names(frame: Any) -> list[str] | None:
    """The names of the columns as text. None where they are 0, 1, …, with which pandas numbers
    columns that have no names."""
    if list(frame.columns) == list(range(len(frame.columns))):
        return None
    return [str(name) for name in frame.columns]


def _table(frame: Any) -> Encoded:
    """Columns go by their names, and the index does not go at all."""
    import pandas

    odd = [str(name) for name, kind in frame.dtypes.items() if not pandas.api.types.is_numeric_dtype(kind)]
    if odd:
        raise unusable(f"column {odd[0]!r} is not of numbers", "leave it out, or make numbers of it")
    names = _names(frame)
    try:
        numbers = frame.astype("float64")
    except (TypeError, ValueError):
        raise unusable("a cell of the table is no number", "fill it, or leave its row out") from None
    # In quotation marks a name is told from a number, whatever it is made of.
    text = numbers.to_csv(
        index=False, header=names or False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC
    )

    def decode(data: bytes, of_a_record: bool) -> Any:
        first = 0 if names else None
        mean = read_exactly(data, header=first)
        mean.columns = frame.columns
        if of_a_record and len(mean) == 1:
            return mean.iloc[0].rename("mean")
        return mean.set_index(frame.index) if len(mean) == len(frame) else mean

    return Encoded(_CSV, text.encode(), decode)
