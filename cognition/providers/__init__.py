"""Adapters that turn one question into one answer.

They run in the gateway, which alone holds provider keys.
"""
