"""Programs that run on another machine: a server that owns the processes, and a client in place of `Sandbox`.

What it is and is not. A TCP connection proves on both sides that the other knows the token, which itself never
travels. Nothing is encrypted: on a network where others listen, let an SSH tunnel or a VPN carry it. Whoever knows the
token may run programs within the server's limits, in its sandbox; they never see another client's.
"""
