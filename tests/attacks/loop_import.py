"""Never finishes loading."""

while True:
    pass


class HostileEnv:
    pass
