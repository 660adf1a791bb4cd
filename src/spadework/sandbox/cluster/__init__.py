"""Programs that run on the nodes of a Ray cluster: actors that own the processes, and a client in place of `Sandbox`.

Client and actors say to each other what the client and the server of `remote/` say, byte for byte. Here the bytes
travel in calls of the actor, so that nothing listens, Ray decides who may reach whom, and Ray notices what has died.
"""
