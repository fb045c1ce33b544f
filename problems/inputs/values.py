"""Where every value comes from: a secret key, the call, the rank and the name of the tensor.

Values are new for every call and different on every rank unless a generator says `shared=True`; whoever lacks
the key can neither predict a call nor regenerate a peer's share. The same key gives the same values on the same
kind of device (torch promises no equality between CPU and CUDA generators).
"""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch

from problems.spec.schema import Dims, Regime

Arguments = dict[str, Any]
"""A rank's arguments by parameter name, in signature order: tensors, numbers, None, groups, modules, lists."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of `solution` as one rank meets it: sizes, dtype, device, and the draws for its values.

    Attributes:
        key: the 32-byte secret of the evaluation.
        index: number of the call; every index gives new values.
        dtype: the run's dtype, for arguments that a card marks `input`.
        regime: how the call differs from the timed ones; None where it does not.
    """

    key: bytes
    index: int
    rank: int
    world_size: int
    dims: Dims
    dtype: torch.dtype
    device: torch.device
    regime: Regime | None = None

    def setting(self, name: str, usual: Any) -> Any:
        """What the call's regime says of `name`, and `usual` where it says nothing."""
        return usual if self.regime is None else self.regime.settings.get(name, usual)

    def at_rank(self, rank: int) -> Self:
        """The same call as `rank` meets it; the oracle regenerates peers' inputs with it."""
        return replace(self, rank=rank)

    def shape(self, symbols: Sequence[str | int]) -> tuple[int, ...]:
        """Dimension symbols (or integers) as numbers."""
        return tuple(self.dims[symbol] if isinstance(symbol, str) else symbol for symbol in symbols)

    def generator(self, name: str, *, shared: bool = False) -> torch.Generator:
        """A generator seeded for the tensor `name` of this call, equal on all ranks when `shared`.

        The 64-bit seed is the head of HMAC-SHA256(key, call / rank / name), the expand step of HKDF (RFC 5869).
        """
        who = "all" if shared else str(self.rank)
        seed = hmac.digest(self.key, f"{self.index}/{who}/{name}".encode(), hashlib.sha256)
        return torch.Generator(self.device).manual_seed(int.from_bytes(seed[:8], "little", signed=True))

    def normal(
        self,
        name: str,
        symbols: Sequence[str | int],
        *,
        mean: float = 0.0,
        std: float = 1.0,
        dtype: torch.dtype | None = None,
        shared: bool = False,
    ) -> torch.Tensor:
        """Normal values of shape `symbols`, drawn in float32 and rounded once to `dtype` (default: the run's)."""
        return self._normal(name, self.shape(symbols), mean=mean, std=std, shared=shared).to(dtype or self.dtype)

    def _normal(self, name: str, shape: tuple[int, ...], *, mean: float, std: float, shared: bool) -> torch.Tensor:
        empty = torch.empty(shape, dtype=torch.float32, device=self.device)
        return empty.normal_(mean, std, generator=self.generator(name, shared=shared))

    def scales(
        self, name: str, symbols: Sequence[str | int], *, spread: float = 1.25, shared: bool = False
    ) -> torch.Tensor:
        """Log-normal factors exp(spread * y), y standard normal, divided by their root mean square; float32."""
        return self._normal(name, self.shape(symbols), mean=-(spread**2), std=spread, shared=shared).exp_()

    def long_tailed(
        self,
        name: str,
        symbols: Sequence[str | int],
        *,
        std: float = 1.0,
        dtype: torch.dtype | None = None,
        shared: bool = False,
    ) -> torch.Tensor:
        """As `normal`, but each element has a log-normal scale of its own, as gradients have.

        The few large elements carry the sum, so a payload squeezed to 8 bits under one scale per row loses about
        four times what bfloat16 summation loses; with plain normal values the two are hardly apart.
        """
        scales = self.scales(f"{name} scales", symbols, shared=shared)
        draw = self._normal(name, self.shape(symbols), mean=0.0, std=std, shared=shared)
        # Contents of gigabytes are drawn many times: the product is rounded in the pass that makes it.
        return torch.mul(draw, scales, out=torch.empty_like(draw, dtype=dtype or self.dtype))

    def uniform(
        self,
        name: str,
        symbols: Sequence[str | int],
        *,
        low: float = 0.0,
        high: float = 1.0,
        dtype: torch.dtype | None = None,
        shared: bool = False,
    ) -> torch.Tensor:
        """Uniform values in [low, high) of shape `symbols`, drawn in float32 and rounded once to `dtype`."""
        empty = torch.empty(self.shape(symbols), dtype=torch.float32, device=self.device)
        return empty.uniform_(low, high, generator=self.generator(name, shared=shared)).to(dtype or self.dtype)

    def integers(
        self,
        name: str,
        symbols: Sequence[str | int],
        *,
        low: int,
        high: int,
        dtype: torch.dtype = torch.int64,
        shared: bool = False,
    ) -> torch.Tensor:
        """Integers in [low, high) of shape `symbols`."""
        generator = self.generator(name, shared=shared)
        return torch.randint(low, high, self.shape(symbols), generator=generator, device=self.device, dtype=dtype)

    def permutation(self, name: str, length: int, *, shared: bool = False) -> torch.Tensor:
        """A random permutation of 0..length-1 (int64)."""
        return torch.randperm(length, generator=self.generator(name, shared=shared), device=self.device)
