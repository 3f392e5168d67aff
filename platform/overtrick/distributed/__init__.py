"""Ray: worker pools, placement groups, data-parallel learners, and jobs on a cluster."""
