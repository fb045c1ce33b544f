"""The roofline explorer: its views, its numbers and what it never mixes."""

import csv
import io
import re

import msgspec
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from evaluator.contract import SCORE_RULE, Baseline, BaselineTable
from evaluator.hardware import ceilings
from evaluator.hardware.profiles import profiles
from evaluator.judging.floors import floor
from portal.catalog import measurements, rooflines
from portal.charts.chart import Points
from portal.explorer import roofline_table
from problems import registry
from problems.spec.schema import SizeName
from tests.portal.pages import scenes

GPU = "h200x8-nomc"
BOUNDS = ("wire", "arithmetic", "memory", "latency")
pytestmark = pytest.mark.django_db


def _rows(client, **query):
    text = client.get("/roofline/data.csv", query).content.decode()
    return list(csv.DictReader(io.StringIO(text)))


def _figure(client, **query):
    return client.get("/roofline/", query).context["figure"]


def _points(figure, name):
    """The points of every layer whose name begins with `name`."""
    layers = [layer for layer in figure.layers if isinstance(layer, Points) and layer.name.startswith(name)]
    return [point for layer in layers for point in layer.points]


def _names(figure):
    return {layer.name for layer in figure.layers}


def test_every_problem_that_runs_on_the_profile_has_its_row(client):
    rows = _rows(client, size="all")
    runs = [problem for problem in registry.problems() if problem.refuses_world_size(8) is None]
    assert [row["slug"] for row in rows[::2]] == [problem.slug for problem in runs]
    assert {row["size"] for row in rows} == {"base", "large"}


def test_the_floor_is_that_of_the_judge(client):
    problem, peaks = registry.get("gemm_allreduce"), profiles()[GPU].peaks
    cost = problem.cost(problem.dims(SizeName.BASE, 8), 8, 2)
    (row,) = [row for row in _rows(client, profile=GPU) if row["slug"] == problem.slug]
    assert float(row["floor_us"]) == floor(cost, peaks).us


def test_every_gpu_profile_has_its_rooflines(client):
    for name in (profile.name for profile in profiles().values() if profile.peaks is not None):
        assert client.get("/roofline/", {"profile": name, "size": "all"}).status_code == 200, name


def test_the_terms_of_a_floor_are_its_largest_and_its_sum(client):
    for row in _rows(client, size="all"):
        terms = [float(row[f"{term}_us"]) for term in ("arithmetic", "memory", "wire")]
        assert float(row["floor_us"]) == max(terms)
        assert float(row["without_overlap_us"]) == sum(terms)


def test_public_references_are_labelled_and_never_ours(client):
    figure = _figure(client, profile=GPU)
    assert _points(figure, "our reference") == []
    assert len(_points(figure, "public reference, public inputs")) > 50
    page = client.get("/roofline/", {"profile": GPU}).content.decode()
    assert "is not our baseline" in page
    assert "gemv_decode (number 46 of the public set was another problem" in page
    rows = {row["slug"]: row for row in _rows(client, profile=GPU)}
    assert rows["allreduce"]["public_reference_us"] == "100.0"
    assert rows["allreduce"]["reference_us"] == ""
    assert rows["gemv_decode"]["public_reference_us"] == rows["fsdp_and_tp"]["public_reference_us"] == ""


@pytest.mark.parametrize("name", [name for name in profiles() if measurements.baselines(name) is not None])
def test_shipped_baselines_are_drawn_and_none_is_faster_than_its_floor(client, name):
    rows = _rows(client, profile=name, size="all")
    known = [row for row in rows if row["reference_us"]]
    table = measurements.baselines(name)
    assert len(known) == sum(
        entry.revision == registry.revision(slug) for slug, sizes in table.baselines.items() for entry in sizes.values()
    )
    assert [row["slug"] for row in known if float(row["reference_us"]) < float(row["floor_us"])] == []
    assert _points(_figure(client, profile=name, size="all"), "our reference") != []


def test_a_reference_that_is_faster_on_inputs_it_has_met_says_so(monkeypatch):
    (point, *_) = rooflines.points("h200x2-nomc", {})
    known = measurements.baseline(point.work.problem.slug, profile="h200x2-nomc", size=point.work.size)
    for met_us, says in ((known.median_us / 2, True), (known.median_us * 0.9, False), (None, False)):
        found = msgspec.structs.replace(known, met_us=met_us)
        monkeypatch.setattr(measurements, "baseline", lambda *_, found=found, **__: found)
        shown = rooflines.point(point.work, profile="h200x2-nomc", entry=None)
        row = roofline_table.table_rows([shown], profile="h200x2-nomc", has_public=False)
        assert ("on inputs it has met" in row) is says


def test_the_page_says_how_many_references_reach_less_than_half_of_their_roofline(client):
    rows = [row for row in _rows(client, profile="h200x2-nomc", size="base") if row["reference_us"]]
    below = sum(float(row["floor_us"]) < 0.5 * float(row["reference_us"]) for row in rows)
    page = client.get("/roofline/", {"profile": "h200x2-nomc", "size": "base"}).content.decode()
    every = _rows(client, profile="h200x2-nomc", size="base")
    counts = [f"{bound} {sum(row['bound'] == bound for row in every)}" for bound in BOUNDS]
    assert f"What bounds the {len(every)} rows: {', '.join(counts)}." in page
    assert f"{below} of {len(rows)} references reach less than half of their roofline." in page
    assert "50 to 100 %" in page


def test_public_references_belong_to_one_profile(client):
    assert all(row["public_reference_us"] == "" for row in _rows(client, profile="h100x4"))


def test_a_best_entry_stands_beside_the_reference_of_its_own_evaluation(client, alice, bob, local):
    scenes.judged(alice, local, problem="gemm_allreduce", profile=GPU, score=1.1)
    scenes.judged(bob, local, problem="gemm_allreduce", profile=GPU, score=1.9)
    (row,) = [row for row in _rows(client, profile=GPU) if row["slug"] == "gemm_allreduce"]
    assert (row["best_author"], row["best_us"], row["reference_us"]) == ("bob", "80.0", "100.0")
    assert row["reference_source"] == "side by side with the best entry"
    figure = _figure(client, profile=GPU)
    (reference,), (best,) = _points(figure, "our reference"), _points(figure, "best entry")
    joined = scenes.layer(figure, "reference to best").points
    assert [(point.x, point.y) for point in joined] == [(reference.x, reference.y), (best.x, best.y)]
    assert best.label == "GEMM + all-reduce 1.90× at base"  # noqa: RUF001 - the multiplication sign is meant
    assert best.href == "/problems/gemm_allreduce/"


@pytest.mark.parametrize(("axis", "unplaced"), [("wire", "alltoall"), ("memory", "alltoall")])
def test_what_computes_nothing_is_in_the_table_and_said_to_have_no_place(client, axis, unplaced):
    page = client.get("/roofline/", {"axis": axis}).content.decode()
    assert "are not plotted" in page
    assert f"/problems/{unplaced}/" in page


def test_the_axis_of_bytes_has_a_place_for_collectives(client):
    tips = {point.tip.split("\n")[0] for point in _points(_figure(client, profile="h200x2-nomc", axis="traffic"), "")}
    assert "08 All-to-all of stacked matrices, base" in tips


def test_rows_are_sorted_by_link_and_unknown_values_come_last(client):
    rows = _rows(client, sort="public", order="descending")
    known = [float(row["public_reference_us"]) for row in rows if row["public_reference_us"]]
    assert known == sorted(known, reverse=True)
    assert [bool(row["public_reference_us"]) for row in rows] == [True] * len(known) + [False] * (
        len(rows) - len(known)
    )
    page = client.get("/roofline/", {"sort": "floor"}).content.decode()
    assert 'aria-sort="ascending"' in page
    assert "sort=floor&amp;order=descending" in page


def test_the_address_restores_the_zoomed_part(client):
    figure = _figure(client, window="0,4,9,12")
    assert (figure.x.low, figure.x.high, figure.y.low, figure.y.high) == (1.0, 1e4, 1e9, 1e12)


def test_the_explorer_opens_on_the_hardware_with_most_boards(client, alice, local):
    assert client.get("/roofline/").context["view"].profile in ("h200x2-nomc", "h200x4-nomc")
    scenes.judged(alice, local, problem="gemm_allreduce", profile="h100x8")
    assert client.get("/roofline/").context["view"].profile == "h100x8"


def test_the_chart_is_a_picture_file_as_well(client):
    answer = client.get("/roofline/chart.svg", {"profile": GPU, "window": "0,4,9,12"})
    assert answer.content.startswith(b"<svg")
    assert answer["Content-Disposition"] == f'attachment; filename="pkb-roofline-{GPU}.svg"'


@pytest.mark.parametrize(
    "query",
    [
        {"profile": "cpux2"},
        {"axis": "z"},
        {"size": "huge"},
        {"block": "x"},
        {"sort": "x"},
        {"window": "1,2,3"},
        {"window": "4,1,2,3"},
        {"window": "nan,1,2,3"},
    ],
)
def test_a_view_that_does_not_exist_is_a_404_that_says_what_there_is(client, query):
    response = client.get("/roofline/", query)
    assert response.status_code == 404
    assert "Choose one of" in response.content.decode() or "powers of ten" in response.content.decode()


@pytest.mark.parametrize("address", ["/roofline/", "/roofline/data.csv?size=all"])
def test_the_number_of_queries_does_not_grow_with_the_entries(client, local, address, django_assert_num_queries):
    scenes.judged(scenes.person("first"), local, profile=GPU)
    with CaptureQueriesContext(connection) as few:
        client.get(address)
    for name, problem in (("second", "allreduce"), ("third", "gemm_allreduce")):
        scenes.judged(scenes.person(name), local, profile=GPU, problem=problem)
    with django_assert_num_queries(len(few)):
        client.get(address)


def test_a_measured_baseline_is_read_for_its_own_revision_alone(tmp_path):
    def measured(revision):
        return Baseline(
            revision=revision,
            dims={},
            dtype="bfloat16",
            calls=20,
            median_us=90.0,
            low_us=89.0,
            high_us=91.0,
            p10_us=88.0,
            p90_us=92.0,
            rank_medians_us=(90.0,),
        )

    held = {"allreduce": {"base": measured(registry.revision("allreduce"))}, "allgather": {"base": measured("older")}}
    table = BaselineTable(
        profile=GPU, measured_at="2026-12-01T00:00:00+00:00", environment={}, baselines=held, rule=SCORE_RULE
    )
    (tmp_path / f"{GPU}.json").write_text(table.to_json())
    present = measurements.baseline("allreduce", profile=GPU, size="base", folder=tmp_path)
    assert present is not None
    assert present.median_us == 90.0
    assert measurements.baseline("allgather", profile=GPU, size="base", folder=tmp_path) is None


def _problem_figure(client, slug, **query):
    answer = client.get(f"/problems/{slug}/", query)
    return answer.content.decode(), answer.context["roofline_figure"]


def test_a_problem_page_shows_its_roofline_with_the_entries_of_its_board(client, alice, bob, local):
    public = scenes.judged(alice, local, problem="gemm_allreduce", profile=GPU, visibility="public")
    scenes.judged(bob, local, problem="gemm_allreduce", profile=GPU)
    page, figure = _problem_figure(client, "gemm_allreduce")
    assert "public reference, public inputs" in page.lower()
    entries = _points(figure, "entries")
    assert len(entries) == 4
    assert {entry.href for entry in entries} == {
        f"/submissions/{public.pk}/?evaluation={public.evaluations.get().pk}",
        "",
    }


def test_a_problem_that_computes_nothing_stands_by_its_bytes(client):
    _, figure = _problem_figure(client, "alltoall", profile="h100x4")
    assert figure.x.title == "Minimum bytes on the wire per rank"
    assert _points(figure, "public reference, public inputs") == []


def test_a_problem_that_was_left_out_says_why(client):
    page, _ = _problem_figure(client, "fsdp_and_tp", profile=GPU)
    assert "It is left out for this problem: the public reference takes 1.67 s a call" in page


def test_on_cpu_ranks_a_problem_keeps_its_roofline_of_gpus(client):
    shown = client.get("/problems/alltoall/", {"profile": "cpux2"}).context
    assert (shown["profile"].name, shown["roofline_profile"].name) == ("cpux2", "h200x2-nomc")


@pytest.fixture
def read_anew():
    """Ceilings are read once per process: before and after a test that brings its own, they are read again."""
    measurements.ceilings.cache_clear()
    rooflines.works.cache_clear()
    yield
    measurements.ceilings.cache_clear()
    rooflines.works.cache_clear()


def test_measured_ceilings_are_drawn_beside_the_datasheet(client, tmp_path, monkeypatch, read_anew):
    found = ceilings.Ceilings(
        profile="h100x4",
        measured_at="2026-12-01T00:00:00+00:00",
        environment={},
        arithmetic_flops={"bfloat16": 700e12},
        memory_bytes_s=3e12,
        pairs=(
            ceilings.PairRate(source=0, target=1, bytes_s=380e9),
            ceilings.PairRate(source=1, target=0, bytes_s=370e9),
        ),
        collectives=(
            ceilings.CollectiveRate(name="all_reduce", message_bytes=2**20, median_us=50.0, bus_bytes_s=30e9),
            ceilings.CollectiveRate(name="all_reduce", message_bytes=2**24, median_us=90.0, bus_bytes_s=200e9),
            ceilings.CollectiveRate(name="all_gather", message_bytes=2**24, median_us=70.0, bus_bytes_s=150e9),
        ),
        empty_collective_us=12.0,
    )
    (tmp_path / "h100x4.json").write_text(found.to_json())
    monkeypatch.setattr(ceilings, "FOLDER", tmp_path)
    wire = _names(_figure(client, profile="h100x4"))
    assert {"peer copy 370 GB/s (measured)", "bf16 700 TFLOP/s (measured)", "wire 450 GB/s (datasheet)"} <= wire
    memory = _names(_figure(client, profile="h100x4", axis="memory"))
    assert {"memory 3 TB/s (measured)", "memory 3.35 TB/s (datasheet)"} <= memory
    answer = client.get("/roofline/", {"profile": "h100x4"})
    page, curves = answer.content.decode(), answer.context["collectives"]
    drawn = [layer for layer in curves.layers if isinstance(layer, Points)]
    assert {layer.name: [point.y for point in layer.points] for layer in drawn} == {
        "all-reduce": [30.0, 200.0],
        "all-gather": [150.0],
    }
    reached = page.split('id="reached"')[1]
    assert "370 GB/s" in reached
    assert re.search(r">1.00 MiB</th><td[^>]*>50.0 µs<.*?>30.0 GB/s<.*?>none<", reached)


def test_home_opens_on_references_by_the_current_rule_while_nobody_has_a_place(client):
    page = client.get("/")
    shown = page.context["roofline_profile"].name
    assert measurements.baselines(shown).rule == SCORE_RULE
    assert "No kernel has been timed there yet." in page.content.decode()
