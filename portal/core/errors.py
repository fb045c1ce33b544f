"""How the site says no: one exception that names the field, the value and the remedy, for pages and API alike."""


class Refusal(Exception):
    """A request that cannot be carried out, through no fault of the site.

    Attributes:
        field: the input at fault ("file", "profile", ...); empty where it is the request as a whole.
        value: what was received, shortened for people; never a secret.
        message: what is wrong, one sentence.
        remedy: what to do instead, one sentence.
        status: the HTTP status that says the same (400, 403, 404, 409, 413, 422, 429, ...).
        retry_after_s: seconds after which the same request may succeed; None where waiting does not help.
    """

    def __init__(
        self,
        *,
        field: str,
        value: str,
        message: str,
        remedy: str,
        status: int = 422,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.field = field
        self.value = value if len(value) <= 80 else f"{value[:77]}..."
        self.message = message
        self.remedy = remedy
        self.status = status
        self.retry_after_s = retry_after_s
