"""What an application uses to send to groups and to follow what they deliver.

`Client` and `Subscriber` are for applications, and `braidcast` itself lists them with what they take and give. They
stand on three parts that are of use alone as well: a `Link` keeps connections to all nodes of a cluster, a `Sender`
multicasts through it and never duplicates, a `Follower` reads what a group delivers, exactly once after a checkpoint.
All are asyncio, and know the protocol only through the messages of `core.client`.
"""
