"""What an application uses to send to groups and to follow what they deliver.

`Link` keeps connections to all nodes of a cluster, `Sender` multicasts through it and never duplicates, `Follower`
reads what a group delivers, exactly once after a checkpoint. They are asyncio, and know the protocol only through the
messages of `core.client`.
"""
