"""What ``dosimeter tasks new`` writes: a small family that works as it stands.

``new_task`` stands for the new family's name, ``NewTask`` for its class. The files that end in
``.txt`` lose that ending.
"""
