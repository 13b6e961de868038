"""What may be done, and why not: gates judge every operation that is asked of the node, and this room holds them.

``proposal`` says what is judged and what is said of it, ``pipeline`` asks the gates. Each other file is a gate; those
in ``limits`` say how much may be done. Which are asked, and in which order, stands in ``weftos/node/gates.py``.
"""
