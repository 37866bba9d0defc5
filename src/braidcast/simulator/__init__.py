"""Runs protocols in virtual time: one seed, one schedule, on any machine.

`run.simulate` runs one plan. `scenarios` runs schedules written down as text, `fuzz` runs many random plans, `shrink`
makes a failing one small, `explorer` tries all schedules of a small configuration. Only `world` and `node` are hot.
"""
