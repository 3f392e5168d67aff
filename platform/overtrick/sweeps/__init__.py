"""Many runs of one job: grid and random search, ASHA, population based training."""
