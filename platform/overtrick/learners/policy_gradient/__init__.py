"""Policy-gradient learners (PPO, TRPO, MAML) and what they share: samples, advantages, losses."""
