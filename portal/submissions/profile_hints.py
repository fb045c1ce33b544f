"""What the submit page says before one submits: which profile can judge what, and what its figures mean."""

from typing import Any

from django.conf import settings
from django.template.loader import render_to_string
from django.utils import timezone

from evaluator.hardware.profiles import Profile
from portal.accounts.models import User
from portal.submissions.queue import Capability, capabilities
from portal.submissions.quotas import forecasts, payer_of_author


def note(capability: Capability) -> str:
    """One or two sentences on what choosing this profile means at this moment."""
    context = {"capability": capability, "profile": capability.profile, "hours": f"{settings.UNSERVED_HOURS:.0f}"}
    return " ".join(render_to_string("submissions/profile_note.txt", context).split())


def submit_data(*, profiles: list[Profile], author: User, last: str) -> dict[str, Any]:
    """What the submit page says of these profiles; the forecasts are the author's, and so is the `last` choice.

    A profile without a node is offered first only where it is that choice, or where none is online.
    """
    able = capabilities()
    chosen = [able[profile.name] for profile in profiles]
    found = forecasts(payer_of_author(author), [profile.name for profile in profiles], now=timezone.now())
    costs = {forecast.price.profile: forecast for forecast in found}
    online = [capability.profile.name for capability in chosen if capability.is_online]
    default = last or (online[-1] if online else chosen[0].profile.name)
    return {
        "capabilities": chosen,
        "default_profile": default,
        "forecasts": found,
        "unserved_hours": f"{settings.UNSERVED_HOURS:.0f}",
        "default_note": f"{default}: {note(able[default])} {costs[default].words}",
        "script": {
            "profiles": {
                capability.profile.name: {
                    "title": capability.profile.title,
                    "backends": [backend.value for backend in capability.profile.backends],
                    "online": capability.is_online,
                    "note": f"{note(capability)} {costs[capability.profile.name].words}",
                }
                for capability in chosen
            },
            "maxBytes": settings.SUBMISSION_MAX_BYTES,
        },
        "max_kib": settings.SUBMISSION_MAX_BYTES // 1024,
    }
