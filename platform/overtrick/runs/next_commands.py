"""Commands that are useful after a training run."""

from __future__ import annotations

from overtrick.config.job_file import Job
from overtrick.core import Enumerable, ExplicitTreeGame, is_zero_sum
from overtrick.games import registry
from overtrick.storage import locate, model_files
from overtrick.storage.champions import champion_of
from overtrick.storage.run_folder import RunFolder
from overtrick.training.registry import adapts


def next_commands(run: RunFolder, job: Job) -> list[tuple[str, str]]:
    """Return commands for the model of a finished run, each with its purpose.

    The commands stand without the leading `overtrick`, such as "play leduc --against RUN".
    """
    game = registry.make(job.game.name, **job.game.options)
    name = run.short_name(locate.runs_location())
    commands = []
    if model_files.plays(model_files.load(run.model).weights) and game.name in registry.names():
        if game.actions is not None:
            commands.append((f"play {game.name} --against {name}", "play against it yourself"))
        champion = champion_of(job.game.name, job.game.options)
        if champion is not None and game.seats == 2 and is_zero_sum(game):
            commands.append((f"match {name} {champion}", "play a match against the champion"))
    commands.append((f"evaluate {name}", "measure it again, from the stored model"))
    if model_files.is_model(run.best_model):
        commands.append((f"evaluate {name}/best", "measure the model that scored best in training"))
    if adapts(job.trainer) and isinstance(game, (Enumerable, ExplicitTreeGame)):
        commands.append((f"safety {name}", "payoff and exploitability under several bounds"))
    commands.append((f"dashboard --run {name}", "see its curves and files in MLflow"))
    return commands
