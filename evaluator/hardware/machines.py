"""Machines as data: one TOML file per kind of GPU machine, those beside this module and those of the installation."""

import os
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

FOLDER = Path(__file__).parent / "machines"

ADDED = "PKB_MACHINES"
"""The environment variable with a folder of further machine files; the same for site and nodes."""

_NAME = re.compile(r"[a-z][a-z0-9-]*[a-z0-9]")
_OURS = ("cpu", "gpu")

_Rate = Annotated[float, Meta(gt=0, le=1e30)]
_WorldSize = Annotated[int, Meta(ge=2, le=64)]


class MachineFileError(ValueError):
    """A machine file is wrong; the text names the file, the field and what to write."""


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a machine file."""


class Peaks(_Table, frozen=True, kw_only=True):
    """Ceilings of one GPU by the datasheet, dense, without sparsity.

    FLOP/s by arithmetic, bytes/s of its memory, bytes/s one way on its links, bytes of L2 cache. `source` names where
    the rates come from, and `l2_source` where the size of the L2 cache does.
    """

    bf16_flops: _Rate
    fp8_flops: _Rate
    fp32_flops: _Rate
    fp64_flops: _Rate
    memory_bytes_s: _Rate
    wire_bytes_s: _Rate
    l2_bytes: Annotated[int, Meta(gt=0)]
    source: str
    l2_source: str


class Links(_Table, frozen=True, kw_only=True):
    """How GPUs reach each other.

    `kind` and `topology` are words for people, such as "NVLink" and "NVSwitch". Without `peer_access` no GPU can
    address another's memory.
    """

    kind: str
    topology: str
    multicast: bool
    peer_access: bool = True


class Machine(_Table, frozen=True, kw_only=True):
    """A kind of machine.

    Attributes:
        model: how pages call the GPU.
        driver_name: a part of the name that the driver gives it; "" where that is the model.
        capability: its compute capability, such as "9.0".
        sms: its streaming multiprocessors; None where no source says it.
        world_sizes: for how many ranks there are profiles.
        tried: on what of it this judge ever ran, and when; "" for never.
    """

    model: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,29}$")]
    driver_name: str = ""
    capability: Annotated[str, Meta(pattern=r"^[1-9][0-9]?\.[0-9]$")]
    sms: Annotated[int, Meta(gt=0)] | None = None
    world_sizes: Annotated[tuple[_WorldSize, ...], Meta(min_length=1)]
    tried: str = ""
    peaks: Peaks
    links: Links

    def is_named(self, driver_name: str) -> bool:
        """Whether the driver's name of a GPU is one of this model."""
        return (self.driver_name or self.model) in driver_name


@cache
def machines() -> dict[str, Machine]:
    """Every machine by its name, which is that of its file.

    Raises:
        MachineFileError: a file, or the folder that PKB_MACHINES names, cannot be used.
    """
    found: dict[str, Machine] = {}
    for path in [*_files(FOLDER), *_added_files()]:
        name = path.stem
        if not _NAME.fullmatch(name) or name.startswith(_OURS):
            raise MachineFileError(
                f"{path}: the file's name becomes that of profiles; write small letters, digits and hyphens, and do "
                "not begin with cpu or gpu"
            )
        if name in found:
            raise MachineFileError(f"{path}: there is a machine {name} already; give the file another name")
        found[name] = read(path)
    # Those on which it has run come first: pages begin with the first one.
    return dict(sorted(found.items(), key=lambda item: not item[1].tried))


def read(path: Path) -> Machine:
    """The machine that a file describes; raises MachineFileError."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MachineFileError(f"{path}: cannot be read ({error.strerror}); let this user read it") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise MachineFileError(f"{path}: is not TOML: {error}") from error
    try:
        return msgspec.convert(table, Machine)
    except msgspec.ValidationError as error:
        raise MachineFileError(f"{path}: {_in_words(str(error))}") from error


def _in_words(said: str) -> str:
    """What msgspec says, with the field first and the remedy last."""
    what, _, where = said.partition(" - at ")
    table = where.strip("`").removeprefix("$").removeprefix(".")
    if missing := re.search(r"missing required field `(\w+)`", what):
        field = ".".join(filter(None, (table, missing[1])))
        return f"the field {field} is missing; add it, as the files in {FOLDER} have it"
    if unknown := re.search(r"contains unknown field `(\w+)`", what):
        field = ".".join(filter(None, (table, unknown[1])))
        return f"there is no field {field}; remove it, or write it as the files in {FOLDER} do"
    return f"the field {table or 'at the top'} is wrong: {what[:1].lower()}{what[1:]}; correct it"


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.toml"))


def _added_files() -> list[Path]:
    named = os.environ.get(ADDED, "").strip()
    if not named:
        return []
    if not Path(named).is_dir():
        raise MachineFileError(f"{ADDED}={named} is not a folder; make it, or remove the variable")
    return _files(Path(named))
