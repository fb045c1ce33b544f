"""The site's Celery application: it hears from nodes on the `portal` queue and sends them work on theirs."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
