"""A draft of a machine file from what this machine's GPUs, driver and links show."""

import json
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from evaluator.errors import EvaluatorError
from evaluator.hardware.machines import FOLDER
from evaluator.host.machine import gpus
from evaluator.host.machine.nvml import Library, Unavailable

# In a process of its own: the judge imports no torch.
_DEVICES = """
import json, torch
count = torch.cuda.device_count()
first = torch.cuda.get_device_properties(0)
print(json.dumps({
    "names": [torch.cuda.get_device_name(n) for n in range(count)],
    "capability": f"{first.major}.{first.minor}", "sms": first.multi_processor_count, "l2_bytes": first.L2_cache_size,
    "peers": [[a == b or torch.cuda.can_device_access_peer(a, b) for b in range(count)] for a in range(count)],
}))
"""
_SECONDS = 120


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a machine shows.

    `peers[a][b]` says whether GPU a can address the memory of GPU b. `links` is how many NVLinks a GPU has, and
    `has_switch` whether they lead to switches. `memory_bytes_s` is the driver's clock times its bus; 0 where unknown.
    """

    names: tuple[str, ...]
    capability: str
    sms: int
    l2_bytes: int
    peers: tuple[tuple[bool, ...], ...]
    links: int = 0
    has_switch: bool = False
    memory_bytes_s: float = 0.0

    @property
    def has_peer_access(self) -> bool:
        """Whether every pair of GPUs has it."""
        return all(all(row) for row in self.peers)


def look() -> Seen:
    """This machine; raises EvaluatorError where it has no GPU that torch can use, or several models."""
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", _DEVICES], capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise EvaluatorError(f"torch sees no GPU here, so there is no machine to describe: {why[:300]}")
    found = json.loads(done.stdout)
    if len(set(found["names"])) > 1:
        models = ", ".join(sorted(set(found["names"])))
        raise EvaluatorError(f"this machine has several models ({models}); choose those of one by {gpus.CHOICE}")
    return Seen(
        names=tuple(found["names"]),
        capability=found["capability"],
        sms=found["sms"],
        l2_bytes=found["l2_bytes"],
        peers=tuple(tuple(row) for row in found["peers"]),
        **_by_the_driver(),
    )


def _by_the_driver() -> dict[str, Any]:
    """Links and memory of the first GPU, as far as the driver's library tells them."""
    try:
        with closing(Library(gpus.present()[:1])) as library:
            (handle,) = library.handles.values()
            return library.ask("links and memory", lambda: _facts(library.nvml, handle))
    except (Unavailable, ValueError):
        return {}


def _facts(nvml: Any, handle: Any) -> dict[str, Any]:
    active, switches = 0, 0
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            if nvml.nvmlDeviceGetNvLinkState(handle, link) != nvml.NVML_FEATURE_ENABLED:
                continue
            active += 1
            switches += nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link) == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH
        except nvml.NVMLError:
            continue
    mhz = nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM)
    # Data moves on both edges of the clock.
    bytes_s = 2 * mhz * 1e6 * nvml.nvmlDeviceGetMemoryBusWidth(handle) / 8
    return {"links": active, "has_switch": bool(switches), "memory_bytes_s": bytes_s}


def text(seen: Seen) -> str:
    """The draft as TOML. Rates of 0 are refused until somebody writes those of the datasheet."""
    model = seen.names[0].removeprefix("NVIDIA ").split(" ")[0]
    ranks = [size for size in (2, 4, 8) if size <= len(seen.names)] or [2]
    kind = "NVLink" if seen.links else "PCIe" if seen.has_peer_access else "none"
    topology = "NVSwitch" if seen.has_switch else "pairs" if seen.links else "PCIe"
    pairs = [
        f"# GPU {a} and {b}: {kind if seen.peers[a][b] else 'no peer access'}"
        for a in range(len(seen.names))
        for b in range(a + 1, len(seen.names))
    ] or ["# One GPU shows no links: world_sizes, kind, topology and peer_access are guesses. Correct them."]
    lines = [
        f"# Drafted on {len(seen.names)} x {seen.names[0]}. Fill in every 0 from the datasheet, dense and per GPU, and",
        f"# name it in `source`. Then put the file into the folder PKB_MACHINES; {FOLDER.name}/ has examples.",
        f'model = "{model}"',
        f'driver_name = "{seen.names[0]}"',
        f'capability = "{seen.capability}"',
        f"sms = {seen.sms}",
        f"world_sizes = {ranks}",
        'tried = ""',
        "",
        "[peaks]",
        *(f"{name}_flops = 0" for name in ("bf16", "fp8", "fp32", "fp64")),
        f"memory_bytes_s = {seen.memory_bytes_s:.4g}  # the driver's clock times the bus",
        f"wire_bytes_s = 0  # one way into a GPU by {seen.links} NVLinks; datasheets give the sum of both ways",
        'source = ""',
        f"l2_bytes = {seen.l2_bytes}",
        'l2_source = "the driver (torch.cuda.get_device_properties)"',
        "",
        "[links]",
        f'kind = "{kind}"',
        f'topology = "{topology}"',
        f"multicast = {str(seen.has_switch and float(seen.capability) >= 9).lower()}",
        f"peer_access = {str(seen.has_peer_access).lower()}",
        *pairs,
    ]
    return "\n".join(lines) + "\n"
