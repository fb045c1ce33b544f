"""What the submit page says before one submits: which profile can judge what, and what its figures mean."""

from typing import Any

from django.conf import settings
from django.utils import timezone

from evaluator.contract import Mode
from evaluator.hardware.profiles import Profile
from portal.accounts.models import User
from portal.submissions.queue import Capability, capabilities
from portal.submissions.quotas import Forecast, forecasts, payer_of_author


def note(capability: Capability) -> str:
    """One or two sentences on what choosing this profile means at this moment."""
    profile = capability.profile
    sizes = " and ".join(profile.sizes[Mode.RANKED])
    if profile.is_ranked_by_speed:
        measured = f"Ranked by speed at the sizes {sizes}."
    else:
        plural = "s" * (len(profile.sizes[Mode.RANKED]) > 1)
        times = "times are indicative" if profile.measures_time else "nothing is timed, as all ranks share one GPU"
        measured = (
            f"A practice board, judged at the size{plural} {sizes}: "
            f"it lists correct entries in the order of submission; {times}."
        )
    if capability.is_paused:
        paused = f"{measured} The operator has paused its queue: you can submit, and the submission waits."
        return f"{paused} Reason: {capability.pause_reason}" if capability.pause_reason else paused
    if not capability.is_online and capability.trouble:
        return f"{measured} Its node is online and judges nothing: {capability.trouble}"
    if not capability.is_online:
        return (
            f"{measured} No node is online for it now{_last_served(capability)}: a submission waits, and ends "
            f"unjudged and without cost if no node takes it within {settings.UNSERVED_HOURS:.0f} hours."
        )
    backends = ", ".join(capability.backends) or "no backend"
    slots = f"{capability.slots} slot{'s' if capability.slots != 1 else ''} online"
    return f"{measured} {slots}, for {backends}."


def _last_served(capability: Capability) -> str:
    if capability.served_at is None:
        return ", and none is known to have served it"
    return f", the last one served it at {capability.served_at:%Y-%m-%d %H:%M} UTC"


def _for_script(capability: Capability, forecast: Forecast) -> dict[str, Any]:
    profile = capability.profile
    return {
        "title": profile.title,
        "backends": [backend.value for backend in profile.backends],
        "online": capability.is_online,
        "note": f"{note(capability)} {forecast.words}",
    }


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
                capability.profile.name: _for_script(capability, costs[capability.profile.name])
                for capability in chosen
            },
            "maxBytes": settings.SUBMISSION_MAX_BYTES,
        },
        "max_kib": settings.SUBMISSION_MAX_BYTES // 1024,
    }
