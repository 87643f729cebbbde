"""The .safetensors format, as much of it as a state_dict needs: named tensors of numpy or PyTorch."""

from __future__ import annotations

import json
import math
import sys
from typing import Any, Mapping

import numpy as np

from .errors import unusable
from .masks import refuse_masked

_NUMPY: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
#: Those whose numbers are averaged; others stay with their owner.
_AVERAGED = ("F64", "F32", "F16", "BF16")


def encode(tensors: Mapping[str, Any]) -> bytes:
    """The bytes of a file with these tensors, each in its own type."""
    header: dict[str, Any] = {}
    data = bytearray()
    for name, tensor in tensors.items():
        if not isinstance(name, str) or name == "__metadata__":
            raise unusable(f"{name!r} is no name of a tensor", "use the names of a state_dict")
        refuse_masked(tensor, f"tensor {name!r}")
        kind, shape, raw = _raw(name, tensor)
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": offsets}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + bytes(data)


def decode(data: bytes, like: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors of a file, in the order, and of the library, of those that were sent."""
    length = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + length]), memoryview(data)[8 + length :]

    def tensor(name: str, sent: Any) -> Any:
        entry = header[name]
        begin, end = entry["data_offsets"]
        return _tensor(entry["dtype"], entry["shape"], bytes(body[begin:end]), sent)

    return {name: tensor(name, sent) for name, sent in like.items()}


def decode_all(data: bytes) -> dict[str, Any]:
    """The tensors of a file as arrays of numpy, in the order of their names."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    return decode(data, dict.fromkeys(sorted(name for name in header if name != "__metadata__")))


def cut(flat: np.ndarray[Any, Any], like: Mapping[str, Any]) -> dict[str, Any]:
    """A mean of all coordinates, cut into the tensors that were sent: ordered by name, those of
    whole numbers left out, and without the axis of rows if rows were sent."""
    names = [name for name in like if _kind(name, like[name]) in _AVERAGED]
    names.sort(key=lambda name: name.encode())
    shapes = {name: tuple(like[name].shape) for name in names}
    total = sum(math.prod(shape) for shape in shapes.values())
    if total != flat.size:
        shapes = {name: shape[1:] for name, shape in shapes.items()}
    flat = flat.reshape(-1)
    parts, begin = {}, 0
    for name in names:
        end = begin + math.prod(shapes[name])
        parts[name] = _like(flat[begin:end].reshape(shapes[name]), like[name])
        begin = end
    return {name: parts[name] for name in like if name in parts}


def _torch(tensor: Any) -> Any:
    """PyTorch, if the tensor is one of its."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(tensor, torch.Tensor) else None


def _kind(name: str, tensor: Any) -> str:
    if (torch := _torch(tensor)) is not None and tensor.dtype == torch.bfloat16:
        return "BF16"
    dtype = np.asarray(tensor.detach().cpu() if _torch(tensor) is not None else tensor).dtype
    for kind, known in _NUMPY.items():
        if dtype == known:
            return kind
    raise unusable(f"tensor {name!r} has dtype {dtype}, which cannot be sent", "tensor.float()")


def _raw(name: str, tensor: Any) -> tuple[str, tuple[int, ...], bytes]:
    kind = _kind(name, tensor)
    if (torch := _torch(tensor)) is not None:
        tensor = tensor.detach().cpu().contiguous()
        tensor = (tensor.view(torch.int16) if kind == "BF16" else tensor).numpy()
    array = np.asarray(tensor)
    wanted = np.dtype("<i2") if kind == "BF16" else _NUMPY[kind]
    return kind, array.shape, array.astype(wanted, order="C").tobytes()


def _tensor(kind: str, shape: list[int], raw: bytes, sent: Any) -> Any:
    torch = _torch(sent)
    if kind == "BF16" and torch is not None:
        bits = np.frombuffer(raw, "<i2").astype(np.int16).reshape(shape)
        return torch.from_numpy(bits).view(torch.bfloat16)
    array = np.frombuffer(raw, _NUMPY[kind]).reshape(shape).copy()
    return array if torch is None else torch.from_numpy(array)


def _like(array: np.ndarray[Any, Any], sent: Any) -> Any:
    torch = _torch(sent)
    if torch is None:
        return array.astype(np.asarray(sent).dtype)
    return torch.from_numpy(array.copy()).to(sent.dtype)
