"""`pkb generate`: a model behind an OpenAI-compatible endpoint over problems."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.progress import Progress, TaskID

from . import output
from .agent import Judge, Plan, Task, Verdict
from .chat import ChatModel, Prices
from .client import Client
from .context import Context, with_context
from .errors import ExitCode, PkbError, UsageError
from .generation import Summary, generate, new_key, opened, prompts_of, run_of
from .generation_log import Event, Log, Settings
from .journal import Journal
from .judges import OwnJudge, RunJudge
from .packing import ENTRY
from .problem_folder import ProblemFolder
from .run_commands import RUN_MODES, settings_of
from .runs import NewRun
from .submission_commands import backend_option, prompt_option

_PATIENCE_S = 3600.0
"""A generation takes hours; it outlasts a restart of the site, and waits for quota that judging will free."""


@click.command("generate")
@click.argument("slugs", nargs=-1, metavar="[SLUG]...")
@click.option("--model", required=True, help="The model's name at the endpoint.")
@click.option("--base-url", envvar="OPENAI_BASE_URL", required=True, help="The endpoint, such as http://127.0.0.1/v1.")
@click.option(
    "--key-variable", default="OPENAI_API_KEY", show_default=True, help="The environment variable with its key."
)
@click.option("--mode", type=click.Choice(RUN_MODES), default="single_shot", show_default=True)
@click.option("--samples", type=click.IntRange(min=1), default=1, show_default=True, help="Samples per problem (k).")
@click.option(
    "--steps", type=click.IntRange(min=2), default=20, show_default=True, help="Maximum number of answers per sample."
)
@click.option(
    "--step-mode",
    type=click.Choice(("check", "benchmark")),
    default="check",
    show_default=True,
    help="check stops at the first program that passes; benchmark times each program and asks for a faster one.",
)
@click.option("--tools", is_flag=True, help="agentic: the model reads and writes files and calls the judge itself.")
@click.option("--sample-tokens", type=click.IntRange(min=1), help="--tools: most tokens of a sample.")
@click.option("--sample-seconds", type=click.FloatRange(min=0), help="--tools: most seconds of model and judge.")
@click.option("--sample-budget", type=click.FloatRange(min=0), help="--tools: most US dollars of a sample.")
@click.option("--profile", envvar="PKB_PROFILE", required=True, help="The profile to judge on.")
@backend_option
@prompt_option
@click.option("--concurrency", type=click.IntRange(min=1, max=256), default=4, show_default=True)
@click.option(
    "--sampling", multiple=True, metavar="NAME=VALUE", help="A setting for every request, such as temperature=0.8."
)
@click.option("--price-in", type=click.FloatRange(min=0), default=0.0, help="US dollars per million input tokens.")
@click.option("--price-out", type=click.FloatRange(min=0), default=0.0, help="US dollars per million output tokens.")
@click.option(
    "--price-cached",
    type=click.FloatRange(min=0),
    help="US dollars per million input tokens that the endpoint had cached.",
)
@click.option("--budget", "budget_usd", type=click.FloatRange(min=0), help="Stop when this much is spent.")
@click.option("--journal", "journal_file", type=click.Path(path_type=Path), help="Default: pkb-MODEL-PROFILE.jsonl.")
@click.option("--run", "run_id", help="Add attempts to this run instead of a new one.")
@click.option("--no-run", is_flag=True, help="Submit under your own name instead of into a run of the model.")
@click.option("--organisation", help="The organisation that owns the run. Default: your own.")
@click.option("--model-version", default="", help="The model's version, for the run.")
@click.option("--provider", default="", help="The model's provider, for the run.")
@click.option("--notes", default="", help="For the run.")
@with_context
def generate_command(context: Context, **options: Any) -> ExitCode:
    """Let a model write programs for the problems SLUG... (default: all problems that the profile runs).

    single_shot and best_of_k submit each answer in mode ranked. agentic submits each answer in mode check and shows the
    model the same diagnosis as a person. At the end it submits the best program in mode ranked. The journal records
    every step: after an interruption the same command resumes and repeats no question.
    """
    chosen = Options(**options)
    if chosen.mode == "single_shot" and chosen.samples > 1:
        raise UsageError(f"--samples {chosen.samples}: a single shot has one; use --mode best_of_k or agentic.")
    if chosen.tools and chosen.mode != "agentic":
        raise UsageError(f"--tools: a model in mode {chosen.mode} has none; use --mode agentic.")
    if not chosen.tools and (chosen.sample_tokens or chosen.sample_seconds or chosen.sample_budget):
        raise UsageError("--sample-tokens, --sample-seconds and --sample-budget bound samples with --tools.")
    site = context.client(least_patience_s=_PATIENCE_S)
    with site as pkb, Journal[Event](chosen.journal_path, Event) as journal:
        settings = opened(journal, chosen.settings(pkb.site))
        summary = _generated(pkb, Log(journal, settings.prices), chosen, settings)
    return _shown(context, summary, chosen.journal_path)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command was called with."""

    slugs: tuple[str, ...]
    model: str
    base_url: str
    key_variable: str
    mode: str
    samples: int
    steps: int
    step_mode: str
    tools: bool
    sample_tokens: int | None
    sample_seconds: float | None
    sample_budget: float | None
    profile: str
    backend: str
    prompt_version: str | None
    concurrency: int
    sampling: tuple[str, ...]
    price_in: float
    price_out: float
    price_cached: float | None
    budget_usd: float | None
    journal_file: Path | None
    run_id: str | None
    no_run: bool
    organisation: str | None
    model_version: str
    provider: str
    notes: str

    @property
    def journal_path(self) -> Path:
        """Where every step is kept."""
        return self.journal_file or Path(f"pkb-{_file_name(self.model)}-{self.profile}.jsonl")

    def settings(self, site: str) -> Settings:
        """What must stay the same when the command goes on."""
        return Settings(
            site=site,
            model=self.model,
            mode=self.mode,
            backend=self.backend,
            profile=self.profile,
            samples=self.samples,
            plan=Plan(
                steps=self.steps if self.mode == "agentic" else 1,
                step_mode=self.step_mode,
                has_tools=self.tools,
                tokens=self.sample_tokens,
                seconds=self.sample_seconds,
                usd=self.sample_budget,
            ),
            prices=Prices(
                per_million_in=self.price_in, per_million_out=self.price_out, per_million_cached=self.price_cached
            ),
            sampling=settings_of(self.sampling),
            key=new_key(),
            run=self.run_id,
            is_run=not self.no_run,
            prompt_version=self.prompt_version,
        )

    def new_run(self, *, prompt_version: str) -> NewRun:
        """The run that is made where none is named."""
        return NewRun(
            model=self.model,
            mode=self.mode,
            profile=self.profile,
            backend=self.backend,
            k=self.samples,
            version=self.model_version,
            provider=self.provider,
            organisation=self.organisation,
            sampling=settings_of(self.sampling),
            prompt_version=prompt_version,
            notes=self.notes,
        )


def _generated(pkb: Client, log: Log, chosen: Options, settings: Settings) -> Summary:
    """Prompts, run and judge made ready, and every sample carried to its end."""
    key = os.environ.get(chosen.key_variable, "")
    model = ChatModel(chosen.base_url, chosen.model, key=key, sampling=settings.sampling, say=output.say)
    tasks = _tasks(pkb, chosen.slugs, profile=chosen.profile, samples=chosen.samples)
    prompts = prompts_of(pkb, log, settings, sorted({task.problem for task in tasks}))
    version = next(iter(prompts.values())).version
    made = run_of(pkb, log, settings, chosen.new_run(prompt_version=version))
    files = _files(pkb, tasks, backend=chosen.backend) if chosen.tools else {}
    judge: Judge = OwnJudge(site=pkb, settings=settings)
    if made is not None:
        judge = RunJudge(site=pkb, run=made.run, prices=settings.prices)
    with output.progress() as bar:
        shown = bar.add_task("samples", total=len(tasks), completed=len(log.done() & set(tasks)))
        return generate(
            log,
            settings=settings,
            prompts=prompts,
            tasks=tasks,
            model=model,
            judge=judge,
            made=made,
            concurrency=chosen.concurrency,
            budget_usd=chosen.budget_usd,
            listener=_Shown(bar, shown),
            files=files,
        )


def _files(pkb: Client, tasks: list[Task], *, backend: str) -> dict[str, dict[str, str]]:
    """What a model with tools finds, by problem: starter, statement and reference."""
    texts = ProblemFolder(folder=Path(), backend=backend).texts
    slugs = sorted({task.problem for task in tasks})
    names = (ENTRY, "STATEMENT.md", "reference.py")
    return {slug: {name: text for name, text in texts(pkb.problem(slug)).items() if name in names} for slug in slugs}


class _Shown:
    """How a generation goes: a bar on a terminal, and a line for each verdict and failure."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar = bar
        self._task = task

    def judged(self, task: Task, step: int, verdict: Verdict) -> None:
        output.say(f"{task.problem}/{task.sample} step {step}: {verdict.verdict}")

    def ended(self, task: Task, error: PkbError | None) -> None:
        if error is None:
            self._bar.advance(self._task)
            output.say(f"{task.problem}/{task.sample}: done")
        else:
            output.say(f"{task.problem}/{task.sample}: {error}")


def _tasks(pkb: Client, slugs: tuple[str, ...], *, profile: str, samples: int) -> list[Task]:
    """Every sample of every chosen problem, the first samples first; raises UsageError for one that cannot be."""
    known = {problem.slug: problem for problem in pkb.problems()}
    for slug in slugs:
        if slug not in known:
            raise UsageError(f"There is no problem called {slug!r}; `pkb problems` lists them.")
        if profile not in known[slug].profiles:
            raise UsageError(f"{slug} does not run on {profile}; it runs on {', '.join(known[slug].profiles)}.")
    able = [problem.slug for problem in known.values() if profile in problem.profiles and problem.is_open]
    chosen = list(dict.fromkeys(slugs)) or able
    if not chosen:
        raise UsageError(f"No problem runs on {profile!r}; there is no such profile, or every problem is paused.")
    return [Task(problem=slug, sample=sample) for sample in range(samples) for slug in chosen]


def _shown(context: Context, summary: Summary, path: Path) -> ExitCode:
    if context.as_json:
        output.print_json(summary)
    else:
        tokens = f"{summary.tokens_in} tokens in, {summary.tokens_out} out, {summary.cost_usd:.4f} US dollars"
        output.print_text(f"{summary.done} of {summary.samples} samples done; {tokens}.")
        if summary.run:
            output.print_text(f"Run {summary.run}: {summary.page}\n`pkb run watch {summary.run}` follows its results.")
    if summary.done == summary.samples:
        return ExitCode.OK
    output.say(f"Run the same command to resume from {path}.")
    return ExitCode.REFUSED


def _file_name(text: str) -> str:
    return re.sub(r"[^\w.-]+", "-", text).strip("-") or "model"
