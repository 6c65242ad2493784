"""The front door: a tiny server that answers while the model is away, and asks for it to be woken.

It runs in a stock Python image with nothing but the standard library.
"""
