"""The regime in which values of one rank are larger than all others. No torch."""

from dataclasses import replace

from problems.spec.ranges import Among
from problems.spec.schema import Regime


def also_larger(regime: Regime) -> Regime:
    """`regime`; where only one rank has values, the others may have some, too, which are 2^20 times smaller."""
    if regime.settings.get("values") != "one_rank":
        return regime
    words = regime.words.replace(
        "zero on every rank but one", "zero on every rank but one, or 2^20 times smaller there"
    )
    return replace(regime, words=words, settings={**regime.settings, "others": Among(options=("zero", "smaller"))})
