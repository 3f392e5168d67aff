"""Learning algorithms: trajectories or labelled examples in, network weights or tables out."""
