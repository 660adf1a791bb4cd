"""Never finishes constructing."""


class HostileEnv:
    def __init__(self):
        while True:
            pass
