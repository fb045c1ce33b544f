"""Are the manifests what Kubernetes takes? `python deploy/kubernetes/check.py`, without a network or a cluster.

Kinds of Kubernetes are compared with the schemas that the package kubernetes-validate carries, unknown fields refused.
Kinds of others (KEDA) have no schema here: tests look at what ours relies on.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

VERSION = "1.33"
FOREIGN = ("keda.sh/",)


def documents() -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every document of every manifest, by file."""
    for path in sorted(Path(__file__).parent.glob("*.yaml")):
        yield from ((path, document) for document in yaml.safe_load_all(path.read_text()) if document)


def main() -> int:
    """Check all; returns 1 after naming what is wrong."""
    failed = 0
    for path, document in documents():
        name = f"{path.name}: {document['kind']} {document['metadata']['name']}"
        if document["apiVersion"].startswith(FOREIGN):
            sys.stdout.write(f"{name}: no schema, not compared\n")
            continue
        try:
            kubernetes_validate.validate(document, VERSION, strict=True)
        except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
            failed += 1
            sys.stderr.write(f"{name}: {'.'.join(map(str, getattr(error, 'path', ())))}: {error.message}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
