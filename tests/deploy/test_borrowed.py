"""Machines that are borrowed for a time: the batch script drains its node, and manifests are what Kubernetes takes."""

import re
import signal
import subprocess
import sys

import pytest
import yaml

from portal.submissions.models import State
from tests.portal.factories import bundle, evaluation_of, submit
from tests.portal.test_faults import SLOW_SOLUTION
from tests.stack import ROOT, wait_until

KUBERNETES = ROOT / "deploy" / "kubernetes"
SCRIPT = ROOT / "deploy" / "slurm" / "pkb-node.sbatch"


@pytest.fixture
def alice(db):
    from portal.accounts.models import User

    return User.objects.create_user("alice")


@pytest.mark.production
@pytest.mark.slow
def test_a_borrowed_machine_ends_its_work_and_itself_before_its_time_is_up(stack, alice, tmp_path):
    stack.start_web()
    stack.start_dispatcher()
    key = stack.manage("node_add", "borrowed").split("PKB_NODE_KEY=")[1].split()[0]
    secrets = tmp_path / "node.env"
    secrets.write_text(f"PKB_NODE_NAME=borrowed\nPKB_NODE_KEY={key}\nPKB_NODE_PROFILES=cpux2\n")
    environment = stack.environment | {
        "PKB_NODE_ENV": str(secrets), "PKB_ROOT": str(ROOT), "PKB_PYTHON": sys.executable, "HOME": str(tmp_path),
    }  # fmt: skip
    refused = subprocess.run([SCRIPT], env=environment, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert f"chmod 600 {secrets}" in refused.stderr

    secrets.chmod(0o600)
    log = (tmp_path / "job.log").open("wb")
    job = subprocess.Popen([SCRIPT], env=environment, stdout=log, stderr=log)
    try:
        evaluation = evaluation_of(submit(alice, files=bundle(SLOW_SOLUTION)))
        told = (tmp_path / "job.log").read_text
        wait_until(lambda: _state(evaluation) == State.RUNNING, what=f"work\n{told()}", seconds=120)
        job.send_signal(signal.SIGUSR2)
        wait_until(lambda: "draining" in told(), what="the node drains")
        late = evaluation_of(submit(alice, files=bundle(f"{SLOW_SOLUTION}\n# late\n")))
        assert job.wait(180) == 0, told()
    finally:
        if job.poll() is None:
            job.terminate()
            job.wait(30)
    wait_until(lambda: _state(evaluation) == State.FINISHED, what=f"a verdict\n{told()}")
    assert (evaluation.verdict, evaluation.attempt) == ("PASSED", 1)
    assert (_state(late), late.attempt) == (State.QUEUED, 1)


def _state(evaluation):
    evaluation.refresh_from_db()
    return evaluation.state


def manifests():
    return [document for path in sorted(KUBERNETES.glob("*.yaml")) for document in yaml.safe_load_all(path.read_text())]


def the(kind, name):
    [found] = [each for each in manifests() if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def test_manifests_are_what_kubernetes_takes_and_a_wrong_field_is_found(tmp_path):
    done = subprocess.run([sys.executable, KUBERNETES / "check.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in ("check.py", "site.yaml"):
        (tmp_path / name).write_text((KUBERNETES / name).read_text().replace("replicas: 2", "replicaCount: 2"))
    done = subprocess.run([sys.executable, tmp_path / "check.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Deployment web" in done.stderr


def test_keda_scales_the_nodes_by_a_metric_that_there_is():
    scaled, nodes = the("ScaledObject", "gpu-h200x8")["spec"], the("StatefulSet", "gpu-h200x8")
    assert scaled["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "gpu-h200x8"}
    [trigger] = scaled["triggers"]
    assert all(isinstance(value, str) for value in trigger["metadata"].values())
    profile = nodes["spec"]["template"]["metadata"]["labels"]["profile"]
    assert f'pkb_queue_depth{{profile="{profile}"}}' in trigger["metadata"]["query"]


def test_a_node_in_kubernetes_gets_no_secret_of_the_site():
    [container] = the("StatefulSet", "gpu-h200x8")["spec"]["template"]["spec"]["containers"]
    assert "envFrom" not in container
    assert not any("secret" in str(entry).lower() for entry in container["env"])
    [mount] = [each for each in container["volumeMounts"] if each["name"] == "nodes"]
    # Its own file of the secret, not those of the other nodes.
    assert mount["subPathExpr"] == "$(POD_NAME).env"


def test_every_variable_in_the_manifests_is_one_that_is_read():
    known = set(re.findall(r"^#?(PKB_\w+)=", (ROOT / "deploy" / "env.example").read_text(), re.MULTILINE))
    named = {name for path in KUBERNETES.glob("*.yaml") for name in re.findall(r"\bPKB_[A-Z_]+", path.read_text())}
    assert named - known == set()


def test_applying_the_manifests_again_leaves_the_number_of_nodes_to_keda():
    assert "replicas" not in the("StatefulSet", "gpu-h200x8")["spec"]


def test_what_a_node_reaches_in_the_namespace_lets_nodes_in():
    broker_rule = the("NetworkPolicy", "broker-for-site-and-nodes")["spec"]["podSelector"]["matchLabels"]
    reached = {
        target["podSelector"]["matchLabels"]["app"]
        for rule in the("NetworkPolicy", "nodes-reach-broker-and-site")["spec"]["egress"]
        for target in rule["to"]
        if "podSelector" in target
    }
    assert reached == set(broker_rule.values()) == {"broker"}
