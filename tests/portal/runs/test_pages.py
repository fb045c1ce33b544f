"""The pages of models and runs, as a vendor, a colleague and a stranger meet them."""

import io
import re
import zipfile

import msgspec
import pytest
from django.urls import reverse

from evaluator.contract import SCORE_RULE, Primitive, Verdict
from portal.runs import actions, queries
from portal.runs.models import Run
from portal.runs.page_data import progress
from tests.evaluator.timed_records import report_of, series
from tests.portal.runs.rows import add, end, line, lines, make_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def as_alice(client, alice):
    client.force_login(alice)
    return client


@pytest.fixture
def published(alice, node):
    """Two published runs, one of them an agent's with check steps and costs."""
    agent = make_run(alice, model="agent", mode="agentic")
    wanted = [
        line(step=0, mode="check", cost_usd=0.5, trajectory="I will <b>try</b>"),
        line(step=1, mode="check", cost_usd=0.5),
        line(step=2, cost_usd=0.1),
        line("allgather", source=""),
    ]
    first, second, last, _ = (result.attempt for result in add(agent, *wanted).results)
    end(first, node, verdict=Verdict.WRONG_RESULT)
    end(second, node)
    end(last, node, low=1.5)
    single = make_run(alice, model="writer", notes="<script>alert(1)</script>")
    end(add(single, line()).results[0].attempt, node, verdict=Verdict.DEADLOCK)
    return [actions.publish_run(run, by=alice, sources="public") for run in (agent, single)]


@pytest.fixture
def addresses(published, alice):
    agent, single = published
    draft = make_run(alice, model="draft")
    attempt = agent.attempts.get(step=0, problem="allreduce")
    return [
        "/models/",
        f"/models/?rows=category&folded=1&run={single.pk}",
        "/leaderboards/models/?profile=cpux2&p=1.2",
        f"/models/{agent.model.slug}/",
        f"/runs/{agent.pk}/",
        f"/runs/{agent.pk}/live/",
        f"/runs/{agent.pk}/problems/allreduce/",
        f"/runs/{agent.pk}/problems/reducescatter/",
        f"/runs/{agent.pk}/attempts/{attempt.pk}/trajectory/",
        f"/runs/{single.pk}/",
        f"/runs/{draft.pk}/",
        f"/runs/compare/?a={agent.pk}&b={single.pk}",
        "/runs/",
        "/runs/new/",
        "/runs/import/",
        "/problems/allreduce/prompt/",
        "/problems/allreduce/prompt/?profile=cpux2&backend=triton",
    ]


def test_every_page_is_there_and_has_no_inline_style_or_script_and_labelled_fields(as_alice, addresses):
    for address in addresses:
        response = as_alice.get(address)
        page = response.content.decode()
        assert response.status_code == 200, address
        assert "unsafe" not in response["Content-Security-Policy"]
        scripts = re.findall(r"<script([^>]*)>([^<]*)", page)
        assert all("src=" in about or "application/json" in about for about, _ in scripts), address
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:|\{%|\{\{", page), address
        for element in re.findall(r"<(?:input|select|textarea)\b[^>]*>", page):
            if 'type="hidden"' not in element:
                identity = re.search(r'\bid="([^"]+)"', element)
                assert f'for="{identity[1]}"' in page, element
        identities = re.findall(r'\sid="([^"]+)"', page)
        assert sorted(set(identities)) == sorted(identities), address


def test_the_board_shows_figures_and_keeps_published_results_apart(client, published):
    page = client.get("/leaderboards/models/?profile=cpux2").content.decode()
    assert "agent 1" in page
    assert "GPT-5.5" not in page
    assert "not measured here and not comparable" in page


def test_the_board_says_which_primitives_solved_problems_with(client, alice, node):
    run = make_run(alice, k=2, mode="best_of_k")
    first, second, _ = (
        result.attempt for result in add(run, line(), line(sample=1), line("allgather", source="x = 1")).results
    )
    end(first, node, primitives=[Primitive.NCCL])
    end(second, node, primitives=[Primitive.TMA, Primitive.NCCL])
    actions.publish_run(run, by=alice, sources="private")
    page = client.get("/leaderboards/models/?profile=cpux2").content.decode()
    assert "<code>nccl</code> 1</span>" in page  # one problem, though two samples use it
    rows = page.split("Primitives used")[-1]
    assert rows.index("<code>tma</code>") < rows.index("<code>nccl</code>")
    assert "of 1 solved" in rows


def test_p_moves_the_board_without_a_script(client, published):
    for p, share in (("1", "1.1"), ("2", "0 %")):
        page = client.get(f"/leaderboards/models/?profile=cpux2&p={p}").content.decode()
        row = page.split("<tbody>")[1].split("</tr>")[0]
        assert share in row.split(f'data-label="fast_{float(p)}@1"')[1].split("</td>")[0]
        # Its only run has one sample per problem: correct@k would be correct@1 once more.
        assert "correct@k" not in row
    assert client.get("/leaderboards/models/?p=x").status_code == 422


def test_a_click_on_a_curve_moves_p(client, published):
    marked, curve, *_ = client.get("/leaderboards/models/?profile=cpux2&p=1.2").context["curve"].layers
    assert (marked.name, [point.x for point in marked.points]) == ("p = 1.2", [1.2, 1.2])
    chosen = [point for point in curve.points if point.href][-1]
    assert chosen.href == f"?profile=cpux2&p={chosen.x}"
    assert f'value="{chosen.x}"' in client.get(f"/leaderboards/models/{chosen.href}").content.decode()


def test_a_stranger_sees_no_draft_and_no_owners_forms(client, alice, published):
    draft = make_run(alice, model="draft")
    for address in (f"/runs/{draft.pk}/", f"/runs/{draft.pk}/problems/allreduce/", f"/models/{draft.model.slug}/"):
        assert client.get(address).status_code == 404
    assert "Add attempts" not in client.get(f"/runs/{published[0].pk}/").content.decode()
    assert "draft" not in client.get("/leaderboards/models/?profile=cpux2").content.decode().split("<main")[1]


def test_a_run_is_made_filled_watched_and_published_in_the_browser(as_alice, node):
    declaration = {"model": "writer", "mode": "best_of_k", "backend": "pytorch", "profile": "cpux2", "k": "2"}
    response = as_alice.post("/runs/new/", declaration)
    run = Run.objects.get()
    assert response["Location"] == reverse("runs:run", args=[run.pk])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        packed.writestr("allreduce/0/solution.py", line()["source"])
    buffer.seek(0)
    buffer.name = "attempts.zip"
    assert as_alice.post(f"/runs/{run.pk}/fill/", {"file": buffer}).status_code == 302

    live = as_alice.get(f"/runs/{run.pk}/live/")
    assert 'data-stream="/live/' in live.content.decode()
    assert as_alice.get(f"/runs/{run.pk}/live/", HTTP_IF_NONE_MATCH=live["ETag"]).status_code == 304
    assert as_alice.post(f"/runs/{run.pk}/publish/", {"sources": "public"}).status_code == 409
    end(run.attempts.get(), node, low=1.5)
    changed = as_alice.get(f"/runs/{run.pk}/live/", HTTP_IF_NONE_MATCH=live["ETag"])
    assert changed.status_code == 200
    assert "every 3s" not in changed.content.decode()
    assert "1.60" in changed.content.decode()
    as_alice.post(f"/runs/{run.pk}/publish/", {"sources": "public"})
    run.refresh_from_db()
    assert run.is_published


def test_wrong_lines_are_named_and_the_others_are_taken(as_alice, alice):
    run = make_run(alice)
    upload = io.BytesIO(lines(line(), line() | {"problem": "alreduce", "sample": 1}))
    upload.name = "attempts.jsonl"
    page = as_alice.post(f"/runs/{run.pk}/fill/", {"file": upload}).content.decode()
    assert "1 of 2 lines were refused" in page
    assert "did you mean allreduce" in page
    assert run.attempts.count() == 1


def test_the_page_of_a_run_takes_the_same_queries_for_one_attempt_and_for_many(
    as_alice, alice, django_assert_num_queries
):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    counts = []
    for number in (1, 20):
        run = make_run(alice, version=str(number))
        add(run, *(line(sample=sample) for sample in range(number)))
        with CaptureQueriesContext(
            connection,
        ) as seen:
            as_alice.get(f"/runs/{run.pk}/")
        counts.append(len(seen))
    # The list of runs to compare with asks once more where there is another run.
    assert abs(counts[0] - counts[1]) <= 1, counts


def test_the_submission_of_an_attempt_names_the_model_and_offers_no_second_judging(client, operator, published):
    attempt = published[0].attempts.get(step=2)
    client.force_login(operator)
    page = client.get(f"/submissions/{attempt.submission_id}/").content.decode()
    assert f'href="/runs/{attempt.run_id}/">agent 1</a>' in page
    assert "alice" not in page
    assert f"/submissions/{attempt.submission_id}/evaluate" not in page


def test_an_agents_progress_is_drawn_and_public_trajectories_are_read_by_anybody(as_alice, published):
    agent, _ = published
    drawn = [as_alice.get(f"/runs/{run.pk}/").context["step_plots"] for run in published]
    assert (len(drawn[0]) > 0, drawn[1]) == (True, [])
    address = f"/runs/{agent.pk}/attempts/{agent.attempts.get(step=0, problem='allreduce').pk}/trajectory/"
    as_alice.logout()
    assert as_alice.get(address).status_code == 200
    Run.objects.filter(pk=agent.pk).update(are_sources_public=False)
    assert as_alice.get(address).status_code == 404


def test_a_run_counts_no_speedup_by_another_rule(alice, node):
    run = make_run(alice)
    end(add(run, line()).results[0].attempt, node, low=5.0, rule=SCORE_RULE - 1)
    end(add(run, line("allgather")).results[0].attempt, node, low=1.0)
    found = queries.run_figures(run)
    assert (found.solved, found.faster, found.score_rule) == (2, 0, SCORE_RULE)
    assert found.geomean_speedup == pytest.approx(1.1)
    assert progress(run)[-1].speedup_solved == pytest.approx(1.1)


def words(answer):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode()))


def back_to_back(base, large):
    """Two sizes at which calls back to back were `base` and `large` times as fast as the reference's."""
    size = report_of(series()).timing.sizes[0]
    return [
        msgspec.structs.replace(size, size=name, looped_us=100.0, baseline_looped_us=100.0 * ratio)
        for name, ratio in (("base", base), ("large", large))
    ]


def test_a_run_is_read_by_score_or_by_calls_back_to_back(client, alice, node):
    run = make_run(alice)
    end(add(run, line()).results[0].attempt, node, low=0.4, sizes=back_to_back(8.0, 0.5))
    end(add(run, line("allgather")).results[0].attempt, node, low=1.5)
    actions.publish_run(run, by=alice, sources="public")
    by_score, back, at_base = (
        words(client.get(f"/runs/{run.pk}/{query}")) for query in ("", "?by=back_to_back", "?by=back_to_back_at_base")
    )
    assert "2 of 87 problems solved, 1 faster" in by_score
    assert "2.00× geomean speedup back to back, over 1 solved problem " in back  # noqa: RUF001 - the sign is meant
    assert "8.00× geomean speedup back to back at base alone" in at_base  # noqa: RUF001 - the sign is meant
    assert "1 of 2 are faster than the reference by the score" in by_score
    assert "and 1 of 1 are faster than the reference back to back at base alone" in by_score
    for page in (f"/models/{run.model.slug}/", "/models/"):
        assert "have no interval and rank nothing" in words(client.get(f"{page}?by=back_to_back"))
        assert "rank nothing" not in words(client.get(page))
    refused = client.get(f"/runs/{run.pk}/?by=luck")
    assert refused.status_code == 404
    assert "Choose one of score, back_to_back, back_to_back_at_base." in words(refused)


def test_runs_of_different_prompts_are_ranked_apart(client, alice, node):
    for name, prompt, verdict in (
        ("told", "pkb-prompt-5-hints", Verdict.PASSED),
        ("first", "pkb-prompt-5", Verdict.PASSED),
        ("second", "pkb-prompt-5", Verdict.DEADLOCK),
        ("own", "pkb-prompt-0", Verdict.PASSED),
        ("silent", "", Verdict.PASSED),
    ):
        run = make_run(alice, model=name, prompt_version=prompt)
        end(add(run, line()).results[0].attempt, node, verdict=verdict)
        actions.publish_run(run, by=alice, sources="public")
    rows = client.get("/api/v1/leaderboards/models/?profile=cpux2").json()["rows"]
    assert [(row["model"]["name"], row["place"], row["prompt_version"]) for row in rows] == [
        ("first", 1, "pkb-prompt-5"),
        ("second", 1, "pkb-prompt-5"),  # one problem apart: not distinguishable
        ("told", 1, "pkb-prompt-5-hints"),
        ("own", 1, "pkb-prompt-0"),
        ("silent", 1, ""),
    ]
    board = client.get("/leaderboards/models/?profile=cpux2").content.decode()
    titles = re.findall(r'<h2 id="prompt-\d">(.+?)</h2>', board)
    assert titles == [
        "Prompt pkb-prompt-5: one-shot",
        "Prompt pkb-prompt-5-hints: with hints",
        "Other prompts, or none declared",
    ]
    assert "These runs did not all have the same prompt" in board
    assert all(words in board for words in ("prompt pkb-prompt-0", "prompt not declared"))
    overview = client.get("/leaderboards/").content.decode()
    leading = overview.split('aria-label="Leading models"')[1].split("</table>")[0]
    assert "with prompt pkb-prompt-5." in leading
    assert re.findall(r'href="/models/([a-z]+)', leading) == ["first", "second"]
    pair = Run.objects.filter(model__name__in=("first", "told")).values_list("pk", flat=True)
    assert "different prompts" in client.get(f"/runs/compare/?a={pair[0]}&b={pair[1]}").content.decode()


def test_what_the_judge_could_not_tell_is_in_no_estimate_and_gains_no_place(client, alice, node):
    for name, verdicts in (
        ("plain", (Verdict.PASSED, Verdict.DEADLOCK)),
        ("lucky", (Verdict.PASSED, Verdict.JUDGE_ERROR)),
    ):
        run = make_run(alice, model=name)
        found = add(run, line(), line("allgather")).results
        for result, verdict in zip(found, verdicts, strict=True):
            end(result.attempt, node, verdict=verdict)
        actions.publish_run(run, by=alice, sources="public")
    plain, lucky = queries.model_board("cpux2")
    assert [row.run.model.name for row in (plain, lucky)] == ["plain", "lucky"]
    assert lucky.figures.measured == plain.figures.measured - 1
    assert lucky.figures.correct_at_1.value > plain.figures.correct_at_1.value
    assert lucky.figures.bounds.high > lucky.figures.bounds.low == plain.figures.bounds.low
    assert f"of {lucky.figures.measured} measured" in client.get("/leaderboards/models/?profile=cpux2").content.decode()
