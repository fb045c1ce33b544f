"""What every error of the API has."""

MEDIA_TYPE = "application/problem+json"


def assert_problem(response, *, status: int, field: str | None = None) -> dict:
    """The body of an error, which has what every error has, and whose first entry names `field`."""
    assert response.status_code == status, response.content
    assert response["Content-Type"] == MEDIA_TYPE
    body = response.json()
    assert body["status"] == status
    assert set(body) == {"type", "title", "status", "detail", "request_id", "errors"}
    assert body["detail"]
    assert body["request_id"] == response["X-Request-ID"]
    assert "Traceback" not in response.content.decode()
    for entry in body["errors"]:
        assert set(entry) - {"verdict"} == {"field", "value", "message", "remedy"}
        assert entry["message"]
        assert entry["remedy"]
    if field is not None:
        assert body["errors"][0]["field"] == field, body
    return body
