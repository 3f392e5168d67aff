"""Benches: overtrick beside its peers on the machine at hand. `python -m tests.bench [NAME]`.

A bench is a module here with `run() -> Result`, named in `NAMES`; pytest collects none of it.
"""

NAMES = ("leduc_play", "cfr_plus_leduc", "exploitability_leduc", "ray_overhead", "demo_memory")
