"""Train a small model, register it in MLflow, and load it from there as a player."""

import overtrick as ot

job = {
    "trainer": "evolve",
    "game": "kuhn",
    "stop": {"iterations": 5},
    "evaluate": {"opponents": ["random"]},
    "track": {"register": "evolved"},
}

if __name__ == "__main__":
    ot.train(job)
    model = ot.load("models:/evolved/1")
    print(f"{model.job.trainer} plays {model.game.name}")
    print(f"exploitability: {ot.exploitability('kuhn', model):.3f} chips a game")
