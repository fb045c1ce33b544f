"""Programs that others have published, judged here for correctness by two rules: the published one and ours.

`problems/data/published/programs.json` has a verdict by each rule, the digest of each program, and no text of any.
`tools/gpu/corpus.py --record` writes it.
"""

from functools import cache
from typing import Any

import msgspec

from portal.ranking import published

NOT_JUDGED = "not judged"
KINDS = ("correct", "wrong", "forbidden", NOT_JUDGED)


@cache
def verdicts() -> dict[str, Any]:
    """What ships: the runs that programs were `judged_on`, and `sets`: one model's programs, at most one per problem.

    A set's `left_out` names those that could not be judged, and why. `ours` and `published` of a program are what a
    rule says of it (one of KINDS, the judge's verdict, its first sentence, and which run), None where it has not met
    that rule. `difference` says why the two differ, `note` what an expert has to know before reading them.

    Added here are the `verdicts` of each run, and of each set the programs `waiting` for both rules, those `correct` by
    both, and all `others`. `counts` has of each kind how many programs there are by the published rule, and by ours.
    `published_count` is how many problems of 87 its authors call solved with one sample, None where they say nothing of
    the set. `differing` has all programs on which the rules differ, with their sets.
    """
    found = msgspec.json.decode((published.FOLDER / "programs.json").read_bytes())
    results = published.figures()["results"]
    for one in found["sets"]:
        programs, model = one["programs"], one["model"].removesuffix(" (preview)")
        theirs, ours = (
            [each[rule]["kind"] if each[rule] else NOT_JUDGED for each in programs] for rule in ("published", "ours")
        )
        one["waiting"] = [each for each in programs if not each["ours"] and not each["published"]]
        kinds = zip(programs, theirs, ours, strict=True)
        one["correct"] = [each for each, *of_both in kinds if of_both == ["correct", "correct"]]
        one["others"] = [each for each in programs if each not in one["waiting"] + one["correct"]]
        one["counts"] = [(kind, theirs.count(kind), ours.count(kind)) for kind in KINDS]
        one["published_count"] = results.of(model, published.TOTAL)["pass@1"] if one["asked_for"] == "cuda" else None
    rulings = [each[rule] for one in found["sets"] for each in one["programs"] for rule in ("ours", "published")]
    for number, run in enumerate(found["judged_on"]):
        run["verdicts"] = sum(ruling is not None and ruling["run"] == number for ruling in rulings)
    found["differing"] = [
        (one, each)
        for one in found["sets"]
        for each in one["others"]
        if each["ours"] and each["published"] and each["ours"]["kind"] != each["published"]["kind"]
    ]
    return found  # type: ignore[no-any-return]  # JSON
