"""The bookkeeping of self-play: when what happens, who earned what, what is written down.

`selfplay` is the loop itself and the only caller. Sampling, gates, rewards, losses and files belong to other rooms.
"""
