"""All settings in one file: every difference between two installations comes from the environment.

A wrong value stops the start. `docs/configuration.md` lists the variables.
"""

import fcntl
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured

from broker_project import installation_keys, logs

BASE_DIR = Path(__file__).resolve().parent.parent
# `manage.py up` makes keys and servers for the others; it runs before they exist, and never by those of an earlier run.
STARTING = sys.argv[1:2] == ["up"]


def _is_held(lock: Path) -> bool:
    """Whether an `up` runs there: one that was killed leaves its file behind, but not its lock."""
    try:
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _environment_of_the_running_home() -> None:
    """Takes what is missing from `run.json` of a running `manage.py up`, so that other commands need no set-up."""
    run_file = Path(os.environ.get("BERTH_HOME", str(BASE_DIR / "var"))) / "run.json"
    if STARTING or "DATABASE_URL" in os.environ or not run_file.exists() or not _is_held(run_file.with_name("up.lock")):
        return
    for name, value in json.loads(run_file.read_text())["env"].items():
        os.environ.setdefault(name, value)


_environment_of_the_running_home()
env = environ.Env()

DEBUG = env.bool("DEBUG", default=False)
HOME = Path(env.str("BERTH_HOME", default=str(BASE_DIR / "var")))
DATABASE_URL = env.str("DATABASE_URL", default="")
REDIS_URL = env.str("REDIS_URL", default="redis://127.0.0.1:6379/0")
BROKER_URL = env.str("BROKER_URL", default=REDIS_URL)
LIVE_URL = env.str("LIVE_URL", default="")
WEB_URL = env.str("WEB_URL", default="")
PUBLIC_URL = env.str("PUBLIC_URL", default=WEB_URL).rstrip("/")  # where upstreams reach us, to call back
FLOWER_URL = env.str("FLOWER_URL", default="")
LOG_LEVEL = env.str("LOG_LEVEL", default="INFO").upper()
LOG_FORMAT = env.str("LOG_FORMAT", default="text").lower()
logs.check(LOG_LEVEL, LOG_FORMAT)

# Development keys exist only with DEBUG; production must bring its own.
_stand_in = installation_keys.DEVELOPMENT if DEBUG or STARTING else {}
SECRET_KEY, FIELD_KEYS, KEY_PEPPERS = (
    env.str(name, **({"default": _stand_in[name]} if name in _stand_in else {}))
    for name in ("SECRET_KEY", "FIELD_KEYS", "KEY_PEPPERS")
)
# Keys of before, newest first: what they signed (addresses of running jobs, cursors, logins) is taken, and nothing new signed.
SECRET_KEY_FALLBACKS = [key.strip() for key in env.list("SECRET_KEY_FALLBACKS", default=[]) if key.strip()]
installation_keys.check_field_keys(FIELD_KEYS)  # "k2:<fernet>,k1:<fernet>": the first one seals, all open
installation_keys.check_key_peppers(KEY_PEPPERS)  # "2:<hex>,1:<hex>": the first one seals, all verify
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["127.0.0.1", "localhost"])
ALIVE_FILE = env.str("ALIVE_FILE", default="")  # touched by each sweep: a container's health check looks at its age
# Cookies only over TLS, where a proxy that speaks it stands in front. That a request came over TLS is what uvicorn says,
# which believes the proxies of FORWARDED_ALLOW_IPS; Django's own setting would believe anybody.
BEHIND_TLS = env.bool("BEHIND_TLS", default=False)

LEASE_SECONDS = env.float("LEASE_SECONDS", default=15.0)
SWEEP_SECONDS = env.float("SWEEP_SECONDS", default=1.0)
DRAIN_SECONDS = env.float("DRAIN_SECONDS", default=20.0)
LONGEST_RESTART_SECONDS = env.float(
    "LONGEST_RESTART_SECONDS", default=10.0
)  # before `up` starts again what keeps dying
PREPARED_STATEMENTS = env.bool("PREPARED_STATEMENTS", default=True)  # off behind a proxy that pools by transaction
DATABASE_POOL_SIZE = env.int("DATABASE_POOL_SIZE", default=10)
MAX_FILE_BYTES = env.int("MAX_FILE_BYTES", default=100_000_000)
MAX_RESULT_BYTES = env.int("MAX_RESULT_BYTES", default=256_000)  # of JSON; a larger result is a file
TENANT_FILE_BYTES = env.int("TENANT_FILE_BYTES", default=10_000_000_000)  # of inputs, where a tenant has no own bound
FILE_TTL_SECONDS = env.float("FILE_TTL_SECONDS", default=86_400.0)
RESULT_TTL_SECONDS = env.float("RESULT_TTL_SECONDS", default=7 * 86_400.0)
if LEASE_SECONDS < 3 * SWEEP_SECONDS:
    raise ImproperlyConfigured("LEASE_SECONDS must be at least three times SWEEP_SECONDS: a heartbeat each third of it")
if DATABASE_POOL_SIZE < 2:
    raise ImproperlyConfigured(
        "DATABASE_POOL_SIZE must be at least 2: the sweep keeps its lock on one and works on another"
    )

INSTALLED_APPS = [
    "broker_project",  # first: its templates stand before those of the admin
    "unfold",
    "unfold.contrib.filters",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "pgtrigger",
    "statemachine",
    "tenants",
    "pool",
    "credits",
    "webhooks",
    "files",
    "upstream",
    "jobs",
]
MIDDLEWARE = [
    "broker_project.request_ids.RequestIds",
    "broker_project.errors.Problems",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "broker_project.urls"
WSGI_APPLICATION = "broker_project.wsgi.application"
APPEND_SLASH = False
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

# Every role has an end to its transactions: one forgotten snapshot makes any queue in Postgres slow.
# Prepared statements here find rows by key through an index: to plan them anew for each value gains nothing.
_SESSION = (
    "-c statement_timeout=30s -c lock_timeout=10s -c idle_in_transaction_session_timeout=30s"
    " -c plan_cache_mode=force_generic_plan"
)
# A network that swallows everything is noticed by the kernel too, also where nobody waits for an answer.
_ALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4, "tcp_user_timeout": 30_000}
_database: dict[str, Any] = environ.Env.db_url_config(DATABASE_URL or "postgres://postgres@127.0.0.1:5432/berth")
_database.update(
    ENGINE="broker_project.postgres_pool",
    CONN_MAX_AGE=0,  # closing gives the connection back to SQLAlchemy's pool
    OPTIONS={**_ALIVE, **_database.get("OPTIONS", {}), "options": _SESSION, "connect_timeout": 5},
)
DATABASES = {"default": _database}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False  # one language
FORMAT_MODULE_PATH = "broker_project.formats"
# Web and the workers must see the same files: on several machines the storage is a shared one, such as S3.
STORAGES = {
    "default": {
        "BACKEND": env.str("FILE_STORAGE", default="django.core.files.storage.FileSystemStorage"),
        "OPTIONS": env.json("FILE_STORAGE_OPTIONS", default={}),
    },
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
MEDIA_ROOT = HOME / "files"
STATIC_URL = "static/"
STATIC_ROOT = HOME / "static"
STATIC_ROOT.mkdir(parents=True, exist_ok=True)  # WhiteNoise warns of a folder that is not there
WHITENOISE_USE_FINDERS = not (STATIC_ROOT / "admin").exists()  # an image has them collected
WHITENOISE_AUTOREFRESH = DEBUG
SECURE_CONTENT_TYPE_NOSNIFF = True
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = BEHIND_TLS
# Browsers share cookies between the ports of a host: two installations on one machine would log each other out.
# By the oldest key, so that a new one ends no login while those of before are taken.
_installation = hashlib.sha256([SECRET_KEY, *SECRET_KEY_FALLBACKS][-1].encode()).hexdigest()[:8]
SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = f"berth_session_{_installation}", f"berth_csrf_{_installation}"
SECURE_HSTS_SECONDS = env.int("HSTS_SECONDS", default=0)
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])  # only where a proxy rewrites Host
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024

LOGIN_URL = "admin:login"
UNFOLD = {
    "SITE_TITLE": "Berth",
    "SITE_HEADER": "Berth",
    "SITE_SYMBOL": "anchor",
    "SITE_URL": None,
    "SHOW_HISTORY": True,
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": "broker_project.control.menu.icon"}],
    "STYLES": ["broker_project.control.menu.stylesheet"],
    "SIDEBAR": {"show_search": False, "navigation": "broker_project.control.menu.navigation"},
}

REST_FRAMEWORK = {
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_AUTHENTICATION_CLASSES": ["jobs.api.authentication.ApiKeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["jobs.api.authentication.HasScope"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "broker_project.errors.problem_response",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Berth",
    "DESCRIPTION": "Jobs for a fixed pool of upstream capacity: submit, ask, wait, cancel; credits are held and charged once.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SERVE_AUTHENTICATION": [],
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"berth": {"()": "broker_project.logs.formatter", "form": LOG_FORMAT}},
    "filters": {"damping": {"()": "broker_project.log_damping.Damping"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "berth", "filters": ["damping"]}},
    "root": {"handlers": ["console"], "level": LOG_LEVEL},
    # A line per task would cost as much as a small task; Flower shows them, the moves tables keep them.
    "loggers": {
        name: {"level": "WARNING"} for name in ("celery.worker.strategy", "celery.app.trace", "celery.beat", "kombu")
    }
    # Its line "NAME ready." is how the supervisor knows.
    | {"celery.apps.worker": {"level": "INFO"}}
    # A refused request is its sender's concern: anybody could fill the log with them.
    | {"django.request": {"level": "ERROR"}, "django.security": {"handlers": [], "propagate": False}}
    # Uvicorn has set up handlers of its own before it loads us.
    | {name: {"level": "INFO", "handlers": [], "propagate": True} for name in ("uvicorn", "uvicorn.error")}
    # A line per request is a proxy's to write; without a handler uvicorn does not even make it.
    | {"uvicorn.access": {"handlers": [], "propagate": False}},
}
