"""All settings of the site, read from the environment; what is missing or wrong fails here, loudly.

`var/env` (written once by the set-up, never committed) may hold the variables; the real environment wins over it.
The defaults are the embedded installation: SQLite, a broker in the file system, everything on one machine.
"""

from pathlib import Path
from typing import Any

import environ
from csp.constants import NONCE, SELF
from django.core.exceptions import ImproperlyConfigured

from evaluator import logs
from evaluator.contract import VERSION, Backend, Mode, SlotState  # noqa: F401 - VERSION is a setting
from evaluator.hardware import machines, profiles
from problems.spec.schema import SizeName

BASE_DIR = Path(__file__).resolve().parent.parent

env = environ.Env()
DATA_DIR = Path(env.str("PKB_DATA_DIR", default=str(BASE_DIR / "var")))
if (DATA_DIR / "env").is_file():
    environ.Env.read_env(DATA_DIR / "env", overwrite=False)

for _name in ("PKB_SECRET_KEY", "PKB_DATABASE_URL", "PKB_BROKER_URL"):
    if "REPLACE-ME" in env.str(_name, default=""):
        raise ImproperlyConfigured(f"{_name} still holds the placeholder of deploy/env.example; give it a value")
IS_EMBEDDED = env.bool("PKB_EMBEDDED", default=True)
DEBUG = env.bool("PKB_DEBUG", default=False)
SECRET_KEY = env.str("PKB_SECRET_KEY", default="")
if not SECRET_KEY:
    raise ImproperlyConfigured("PKB_SECRET_KEY is not set; run `make run` once, or put it into the environment")
# Keys that signed earlier: what they signed stays good until they are taken out of the list.
SECRET_KEY_FALLBACKS = env.list("PKB_SECRET_KEY_FALLBACKS", default=[])
SITE_URL = env.str("PKB_SITE_URL", default="http://127.0.0.1:8000").rstrip("/")
ALLOWED_HOSTS = env.list("PKB_ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "[::1]"] if IS_EMBEDDED else [])
if not IS_EMBEDDED and not ALLOWED_HOSTS:
    raise ImproperlyConfigured("PKB_ALLOWED_HOSTS is not set; list the site's host names, separated by commas")
CSRF_TRUSTED_ORIGINS = env.list("PKB_TRUSTED_ORIGINS", default=[])

INSTALLED_APPS = [
    "portal.accounts.apps.OperatorsAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.sitemaps",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.forms",
    "django_htmx",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.github",
    "allauth.socialaccount.providers.google",
    "allauth.socialaccount.providers.openid_connect",
    "rest_framework",
    "drf_spectacular",
    "portal.pages",
    "portal.accounts",
    "portal.catalog",
    "portal.nodes",
    "portal.submissions",
    "portal.ranking",
    "portal.runs",
    "portal.seasons",
    "portal.deliveries",
    "portal.exports",
    "portal.dispatcher",
    "portal.operations",
    "portal.core",
]
MIDDLEWARE = [
    "portal.core.request_ids.RequestIdMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "portal.pages.middleware.PermissionsPolicyMiddleware",
    "portal.pages.middleware.StaticFileMiddleware",
    "portal.pages.middleware.CompressionMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "portal.accounts.operators.OperatorsLogMiddleware",
    "portal.pages.middleware.HardwareMiddleware",
    "portal.pages.middleware.FigureMiddleware",
    "portal.pages.middleware.RefusalMiddleware",
]
ROOT_URLCONF = "portal.urls"
ASGI_APPLICATION = "portal.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "csp.context_processors.nonce",
            ],
        },
    },
]
# Widgets have templates in templates/django/forms as well.
FORM_RENDERER = "django.forms.renderers.TemplatesSetting"


def database_settings() -> dict[str, Any]:
    """The database that PKB_DATABASE_URL names, and how long a connection to it may wait and live."""
    found: dict[str, Any] = env.db_url("PKB_DATABASE_URL", default=f"sqlite:///{DATA_DIR / 'pkb.sqlite3'}")
    if found["ENGINE"].endswith("sqlite3"):
        # Deferred transactions that read and then write fail as "locked" under concurrency; IMMEDIATE ones wait.
        found["OPTIONS"] = {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        }
    else:
        # A host that drops packets would keep a request for minutes: two for a new connection, fifteen for an open one.
        # The address may say otherwise (`?connect_timeout=2`). A slow answer is not cut off: its host acknowledges.
        found["OPTIONS"] = {
            "connect_timeout": 5,
            "tcp_user_timeout": 10_000,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 2,
            **found.get("OPTIONS", {}),
        }
    # A connection outlives its request, in the thread that the next request borrows. One that broke is opened again.
    return found | {"CONN_MAX_AGE": env.int("PKB_CONNECTION_SECONDS", default=600), "CONN_HEALTH_CHECKS": True}


DATABASES = {"default": database_settings()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    # Failed sign-ins are counted here: all processes have to see the same counters. Django keeps 300 rows unless told
    # otherwise, and removes counters that still count when strangers make more.
    "attempts": env.cache_url("PKB_CACHE_URL", default="dbcache://attempts_cache?max_entries=100000"),
}

AUTH_USER_MODEL = "accounts.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
AUTHENTICATION_BACKENDS = ["portal.accounts.operators.AccountBackend"]
# Who may make an account: open to everybody, or closed, so that operators make accounts in the admin.
SIGN_UP = env.str("PKB_SIGN_UP", default="open")
if SIGN_UP not in {"open", "closed"}:
    raise ImproperlyConfigured(f"PKB_SIGN_UP is {SIGN_UP!r}; it is open or closed")
# Operators act as such only with an authenticator app or a passkey; on one's own machine that is one's own choice.
OPERATORS_NEED_SECOND_FACTOR = env.bool("PKB_OPERATORS_NEED_SECOND_FACTOR", default=not IS_EMBEDDED)
# Where mail goes out, for example smtp+tls://user:password@mail.example.org:587; empty: the site sends none.
EMAIL_URL = env.str("PKB_EMAIL_URL", default="")
vars().update(env.email_url_config(EMAIL_URL) if EMAIL_URL else {})
DEFAULT_FROM_EMAIL = SERVER_EMAIL = env.str("PKB_EMAIL_FROM", default="ParallelKernelBench <noreply@localhost>")
EMAIL_TIMEOUT = 10


def _client(name: str, /, **more: Any) -> dict[str, Any]:
    """One registration of this site at a provider, from PKB_<name>_CLIENT_ID and PKB_<name>_CLIENT_SECRET."""
    return {"client_id": env.str(f"PKB_{name}_CLIENT_ID"), "secret": env.str(f"PKB_{name}_CLIENT_SECRET"), **more}


# Accounts elsewhere that people may sign in with: a provider has its button where its client is configured.
SOCIALACCOUNT_PROVIDERS: dict[str, Any] = {
    **{
        provider: {"APPS": [_client(provider.upper())], "SCOPE": scope, "OAUTH_PKCE_ENABLED": True}
        for provider, scope in (("github", []), ("google", ["openid", "profile"]))
        if env.str(f"PKB_{provider.upper()}_CLIENT_ID", default="")
    },
    "openid_connect": {
        "APPS": [
            _client(
                f"OIDC_{name.upper()}",
                provider_id=name,
                name=env.str(f"PKB_OIDC_{name.upper()}_NAME", default=name),
                settings={"server_url": env.str(f"PKB_OIDC_{name.upper()}_URL"), "oauth_pkce_enabled": True},
            )
            for name in env.list("PKB_OIDC", default=[])
        ],
        "SCOPE": ["openid", "profile"],
    },
}
SOCIALACCOUNT_ADAPTER = "portal.accounts.identity.SocialAccountAdapter"
SOCIALACCOUNT_AUTO_SIGNUP = False  # everybody chooses their public name
SOCIALACCOUNT_FORMS = {"signup": "portal.accounts.forms.SocialSignUpForm"}
ACCOUNT_ADAPTER = "portal.accounts.identity.AccountAdapter"
ACCOUNT_SIGNUP_FIELDS = ["username*", "email"]  # our forms ask for no address
ACCOUNT_EMAIL_VERIFICATION = "optional" if EMAIL_URL else "none"
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False
ACCOUNT_EMAIL_NOTIFICATIONS = bool(EMAIL_URL)
ACCOUNT_EMAIL_SUBJECT_PREFIX = "[ParallelKernelBench] "
ACCOUNT_DEFAULT_HTTP_PROTOCOL = "http" if SITE_URL.startswith("http://") else "https"
ACCOUNT_MAX_EMAIL_ADDRESSES = 2
ACCOUNT_REAUTHENTICATION_REQUIRED = True  # before an address or a provider: a session left open is no way in for good
ACCOUNT_FORMS = {"reset_password": "portal.accounts.forms.ResetPasswordForm"}
MFA_ADAPTER = "portal.accounts.identity.MFAAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_FORMS = {
    "add_webauthn": "portal.accounts.forms.AddPasskeyForm",
    "activate_totp": "portal.accounts.forms.ActivateAppForm",
}
MFA_ALLOW_UNVERIFIED_EMAIL = True
MFA_TOTP_ISSUER = "ParallelKernelBench"
# Browsers know passkeys for http://localhost, which stands for one's own machine.
MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = IS_EMBEDDED
LOGIN_URL = "accounts:sign-in"
LOGIN_REDIRECT_URL = "submissions:mine"
LOGOUT_REDIRECT_URL = "home"
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"  # Strict would lose the session on the way back from a provider
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = not IS_EMBEDDED
SECURE_PROXY_SSL_HEADER = None if IS_EMBEDDED else ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_SSL_REDIRECT = not IS_EMBEDDED
# Asked by supervisors on the machine itself, without TLS.
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$"]
SECURE_HSTS_SECONDS = 0 if IS_EMBEDDED else 31_536_000
# Whether sibling domains speak TLS, and whether to be preloaded by browsers, is not this site's to say.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
# Contact for security reports, a mailto: or https: address; empty: there is no /.well-known/security.txt.
SECURITY_CONTACT = env.str("PKB_SECURITY_CONTACT", default="")
CSRF_FAILURE_VIEW = "portal.pages.errors.csrf_failure"

# Lines to standard error: text for people, json for what collects them.
LOG_FORMAT = env.str("PKB_LOG_FORMAT", default="text")
try:
    LOGGING = logs.configuration(LOG_FORMAT)
except ValueError as _error:
    raise ImproperlyConfigured(f"PKB_LOG_FORMAT: {_error}") from _error
# Machine files, those of PKB_MACHINES too: a wrong one stops the site here.
try:
    profiles.profiles()
except machines.MachineFileError as _error:
    raise ImproperlyConfigured(str(_error)) from _error
# Where this process serves its metrics to Prometheus, as host:port; nowhere if empty.
METRICS_LISTEN = env.str("PKB_METRICS_LISTEN", default="")
_port = METRICS_LISTEN.rpartition(":")[2]
if METRICS_LISTEN and not (_port.isdecimal() and 0 < int(_port) < 65_536):
    raise ImproperlyConfigured(f"PKB_METRICS_LISTEN={METRICS_LISTEN} is no address; write it as 127.0.0.1:9101")

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = False
FORMAT_MODULE_PATH = "portal.core"  # its en/formats.py

STATIC_URL = "static/"
STATIC_ROOT = DATA_DIR / "static"
# Not static/src: the sources of the bundles are for developers.
STATICFILES_DIRS = [(name, BASE_DIR / "static" / name) for name in ("css", "js", "vendor")]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": [SELF],
        "style-src": [SELF, NONCE],
        "img-src": ["'self'", "data:", "blob:"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
    },
}

REST_FRAMEWORK = {
    # Bearer comes first: its challenge is what a 401 carries.
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "portal.api.auth.BearerAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": [
        "portal.api.auth.HasScope",
        "rest_framework.permissions.IsAuthenticatedOrReadOnly",
    ],
    "DEFAULT_PARSER_CLASSES": ["portal.api.parsers.JSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "portal.api.parsers.JSONAlways",
    "DEFAULT_METADATA_CLASS": None,
    "DEFAULT_THROTTLE_CLASSES": ["rest_framework.throttling.AnonRateThrottle"],
    "DEFAULT_THROTTLE_RATES": {
        "anon": env.str("PKB_API_ANONYMOUS_RATE", default="120/min"),
        "exports": env.str("PKB_API_ANONYMOUS_EXPORT_RATE", default="60/hour"),
    },
    # How many proxies of ours are in front; with none, a caller's own X-Forwarded-For must not choose their bucket.
    "NUM_PROXIES": env.int("PKB_NUM_PROXIES", default=0 if IS_EMBEDDED else 1),
    "EXCEPTION_HANDLER": "portal.api.problem_details.handle",
    "DEFAULT_SCHEMA_CLASS": "portal.api.schema.ResourceSchema",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "ParallelKernelBench API",
    "DESCRIPTION": (
        "Submit kernels, follow their judging, and read problems, boards and nodes. Public data needs no token; "
        "your own data need `Authorization: Bearer pkb_...`. Errors are application/problem+json (RFC 9457)."
    ),
    "VERSION": "1.0.0",
    "OAS_VERSION": "3.1.0",
    "SERVERS": [{"url": SITE_URL}],
    "SCHEMA_PATH_PREFIX": r"/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    # These come from the judge's contract and keep its names.
    "ENUM_NAME_OVERRIDES": {
        "Backend": [member.value for member in Backend],
        "State": ["queued", "building", "built", "leased", "running", "finished", "cancelled", "unserved"],
        "SlotState": [member.value for member in SlotState],
        "Mode": [member.value for member in Mode],
        "AttemptMode": "portal.runs.models.ATTEMPT_MODES",
        "SizeName": [member.value for member in SizeName],
        "RunMode": ["single_shot", "best_of_k", "agentic"],
        "EventKind": ["attempt.ended", "run.completed", "run.published"],
        "Visibility": ["private", "public"],
        "AttemptState": ["pending", "ended"],
        "RunState": ["draft", "published"],
        "DeliveryState": ["waiting", "delivered", "given_up"],
        "DeliveredKind": ["attempt.ended", "run.completed", "run.published", "webhook.test"],
    },
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "portal.api.schema.describe_operations",
        "portal.api.schema.complete_components",
    ],
    "TAGS": [
        {"name": "Problems", "description": "The problems and their boards."},
        {"name": "Submissions", "description": "Submitting, following, cancelling and judging again."},
        {"name": "Runs", "description": "Models and their runs: create, fill, follow, publish."},
        {"name": "Seasons", "description": "Seasons, their entries and results."},
        {"name": "Organisations", "description": "Quota and webhooks."},
        {"name": "Exports", "description": "Public data as CSV and JSON Lines."},
        {"name": "Judging", "description": "Where submissions are judged."},
        {"name": "Nodes", "description": "What machines that judge say to the site, each with its key."},
        {"name": "Account", "description": "Who is calling."},
    ],
}

BROKER_URL = env.str("PKB_BROKER_URL", default="filesystem://")
if BROKER_URL.partition(":")[0] not in {"filesystem", "redis", "rediss"}:
    raise ImproperlyConfigured("PKB_BROKER_URL names no Redis; write it as deploy/broker_credentials.py site prints it")
BROKER_DIR = Path(env.str("PKB_BROKER_DIR", default=str(DATA_DIR / "broker")))
LEASE_SECONDS = env.int("PKB_LEASE_SECONDS", default=60)
NODE_SILENT_SECONDS = env.int("PKB_NODE_SILENT_SECONDS", default=30)
EVALUATION_DEADLINE_SECONDS = env.int("PKB_EVALUATION_DEADLINE_SECONDS", default=1800)
MAX_TRIES = 3
# Ranked work demands the sandbox level of its profile; an operator who trusts all authors may accept less.
ACCEPT_WEAK_SANDBOX = env.bool("PKB_ACCEPT_WEAK_SANDBOX", default=False)
SUBMISSION_MAX_BYTES = 512 * 1024
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024 * 1024
FILE_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024 * 1024
# Whether the kernels and reports that ship with the problems are on the boards, marked as recorded elsewhere. Left
# empty on a production site, `manage.py recorded` changes nothing; false removes them.
RECORDED = env.bool("PKB_RECORDED", default=True if IS_EMBEDDED else None)
# How many requests one web process works on at a time; the others wait, and hold a socket alone while they do.
WEB_REQUESTS = env.int("PKB_WEB_REQUESTS", default=8)
MAX_QUEUED_PER_AUTHOR = env.int("PKB_MAX_QUEUED_PER_AUTHOR", default=20)
# What an account, a new account and the runs of an organisation may use in any 24 hours (GPU-seconds: seconds times
# GPUs) and have in the queue. Rows under "Allowance limits" in the admin go before these. The users of an embedded
# installation own it, so that nobody is new there.
GPU_SECONDS_PER_DAY = env.float("PKB_GPU_SECONDS_PER_DAY", default=20_000.0)
ORGANISATION_GPU_SECONDS_PER_DAY = env.float("PKB_ORGANISATION_GPU_SECONDS_PER_DAY", default=250_000.0)
MAX_QUEUED_PER_ORGANISATION = env.int("PKB_MAX_QUEUED_PER_ORGANISATION", default=10_000)
NEW_ACCOUNT_DAYS = env.float("PKB_NEW_ACCOUNT_DAYS", default=0 if IS_EMBEDDED else 7)
NEW_ACCOUNT_GPU_SECONDS_PER_DAY = env.float("PKB_NEW_ACCOUNT_GPU_SECONDS_PER_DAY", default=4_000.0)
NEW_ACCOUNT_MAX_QUEUED = env.int("PKB_NEW_ACCOUNT_MAX_QUEUED", default=5)
# Work for a profile that no node has served for so long ends unjudged.
UNSERVED_HOURS = env.float("PKB_UNSERVED_HOURS", default=24.0)
# How many seasons that are not final an organisation may have; 0 leaves seasons to operators.
SEASONS_PER_ORGANISATION = env.int("PKB_SEASONS_PER_ORGANISATION", default=3)
# What the runs of one organisation may use in any 30 days; an operator gives single organisations another figure.
GPU_SECONDS_PER_30_DAYS = env.float("PKB_GPU_SECONDS_PER_30_DAYS", default=500_000.0)
# What one waiting evaluation reserves of it until it is charged: seconds on every GPU of its profile.
RESERVED_SECONDS = env.float("PKB_RESERVED_SECONDS", default=30.0)
BULK_MAX_BYTES = 256 * 1024 * 1024
# Where dispatchers put the files of public data and web processes find them: the same folder for all.
EXPORT_DIR = Path(env.str("PKB_EXPORT_DIR", default=str(DATA_DIR / "exports")))
# Webhooks to addresses inside the operator's own network would let vendors ask its services.
WEBHOOKS_TO_PRIVATE_ADDRESSES = env.bool("PKB_WEBHOOKS_TO_PRIVATE_ADDRESSES", default=IS_EMBEDDED)
