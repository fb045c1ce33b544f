"""What taken outputs show beside their values: whether they are what was returned, and fully written."""

import ctypes
import hashlib
import math
from collections.abc import Sequence
from typing import Any

import torch

from evaluator.arena import protocol
from evaluator.arena.fingerprint import fingerprint
from evaluator.arena.gate import Sealer
from evaluator.arena.structure import Area, view_of

_WORD = 8
_DIGESTED_BYTES = 1024**2


def fill(area: Area, poison: int) -> None:
    """Write the poison, a signed 64-bit number, over a whole area of device memory."""
    assert isinstance(area, torch.Tensor)
    area[: area.numel() // _WORD * _WORD].view(torch.int64).fill_(poison)


def is_whole(header: Sequence[dict[str, Any]]) -> bool:
    """Whether all outputs were stored."""
    return not any("other" in entry or entry["start"] < 0 for entry in header)


def fingerprint_of(header: Sequence[dict[str, Any]], area: Area) -> str | None:
    """The fingerprint of a CPU rank's outputs as they were taken; None where not all of them were stored."""
    if not is_whole(header):
        return None
    return protocol.fingerprint_text(fingerprint([_tensor(entry, area) for entry in header]))


def mark_of(header: Sequence[dict[str, Any]], area: Area, *, sealer: Sealer, key: bytes) -> str | None:
    """The fingerprint of outputs in device memory under a call's key; None where not all of them were stored."""
    if not is_whole(header):
        return None
    outputs = [_tensor(entry, area) for entry in header]
    on_host = [entry["device"] == "cpu" for entry in header]
    return sealer.mark_of([one.cpu() if there else one for one, there in zip(outputs, on_host, strict=True)], key)


def digest_of(header: Sequence[dict[str, Any]], area: Area) -> str:
    """SHA-256 over the first MiB of every stored output in turn, its first 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for entry in header:
        if "other" not in entry and entry["start"] >= 0:
            raw = _tensor(entry, area).reshape(-1).view(torch.uint8)[:_DIGESTED_BYTES].cpu()
            digest.update(ctypes.string_at(raw.data_ptr(), raw.numel()))
    return digest.hexdigest()[:16]


def read_output(entry: dict[str, Any], area: Area, *, device: torch.device) -> torch.Tensor:
    """The output that `entry` describes in copied outputs, on `device`."""
    tensor = _tensor(entry, area).to(device)
    # Any byte but 0 is true; comparisons of torch take only 1 for equal to true.
    return tensor.view(torch.uint8).ne(0) if tensor.dtype is torch.bool else tensor


def unwritten_shares(header: Sequence[dict[str, Any]], area: Area, poison: int) -> list[float]:
    """The share of each output that still holds the poison."""
    return [0.0 if "other" in entry or entry["start"] < 0 else _unwritten(entry, area, poison) for entry in header]


def _tensor(entry: dict[str, Any], area: Area) -> torch.Tensor:
    count = math.prod(entry["shape"])
    return view_of(area, dtype=getattr(torch, entry["dtype"]), start=entry["start"], count=count).view(entry["shape"])


def _unwritten(entry: dict[str, Any], area: Area, poison: int) -> float:
    raw = _tensor(entry, area).reshape(-1).view(torch.uint8)
    words = raw.numel() // _WORD
    if not words:
        return 0.0
    return float((raw[: words * _WORD].view(torch.int64) == poison).sum()) / words
