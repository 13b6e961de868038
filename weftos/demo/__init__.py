"""``make demo``: a cluster of three nodes, agents over them, crashes, and an audit, told as a story.

Everything shown is the real command, run as a person would run it, on real nodes (Ray, real processes, real sockets,
real ledgers) in a temporary directory. Where the story claims something, it checks it: a claim that does not hold ends
the demo with exit status 1.
"""
