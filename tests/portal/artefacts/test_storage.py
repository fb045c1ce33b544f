"""Reports that go by a bucket or a folder: over moto's S3 server and over real processes."""

import base64
import hashlib
import hmac
import json
import os
from datetime import datetime, timedelta

import boto3
import pytest
from moto.server import ThreadedMotoServer

from evaluator import uploads
from evaluator.contract import Stored, Upload
from portal.artefacts import storage
from portal.dispatcher.dispatching import dispatch_once
from portal.submissions.tasks import record_stored
from tests.portal.conftest import NODE_KEY
from tests.portal.factories import delivery_of, evaluation_of, submit
from tests.stack import Stack, own_database_url, wait_until

BUCKET = "artefacts"
KEYS = {"ARTEFACT_ACCESS_KEY": "the-sites-own", "ARTEFACT_SECRET_KEY": "never-a-nodes", "ARTEFACT_REGION": "us-east-1"}


@pytest.fixture(autouse=True)
def _anew():
    """Storage and client are made once per process."""
    storage.storage.cache_clear()
    storage._client.cache_clear()  # noqa: SLF001 - as above
    yield
    storage.storage.cache_clear()
    storage._client.cache_clear()  # noqa: SLF001 - as above


@pytest.fixture(scope="module")
def server():
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    yield f"http://{host}:{port}"
    moto.stop()


@pytest.fixture
def s3(server):
    client = boto3.client(
        "s3", endpoint_url=server, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
    )
    client.create_bucket(Bucket=BUCKET)
    yield client
    for found in client.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
        client.delete_object(Bucket=BUCKET, Key=found["Key"])
    client.delete_bucket(Bucket=BUCKET)


@pytest.fixture(params=["bucket", "folder"])
def place(request, settings, tmp_path):
    """A site with a storage; the folder in which a node may write."""
    if request.param == "folder":
        settings.ARTEFACT_URL = f"file://{tmp_path}"
        return str(tmp_path)
    request.getfixturevalue("s3")
    settings.ARTEFACT_URL = f"s3://{BUCKET}/site"
    settings.ARTEFACT_ENDPOINT = request.getfixturevalue("server")
    for name, value in KEYS.items():
        setattr(settings, name, value)
    return ""


def stored_as(upload, content, **changes):
    """What a node would say of `content`."""
    said = {
        "lease": "l", "node": "alpha", "evaluation_id": upload.key.split("/")[1], "key": upload.key,
        "sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content),
    }  # fmt: skip
    return Stored(**(said | changes))


def lying():
    return [key for key, _ in storage.storage().objects()]


def test_what_a_node_puts_is_what_the_site_reads(place):
    upload = storage.permission_for_report("e1")
    uploads.put(upload, b"\x00report \xff\r\n", within=place)
    assert storage.taken(stored_as(upload, b"\x00report \xff\r\n")) == b"\x00report \xff\r\n"
    storage.remove(stored_as(upload, b""))
    assert lying() == []


def test_a_permission_holds_neither_the_sites_key_nor_a_second_object(place):
    first, second = (storage.permission_for_report("e1") for _ in range(2))
    assert first.key != second.key
    assert KEYS["ARTEFACT_SECRET_KEY"] not in first.to_json()


def test_a_form_is_signed_for_one_key_a_bounded_size_and_half_an_hour(s3, server, settings, now):
    # Whoever runs the storage enforces it; moto does not, so what is signed is looked at.
    settings.ARTEFACT_URL, settings.ARTEFACT_ENDPOINT = f"s3://{BUCKET}/site", server
    for name, value in KEYS.items():
        setattr(settings, name, value)
    fields = storage.permission_for_report("e1").fields
    policy = json.loads(base64.b64decode(fields["policy"]))
    named = {}
    for condition in policy["conditions"]:
        named |= condition if isinstance(condition, dict) else {condition[0]: condition[1:]}
    assert (named["bucket"], named["key"]) == (BUCKET, fields["key"])
    assert named["content-length-range"] == [1, storage.MOST_BYTES]
    ends = datetime.fromisoformat(policy["expiration"]) - now
    assert timedelta(minutes=25) < ends < timedelta(minutes=40)
    # RFC 2104 over the policy, with the key derived as AWS's Signature Version 4 says.
    key = b"AWS4" + KEYS["ARTEFACT_SECRET_KEY"].encode()
    for part in (fields["x-amz-date"][:8], "us-east-1", "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    assert hmac.digest(key, fields["policy"].encode(), "sha256").hex() == fields["x-amz-signature"]


@pytest.mark.parametrize("change", [{"sha256": "0" * 64}, {"size_bytes": 5}, {"size_bytes": 7}])
def test_what_is_not_as_its_node_says_is_refused(place, change):
    upload = storage.permission_for_report("e1")
    uploads.put(upload, b"report", within=place)
    with pytest.raises(storage.NotAsStored):
        storage.taken(stored_as(upload, b"report", **change))


@pytest.mark.parametrize(
    "key",
    ["reports/e1/../../../etc/passwd", "/etc/passwd", "reports/other/0123456789abcdef.json", "reports/e1/x.json", ""],
)
def test_a_key_that_is_no_reports_is_never_looked_at(place, key):
    with pytest.raises(storage.NotAsStored, match="no key of a report"):
        storage.taken(stored_as(Upload(url="", key="reports/e1/x"), b"x", key=key))


def test_an_object_that_is_not_there_is_refused(place):
    with pytest.raises(storage.NotAsStored, match="is not in"):
        storage.taken(stored_as(storage.permission_for_report("e1"), b"x"))


def test_a_report_that_says_it_is_huge_is_not_read(place):
    with pytest.raises(storage.NotAsStored, match="more than a report may"):
        storage.taken(stored_as(storage.permission_for_report("e1"), b"x", size_bytes=storage.MOST_BYTES + 1))


def test_a_pipe_or_a_link_in_the_folder_keeps_no_worker_waiting(settings, tmp_path):
    settings.ARTEFACT_URL = f"file://{tmp_path}"
    pipe, link = (storage.permission_for_report("e1") for _ in range(2))
    (tmp_path / "reports" / "e1").mkdir(parents=True)
    os.mkfifo(tmp_path / pipe.key)
    (tmp_path / link.key).symlink_to("/etc/passwd")
    for upload in (pipe, link):
        with pytest.raises(storage.NotAsStored):
            storage.taken(stored_as(upload, b"x"))


def test_another_user_who_may_use_the_folder_may_use_what_a_node_puts_there(tmp_path):
    tmp_path.chmod(0o770)
    before = os.umask(0o077)  # as in the node's unit
    try:
        uploads.put(Upload(url=f"file://{tmp_path}/reports/e/1.json", key="k"), b"x", within=str(tmp_path))
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {"reports": 0o770, "e": 0o770, "1.json": 0o660}


def test_a_node_writes_files_only_below_the_folder_it_was_told(tmp_path):
    for within in ("", str(tmp_path / "mine")):
        with pytest.raises(uploads.UploadRefused, match="not below PKB_NODE_ARTEFACT_DIR"):
            uploads.put(Upload(url=f"file://{tmp_path}/mine/../else.json", key="k"), b"x", within=within)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/x", "http://127.0.0.1:1/x", "http://[", "gopher:x"])
def test_an_upload_that_cannot_be_is_a_refusal(url):
    with pytest.raises(uploads.UploadRefused):
        uploads.put(Upload(url=url, key="k"), b"x", within="")


def test_the_sweep_removes_what_nobody_asked_for_in_time(place, now):
    upload = storage.permission_for_report("e1")
    uploads.put(upload, b"x", within=place)
    assert storage.sweep(now) == 0
    assert storage.sweep(now + timedelta(days=8)) == 1
    assert lying() == []


def test_a_report_in_the_storage_ends_its_evaluation_once(place, alice, node, now):
    sent = []
    evaluation = evaluation_of(submit(alice))
    dispatch_once(now, send=lambda _node, assignment, **_: sent.append(assignment))
    [assignment] = sent
    text = delivery_of(evaluation, lease=assignment.lease).to_json()
    uploads.put(assignment.upload, text.encode(), within=place)
    message = stored_as(assignment.upload, text.encode(), lease=assignment.lease).to_json()

    record_stored(message, NODE_KEY)
    evaluation.refresh_from_db()
    assert evaluation.verdict == "PASSED"
    assert lying() == []
    # Told twice, as a broker may: the second finds nothing, and changes nothing.
    record_stored(message, NODE_KEY)
    assert evaluation.reports.count() == 1


def test_a_report_in_the_storage_without_its_nodes_key_changes_nothing(place, alice, node, now):
    sent = []
    evaluation = evaluation_of(submit(alice))
    dispatch_once(now, send=lambda _node, assignment, **_: sent.append(assignment))
    [assignment] = sent
    text = delivery_of(evaluation, lease=assignment.lease).to_json()
    uploads.put(assignment.upload, text.encode(), within=place)
    record_stored(stored_as(assignment.upload, text.encode(), lease=assignment.lease).to_json(), "another key")
    evaluation.refresh_from_db()
    assert evaluation.verdict == ""
    assert len(lying()) == 1


def test_nothing_is_read_for_a_message_without_the_key(place, alice, node, now, caplog):
    sent = []
    evaluation = evaluation_of(submit(alice))
    dispatch_once(now, send=lambda _node, assignment, **_: sent.append(assignment))
    [assignment] = sent
    missing = stored_as(assignment.upload, b"nothing", evaluation_id=str(evaluation.pk), lease=assignment.lease)
    record_stored(missing.to_json(), "another key")
    assert "without the key of node alpha" in caplog.text
    assert "stored report refused" not in caplog.text


def test_a_message_under_one_lease_cannot_bring_the_report_of_another(place, alice, node, now):
    sent = []
    evaluation = evaluation_of(submit(alice))
    dispatch_once(now, send=lambda _node, assignment, **_: sent.append(assignment))
    [assignment] = sent
    text = delivery_of(evaluation, lease=assignment.lease).to_json()
    uploads.put(assignment.upload, text.encode(), within=place)

    record_stored(stored_as(assignment.upload, text.encode(), lease="another").to_json(), NODE_KEY)
    evaluation.refresh_from_db()
    assert evaluation.verdict == ""
    assert len(lying()) == 1


def test_without_a_storage_nothing_is_permitted(db):
    assert storage.permission_for_report("e1") is None


@pytest.mark.production
@pytest.mark.django_db(transaction=True)
def test_real_processes_judge_with_a_bucket_and_the_broker_carries_no_report(alice, s3, server, tmp_path):
    environment = {
        "PKB_ARTEFACT_URL": f"s3://{BUCKET}/site",
        "PKB_ARTEFACT_ENDPOINT": server,
        **{f"PKB_{name}": value for name, value in KEYS.items()},
    }
    with Stack(tmp_path / "site", database_url=own_database_url(), environment=environment) as stack:
        assert "read, compared and removed" in stack.manage("artefacts", "check")
        stack.start_worker()
        stack.start_dispatcher()
        nothing = dict.fromkeys(environment, "")
        stack.start_node("alpha", environment=nothing)
        evaluation = evaluation_of(submit(alice, mode="check"))
        wait_until(lambda: _verdict(evaluation) == "PASSED", what=lambda: f"a verdict\n{stack.log('worker')}")
        wait_until(lambda: "Contents" not in s3.list_objects_v2(Bucket=BUCKET), what="the object is removed")
        told = stack.log("worker").split("ready.", 1)[1]
        assert "portal.record_stored" in told
        assert "portal.record_delivery" not in told


@pytest.mark.production
@pytest.mark.django_db(transaction=True)
def test_a_storage_that_is_away_costs_nothing_but_a_larger_message(alice, tmp_path):
    environment = {"PKB_ARTEFACT_URL": f"s3://{BUCKET}", "PKB_ARTEFACT_ENDPOINT": "http://127.0.0.1:1"}
    environment |= {f"PKB_{name}": value for name, value in KEYS.items()}
    with Stack(tmp_path / "site", database_url=own_database_url(), environment=environment) as stack:
        stack.start_all()
        evaluation = evaluation_of(submit(alice, mode="check"))
        wait_until(lambda: _verdict(evaluation) == "PASSED", what=lambda: f"a verdict\n{stack.log('alpha')}")
        assert "a report goes by the broker" in stack.log("alpha")


def _verdict(evaluation):
    evaluation.refresh_from_db()
    return evaluation.verdict
