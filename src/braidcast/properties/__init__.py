"""What "correct" means, as predicates over small in-memory histories: the oracle for everything else.

`check` judges a history by every property that applies to it; `sometimes` judges a campaign.
"""
