"""The brain's pure part: a situation and a policy give a decision, explained; a small history teaches it the traffic.

Standard library only, no effect, no clock of its own: the command line, a Lambda and the simulation run the same code.
"""
