"""Train MaskablePPO of sb3-contrib against a random player of Leduc."""

import gymnasium
import torch
from sb3_contrib import MaskablePPO

import overtrick as ot
import overtrick.environments  # registers the games

env = gymnasium.make("overtrick/leduc-v0", seat=0)
agent = MaskablePPO("MlpPolicy", env, n_steps=1024, batch_size=256, gamma=1, seed=1)
agent.learn(10_000)


def probabilities(observations):
    features = torch.as_tensor(env.unwrapped.game.features(observations))
    with torch.no_grad():
        policy = agent.policy.get_distribution(features, observations.legal)
    return policy.distribution.probs.numpy()


won = ot.play("leduc", [ot.FunctionPolicy(probabilities), "random"], games=20_000).payoff[:, 0]
best = ot.best_response("leduc", "random").values[0]
print(f"MaskablePPO wins {won.mean():.2f} big blinds a game, a best response {best:.2f}")
