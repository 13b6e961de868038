"""Cognition: how agents think. The agent behaviour (runs in cells) and the provider adapters (run in the
gateway).

Imports nothing of ours but :mod:`kernel.abi`.
"""
