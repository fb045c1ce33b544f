"""Compiling Triton submissions without a GPU, by the real builder in its sandbox."""

import shutil

import pytest

from evaluator.contract import Backend, EvaluationRequest, Mode, Primitive, SourceBundle, SourceFile
from evaluator.hardware import profiles
from evaluator.host.building.builder import Builder
from evaluator.host.building.what_to_build import placeholders
from evaluator.host.sandbox import bubblewrap, doctor
from evaluator.host.settings import JudgeSettings
from evaluator.judging import primitives
from problems import registry
from tests.evaluator.test_builder import submission

PROFILE = "h200x2-nomc"


def test_stand_ins_have_the_shapes_of_the_size():
    assert placeholders(registry.get("allgather"), "base", world_size=8, dtype="bfloat16") == [
        {"shape": [1024, 1024], "dtype": "bfloat16"}
    ]


def test_a_problem_whose_inputs_decide_a_shape_has_no_stand_ins():
    assert placeholders(registry.get("moe_all2all_primitive"), "base", world_size=8, dtype="bfloat16") is None


@pytest.fixture
def build(tmp_path):
    pytest.importorskip("triton", reason="Triton is not installed here: it comes with a GPU node's torch")
    if shutil.which("bwrap") is None:
        pytest.skip("no bubblewrap on this machine")
    settings, profile = JudgeSettings(profile=PROFILE, work_dir=tmp_path), profiles.get(PROFILE)
    private = tmp_path / "survey"
    private.mkdir()
    bubblewrap.write_private(private)
    confinement = doctor.resolve(profile, settings, private=private)

    def build(text):
        request = EvaluationRequest(
            evaluation_id="e1", problem="allgather", revision="r", backend=Backend.TRITON, profile=PROFILE,
            mode=Mode.RANKED, source=SourceBundle(files=(SourceFile(path="solution.py", text=text),)),
        )  # fmt: skip
        return Builder(settings).build(request, workdir=tmp_path, sandbox=confinement)

    return build


def test_the_kernels_of_every_rank_are_compiled_and_kept(build):
    text = submission("gpu_allgather_triton")
    built = build(text)
    cubins = [name for name in built.result.artefacts if name.endswith("/gather.cubin")]
    # The rank is a constant of the kernel, so two ranks need two; base and large differ in divisibility at most.
    assert len(cubins) >= 2, built.result.log
    assert "rank 1: large: compiled gather" in built.result.log
    assert Primitive.SM_LOAD_STORE in primitives.names(built.primitives)
    assert build(text).result.cached


def test_a_program_that_cannot_be_traced_is_left_to_its_first_call(build):
    text = submission("gpu_allgather_triton").replace(
        "    state = exchange", "    if tensor.sum().item() > 0:\n        raise ValueError('odd')\n    state = exchange"
    )
    built = build(text)
    assert built.result.succeeded
    assert not built.findings
    assert "could not be traced to its end" in built.result.log
