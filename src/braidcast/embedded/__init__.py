"""A node inside an application: state machines that live where their deliveries arrive.

`Replica` runs a node of a cluster in the event loop of its caller, with a state machine on top of the journal of each
group. `Replicated` is the short way to write one: methods that are multicast when they are called.
"""
