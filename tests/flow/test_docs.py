"""The pages are true: their tables, their metrics, and every example in them."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import io
import re
import shlex
import sys
import textwrap
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyspiel
import pytest
import typer
import yaml
from open_spiel.python.algorithms import exploitability
from tests.bench.small_jobs import SMALL_JOBS
from tests.by_folder import files_by_folder

import overtrick.studies.exact_solutions
from overtrick import cli
from overtrick.comparison.table_kinds import TABLE_JOBS
from overtrick.config import job_file
from overtrick.distributed.workers import LocalPool
from overtrick.evaluation import bidding_accuracy
from overtrick.games import registry
from overtrick.learners.policy_gradient.kl_anchored_ppo import KlAnchoredLearner
from overtrick.learners.policy_gradient.ppo import Ppo
from overtrick.rllib.algorithm_runner import LEARNER_METRICS, AlgorithmRunner
from overtrick.storage import locate
from overtrick.sweeps import sweep
from overtrick.training.bidding import pretrained, self_play, supervised, value_rl
from overtrick.training.cardplay import pimc
from overtrick.training.registry import JOBS, TRAINERS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
OF_A_GAME = ["Rules", "Observation", "Actions", "Payoff", "Dialects", "Speed"]
OF_AN_ALGORITHM = ["Idea", "Equations", "Metrics", "Job", "Keys", "Results"]
COMMANDS = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
QUICK = (
    "list", "keys", "bridge explain", "best-response leduc", "solve kuhn", "solve leduc_textbook",
    "solve openspiel/kuhn_poker",
)  # fmt: skip
"""Prefixes of examples that take a second at most and need no files."""

META = (
    "stop.iterations=1 meta.tasks=2 meta.games=10 population.size=4 evaluate.opponents=[random] "
    "evaluate.steps=1 evaluate.games=10 evaluate.repeats=2 evaluate.every=1"
)
SMALL_NETWORK = "stop.iterations=1 network.hidden=[8]"
SMALL_BIDDER = (
    "stop.iterations=1 workers=0 network.batch_size=8 evaluate.boards=2 evaluate.final_boards=2"
)
SMALL_TABLE = (
    "stop.iterations=1 tabular.games=20 evaluate.deals=4 evaluate.final_deals=4 "
    "evaluate.double_dummy=false"
)
SHORT = {
    "board make": "",
    "board jobs/board_rps.yaml": "seeds=[0]",
    "board jobs": (
        "--workers 0 seeds=[0] budgets=[3] 'methods={equilibrium: {player: equilibrium}}'"
    ),
    "solve dark_hex_3": "--iterations 1",
    "train jobs/psro_leduc.yaml game=leduc": "stop.iterations=3",
    "train jobs/league_leduc.yaml game=leduc": "stop.iterations=2 league.games=20 workers=0",
    "train jobs/leduc_in_context.yaml": (
        "workers=0 stop.iterations=1 in_context.updates=1 in_context.matches=4 opponents.size=20 "
        "in_context.hidden=8 evaluate.repeats=2 evaluate.opponents=[random]"
    ),
    "generate minibridge": "--games 20 --workers 0",
    "train jobs/minibridge_selfplay.yaml": SMALL_TABLE,
    "train jobs/minibridge_q.yaml": SMALL_TABLE,
    "bridge hands RUN": "--boards 1",
    "train jobs/leduc_solve.yaml": "stop.iterations=1",
    "train jobs/leduc_selfplay.yaml": META,
    "train jobs/leduc_meta.yaml seed": META,
    "train jobs/leduc_meta.yaml track.register": META,
    "resume RUN": "",
    "evaluate RUN": "",
    "evaluate models:/leduc-meta": "",
    "safety RUN": "",
    "play leduc --against RUN": "",
    "view RUN": "",
    "play auction": "",
    "play leduc": "",
    "champions": "",
    "match champion:leduc random": "--boards 2",
    "view champion:kuhn": "",
    "best-response kuhn --against champion": "",
    "bridge match natural": "--boards 2",
    "match la ta": "--boards 2",
    "best-response phantom_ttt --against random --workers": "",
    "best-response phantom_ttt --against random": "",
    "best-response holdem": "--games 4 --particles 10",
    "solve openspiel/liars_dice": "--iterations 1",
    "generate abstraction": "ranks=5 preflop=300 flop=20 turn=10 river=5 deals=20000 --workers 0",
    "sweep jobs/coevolve_kuhn_grid.yaml": (
        "stop.iterations=1 coevolve.generations=1 'search={coevolve.step_size: {grid: [0.1, 0.5]}}'"
    ),
    "generate deals": "--boards 25 --workers 0",
    "bridge agreement": "",
    "bridge card": "",
    "bridge check": "--deals 400",
    "bridge boards": "",
    "generate examples --file BOARDS": "",
    "train jobs/bm_natural.yaml": SMALL_NETWORK,
    "generate examples --file DEALS": "",
    "train jobs/em_natural.yaml": SMALL_NETWORK,
    "train jobs/bidder_selfplay.yaml": (
        f"{SMALL_BIDDER} play.boards=8 play.value_warmup_iterations=0"
    ),
    "train jobs/bidder_natural.yaml": f"{SMALL_BIDDER} bidder.games=8 bidder.gradient_steps=1",
    "bridge match RUN natural": "--boards 2",
    "bridge suggest RUN": "",
    "bridge suggest AQ42": "",
    "bridge suggest natural": "",
    "register RUN": "",
    "bridge match models:/bidder": "--boards 2",
    "bridge suggest models:/bidder": "",
}
"""Prefixes of other examples, ordered so that an example follows those whose files it needs, and
the arguments that make them take seconds."""

ELSEWHERE = {
    "lineage": "test_lineage",
    "dashboard": "test_dashboard",
    "evaluate jobs/": "test_comparison",  # hours of training in one job
    # the files are not part of this project; the test uses other ants
    "match zoo:": "test_match_and_videos",
    "train jobs/leduc_meta.yaml workers=16": "test_tracking_server",
    "train jobs/leduc_meta.yaml population.kind=": "test_stored_populations",
    "cluster": "test_job_client",
    "bridge table": "test_bridge_table",
    "bridge sit": "test_bridge_table",
    "play leduc --screen": "test_interactive",
    "train jobs/leduc_in_context.yaml opponents.league=": "test_stored_populations",
    "train jobs/sumo_league.yaml league.initial_model=": "test_league",
    "train jobs/leduc_meta.yaml --name mine": "test_bucket_runs",
    "evaluate s3://": "test_bucket_runs",
    "generate minibridge --out s3://": "test_bucket_runs",
}
"""Prefixes of examples that need a server, a cluster or missing files, and the tests that run
them."""


def hook() -> Any:
    """Import docs/tables.py, which fills the tables in."""
    spec = importlib.util.spec_from_file_location("tables", DOCS / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """Return every page by its path, with its tables filled in."""
    fill = hook().filled
    return {
        str(path.relative_to(DOCS)): fill(path.read_text()) for path in sorted(DOCS.rglob("*.md"))
    }


def headings(page: str) -> list[str]:
    return re.findall(r"^## (.+)$", page, re.MULTILINE)


def fenced(page: str, language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [block for name, block in found if name == language]


def words_of_line(line: str) -> list[str]:
    """Split a line of a shell, without its environment settings and its comment."""
    shown_words = shlex.split(line, comments=True)
    return [
        word
        for k, word in enumerate(shown_words)
        if not all("=" in each for each in shown_words[: k + 1])
    ]


def block_commands(page: str) -> list[list[str]]:
    """List the commands in the code blocks of a page."""
    text = "\n".join(fenced(page, "")).replace("\\\n", " ")
    starts = re.compile(r"^(\w+=\S+\s+)*(overtrick|make) ")
    return [words_of_line(line.strip()) for line in text.splitlines() if starts.match(line.strip())]


def inline_commands(page: str) -> list[list[str]]:
    """List the commands in the sentences of a page, which may be incomplete."""
    text = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"`((?:\w+=\S+ )*(?:overtrick|make) [^`]+)`", text)
    return [words_of_line(each.replace("\n", " ").rstrip("\\ ")) for each in found]


def check_command(command: list[str], game_and_tree: bool) -> None:
    """Raise unless the command line knows the command and all its options."""
    name, *rest = command
    known: Any = COMMANDS.get(name)
    if rest and hasattr(known, "commands"):  # a group
        name, *rest = rest
        known = known.commands.get(name)
    assert known is not None, command
    assert not known.hidden, command
    known.make_context(name, [*rest], resilient_parsing=not game_and_tree)
    if not game_and_tree:
        options = {option for each in known.params for option in each.opts}
        assert {word.split("=")[0] for word in rest if word.startswith("--")} <= options, command


def check_job_file(command: list[str]) -> None:
    """Raise unless the job file of a command exists and accepts its overrides."""
    files = [word for word in command if re.fullmatch(r"jobs/\w+\.yaml", word)]
    overrides = [word for word in command if re.match(r"[a-z][\w.]*=", word)]
    for file in files:
        job = job_file.load(ROOT / file, overrides, {**JOBS, **TABLE_JOBS})
        if command[0] == "sweep":
            assert sweep.trials_of(job, file)
        assert (command[0] in ("evaluate", "board")) == (job.trainer in TABLE_JOBS), command


def check_make_target(command: list[str]) -> None:
    """Raise unless the Makefile has the target, and the named bench or slow test exists."""
    target, *settings = command
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), command
    for setting in settings:
        if target in ("mutants", "fuzz"):
            name, _, value = setting.partition("=")
            files_exist = all((ROOT / file).is_file() for file in value.split())
            assert files_exist if name == "FILES" else value.isdecimal(), command
            continue
        if target == "audit":
            assert setting.startswith("ADVISORIES="), command
            continue
        only = setting.removeprefix("ONLY=")
        if target == "test":
            assert only in files_by_folder(), command
            continue
        where = f"bench/{only}.py" if target == "bench" else f"*/test_*{only}*.py"
        assert list((ROOT / "tests").glob(where)), command


def test_every_game_has_a_page_with_all_headings_and_its_own_tables():
    assert {path.stem for path in (DOCS / "games").glob("*.md")} == {
        "index", "openspiel", *registry.names(), *registry.solve_only_names(),
    }  # fmt: skip
    for path in (DOCS / "games").glob("*.md"):
        page, name = path.read_text(), path.stem
        assert name == "index" or headings(page) == OF_A_GAME, name
        if name in registry.names():
            for table in ("about", "facts", "actions", "options"):
                assert f"<!-- table: {table} {name} -->" in page, name


def test_the_tables_in_the_pages_are_up_to_date():
    update = hook().updated
    stale = [
        path.name for path in DOCS.rglob("*.md") if update(path.read_text()) != path.read_text()
    ]
    assert stale == [], "`make tables` brings them up to date"


def test_tables_of_a_game_match_its_code(pages: dict[str, str]):
    for name in registry.names():
        game, page = registry.make(name), pages[f"games/{name}.md"]
        observation_part, acts = (
            page.partition(f"\n## {h}\n")[2] for h in ("Observation", "Actions")
        )
        shown_words = re.findall(
            r"`(\w+)`", observation_part.partition("\n\nA network")[0].partition("\n## ")[0]
        )
        assert shown_words[: len(game.observation_fields)] == list(game.observation_fields), name
        assert re.findall(r"`(\w+)`", acts)[: len(game.action_names)] == list(game.action_names)
    observation_part = pages["games/auction.md"]
    assert re.search(r"^\| 40 to 74 \| `doubled_1C` ", observation_part, re.MULTILINE)


def test_every_trainer_has_one_page_with_all_headings_and_its_keys():
    documented = []
    for path in (DOCS / "algorithms").glob("*.md"):
        page = path.read_text()
        assert path.stem == "index" or headings(page) == OF_AN_ALGORITHM, path.stem
        documented += re.findall(r"^<!-- table: keys (\w+) -->$", page, re.MULTILINE)
    assert sorted(documented) == sorted([*JOBS, "board", "equilibrium_table", "rps_board"])
    index = (DOCS / "algorithms" / "index.md").read_text()
    linked = {"index", *re.findall(r"\]\((\w+)\.md\)", index)}
    assert {path.stem for path in (DOCS / "algorithms").glob("*.md")} == linked


def test_a_page_lists_its_trainers_own_keys(pages: dict[str, str]):
    page = pages["algorithms/lookahead.md"].partition("\n## Keys\n")[2]
    assert "| `sampling.worlds` | integer, at least 1 | `50` |" in page
    assert "`seed`" not in page
    assert "| `seed` | integer, at least 0 | `0` |" in pages["jobs.md"]
    own = "| `stop.iterations` | integer, at least 1 | `40` |"  # others have 100
    assert own in pages["algorithms/cfr.md"]


def metrics_named_in(*functions: Any) -> set[str]:
    """Return the metric names in some functions, from dictionaries and assignments, except computed
    names."""
    found = set()
    for function in functions:
        for each in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
            keys = each.keys if isinstance(each, ast.Dict) else []
            if isinstance(each, ast.Subscript) and ast.unparse(each.value) == "metrics":
                keys = [each.slice]
            for key in keys:
                with suppress(NameError):  # the name contains a local variable
                    found.add(eval(ast.unparse(key), function.__globals__) if key else "")
    return found - {""}


def metrics_of_a_step(trainer: str, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the names of all metrics of a trainer's step, as far as they are cheap to compute."""
    if trainer == "bidding":
        none = {name: np.zeros(0) for name in ("predicted", "call", "sure", "imps", "expected")}
        measured = {
            name for measure in bidding_accuracy.MEASURES.values() for name in measure(none)
        }
        return {"loss_nats", *(supervised.METRICS.get(name, name) for name in measured)}
    if trainer == "rllib":  # it needs Ray
        return {
            *LEARNER_METRICS,
            *metrics_named_in(AlgorithmRunner.step),
            "exploitability_chip/policy",
            "call/after_0_chip",
        }
    if trainer == "bidder":
        row = {"mean": 0.0, "standard_error": 0.0}
        return metrics_named_in(value_rl.BidderTrainer.train_iteration) | set(
            pretrained.imps_metrics(row)
        )
    if trainer == "selfplay_bidding":
        own = self_play.SelfplayTrainer
        return metrics_named_in(
            own.train_iteration, own.evaluate, KlAnchoredLearner.learn, Ppo.improve
        )
    monkeypatch.setattr(pimc, "EVALUATION_SHARD", 10)
    one = {**SMALL_JOBS[trainer], "stop": {"iterations": 1}}  # the last iteration is evaluated
    job = job_file.parse(one, JOBS, trainer)
    return set(TRAINERS[trainer].trainer(job, LocalPool()).step())


@pytest.mark.parametrize("trainer", JOBS)
def test_every_metric_is_explained(trainer: str, monkeypatch: pytest.MonkeyPatch):
    (page,) = (
        page
        for page in (path.read_text() for path in (DOCS / "algorithms").glob("*.md"))
        if f"<!-- table: keys {trainer} -->" in page
    )
    section = page.partition("\n## Metrics\n")[2].partition("\n## ")[0]
    first = re.findall(r"^\| (`.+?`) \|", section, re.MULTILINE)
    known = [name for cell in first for name in re.findall(r"`(.+?)`", cell)]
    patterns = [re.compile(re.sub(r"[A-Z]+", "[^/]+", name)) for name in known]
    metrics = metrics_of_a_step(trainer, monkeypatch)
    assert metrics
    assert {m for m in metrics if not any(p.fullmatch(m) for p in patterns)} == set()


def test_every_command_exists_with_its_options_and_its_job_file(pages: dict[str, str]):
    found = 0
    for page in pages.values():
        for whole, shown in ((True, block_commands(page)), (False, inline_commands(page))):
            for program, *command in shown:
                found += whole
                if program == "make":
                    check_make_target(command)
                else:
                    check_command(command, whole)
                    check_job_file(command)
                    ran = " ".join(command).startswith((*QUICK, *SHORT, *ELSEWHERE))
                    assert ran or not whole, f"no test runs {command}"
    assert found > 60
    assert all(list((ROOT / "tests").glob(f"*/{test}.py")) for test in ELSEWHERE.values())


def test_every_named_file_exists(pages: dict[str, str]):
    for name, page in pages.items():
        for file in re.findall(r"\b(?:jobs|tests|cluster|docker)/[a-z_0-9/]+\.\w+\b", page):
            assert (ROOT / file).exists(), f"{name} names {file}"


def test_quick_commands_run_and_their_saved_strategies_load_in_openspiel(
    pages: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    ran = 0
    for k, page in enumerate(pages.values()):
        (tmp_path / str(k)).mkdir()
        monkeypatch.chdir(tmp_path / str(k))
        for program, *command in block_commands(page):
            if program == "overtrick" and " ".join(command).startswith(QUICK):
                assert not cli.app(command, standalone_mode=False)
                ran += 1
        for span in re.findall(r"`(overtrick\.[\w.]+\(Path\(\"my/[^`]+\))`", page):
            documented = eval(span, {"overtrick": overtrick, "Path": Path})
            assert exploitability.exploitability(pyspiel.load_game("kuhn_poker"), documented) < 1e-9
    assert ran > 10


def write_named_files(check_make_target: Path) -> None:
    """Write the files that the pages call BOARDS, DEALS and FILE, from bid and solved deals."""
    table = pq.read_table(check_make_target).drop_columns(["system_ns", "system_ew"])
    kind, pair = pa.array(["human"] * len(table)), pa.array(["natural_5cM_strongNT"] * len(table))
    for name, column in (("kind", kind), ("sys_inferred_ns", pair), ("sys_inferred_ew", pair)):
        table = table.append_column(name, column)
    for name in ("BOARDS", "DEALS", "FILE"):
        pq.write_table(table, f"{name}.parquet")
    cli.app(["bridge", "boards", "FILE.parquet", "--to", "FILE.lin"], standalone_mode=False)


@pytest.mark.slow
@pytest.mark.usefixtures("local_ray")
def test_every_command_of_a_page_runs(
    pages: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Arguments make them small. Commands that need a server run in the tests of that server."""
    shown = {
        " ".join(c): c for page in pages.values() for p, *c in block_commands(page) if p != "make"
    }
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "jobs").symlink_to(ROOT / "jobs")
    known = {"FOLDER": "boards/minibridge-rules-notrump-0"}
    for begin, small in SHORT.items():
        for text, command in shown.items():
            if not text.startswith(begin) or text.startswith(tuple(ELSEWHERE)):
                continue
            there = set(locate.run_names())
            meant = command
            for name, place in known.items():
                meant = [re.sub(rf"\b{name}\b", place, word) for word in meant]
            monkeypatch.setattr(sys, "stdin", io.StringIO(""))
            assert not cli.app([*meant, *shlex.split(small)], standalone_mode=False), text
            for new_run in set(locate.run_names()) - there:
                known |= {
                    "RUN": new_run,
                    new_run[:2].upper(): f"runs/{new_run}",
                }  # BM, EM
        if begin == "generate deals":
            write_named_files(next(tmp_path.glob("boards/deals-natural-natural-*.parquet")))


@pytest.mark.parametrize("slow", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_assertions_in_python_blocks_hold(pages: dict[str, str], slow: bool):
    blocks = [block for page in pages.values() for block in fenced(page, "python")]
    shown_words = [block for block in blocks if block.startswith("# takes a minute") is slow]
    assert shown_words
    for block in shown_words:
        exec(block, {})


def test_blocks_of_yaml_are_parts_of_a_job(pages: dict[str, str]):
    blocks = [block for page in pages.values() for block in fenced(page, "yaml")]
    assert blocks
    for block in blocks:
        content = {"trainer": "meta", "game": "leduc", **yaml.safe_load(block)}
        assert sweep.trials_of(job_file.parse(content, JOBS, "the page"), "the page")


def test_the_site_is_built_without_warnings_and_needs_no_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    mkdocs_config = load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(tmp_path))
    mkdocs_config.plugins.on_startup(command="build", dirty=False)
    build(mkdocs_config)  # exits at a warning
    for path in tmp_path.rglob("*.html"):
        page = path.read_text()
        assert "<!-- table:" not in page, path.name
        assert not re.findall(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="?https?:', page)
