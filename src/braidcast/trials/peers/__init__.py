"""What people use today for an order that machines agree on, under the same load as a cluster of braidcast.

One module for each system, behind `peer.Peer`; `compare` goes through them. Rules of fairness:
1. Three processes on this machine, one client in another, the same closed load with the same payloads.
2. The client talks to whoever leads, as braidcast's does, in the way that its system recommends for many at once.
3. Latency is until the acknowledgement; what that means, and what survives what, is said beside every figure.
4. Rounds are interleaved: whatever else the machine does hits all of them.
"""
