"""What is refused from the text alone, and what must not be."""

import pytest

from evaluator.contract import Backend, Mode, SourceBundle, SourceFile, Verdict
from evaluator.hardware import profiles
from evaluator.judging.source_rules import MAX_BYTES, check_source
from problems import registry

OPENING = "import torch\nimport torch.distributed as dist\n"


def check(text, *, slug="allreduce", backend=Backend.PYTORCH, profile="cpux2", mode=Mode.RANKED, more=()):
    files = (SourceFile(path="solution.py", text=text), *(SourceFile(path=path, text=body) for path, body in more))
    found = check_source(
        registry.get(slug), SourceBundle(files=files), backend=backend, profile=profiles.get(profile), mode=mode
    )
    return [(finding.verdict, finding.line) for finding in found]


@pytest.mark.parametrize(
    "text",
    [
        "def solution(tensor):\n    return tensor\n",
        "def solution(tensor, scratch=None):\n    return tensor\n",
        "def solution(*arguments):\n    return arguments[0]\n",
        "def solution(tensor, *, chunks=4):\n    return tensor\n",
        "from helpers import solution\n",
        "solution = make()\n",
        "if True:\n    def solution(tensor):\n        return tensor\n",
        "def solution(a, b):\n    return a\nsolution = wrap(solution)\n",
    ],
)
def test_an_entry_point_that_takes_the_arguments_is_accepted(text):
    assert check(text) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x = 1\n", None),
        ("class A:\n    def solution(self, tensor): ...\n", None),
        ("def outer():\n    def solution(tensor): ...\n", None),
        ("def solution():\n    return 1\n", 1),
        ("\ndef solution(x):\n    return x\n", 2),
        ("def solution(tensor, other):\n    return tensor\n", 1),
        ("def solution(tensor, *, chunks):\n    return tensor\n", 1),
        ("async def solution(tensor):\n    return tensor\n", 1),
        ("def solution(tensor:\n", 1),
        ("def solution(tensor):\nreturn tensor\n", 2),
        ("x = '\0'\n", 1),
    ],
)
def test_a_missing_or_wrong_entry_point_is_named_with_its_line(text, line):
    assert check(text) in ([(Verdict.IMPORT_ERROR, line)], [(Verdict.IMPORT_ERROR, None)])


def test_a_deeply_nested_file_is_refused_not_crashed_on():
    assert [verdict for verdict, _ in check("(" * 50_000)] == [Verdict.IMPORT_ERROR]


def test_a_syntax_error_in_a_second_file_is_found():
    found = check("def solution(tensor):\n    return tensor\n", more=[("helper.py", "def broken(:\n")])
    assert found == [(Verdict.IMPORT_ERROR, 1)]


def test_the_size_limit_counts_all_files():
    body = "# " + "x" * (MAX_BYTES // 2) + "\n"
    found = check("def solution(tensor):\n    return tensor\n" + body, more=[("more.py", body)])
    assert found == [(Verdict.LIMIT_EXCEEDED, None)]


def test_a_size_that_the_profile_has_no_room_for_is_unsupported():
    slug = "gnn_sparse_feature_fetch_projection"
    text = "def solution(local_embedding_shard, input_node_ids, proj_matrix, num_total_nodes, group=None): ...\n"
    assert check(text, slug=slug, profile="h200x2-nomc") == [(Verdict.UNSUPPORTED, None)]
    assert check(text, slug=slug, profile="h200x4-nomc") == check(text, slug=slug, profile="cpux2") == []


def test_a_backend_that_the_profile_cannot_judge_is_unsupported():
    assert check("def solution(tensor):\n    return tensor\n", backend=Backend.CUDA) == [(Verdict.UNSUPPORTED, None)]


def test_multicast_is_unsupported_where_it_is_off_and_comments_do_not_count():
    used = 'SRC = """\nasm("multimem.ld_reduce");\n"""\ndef solution(tensor):\n    return tensor\n'
    commented = 'SRC = """\n// no multimem here\n"""\n# multimem\ndef solution(tensor):\n    return tensor\n'
    assert check(used, backend=Backend.CUDA, profile="h200x8-nomc") == [(Verdict.UNSUPPORTED, 2)]
    assert check(used, backend=Backend.CUDA, profile="h200x8") == []
    by_nccl = used.replace("multimem.ld_reduce", "ncclGetLsaMultimemPointer")
    assert check(by_nccl, backend=Backend.NCCL_DEVICE, profile="h200x8-nomc") == [(Verdict.UNSUPPORTED, 2)]
    assert check(commented, backend=Backend.CUDA, profile="h200x8-nomc") == []


def test_library_collectives_inside_solution_are_forbidden_outside_backend_pytorch():
    text = OPENING + "def solution(tensor):\n    dist.all_reduce(tensor)\n    return tensor\n"
    assert check(text, backend=Backend.CUDA, profile="h200x8") == [(Verdict.FORBIDDEN, 4)]
    assert check(text, backend=Backend.PYTORCH, profile="h200x8") == []
    assert check(text, backend=Backend.CUDA, profile="h200x8", mode=Mode.CHECK) == []


def test_setting_up_with_objects_and_barriers_is_allowed():
    text = OPENING + "def solution(tensor):\n    dist.barrier()\n    dist.all_gather_object([], 1)\n    return tensor\n"
    assert check(text, backend=Backend.CUDA, profile="h200x8") == []


@pytest.mark.parametrize(
    "paths",
    [
        ("a.py", "a.py/b.py"),
        ("A.py", "a.py/b.py"),
        ("a.py", "A.PY"),
        ("x" * 253 + ".py",),
        ("\u00e9" * 120 + ".py",),
        ("\ud800.py",),
        ("../a.py",),
        ("/a.py",),
        ("a/./b.py",),
        ("",),
        ("a\x1b[31m.py",),
    ],
    ids=ascii,
)
def test_paths_that_cannot_be_written_side_by_side_are_refused_before_anything_is_written(paths):
    found = check("def solution(tensor):\n    return tensor\n", more=[(path, "") for path in paths])
    assert [verdict for verdict, _ in found] == [Verdict.LIMIT_EXCEEDED]


def test_folders_of_several_files_are_fine():
    assert (
        check("def solution(tensor):\n    return tensor\n", more=[("a/b.py", ""), ("a/c/d.cu", ""), ("ab.py", "")])
        == []
    )


def many_subsets():
    """A function that is called with every subset of its parameters, one after the other."""
    names = [f"p{number}" for number in range(24)]
    turned = ", ".join([*names[1:], names[0]])
    lines = [f"def follow({', '.join(names)}):", f"    follow({turned})"]
    lines += [f"    follow({', '.join('0' if skipped == name else name for name in names)})" for skipped in names]
    return "\n".join(
        [*lines, "def solution(tensor):", f"    follow({', '.join(['tensor'] * 24)})", "    return tensor"]
    )


DEEP = {
    "a sum of 1,500 terms": "def solution(tensor):\n    return " + " + ".join(["tensor"] * 1_500) + "\n",
    "1,500 levels at module level": "x = a" + ".a" * 1_500 + "\ndef solution(tensor):\n    return tensor\n",
    "1,500 branches": "if a:\n    pass\n"
    + "elif a:\n    pass\n" * 1_500
    + "def solution(tensor):\n    return tensor\n",
    "a chain of 900 calls": "def solution(tensor):\n    tensor" + ".add_(1)" * 900 + "\n    return tensor\n",
    "every subset of 24 names": many_subsets(),
    "names that hand on in the wrong order": "def solution(tensor):\n"
    + "".join(f"    a{number} = a{number + 1}\n" for number in range(8_000))
    + "    a8000 = tensor\n    return a0\n",
    "comments without an end": "S = '''" + "/*" * 200_000 + "'''\ndef solution(tensor):\n    return tensor\n",
    "blank lines": "\n" * 500_000 + "def solution(tensor):\n    return tensor\n",
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", DEEP)
def test_text_of_any_shape_is_read_in_time_that_grows_with_its_length(name):
    for backend in (Backend.PYTORCH, Backend.CUDA):
        assert check(DEEP[name], backend=backend, profile="h200x2-nomc") == []


def test_data_are_followed_through_names_in_any_order_and_deep_expressions():
    turns = "".join(f"    a{number} = a{number + 1}\n" for number in range(50))
    text = (
        OPENING
        + f"def move(a0):\n    dist.all_reduce(a0)\ndef solution(tensor):\n{turns}    a50 = tensor\n    move(a0)\n"
    )
    assert check(text, backend=Backend.CUDA, profile="h200x2-nomc") == [(Verdict.FORBIDDEN, 4)]
    deep = (
        OPENING + f"def move(x):\n    dist.send({'-' * 1_000}x, 0)\ndef solution(tensor):\n    move(x=[tensor, 1][0])\n"
    )
    assert check(deep, backend=Backend.CUDA, profile="h200x2-nomc") == [(Verdict.FORBIDDEN, 4)]
    fact = (
        OPENING
        + "def move(x):\n    dist.all_reduce(x)\ndef solution(tensor):\n    move(tensor.shape[0])\n    return tensor\n"
    )
    assert check(fact, backend=Backend.CUDA, profile="h200x2-nomc") == []


def test_a_source_with_more_parts_than_are_looked_at_is_over_a_limit():
    many = "x = [" + "0," * 200_000 + "]\ndef solution(tensor):\n    return tensor\n"
    assert [verdict for verdict, _ in check(many)] == [Verdict.LIMIT_EXCEEDED]
    nested = "def solution(tensor):\n"
    for depth in range(1, 90):
        nested += " " * depth + f"def f{depth}(x):\n"
    nested += " " * 90 + "return " + "+".join(["x"] * 1_500) + "\n"
    nested += "".join(" " * depth + f"f{depth}(tensor)\n" for depth in range(89, 0, -1))
    assert check(nested, backend=Backend.CUDA, profile="h200x2-nomc") == [(Verdict.LIMIT_EXCEEDED, None)]


@pytest.mark.parametrize(
    "cookie", ["utf-7", "raw_unicode_escape", "latin-1", "rot13", "no-such-coding", "utf8-sig", "utf_16"]
)
@pytest.mark.parametrize("before", ["", "\n", "#!/usr/bin/python\n", "\x0c \t\n"])
def test_a_cookie_that_says_anything_but_utf8_is_refused_in_every_file(cookie, before):
    text = f"{before}# -*- coding: {cookie} -*-\n"
    body = "def solution(tensor):\n    return tensor\n"
    assert check(text + body) == [(Verdict.IMPORT_ERROR, None)]
    assert check(body, more=[("helper.py", text)]) == [(Verdict.IMPORT_ERROR, None)]


@pytest.mark.parametrize("head", ["# coding: utf-8\n", "# vim: fileencoding=UTF8\n", "x = 1\n\n# coding: utf-7\n", ""])
def test_a_cookie_that_says_utf8_or_is_none_is_fine(head):
    assert check(head + "def solution(tensor):\n    return tensor\n") == []
