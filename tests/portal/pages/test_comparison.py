"""A submission beside an earlier one and beside the reference."""

from django.urls import reverse

from evaluator.contract import SCORE_RULE, SourceBundle, SourceFile, Verdict
from portal.submissions.models import Submission
from portal.submissions.reports.differences import compare
from tests.portal.pages import scenes


def bundle(**files):
    named = {"solution.py": "", **{name.replace("_py", ".py"): text for name, text in files.items()}}
    return SourceBundle(files=tuple(SourceFile(path=path, text=text) for path, text in sorted(named.items())))


def address(submission, **query):
    return reverse("submissions:compare", args=[submission.pk], query=query)


def test_a_changed_line_is_one_removed_and_one_added_with_its_numbers():
    before, after = "a\nb\nc\nd\ne\nf\ng\n", "a\nb\nc\nd\ne\nF\ng\n"
    [file] = compare(bundle(solution_py=before), bundle(solution_py=after))
    assert (file.path, file.added, file.removed) == ("solution.py", 1, 1)
    assert [(line.kind, line.old, line.new, line.text) for line in file.lines] == [
        ("same", 3, 3, "c"),
        ("same", 4, 4, "d"),
        ("same", 5, 5, "e"),
        ("removed", 6, None, "f"),
        ("added", None, 6, "F"),
        ("same", 7, 7, "g"),
    ]


def test_a_new_file_is_all_added_and_an_equal_one_is_left_out():
    [file] = compare(bundle(solution_py="x\n"), bundle(solution_py="x\n", helper_py="y\nz\n"))
    assert (file.path, file.added, file.removed) == ("helper.py", 2, 0)


def test_the_page_leads_to_the_previous_attempt_and_says_what_became_of_it(as_alice, alice, local):
    old = scenes.judged(alice, local, score=1.25)
    new = scenes.judged(alice, local, score=1.5)
    page = as_alice.get(reverse("submissions:detail", args=[new.pk])).content.decode()
    assert f"{address(new)}?with={old.pk}" in page
    assert "1 line added, 1 removed" in page
    assert "previous attempt" not in as_alice.get(reverse("submissions:detail", args=[old.pk])).content.decode()


def test_the_comparison_shows_source_verdicts_and_times(as_alice, alice, local):
    scenes.judged(alice, local, verdict=Verdict.WRONG_RESULT)
    old = scenes.judged(alice, local, score=1.25)
    new = scenes.judged(alice, local, score=1.5)
    page = as_alice.get(address(new)).content.decode()
    assert page.count('class="is-added"') == page.count('class="is-removed"') == 1
    assert page.count("about as fast") == 2
    assert "Times as fast" in page
    assert page.count("<option") == 3  # two earlier ones, the reference
    assert f'value="{old.pk}" selected' in page


def test_every_submission_compares_with_the_reference(as_alice, alice):
    page = as_alice.get(address(scenes.submit(alice))).content.decode()
    assert "From the reference" in page
    assert 'class="is-removed"' in page


def test_nobody_compares_with_what_they_may_not_read(client, alice, bob, local):
    private = scenes.judged(alice, local)
    public = scenes.judged(alice, local, visibility="public")
    client.force_login(bob)
    assert "previous attempt" not in client.get(reverse("submissions:detail", args=[public.pk])).content.decode()
    assert client.get(address(public, **{"with": str(private.pk)})).status_code == 404
    assert client.get(address(private)).status_code == 404
    assert client.get(address(public, **{"with": "nonsense"})).status_code == 404


def test_a_running_stage_says_how_long_it_usually_takes(as_alice, alice, local):
    scenes.judged(alice, local)
    submission = scenes.submit(alice)
    scenes.lease(submission, local, stage="timing")
    page = as_alice.get(reverse("submissions:detail", args=[submission.pk])).content.decode()
    assert "of about 0.5 s" in page
    assert "usually about 5 s" in page


def test_the_source_of_a_program_that_the_site_does_not_show_is_in_no_comparison(client, as_alice, alice, local):
    """Recorded runs come without their programs. Another author's equal text may fill such a source later."""
    old = scenes.judged(alice, local, visibility="public")
    hidden = scenes.judged(alice, local, visibility="public")
    Submission.objects.filter(pk=hidden.pk).update(published_by="Somebody, in a list.")
    new = scenes.judged(alice, local, visibility="public")
    for reader in (client, as_alice):
        for submission, other in ((hidden, "reference"), (hidden, old.pk), (new, hidden.pk)):
            page = reader.get(address(submission, **{"with": str(other)})).content.decode()
            assert "This site does not show the source" in page
            assert 'class="is-added"' not in page
        for submission in (hidden, new):
            page = reader.get(reverse("submissions:detail", args=[submission.pk])).content.decode()
            assert "With the previous attempt" in page
            assert "removed</span>" not in page
            assert "the same source" not in page


def test_times_by_two_rules_are_not_compared(as_alice, alice, local):
    scenes.judged(alice, local, score=1.25, rule=SCORE_RULE - 1)
    new = scenes.judged(alice, local, score=1.5)
    page = as_alice.get(address(new)).content.decode()
    assert "Times as fast" not in page
