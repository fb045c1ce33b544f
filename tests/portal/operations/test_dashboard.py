"""Dashboard and alerts over a real Prometheus that reads a real site."""

import json
import re
import subprocess
from contextlib import contextmanager

import pytest
import yaml

from tests import servers
from tests.portal.operations.conftest import monitored_site, submit
from tests.stack import ROOT, wait_until

pytestmark = pytest.mark.production

MONITORING = ROOT / "deploy" / "monitoring"
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text())
ALERTS = yaml.safe_load((MONITORING / "alerts.yml").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = sorted({target["expr"] for panel in PANELS for target in panel["targets"]})
QUIET = {"pkb_export_age_seconds", "pkb_dispatcher_database_errors_total"}
"""What a site that was just started has nothing to say of: files of public data come later, and errors should not."""


def as_asked(query):
    """A query of the dashboard as Grafana sends it, with all profiles chosen."""
    return query.replace("$profile", ".*").replace("$__rate_interval", "1m")


@contextmanager
def watched(site):
    """A Prometheus that reads the processes of `site`."""
    jobs = {"web": "web", "dispatcher": "dispatcher", "alpha": "node"}
    configuration = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["alerts.yml"],
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": [f"127.0.0.1:{site.ports[name]}"]}]}
            for name, job in jobs.items()
        ],
    }
    # As they are, but for the minutes of patience, which no test has.
    rules = re.sub(r"for: \d+m", "for: 1s", (MONITORING / "alerts.yml").read_text())
    with servers.prometheus(configuration=yaml.safe_dump(configuration), rules=rules) as server:
        wait_until(lambda: _scraped_twice(server), what="Prometheus has read every process twice")
        yield server


@pytest.fixture(scope="module")
def prometheus(site):
    with watched(site) as server:
        yield server


def _scraped_twice(server):
    found = server.ask("query", query="min(count_over_time(up[1m])) >= 3 and count(up == 1) == 3")
    return bool(found["result"])


@pytest.mark.slow
def test_every_query_of_the_dashboard_finds_something(prometheus):
    empty = [query for query in QUERIES if not prometheus.ask("query", query=as_asked(query))["result"]]
    assert [query for query in empty if not any(name in query for name in QUIET)] == []


def test_the_profile_variable_finds_the_profiles(prometheus):
    [variable] = [entry for entry in DASHBOARD["templating"]["list"] if entry["name"] == "profile"]
    metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"]).groups()
    assert "cpux2" in prometheus.ask(f"label/{label}/values", **{"match[]": metric})


def test_panels_of_the_dashboard_have_distinct_titles_and_do_not_overlap():
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    taken = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])
        }  # fmt: skip
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
    for panel in PANELS:
        assert panel["title"]
        assert panel["description"]


def test_every_metric_of_ours_is_on_the_dashboard(site):
    told = {
        name for process in site.ports for name in re.findall(r"^# TYPE (pkb_\w+)", site.metrics(process), re.MULTILINE)
    }
    text = " ".join(QUERIES)
    assert {name for name in told if name.removesuffix("_total") not in text} <= {"pkb_queue_paused"}


def test_alerts_hold_in_the_unit_tests_of_promtool():
    done = subprocess.run(
        ["promtool", "test", "rules", "alerts_test.yml"], cwd=MONITORING, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_fires_in_a_unit_test():
    tests = yaml.safe_load((MONITORING / "alerts_test.yml").read_text())["tests"]
    fired = {each["alertname"] for test in tests for each in test["alert_rule_test"] if each["exp_alerts"]}
    assert {rule["alert"] for rule in RULES} == fired


def test_every_alert_leads_to_a_section_of_the_operators_guide():
    titles = re.findall(r"^#+ (.+)$", (ROOT / "docs" / "operating.md").read_text(), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
    for rule in RULES:
        document, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert document == "docs/operating.md"
        assert anchor in anchors, rule["alert"]


def _firing(server):
    alerts = server.ask("alerts")["alerts"]
    return {
        (alert["labels"]["alertname"], alert["labels"].get("profile", ""))
        for alert in alerts
        if alert["state"] == "firing"
    }


@pytest.mark.slow
def test_a_dead_node_with_work_waiting_fires_and_its_return_ends_it(tmp_path):
    # A site of its own: the node is killed, and with it what it has counted.
    with monitored_site(tmp_path) as site, watched(site) as server:
        assert _firing(server) == set()
        site.stack.kill("alpha")
        submit(site.stack.url, site.token, "def solution(tensor):\n    return tensor\n")
        expected = {("ProcessDown", ""), ("NobodyJudges", "cpux2")}
        wait_until(lambda: expected <= _firing(server), what="the alerts fire", seconds=120)

        site.stack.start_node("alpha", environment=site.node_environment)
        wait_until(lambda: not _firing(server), what="the alerts end", seconds=90)
