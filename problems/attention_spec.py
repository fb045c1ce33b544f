"""What the problems on a causal attention layer split over ranks say alike. No torch."""

from problems.schema import Argument, ArgumentKind, Hop
from problems.taxonomy import Communication

SCALE_AND_CAUSAL = (
    Argument(
        name="softmax_scale",
        kind=ArgumentKind.REAL,
        dtype="float",
        values="None (then head size^-0.5) or a secret number near that; new on every call",
        replicated=True,
    ),
    Argument(name="causal", kind=ArgumentKind.BOOLEAN, dtype="bool", values="True", replicated=True),
)
RING_STEP = Hop(
    source="context rank c",
    target="context rank c + 1",
    payload="a block of keys and values, cp_size - 1 times",
    pattern=Communication.SEND_RECV,
)
