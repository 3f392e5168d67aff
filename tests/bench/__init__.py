"""Benches: overtrick beside its peers on the machine at hand. `python -m tests.bench [NAME]`.

A bench is a module here with `run() -> Result`, named in `NAMES`; pytest collects none of it.
"""

NAMES = (
    "leduc_play",
    "cfr_plus_leduc",
    "cfr_plus_kuhn",
    "cfr_plus_leduc_unfolded",
    "cfr_plus_liars_dice",
    "exploitability_leduc",
    "mccfr_leduc",
    "growth_one_card",
    "search_rate",
    "sumo_steps",
    "sumo_threads",
    "sumo_zoo",
    "holdem_play",
    "holdem_categories",
    "bridge_play",
    "auction_play",
    "double_dummy",
    "bidding_speed",
    "bidding_systems",
    "bidding_training",
    "minibridge_dqn",
    "minibridge_learning",
    "minibridge_search",
    "minibridge_tables",
    "twelve_cards",
    "coevolve_brps",
    "rllib_leduc",
    "doors",
    "doors_rlcard",
    "ray_overhead",
    "submit_latency",
    "demo_memory",
)
