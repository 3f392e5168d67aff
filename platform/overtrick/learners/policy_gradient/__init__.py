"""Policy-gradient learners: PPO, TRPO, MAML, and the parts that they share."""
