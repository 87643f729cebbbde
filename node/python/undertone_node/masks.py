"""Arrays of numpy of which elements are masked: what stands behind a mask is not meant to be read."""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import unusable


def refuse_masked(value: Any, what: str) -> None:
    """Raises InputRefused where an element is masked, also of arrays in lists. numpy itself would
    send what stands behind the mask."""
    if _is_masked(value):
        raise unusable(f"{what} has masked elements", "fill them, array.filled(0), or leave their rows out")


def _is_masked(value: Any) -> bool:
    if isinstance(value, np.ma.MaskedArray):
        return value.dtype.names is None and bool(np.ma.is_masked(value))
    return isinstance(value, (list, tuple)) and any(map(_is_masked, value))
