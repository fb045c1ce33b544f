"""Short headers in front of torch's: what a source gets besides them, and when torch's own are used instead."""

import importlib.util
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
import torch

from evaluator.arena.compat.utils import cuda_build, short_headers
from evaluator.arena.compat.utils.cuda_build import BuildError, Extension

TORCH = Path(torch.__file__).parent / "include"
EXTENSION = "#include <torch/extension.h>\n"

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on this machine")
needs_gcc = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")


def includes(source: str) -> list[str]:
    lines = short_headers.includes_for(EXTENSION + source, torch_headers=TORCH).splitlines()
    return [line.removeprefix("#include <").removesuffix(">") for line in lines]


def test_a_source_of_tensors_and_bindings_includes_nothing_more():
    source = (
        "torch::Tensor f(torch::Tensor x) { return x.sum().contiguous(); }\nint g(int a) { return std::max(a, 1); }"
    )
    assert includes(source) == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("auto y = at::matmul(a, b);", ["ATen/ops/matmul.h"]),
        ("auto y = torch :: relu(a);", ["ATen/ops/relu.h"]),
        ("namespace t = torch; auto y = t::relu(a);", ["ATen/ops/relu.h"]),
        ("using namespace at; auto y = relu(a);", ["ATen/ops/relu.h"]),
        ("TORCH_LIBRARY(mine, m) {}", ["torch/library.h"]),
    ],
)
def test_what_a_source_names_is_included(source, expected):
    assert set(expected) <= set(includes(source))


@pytest.mark.parametrize(
    "name", ["torch::empty", "at::empty", "torch::zeros_like", "torch::from_blob", "torch::tensor"]
)
def test_a_factory_comes_with_the_one_of_torch_that_hides_it(name):
    assert "torch/csrc/autograd/generated/variable_factories.h" in includes(f"auto y = {name}(a);")


@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
def test_an_operator_with_overloads_in_two_headers_is_left_to_torchs_own(name):
    assert includes(f"auto y = at::{name}(x, 0);") == []


def test_only_sources_that_include_one_of_the_headers_are_helped():
    assert short_headers.help_with('# include "torch/types.h"\n')
    assert not short_headers.help_with("#include <pybind11/pybind11.h>\n// torch/extension.h\n")


@needs_gcc
@pytest.mark.timeout(300)
def test_the_short_headers_convert_whatever_torchs_own_convert(tmp_path):
    """A missing converter would compile, and fail in the first call."""
    (tmp_path / short_headers.NAMED).touch()
    short = _headers(tmp_path, first=(short_headers.FOLDER, tmp_path))
    missing = _headers(tmp_path) - short
    assert len(missing) > 1000, "they are short"
    assert [path for path in missing if "type_caster<" in Path(path).read_text(errors="replace")] == []


@needs_gcc
@pytest.mark.timeout(300)
def test_the_short_headers_declare_no_operator_that_was_not_named(tmp_path):
    """A factory of at:: without the one of torch:: would be taken for it."""
    (tmp_path / short_headers.NAMED).touch()
    found = _headers(tmp_path, first=(short_headers.FOLDER, tmp_path))
    operators = [path for path in found if "/ATen/ops/" in path and not path.endswith("_ops.h")]
    assert operators == []


@needs_gcc
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("call", "compiles"), [("x.var(0)", True), ("at::var(x, 0)", False)])
def test_an_operator_of_two_headers_does_not_compile_with_one_of_them(tmp_path, call, compiles):
    source = f"#include <torch/types.h>\ntorch::Tensor f(const torch::Tensor& x) {{ return {call}; }}\n"
    (tmp_path / short_headers.NAMED).write_text(short_headers.includes_for(source, torch_headers=TORCH))
    (tmp_path / "x.cpp").write_text(source)
    options = _options((short_headers.FOLDER, tmp_path))
    done = subprocess.run(
        ["g++", "-std=c++17", "-fsyntax-only", *options, "x.cpp"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0) is compiles, done.stderr
    assert compiles or "'var' is not a member of 'at'" in done.stderr.replace("\u2018", "'").replace("\u2019", "'")


def _headers(folder: Path, *, first: tuple[Path, ...] = ()) -> set[str]:
    """Every header that torch/extension.h brings."""
    (folder / "x.cpp").write_text(EXTENSION)
    line = ["g++", "-std=c++17", "-M", *_options(first), "x.cpp"]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=True)
    return set(done.stdout.replace("\\\n", " ").split())


def _options(first: tuple[Path, ...]) -> list[str]:
    paths = [*first, TORCH, TORCH / "torch/csrc/api/include", sysconfig.get_path("include")]
    return [part for path in paths for part in ("-isystem", str(path))]


FACTORIES = (
    EXTENSION
    + """
torch::Tensor twice(const torch::Tensor& x, std::optional<torch::Tensor> y, torch::ScalarType dtype) {
    TORCH_CHECK(x.dim() == 1, "one side, not ", x.dim());
    return (y ? *y : x).to(dtype).mul(2);
}
torch::Tensor leaf(int64_t n) { return torch::ones({n}, torch::dtype(torch::kFloat64).requires_grad(true)); }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("twice", &twice); m.def("leaf", &leaf); }
"""
)


def built(name: str, source: str, root: Path):
    said: list[str] = []
    path = cuda_build.build(Extension(name=name, source=source), root=root, note=said.append)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, "\n".join(said)


@needs_nvcc
@pytest.mark.timeout(600)
@pytest.mark.slow
def test_a_module_of_tensors_is_built_with_the_short_headers_and_works(tmp_path):
    module, said = built("of_tensors", FACTORIES, tmp_path)
    assert str(short_headers.FOLDER) in said
    assert torch.equal(module.twice(torch.ones(3), None, torch.int32), torch.full((3,), 2, dtype=torch.int32))
    assert module.leaf(4).requires_grad
    with pytest.raises(RuntimeError, match="one side, not 2"):
        module.twice(torch.ones(2, 2), None, torch.int32)


TINY = """#if 0
#include <torch/extension.h>
#endif
#include <Python.h>
#if __has_include(<named_by_the_source.h>)
SHORT
#else
OWN
#endif
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "NAME", nullptr, -1, nullptr};
extern "C" __attribute__((visibility("default"))) PyObject* PyInit_NAME() { return PyModule_Create(&definition); }
"""
"""Compiles fast, and compiles something else with the short headers than with torch's own."""


def tiny(name: str, *, short: str, own: str) -> str:
    return TINY.replace("NAME", name).replace("SHORT", short).replace("OWN", own)


@needs_nvcc
@pytest.mark.timeout(600)
def test_what_does_not_compile_with_the_short_headers_is_compiled_with_torchs_own(tmp_path):
    _, said = built("falls_back", tiny("falls_back", short="#error needs more", own=""), tmp_path)
    assert str(short_headers.FOLDER) not in said
    assert "needs more" not in said


@needs_nvcc
@pytest.mark.timeout(600)
def test_what_compiles_with_the_short_headers_is_not_compiled_again(tmp_path):
    _, said = built("stays", tiny("stays", short="", own="#error needs less"), tmp_path)
    assert str(short_headers.FOLDER) in said


@needs_nvcc
@pytest.mark.timeout(600)
def test_an_error_is_the_one_that_torchs_own_headers_give(tmp_path):
    source = tiny("wrong", short="#error needs more", own="int f() { return no_such_name; }")
    with pytest.raises(BuildError) as refused:
        cuda_build.build(Extension(name="wrong", source=source), root=tmp_path)
    assert str(short_headers.FOLDER) not in str(refused.value)
    assert 'wrong.cu(8): error: identifier "no_such_name" is undefined' in refused.value.output
    assert "needs more" not in refused.value.output


@needs_nvcc
@pytest.mark.timeout(600)
def test_a_function_of_torch_that_no_library_holds_is_noticed_before_the_module_is_loaded(tmp_path):
    """As if a short header declared what another header defines."""
    elsewhere = "namespace at { int elsewhere(int); }\nint f() { return at::elsewhere(1); }"
    _, said = built("declared", tiny("declared", short=elsewhere, own=""), tmp_path)
    assert str(short_headers.FOLDER) not in said
