"""A rank's side of a timed call on a GPU: work queues behind a closed gate, inputs are sealed until it opens.

The host opens the gates of all ranks with one store each, and stores the key of the inputs with it. Before that, inputs
are encrypted under a keystream. The last work on the stream copies the outputs to the judge's memory, and writes their
fingerprint under the same key for the host. So the time from opening to fingerprint, on the host's clock, is the time
in which the outputs were computed, whatever code this process runs.
"""

import ctypes
import hashlib
import mmap
import struct
from collections.abc import Sequence
from typing import Any

import torch

from evaluator.arena import protocol
from evaluator.arena.device_memory import checked, cuda_driver
from evaluator.arena.fingerprint import is_plain_tensor
from evaluator.arena.gate_kernels import KEY_BYTES, TILE_BYTES, TILE_HASH_BYTES, Kernels, address, half_word, word
from evaluator.arena.structure import as_bytes

_LIMIT_NS = 10_000_000_000
"""A gate opens by itself after so long: a host that has died must not leave a GPU spin-waiting."""
_THREADS = 256
_BLOCKS_PER_PROCESSOR = 8
_NUMBER = struct.Struct("<Q")
_TOUCHED_EVERY = 64 * 1024
_SCRATCH_BYTES = 8 * 1024 * 1024
"""Enough for all kernels of a call to use every multiprocessor of a GPU."""
_DEVICE_MAP = 2  # CU_MEMHOSTREGISTER_DEVICEMAP

# Kept from before a submission is imported: a returned tensor may have methods of its own.
_detach, _is_pinned = torch.Tensor.detach, torch.Tensor.is_pinned


class Sealer:
    """Seals, unseals and fingerprints under a key in device memory; one per rank."""

    def __init__(self, device: torch.device, *, rank: int) -> None:
        """Compile the kernels; raises RuntimeError."""
        self._kernels = Kernels(device)
        self._rank = rank
        self._device = device
        self.key = torch.zeros(KEY_BYTES, dtype=torch.uint8, device=device)
        self._chain = torch.zeros(KEY_BYTES, dtype=torch.uint8, device=device)
        self._left = torch.zeros(1, dtype=torch.int32, device=device)
        self._tiles = torch.empty(TILE_HASH_BYTES, dtype=torch.uint8, device=device)
        self._own_words = torch.zeros(3, dtype=torch.int64, device=device)

    @property
    def kernels(self) -> Kernels:
        """The compiled kernels."""
        return self._kernels

    @property
    def chain(self) -> int:
        """The address of the running fingerprint of a call's outputs."""
        return self._chain.data_ptr()

    def use(self, key: bytes) -> None:
        """Use `key` from now on; behind a gate, the gate brings the key."""
        self.key.copy_(torch.frombuffer(bytearray(key), dtype=torch.uint8))
        self._chain.copy_(self.key)

    def seal(self, source: torch.Tensor, target: torch.Tensor, *, start: int) -> None:
        """Queue: write flat bytes `source` to `target` under the keystream from its byte `start`, a multiple of 64.

        Sealing twice unseals; `source` and `target` may be the same.
        """
        size = source.numel()
        if not size:
            return
        if source.data_ptr() % 16:
            source = source.clone()
        blocks = -(-size // 64)
        self._kernels.launch(
            "pkb_seal",
            address(source.data_ptr()),
            address(target.data_ptr()),
            word(size),
            word(start // 64),
            address(self.key.data_ptr()),
            half_word(self._rank),
            blocks=self._grid(-(-blocks // _THREADS)),
            threads=_THREADS,
        )

    def room_for(self, sizes: Sequence[int]) -> None:
        """Allocate scratch for fingerprinting outputs of so many bytes each, so that no call has to."""
        needed = TILE_HASH_BYTES * max([-(-size // TILE_BYTES) for size in sizes] or [1])
        if self._tiles.numel() < needed:
            self._tiles = torch.empty(needed, dtype=torch.uint8, device=self._device)

    def take(
        self, source: torch.Tensor, *, target: int, index: int, words: tuple[int, int] | None, number: int = 0
    ) -> None:
        """Queue: absorb flat bytes `source` as output number `index`, and copy them to the address `target` (0: not).

        With `words`, the addresses of the host's words for fingerprint and end, it is the call's last output: the
        fingerprint is written, and `number` as the end.
        """
        self.room_for([source.numel()])
        mark, done = words or (0, 0)
        self._kernels.launch(
            "pkb_take",
            address(source.data_ptr()),
            address(target),
            word(source.numel()),
            address(self.key.data_ptr()),
            half_word(self._rank),
            half_word(index),
            address(self._tiles.data_ptr()),
            address(self._left.data_ptr()),
            address(self.chain),
            half_word(int(words is not None)),
            address(mark),
            address(done),
            word(number),
            blocks=self._grid(-(-source.numel() // TILE_BYTES)),
            threads=_THREADS,
        )

    def mark_of(self, outputs: Sequence[torch.Tensor], key: bytes) -> str:
        """The fingerprint of a call's outputs under `key`, as the host's words show it; waits for the device."""
        self.use(key)
        at = self._own_words.data_ptr()
        on_device = [
            (index, flat_bytes(output)) for index, output in enumerate(outputs) if output.device.type == "cuda"
        ]
        on_device = on_device or [(0, torch.empty(0, dtype=torch.uint8, device=self._device))]
        for index, output in on_device:
            self.take(output, target=0, index=index, words=(at, at + 16) if index == on_device[-1][0] else None)
        low, high = (int(value) & (2**64 - 1) for value in self._own_words[:2].tolist())
        return protocol.mark_text(low, high, host_mark(outputs))

    def _grid(self, blocks: int) -> int:
        return max(1, min(blocks, _BLOCKS_PER_PROCESSOR * self._kernels.processors))


class Gate:
    """The gate of one rank, and the words with which it answers."""

    def __init__(self, page: mmap.mmap, *, sealer: Sealer, rank: int) -> None:
        """Let the device see the host's page; raises RuntimeError where the driver refuses."""
        self._page = page
        self._sealer = sealer
        self._rank = rank
        # Kept while the page is registered, so that the mapping stays at its address.
        self._anchor = (ctypes.c_char * protocol.CLOCK_PAGE_BYTES).from_buffer(page)
        base = ctypes.addressof(self._anchor)
        checked(cuda_driver().cuMemHostRegister(base, protocol.CLOCK_PAGE_BYTES, _DEVICE_MAP))
        self._at = int(checked(cuda_driver().cuMemHostGetDevicePointer(base, 0)))
        self._nothing = torch.empty(0, dtype=torch.uint8, device=sealer.key.device)
        self._scratch = torch.zeros(_SCRATCH_BYTES, dtype=torch.uint8, device=sealer.key.device)
        self._host_mark = protocol.HOST_MARK_WORDS + 16 * rank

    def close_behind(self, number: int) -> None:
        """Queue the gate of call `number`: what follows on the stream waits until the host opens it."""
        self._sealer.kernels.launch(
            "pkb_gate",
            address(self._at + protocol.OPEN_WORDS + 8 * self._rank),
            address(self._at + protocol.ARRIVED_WORDS + 8 * self._rank),
            address(self._at + protocol.KEY_START),
            word(number),
            word(_LIMIT_NS),
            address(self._sealer.key.data_ptr()),
            address(self._sealer.chain),
            blocks=1,
            threads=1,
        )

    def touch(self, *areas: torch.Tensor) -> None:
        """Queue: touch every page of flat bytes, and run the judge's kernels on every multiprocessor.

        Another process may have used the device since the last call. First accesses then take microseconds longer,
        which would differ between the programs.
        """
        self._sealer.seal(self._scratch, self._scratch, start=0)
        self._sealer.take(self._scratch, target=0, index=0, words=None)
        for area in areas:
            pages = -(-area.numel() // _TOUCHED_EVERY)
            if pages:
                self._sealer.kernels.launch(
                    "pkb_touch",
                    address(area.data_ptr()),
                    word(area.numel()),
                    word(_TOUCHED_EVERY),
                    address(self._sealer.chain),
                    blocks=-(-pages // _THREADS),
                    threads=_THREADS,
                )

    def unseal(self, region: torch.Tensor) -> None:
        """Queue: make the flat bytes `region` readable in place."""
        self._sealer.seal(region, region, start=0)

    def finish(self, outputs: Sequence[Any], *, targets: Sequence[int], number: int) -> None:
        """Queue: copy every plain tensor on the device to its address (0: not), and post the end of the call.

        This process writes the fingerprint of outputs on the host itself. In pinned memory they may come by a copy that
        is still queued, as sources of problems return them: then it waits for the stream first, which counts.
        """
        if any(is_plain_tensor(output) and _is_pinned(output) for output in outputs):
            torch.cuda.current_stream().synchronize()
        self._page[self._host_mark : self._host_mark + 16] = host_mark(outputs)
        on_device = [
            (index, flat_bytes(output), target)
            for index, (output, target) in enumerate(zip(outputs, targets, strict=True))
            if is_plain_tensor(output) and output.device.type == "cuda"
        ] or [(0, self._nothing, 0)]
        end = (
            self._at + protocol.MARK_WORDS + 16 * self._rank,
            self._at + protocol.DONE_WORDS + 8 * self._rank,
        )
        for index, raw, target in on_device:
            is_last = index == on_device[-1][0]
            self._sealer.take(raw, target=target, index=index, words=end if is_last else None, number=number)

    def say_queued(self, number: int) -> None:
        """Post that everything of call `number` has been queued."""
        _NUMBER.pack_into(self._page, protocol.QUEUED_WORDS + 8 * self._rank, number)


def flat_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The elements of a plain tensor in row-major order as flat bytes; a copy where they are not contiguous."""
    plain = _detach(tensor).resolve_conj().resolve_neg().contiguous()
    raw = as_bytes(plain)
    return raw.clone() if raw.data_ptr() % 16 else raw


def host_mark(outputs: Sequence[Any]) -> bytes:
    """The fingerprint of the outputs that lie in the host's memory, 16 bytes; zeros where there are none."""
    own = [
        (index, flat_bytes(output))
        for index, output in enumerate(outputs)
        if is_plain_tensor(output) and output.device.type == "cpu"
    ]
    if not own:
        return bytes(16)
    digest = hashlib.blake2b(digest_size=16)
    for index, raw in own:
        digest.update(_NUMBER.pack(index) + ctypes.string_at(raw.data_ptr(), raw.numel()))
    return digest.digest()
