"""Kernels: plain functions of arrays of one framework, named for their language and their op.

Nothing here knows Keras or checks an argument: the row that leads here has done so.
"""
