"""What an output is instead of the expected one is named; a program without a race is never told of one."""

from collections.abc import Iterator

import pytest

from problems import registry
from problems.harness.implementation import load
from problems.harness.ranks import Ranks
from tests.evaluator.wrong_programs import explained, trial

CAUSES = [
    ("allreduce", "allreduce:no_communication", "'out' is argument 'tensor' unchanged."),
    ("allreduce", "allreduce:maximum", "'out' is the maximum over ranks where their sum is wanted."),
    ("allreduce", "allreduce:product", "'out' is the product over ranks where their sum is wanted."),
    ("allreduce", "allreduce:half_reduced", "'out' is argument 'tensor' unchanged where it is wrong."),
    ("allreduce", "allreduce:transposed", "'out' is the transpose of the expected one."),
    ("allreduce", "mutant:own_times_world_size", "'out' is this rank's own share times 4: nothing of other ranks"),
    ("allreduce", "mutant:average", "'out' is the expected one times 0.25, one over the world size: a mean"),
    ("allreduce", "generic:zeros", "'out' is zero."),
    ("allreduce", "generic:squeezed_int8", "is the expected one to about 5 bits: rounded to too few, or otherwise."),
    ("allgather", "mutant:own_everywhere", "'out' has its 4 parts along dimension 0 in the order 0, 0, 0, 0"),
    ("allgather", "mutant:rotated", "'out' has its 4 parts along dimension 0 in the order 3, 0, 1, 2."),
    ("broadcast", "mutant:half", "'out' is argument 'tensor' unchanged where it is wrong."),
    ("reducescatter", "mutant:next_block", "'out' is what rank 1 has to return."),
    ("layernorm_backward", "mutant:swapped", "'d_gamma' is what output 'd_beta' has to be."),
    ("layernorm_backward", "generic:last_rank_skipped", "sum over ranks 0, 1, 2 alone: the share of 3 is missing."),
    ("quantized_grad_allreduce", "mutant:summed", "times 4, the world size: a sum where a mean is wanted"),
    ("tp_rms_norm", "mutant:local_statistics", "is right if all ranks held what this rank holds: nothing of other"),
    ("tp_rms_norm", "generic:last_rank_skipped", "is right without the share of rank 3"),
    ("allgather_gemm", "mutant:reversed_shards", "takes the ranks' shares in the order 3, 2, 1, 0."),
    ("gemv_decode", "mutant:without_bias", "is the expected one plus a number of its own for every"),
]  # fmt: skip


@pytest.fixture(scope="module")
def four() -> Iterator[Ranks]:
    with Ranks(4) as ranks:
        yield ranks


@pytest.mark.parametrize(("slug", "program", "words"), CAUSES, ids=[f"{slug}-{name}" for slug, name, _ in CAUSES])
def test_cause_is_the_first_sentence(four: Ranks, slug: str, program: str, words: str) -> None:
    messages = [message for found in four.run(explained, trial(slug, program)) for _, message in found]
    assert words in messages[0].partition(" It has ")[0] + ".", messages[0]
    assert "race" not in " ".join(messages)


@pytest.mark.parametrize("problem", registry.problems(), ids=lambda problem: problem.slug)
def test_no_mutant_is_told_of_a_race(four: Ranks, problem: registry.Problem) -> None:
    if problem.refuses_world_size(4) is not None:
        pytest.skip("the problem has no four ranks")
    name = next(iter(load(problem.slug).mutants))
    found = [each for rank in four.run(explained, trial(problem.slug, f"mutant:{name}")) for each in rank]
    assert all(message.startswith(f"output '{output}' ") for output, message in found)
    assert not any("race" in message for _, message in found)
