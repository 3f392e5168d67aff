"""Policy-gradient learners (PPO, TRPO, MAML) and their common samples, advantages and losses."""
