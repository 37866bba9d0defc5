"""Campaigns and measurements on a real local cluster: load, faults, figures."""
