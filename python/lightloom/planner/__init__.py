"""Planner: which strategy an all-to-all among experts takes, by its volume and the cluster."""
