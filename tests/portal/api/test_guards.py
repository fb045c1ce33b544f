"""What the API refuses before it looks at the matter itself."""

import pytest
from django.test import Client
from rest_framework.test import APIClient

from portal.accounts.models import ApiToken
from tests.portal.api.problem import assert_problem
from tests.portal.factories import SOLUTION, submit

CREATE = {"problem": "allreduce", "profile": "cpux2", "source": SOLUTION}


@pytest.mark.parametrize("address", ["/api/v1/submissions/", "/api/v1/me/"])
def test_own_data_needs_a_token(anonymous, address):
    response = anonymous.get(address)
    assert "token" in assert_problem(response, status=401)["detail"]
    assert response["WWW-Authenticate"] == 'Bearer realm="pkb"'


def test_submitting_needs_a_token(anonymous):
    assert_problem(anonymous.post("/api/v1/submissions/", CREATE, format="json"), status=401)


def test_an_expired_token_says_when_it_expired(expired):
    response = expired.get("/api/v1/me/")
    assert "expired at" in assert_problem(response, status=401)["detail"]
    assert 'error="invalid_token"' in response["WWW-Authenticate"]


@pytest.mark.parametrize("header", ["Bearer", "Bearer ", "Bearer pkb_nonsense", "bearer \xff\xfe"])
def test_an_unknown_token_is_refused_even_where_none_is_needed(anonymous, header):
    anonymous.credentials(HTTP_AUTHORIZATION=header)
    assert_problem(anonymous.get("/api/v1/problems/"), status=401)


def test_a_revoked_token_is_refused(alices, now):
    ApiToken.objects.update(revoked_at=now)
    assert "revoked" in assert_problem(alices.get("/api/v1/me/"), status=401)["detail"]


def test_a_read_token_may_not_submit(alice, client_of):
    client = client_of(alice, "read")
    response = client.post("/api/v1/submissions/", CREATE, format="json")
    assert "'submit'" in assert_problem(response, status=403, field="Authorization")["detail"]
    assert response["WWW-Authenticate"].endswith('error="insufficient_scope", scope="submit"')
    submission = submit(alice)
    assert_problem(client.post(f"/api/v1/submissions/{submission.pk}/cancel/"), status=403)
    assert_problem(client.post(f"/api/v1/submissions/{submission.pk}/evaluations/", {}, format="json"), status=403)


def test_a_submit_token_may_not_read(alice, client_of):
    client = client_of(alice, "submit")
    assert_problem(client.get("/api/v1/submissions/"), status=403)
    assert_problem(client.get(f"/api/v1/submissions/{submit(alice).pk}/"), status=403)
    assert client.post("/api/v1/submissions/", CREATE, format="json").status_code == 201


def test_a_session_reads_and_needs_the_csrf_token_to_write(alice):
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(alice)
    assert browser.get("/api/v1/me/").json()["token"] is None
    response = browser.post("/api/v1/submissions/", CREATE, content_type="application/json")
    assert "CSRF" in assert_problem(response, status=403)["detail"]


def test_anonymous_callers_are_slowed_down_and_learn_for_how_long(anonymous):
    responses = [anonymous.get("/api/v1/nodes/") for _ in range(121)]
    assert [response.status_code for response in responses[:120]] == [200] * 120
    assert_problem(responses[-1], status=429)
    assert int(responses[-1]["Retry-After"]) >= 1


def test_a_forged_proxy_header_gives_no_fresh_rate(anonymous):
    responses = [anonymous.get("/api/v1/nodes/", HTTP_X_FORWARDED_FOR=f"10.0.0.{i}") for i in range(121)]
    assert responses[-1].status_code == 429


@pytest.mark.parametrize("address", ["/api/v1/nowhere/", "/api/v1/problems", "/api/v1/submissions/not-a-uuid/"])
@pytest.mark.parametrize("method", ["get", "post", "put", "delete"])
def test_an_unknown_address_is_an_error_not_a_page(anonymous, address, method):
    assert_problem(getattr(anonymous, method)(address), status=404)


@pytest.mark.parametrize("method", ["put", "patch", "delete", "options", "trace"])
def test_other_methods_are_refused_with_those_that_work(alices, method):
    response = getattr(alices, method)("/api/v1/submissions/")
    assert_problem(response, status=405)
    assert response["Allow"] == "GET, HEAD, POST"


@pytest.mark.parametrize(
    "body",
    [b"{", b'{"problem": NaN}', b"\xff\xfe", b"[" * 100_000, b'{"problem": "\xed\xa0\x80"}'],
    ids=["cut", "NaN", "not UTF-8", "too deep", "surrogate"],
)
def test_malformed_json_is_400(alices, body):
    assert_problem(alices.generic("POST", "/api/v1/submissions/", body, content_type="application/json"), status=400)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b'"text"', b"5"])
def test_a_body_that_is_no_object_is_refused(alices, body):
    assert_problem(alices.generic("POST", "/api/v1/submissions/", body, content_type="application/json"), status=422)


def test_another_media_type_is_415(alices):
    body = assert_problem(alices.generic("POST", "/api/v1/submissions/", b"x", content_type="text/plain"), status=415)
    assert "application/json" in body["detail"]


def test_a_broken_form_is_400(alices):
    content_type = "multipart/form-data; boundary="
    assert_problem(alices.generic("POST", "/api/v1/submissions/", b"x", content_type=content_type), status=400)


def test_a_body_beyond_the_limit_is_413(alices):
    body = b'{"source": "' + b"x" * (4 * 1024 * 1024) + b'"}'
    assert_problem(alices.generic("POST", "/api/v1/submissions/", body, content_type="application/json"), status=413)


@pytest.mark.django_db
def test_a_failure_of_ours_says_nothing_of_the_inside(monkeypatch):
    def broken():
        raise ZeroDivisionError("secret path /srv/keys")

    monkeypatch.setattr("portal.api.catalog_views.shown_nodes", broken)
    quiet = APIClient(raise_request_exception=False)
    body = assert_problem(quiet.get("/api/v1/nodes/"), status=500)
    assert "secret" not in str(body)


def test_answers_are_json_whatever_is_accepted(anonymous):
    response = anonymous.get("/api/v1/problems/", HTTP_ACCEPT="text/html")
    assert (response.status_code, response["Content-Type"]) == (200, "application/json")


def test_a_body_in_chunks_is_refused_before_its_fields_are_missed(alices):
    response = alices.post("/api/v1/submissions/", HTTP_TRANSFER_ENCODING="chunked", content_type="application/json")
    assert_problem(response, status=411, field="Content-Length")
