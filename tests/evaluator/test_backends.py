"""What a backend needs of a node: the missing piece by name, nothing where all is there."""

import pytest

from evaluator.contract import Backend, SourceBundle, SourceFile, Verdict
from evaluator.host.machine.backends import Node, missing


def bundle(text: str = "x = 1\n", *, path: str = "solution.py") -> SourceBundle:
    return SourceBundle(files=(SourceFile(path=path, text=text),))


@pytest.fixture
def node(tmp_path):
    return Node(packages=tmp_path / "packages", rdma=tmp_path / "infiniband")


def add(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


@pytest.mark.parametrize(
    ("backend", "piece"),
    [
        (Backend.NVSHMEM, "nvidia/nvshmem/include/nvshmem.h"),
        (Backend.NCCL_DEVICE, "nvidia/nccl/include/nccl_device.h"),
    ],
)
def test_the_missing_piece_is_named_and_nothing_is_said_once_it_is_there(node, backend, piece):
    (finding,) = missing(bundle(), backend=backend, node=node)
    assert finding.verdict is Verdict.UNSUPPORTED
    assert piece in finding.message
    add(node.packages / piece)
    assert missing(bundle(), backend=backend, node=node) == ()


@pytest.mark.parametrize("backend", [Backend.PYTORCH, Backend.CUDA, Backend.TRITON])
def test_plain_backends_need_nothing(node, backend):
    assert missing(bundle("ncclGin gin;"), backend=backend, node=node) == ()


def test_gin_needs_a_network_card(node):
    add(node.packages / "nvidia/nccl/include/nccl_device.h")
    asked = bundle("A = r'''\nncclGin gin{comm, 0};\n'''\n")
    (finding,) = missing(asked, backend=Backend.NCCL_DEVICE, node=node)
    assert (finding.verdict, finding.line) == (Verdict.UNSUPPORTED, 2)
    assert "RDMA" in finding.message
    add(node.rdma / "mlx5_0")
    assert missing(asked, backend=Backend.NCCL_DEVICE, node=node) == ()
