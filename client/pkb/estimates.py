"""correct@k and fast_p of samples that are not on a site, by the site's own formulas.

The estimator is that of Chen et al. 2021 (arXiv 2107.03374, equation 1), the interval Wilson's of 1927 at 95 % over
problems: it says how much a figure would move with other problems of the same kind.
"""

import math
from collections.abc import Mapping, Sequence

from .results import Estimate

_Z = 1.959963984540054


def estimate(outcomes: Mapping[str, Sequence[bool]], *, k: int) -> Estimate:
    """The chance that one of k samples succeeds, as the mean over problems, from each problem's samples.

    A problem with fewer than k samples is counted as if the missing ones had failed.
    """
    chances = []
    for found in outcomes.values():
        samples, won = max(len(found), k), sum(found)
        misses = math.prod(1 - k / drawn for drawn in range(samples - won + 1, samples + 1))
        chances.append(1.0 if samples - won < k else 1 - misses)
    count = len(chances)
    mean = min(1.0, math.fsum(chances) / count) if count else 0.0
    if not count:
        return Estimate(k=k, value=0.0, low=0.0, high=1.0)
    weight = _Z * _Z / count
    centre = (mean + weight / 2) / (1 + weight)
    half = _Z / (1 + weight) * math.sqrt(mean * (1 - mean) / count + weight / (4 * count))
    return Estimate(k=k, value=mean, low=max(0.0, min(mean, centre - half)), high=min(1.0, max(mean, centre + half)))
