"""docs/operating.md: it lists every secret and every metric, and what it says of the site's key is so."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from evaluator.node import metrics as of_nodes
from evaluator.node.settings import THE_RISK, Misconfigured, NodeSettings
from portal.accounts.models import User
from portal.core import metrics
from portal.core.live_links import Kind, Subject, address, subject_of
from portal.operations.metrics_page import StateOfTheSite

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "operating.md").read_text()
OF_NAMES = re.compile(r"^#?(PKB_\w+)=", re.MULTILINE)


def test_every_secret_of_an_installation_has_a_row_on_how_it_is_changed():
    variables = OF_NAMES.findall((ROOT / "deploy" / "env.example").read_text())
    secrets = {
        name
        for name in variables
        if re.search(r"PASSWORD|SECRET|_KEY\b|TOKEN|BROKER_ADMIN_URL|BROKER_URL|DATABASE_URL|CACHE_URL|EMAIL_URL", name)
    }
    assert len(secrets) >= 9
    [table] = re.findall(r"## Rotation of secrets\n(.*?)\n## ", GUIDE, re.DOTALL)
    assert {name for name in secrets if f"`{name}`" not in table} == set()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("PKB_METRICS_LISTEN", "nowhere", "PKB_METRICS_LISTEN=nowhere is no address"),
        ("PKB_METRICS_LISTEN", "127.0.0.1:91110", "write it as 127.0.0.1:9101"),
        ("PKB_LOG_FORMAT", "xml", "'xml' is not a format of log lines; use one of text, json"),
    ],
)
def test_a_wrong_setting_is_named_with_what_it_should_be(name, value, said):
    done = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT,
        env=os.environ | {name: value, "DJANGO_SETTINGS_MODULE": "portal.settings"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert said in done.stderr


def test_a_node_refuses_a_wrong_address_and_a_wrong_format():
    told = {"PKB_NODE_NAME": "n", "PKB_NODE_KEY": "k", "PKB_NODE_PROFILES": "cpux2", "PKB_DATA_DIR": "/nonexistent"}
    with pytest.raises(Misconfigured, match="PKB_NODE_METRICS_LISTEN=:0 is not an address"):
        NodeSettings.from_environment(told | {"PKB_NODE_METRICS_LISTEN": ":0"})
    with pytest.raises(Misconfigured, match="use text or json"):
        NodeSettings.from_environment(told | {"PKB_NODE_LOG_FORMAT": "xml"})


def _own_site(data_dir, **changes):
    data_dir.chmod(0o700)
    return {
        "PKB_NODE_NAME": "local", "PKB_NODE_KEY": "k", "PKB_NODE_PROFILES": "cpux2", "PKB_DATA_DIR": str(data_dir),
        "PKB_BIND": "127.0.0.1:8000", "PKB_SIGN_UP": "closed", "PKB_NODE_ALLOW_UNSANDBOXED": THE_RISK,
    } | changes  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"PKB_NODE_ALLOW_UNSANDBOXED": "true"}, "true does not name the risk"),
        ({"PKB_BIND": "0.0.0.0:8000"}, "needs: `make run` with HOST=127.0.0.1"),
        ({"PKB_BIND": ""}, "needs: `make run` with HOST=127.0.0.1"),
        ({"PKB_SIGN_UP": "open"}, "needs: PKB_SIGN_UP=closed"),
        ({"PKB_BROKER_URL": "redis://broker:6379/0"}, "needs: no PKB_BROKER_URL"),
    ],
)
def test_judging_without_a_sandbox_is_refused_where_others_can_reach_the_site(tmp_path, changes, said):
    with pytest.raises(Misconfigured, match=re.escape(said)):
        NodeSettings.from_environment(_own_site(tmp_path, **changes))


def test_judging_without_a_sandbox_is_refused_where_a_submission_could_read_the_sites_data(tmp_path):
    told = _own_site(tmp_path)
    tmp_path.chmod(0o755)
    with pytest.raises(Misconfigured, match=f"chmod 700 {tmp_path}"):
        NodeSettings.from_environment(told)


def test_root_alone_may_judge_without_a_sandbox_and_nobody_does_by_default(tmp_path):
    told = _own_site(tmp_path)
    if os.geteuid() == 0:
        assert NodeSettings.from_environment(told).allow_unsandboxed
    else:
        with pytest.raises(Misconfigured, match="needs: root"):
            NodeSettings.from_environment(told)
    assert not NodeSettings.from_environment(told | {"PKB_NODE_ALLOW_UNSANDBOXED": ""}).allow_unsandboxed


@pytest.mark.django_db
def test_every_metric_is_explained():
    written_by_nodes = re.findall(r'"(pkb_node_\w+)"', Path(of_nodes.__file__).read_text())
    counted = [family.name for family in metrics.registry().collect() if family.name.startswith("pkb_")]
    told = {*written_by_nodes, *counted, *(family.name for family in StateOfTheSite().collect())} - {"pkb_node"}
    assert len(told) > 25
    assert {name for name in told if f"`{name}" not in GUIDE} == set()


@pytest.mark.django_db
def test_the_sites_key_can_be_changed_without_signing_anybody_out(client, settings):
    client.force_login(User.objects.create_user("alice", password="a long pass phrase"))
    followed = address(Subject(Kind.RUN, "7"))
    old = settings.SECRET_KEY

    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "a new key", [old]
    assert client.get("/api/v1/me/").status_code == 200
    assert subject_of(followed) is not None


@pytest.mark.django_db
def test_a_key_that_others_know_opens_nothing_once_it_is_gone(client, settings):
    client.force_login(User.objects.create_user("alice", password="a long pass phrase"))
    followed = address(Subject(Kind.RUN, "7"))

    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "a new key", []
    assert client.get("/api/v1/me/").status_code == 401
    assert subject_of(followed) is None
