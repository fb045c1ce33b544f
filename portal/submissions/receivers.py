"""GPU time is charged when an evaluation ends, and given back when an operator decides so."""

from portal.submissions.hooks import EvaluationEnded, EvaluationRefunded, evaluation_ended, evaluation_refunded
from portal.submissions.models import GpuUse
from portal.submissions.quotas import charge


@evaluation_ended.receiver
def on_evaluation_ended(ended: EvaluationEnded) -> None:
    """Replace the reservation of the evaluation by the GPU time that it used."""
    evaluation = ended.evaluation
    reserved = GpuUse.objects.filter(evaluation=evaluation, used_gpu_s=None)
    reserved.update(used_gpu_s=charge(evaluation), at=evaluation.finished_at)


@evaluation_refunded.receiver
def on_evaluation_refunded(refunded: EvaluationRefunded) -> None:
    """Give back the GPU time of an ended evaluation; a second call changes nothing."""
    GpuUse.objects.filter(evaluation=refunded.evaluation).exclude(used_gpu_s=None).update(used_gpu_s=0.0)
