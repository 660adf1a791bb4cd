"""What the designer is given and what it earns: corpus, memory, skills of a round, zones and designer rewards.

All of it is a function of the configuration, the run seed and the pool; the only state is the corpus cursor and, for
one of the rewards, the moving averages of the skills.
"""
