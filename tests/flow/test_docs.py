"""The pages say what is so: their tables, their metrics, and every example in them."""

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
from tests.by_folder import files_by_folder
from tiny import TINY

import overtrick.studies.exact
from overtrick import cli
from overtrick.comparison.comparison_job import TABLES
from overtrick.config import job_file
from overtrick.distributed.workers import LocalPool
from overtrick.evaluation import bidding_accuracy
from overtrick.games import registry
from overtrick.learners.policy_gradient.kl_anchored_ppo import KlAnchoredPolicy
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
"""How examples begin that take a second at most, and need nothing made before."""

META = (
    "stop.iterations=1 meta.tasks=2 meta.games=10 population.size=4 evaluate.opponents=[random] "
    "evaluate.steps=1 evaluate.games=10 evaluate.repeats=2 evaluate.every=1"
)
TAUGHT = "stop.iterations=1 network.hidden=[8]"
BID = "stop.iterations=1 workers=0 network.batch_size=8 evaluate.boards=2 evaluate.final_deals=2"
DEFENDED = (
    "stop.iterations=1 tabular.games=20 evaluate.deals=4 evaluate.final_deals=4 "
    "evaluate.double_dummy=false"
)
SHORT = {
    "generate minibridge": "--games 20 --workers 0",
    "train jobs/minibridge_selfplay.yaml": DEFENDED,
    "train jobs/minibridge_q.yaml": DEFENDED,
    "bridge hands RUN": "--boards 1",
    "train jobs/leduc_solve.yaml": "stop.iterations=1",
    "train jobs/leduc_selfplay.yaml": META,
    "train jobs/leduc_meta.yaml seed": META,
    "train jobs/leduc_meta.yaml track.register": META,
    "train --resume RUN": "",
    "evaluate RUN": "",
    "evaluate models:/leduc-meta": "",
    "safety RUN": "",
    "play leduc --against RUN": "",
    "view RUN": "",
    "play auction": "",
    "bridge match natural": "--boards 2",
    "match la ta": "--boards 2",
    "best-response holdem": "--games 4 --particles 10",
    "solve openspiel/liars_dice": "--iterations 1",
    "generate abstraction": "ranks=5 preflop=300 flop=20 turn=10 river=5 deals=20000 --workers 0",
    "sweep jobs/coevolve_kuhn_grid.yaml": (
        "stop.iterations=1 coevolve.generations=1 'search={coevolve.step_size: {grid: [0.1, 0.5]}}'"
    ),
    "generate deals": "--boards 25 --workers 0",
    "bridge agreement": "",
    "bridge boards": "",
    "generate examples --file BOARDS": "",
    "train jobs/bm_natural.yaml": TAUGHT,
    "generate examples --file DEALS": "",
    "train jobs/em_natural.yaml": TAUGHT,
    "train jobs/bidder_selfplay.yaml": f"{BID} play.boards=8 play.value_warmup_iterations=0",
    "train jobs/bidder_natural.yaml": f"{BID} bidder.games=8 bidder.gradient_steps=1",
    "bridge match RUN natural": "--boards 2",
    "bridge suggest RUN": "",
    "register RUN": "",
    "bridge match models:/bidder": "--boards 2",
    "bridge suggest models:/bidder": "",
}
"""How other examples begin, in the order in which one needs what another makes, and what comes
behind them so that they take seconds."""

ELSEWHERE = {
    "dashboard": "test_dashboard",
    "evaluate jobs/": "test_comparison",  # hours of training in one job
    # the files are not part of this project; the test does the same with ants that are
    "match zoo:": "test_match_and_videos",
    "train jobs/leduc_meta.yaml workers=16": "test_tracking_server",
    "cluster": "test_job_client",
}
"""How those begin that need a server, a cluster, or what nobody has here, and who runs such."""

KUHN: dict[str, Any] = {"game": "kuhn", "stop": {"iterations": 1}}
ONE: dict[str, Any] = {"opponents": ["random"], "every": 1}
FEW: dict[str, Any] = {**ONE, "steps": 1, "games": 4, "repeats": 2}
CARDS: dict[str, Any] = {"deals": 20, "final_deals": 20, "double_dummy": False}
VALUES: dict[str, Any] = {"gradient_steps": 1, "batch_size": 4}
SMALL: dict[str, dict[str, Any]] = {
    "coevolve": {"coevolve": {"generations": 1}},
    "dqn": {
        "game": "minibridge", "dqn": {"games": 10, "hidden": [4]}, "values": VALUES,
        "evaluate": CARDS,
    },
    "dron": {
        "dron": {"random_opponents": 2, "adaptation_steps": 1, "games": 4}, "values": VALUES,
        "evaluate": FEW,
    },
    "eom": {"eom": {"random_opponents": 2, "games": 4}, "model": {"epochs": 1}, "evaluate": FEW},
    "evolve": {"evolve": {"size": 3, "games": 4}, "evaluate": FEW},
    "exploit": {"exploit": {"games": 20, "solver": "trpo"}},
    "meta": {**TINY, **KUHN},
    "nfsp": {"nfsp": {"games": 8, "anticipatory": 1, **VALUES}, "values": VALUES, "evaluate": ONE},
    "sampling": {"game": "minibridge", "sampling": {"worlds": 1}},
    "solve": {},
    "tabular": {"game": "minibridge", "tabular": {"games": 50}, "evaluate": CARDS},
    "tournament": {"tournament": {"players": ["random", "call"], "boards": 2}},
}  # fmt: skip
"""A step of each trainer that takes a moment; those of the auction need examples first."""


def hook() -> Any:
    """The module that fills the tables in."""
    spec = importlib.util.spec_from_file_location("tables", DOCS / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """Every page by its path, with its tables."""
    fill = hook().filled
    return {
        str(path.relative_to(DOCS)): fill(path.read_text()) for path in sorted(DOCS.rglob("*.md"))
    }


def headings(page: str) -> list[str]:
    return re.findall(r"^## (.+)$", page, re.MULTILINE)


def fenced(page: str, language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [block for name, block in found if name == language]


def words(line: str) -> list[str]:
    """A line of a shell, without what is set for it and without its comment."""
    told = shlex.split(line, comments=True)
    return [word for k, word in enumerate(told) if not all("=" in each for each in told[: k + 1])]


def lines(page: str) -> list[list[str]]:
    """Every command that a page shows in a block."""
    text = "\n".join(fenced(page, "")).replace("\\\n", " ")
    starts = re.compile(r"^(\w+=\S+\s+)*(overtrick|make) ")
    return [words(line.strip()) for line in text.splitlines() if starts.match(line.strip())]


def spans(page: str) -> list[list[str]]:
    """Every command that a page names in a sentence, perhaps without all that it needs."""
    text = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"`((?:\w+=\S+ )*(?:overtrick|make) [^`]+)`", text)
    return [words(each.replace("\n", " ").rstrip("\\ ")) for each in found]


def parsed(command: list[str], whole: bool) -> None:
    """Fail unless the command line knows the command and all its options."""
    name, *rest = command
    known: Any = COMMANDS.get(name)
    if rest and hasattr(known, "commands"):  # a group
        name, *rest = rest
        known = known.commands.get(name)
    assert known is not None, command
    assert not known.hidden, command
    known.make_context(name, [*rest], resilient_parsing=not whole)
    if not whole:
        options = {option for each in known.params for option in each.opts}
        assert {word.split("=")[0] for word in rest if word.startswith("--")} <= options, command


def loaded(command: list[str]) -> None:
    """Fail unless the job file of a command is there and takes its overrides."""
    files = [word for word in command if re.fullmatch(r"jobs/\w+\.yaml", word)]
    overrides = [word for word in command if re.match(r"[a-z][\w.]*=", word)]
    for file in files:
        job = job_file.load(ROOT / file, overrides, {**JOBS, **TABLES})
        if command[0] == "sweep":
            assert sweep.trials_of(job, file)
        assert (command[0] == "evaluate") == (job.trainer in TABLES), command


def made(command: list[str]) -> None:
    """Fail unless the Makefile has the target, and the bench or the slow test is one."""
    target, *settings = command
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), command
    for setting in settings:
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


def test_tables_of_games_are_the_games_own(pages: dict[str, str]):
    for name in registry.names():
        game, page = registry.make(name), pages[f"games/{name}.md"]
        seen, acts = (page.partition(f"\n## {h}\n")[2] for h in ("Observation", "Actions"))
        told = re.findall(r"`(\w+)`", seen.partition("\n\nA network")[0].partition("\n## ")[0])
        assert told[: len(game.observation_fields)] == list(game.observation_fields), name
        assert re.findall(r"`(\w+)`", acts)[: len(game.action_names)] == list(game.action_names)
    seen = pages["games/auction.md"]
    assert re.search(r"^\| 40 to 74 \| `doubled_1C` ", seen, re.MULTILINE)


def test_every_trainer_has_one_page_with_all_headings_and_its_keys():
    kept = []
    for path in (DOCS / "algorithms").glob("*.md"):
        page = path.read_text()
        assert path.stem == "index" or headings(page) == OF_AN_ALGORITHM, path.stem
        kept += re.findall(r"^<!-- table: keys (\w+) -->$", page, re.MULTILINE)
    assert sorted(kept) == sorted(JOBS)
    index = (DOCS / "algorithms" / "index.md").read_text()
    assert {name for name in JOBS if f"`{name}`" not in index} == set()


def test_keys_are_those_of_the_job_files_and_not_those_that_all_have(pages: dict[str, str]):
    page = pages["algorithms/lookahead.md"].partition("\n## Keys\n")[2]
    assert "| `sampling.worlds` | `50` |" in page
    assert "`seed`" not in page
    assert "| `seed` | `0` |" in pages["jobs.md"]
    assert "| `stop.iterations` | `40` |" in pages["algorithms/cfr.md"]  # others have 100


def named(*functions: Any) -> set[str]:
    """The metrics that some functions name, in dictionaries or one by one; not those whose names
    are made on the way."""
    found = set()
    for function in functions:
        for each in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
            keys = each.keys if isinstance(each, ast.Dict) else []
            if isinstance(each, ast.Subscript) and ast.unparse(each.value) == "metrics":
                keys = [each.slice]
            for key in keys:
                with suppress(NameError):  # it has a local name in it
                    found.add(eval(ast.unparse(key), function.__globals__) if key else "")
    return found - {""}


def given(trainer: str, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of all metrics that a step of a trainer gives, as far as that is cheap to know."""
    if trainer == "bidding":
        none = {name: np.zeros(0) for name in ("predicted", "call", "sure", "imps", "expected")}
        measured = {
            name for measure in bidding_accuracy.MEASURES.values() for name in measure(none)
        }
        return {"loss_nats", *(supervised.METRICS.get(name, name) for name in measured)}
    if trainer == "rllib":  # it needs Ray
        return {
            *LEARNER_METRICS,
            *named(AlgorithmRunner.step),
            "exploitability_chip/policy",
            "call/after_0_chip",
        }
    if trainer == "bidder":
        row = {"mean": 0.0, "standard_error": 0.0}
        return named(value_rl.BidderTrainer.train_iteration) | set(pretrained.imps_metrics(row))
    if trainer == "selfplay_bidding":
        own = self_play.SelfplayTrainer
        return named(own.train_iteration, own.evaluate, KlAnchoredPolicy.learn, Ppo.improve)
    monkeypatch.setattr(pimc, "EVALUATION_SHARD", 10)
    job = job_file.parse({"trainer": trainer, **KUHN, **SMALL[trainer]}, JOBS, trainer)
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
    metrics = given(trainer, monkeypatch)
    assert metrics
    assert {m for m in metrics if not any(p.fullmatch(m) for p in patterns)} == set()


def test_every_command_exists_with_its_options_and_its_job_file(pages: dict[str, str]):
    found = 0
    for page in pages.values():
        for whole, shown in ((True, lines(page)), (False, spans(page))):
            for program, *command in shown:
                found += whole
                if program == "make":
                    made(command)
                else:
                    parsed(command, whole)
                    loaded(command)
                    ran = " ".join(command).startswith((*QUICK, *SHORT, *ELSEWHERE))
                    assert ran or not whole, f"no test runs {command}"
    assert found > 60
    assert all(list((ROOT / "tests").glob(f"*/{test}.py")) for test in ELSEWHERE.values())


def test_every_file_that_is_named_is_there(pages: dict[str, str]):
    for name, page in pages.items():
        for file in re.findall(r"\b(?:jobs|tests|cluster|docker)/[a-z_0-9/]+\.\w+\b", page):
            assert (ROOT / file).exists(), f"{name} names {file}"


def test_quick_commands_run_and_what_they_keep_goes_to_openspiel(
    pages: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    ran = 0
    for k, page in enumerate(pages.values()):
        (tmp_path / str(k)).mkdir()
        monkeypatch.chdir(tmp_path / str(k))
        for program, *command in lines(page):
            if program == "overtrick" and " ".join(command).startswith(QUICK):
                assert not cli.app(command, standalone_mode=False)
                ran += 1
        for span in re.findall(r"`(overtrick\.[\w.]+\(Path\(\"my/[^`]+\))`", page):
            kept = eval(span, {"overtrick": overtrick, "Path": Path})
            assert exploitability.exploitability(pyspiel.load_game("kuhn_poker"), kept) < 1e-9
    assert ran > 10


def prepared(made: Path) -> None:
    """What the pages call boards and deals, from some that were bid and solved."""
    table = pq.read_table(made).drop_columns(["system_ns", "system_ew"])
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
    """Smaller, and those that need a server in the tests of that server."""
    shown = {" ".join(c): c for page in pages.values() for p, *c in lines(page) if p != "make"}
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "jobs").symlink_to(ROOT / "jobs")
    known = {"FOLDER": "boards/minibridge-rules-notrump-0"}
    for begin, small in SHORT.items():
        for text, command in shown.items():
            if not text.startswith(begin):
                continue
            there = set(locate.run_names())
            meant = command
            for name, place in known.items():
                meant = [re.sub(rf"\b{name}\b", place, word) for word in meant]
            monkeypatch.setattr(sys, "stdin", io.StringIO(""))
            assert not cli.app([*meant, *shlex.split(small)], standalone_mode=False), text
            for made in set(locate.run_names()) - there:
                known |= {"RUN": made, made[:2].upper(): f"runs/{made}"}  # BM, EM
        if begin == "generate deals":
            prepared(next(tmp_path.glob("boards/deals-natural-natural-*.parquet")))


@pytest.mark.parametrize("slow", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_blocks_of_python_hold_what_they_assert(pages: dict[str, str], slow: bool):
    blocks = [block for page in pages.values() for block in fenced(page, "python")]
    told = [block for block in blocks if block.startswith("# takes a minute") is slow]
    assert told
    for block in told:
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

    asked = load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(tmp_path))
    asked.plugins.on_startup(command="build", dirty=False)
    build(asked)  # ends the process at a warning
    for path in tmp_path.rglob("*.html"):
        page = path.read_text()
        assert "<!-- table:" not in page, path.name
        assert not re.findall(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="?https?:', page)
