"""deploy/: what it describes fits the code, and what can be run of it without containers is run."""

import os
import re
import subprocess
import sys
from pathlib import Path
from secrets import token_urlsafe

import pytest
import yaml

from tests.portal.production.conftest import ROOT

pytestmark = pytest.mark.production

DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def names_in(*paths: Path) -> set[str]:
    """Every variable of ours that the files name in full."""
    return {name for path in paths for name in re.findall(r"\bPKB_[A-Z_]*[A-Z]\b", path.read_text())}


def read_by_programs() -> set[str]:
    return names_in(
        ROOT / "portal" / "settings.py", ROOT / "evaluator" / "node" / "settings.py", DEPLOY / "broker_credentials.py"
    )


def documented() -> set[str]:
    """Without those that carry the name of a provider which the operator chose: test_signing_in.py reads them."""
    names = re.findall(r"^#?(PKB_[A-Z_]+)=", (DEPLOY / "env.example").read_text(), re.MULTILINE)
    return {name for name in names if not name.startswith("PKB_OIDC_LAB_")}


def test_every_variable_that_is_read_is_documented():
    assert read_by_programs() - documented() == set()


def test_nothing_is_documented_that_nobody_reads():
    used = read_by_programs() | names_in(*DEPLOY.glob("compose*.yaml"), DEPLOY / "Caddyfile")
    assert documented() - used == set()


@pytest.mark.parametrize("name", ["PKB_SECRET_KEY", "PKB_DATABASE_URL", "PKB_BROKER_URL"])
def test_the_site_refuses_a_placeholder(name):
    done = manage("check", **{name: "redis://site:REPLACE-ME@broker/0"})

    assert done.returncode == 1
    assert f"{name} still holds the placeholder of deploy/env.example" in done.stderr


def test_django_finds_nothing_to_warn_of_in_production():
    done = manage(
        "check",
        "--deploy",
        "--fail-level=WARNING",
        PKB_EMBEDDED="false",
        PKB_SECRET_KEY=token_urlsafe(48),
        PKB_ALLOWED_HOSTS="pkb.example.org",
        PKB_TRUSTED_ORIGINS="https://pkb.example.org",
    )

    assert done.returncode == 0, done.stderr


def manage(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "portal.settings"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_no_secret_has_a_default():
    secrets = re.findall(r"\$\{(PKB_[A-Z_]*(?:PASSWORD|SECRET|BROKER_URL)[A-Z_]*)([^}]*)\}", compose_text())

    assert secrets
    # Compose refuses to start where one is missing. These may be empty: earlier secret keys, sign-in with GitHub or
    # Google, a bucket, and a node's URL where no node runs on this machine.
    assert {rest for _, rest in secrets} == {":?see env.example", ":-"}
    assert {name for name, rest in secrets if rest == ":-"} == {
        "PKB_SECRET_KEY_FALLBACKS",
        "PKB_GITHUB_CLIENT_SECRET",
        "PKB_GOOGLE_CLIENT_SECRET",
        "PKB_NODE_BROKER_URL",
    }


def compose_text() -> str:
    return "".join(path.read_text() for path in DEPLOY.glob("compose*.yaml"))


def test_a_node_reaches_broker_and_proxy_and_nothing_else():
    [network] = COMPOSE["services"]["node"]["networks"]

    assert COMPOSE["networks"][network] == {"internal": True}
    assert {name for name, service in COMPOSE["services"].items() if network in service["networks"]} == {
        "node",
        "broker",
        "proxy",
    }


def test_a_node_gets_no_secret_of_the_site():
    told = COMPOSE["services"]["node"]["environment"]

    assert set(told) == {
        "PKB_NODE_NAME",
        "PKB_NODE_KEY",
        "PKB_NODE_PROFILES",
        "PKB_NODE_GPUS",
        "PKB_NODE_BUILDERS",
        "PKB_NODE_HEARTBEAT_SECONDS",
        "PKB_NODE_METRICS_LISTEN",
        "PKB_NODE_LOG_FORMAT",
        "PKB_BROKER_URL",
        "PKB_SITE_URL",
    }
    assert told["PKB_BROKER_URL"].startswith("${PKB_NODE_BROKER_URL")


@pytest.mark.parametrize("name", ["web", "dispatcher"])
def test_the_site_has_a_way_out_to_mail_webhooks_and_providers(name):
    joined = COMPOSE["services"][name]["networks"]

    assert [network for network in joined if not COMPOSE["networks"][network].get("internal")] == ["outside"]


def test_compose_hands_over_every_setting_of_the_site():
    of_the_site = (DEPLOY / "env.example").read_text().partition("# --- A node")[0]
    settings = set(re.findall(r"^#?(PKB_[A-Z_]+)=", of_the_site, re.MULTILINE))
    # Folders of the image, pages with tracebacks, and providers whose names the operator chooses.
    left_out = {"PKB_DATA_DIR", "PKB_BROKER_DIR", "PKB_DEBUG"} | {each for each in settings if "PKB_OIDC" in each}

    assert settings - left_out - set(COMPOSE["services"]["web"]["environment"]) == set()


def test_every_way_to_run_the_site_prepares_the_database_alike():
    unit, job = (DEPLOY / path for path in ("systemd/pkb-web.service", "kubernetes/migrate.yaml"))
    compose = " ".join(COMPOSE["services"]["migrate"]["command"])
    # A shell's line has them side by side, a list of YAML as two texts.
    named = re.compile(r"manage\.py[\", ]+([a-z_]+)")
    prepared = [named.findall(text) for text in (compose, unit.read_text(), job.read_text())]

    assert prepared == [["prepare"], ["prepare", "prepare"], ["prepare"]]
    assert unit.read_text().count("manage.py prepare --static") == 2  # the image has its static files


def test_only_the_proxy_is_reachable_from_outside():
    assert [name for name, service in COMPOSE["services"].items() if "ports" in service] == ["proxy"]


def test_pages_come_over_tls_with_their_policies(proxied):
    status, headers, text = proxied.get("/")

    assert status == 200
    assert "ParallelKernelBench" in text
    assert headers["Strict-Transport-Security"] == "max-age=31536000"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers.get("Server") is None


def test_assets_come_through_the_proxy(proxied):
    _, _, text = proxied.get("/")
    [asset, *_] = re.findall(r'href="(/static/css/[^"]+\.css)"', text)

    status, headers, _ = proxied.get(asset)

    assert status == 200
    assert "immutable" in headers["Cache-Control"]


def test_cookies_are_for_tls_alone(proxied):
    _, headers, _ = proxied.get("/accounts/sign-in/")

    assert "Secure" in headers["Set-Cookie"]


def test_plain_http_is_sent_to_tls(proxied):
    status, headers, _ = proxied.get("/problems/", scheme="http")

    assert status in (301, 308)
    assert headers["Location"].startswith("https://localhost")


def test_a_visitor_cannot_claim_another_host(proxied):
    assert proxied.get("/", **{"X-Forwarded-Host": "evil.example"})[0] == 200
    assert "evil.example" not in proxied.get("/accounts/sign-in/", **{"X-Forwarded-Host": "evil.example"})[2]


def test_the_health_check_asks_for_the_sites_own_name(proxied):
    # 0.0.0.0 is none of the allowed hosts, as 127.0.0.1 is none inside a container.
    def asked(path: str) -> int:
        command = [sys.executable, "deploy/ask.py", f"http://0.0.0.0:{proxied.upstream}{path}"]
        environment = os.environ | {"PKB_ALLOWED_HOSTS": "localhost"}
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False).returncode

    assert (asked("/readyz"), asked("/nowhere")) == (0, 1)
