"""Test the objections of implementations to calls that they do not support."""

from dataclasses import replace

import pytest

from keras_permix.ops.backend.plan import Call, Hardware, Implementation, Plan

LIMITS = {
    "device": (dict(devices=("cuda",)), "it requires device cuda"),
    "package": (dict(requires="no_such_package"), "it requires the package no_such_package"),
    "group": (dict(max_group=4), "it supports groups of at most 4 tokens"),
    "limit": (dict(limit=lambda call: f"no {call.dtype}"), "no float32"),
    "none": (dict(requires="keras", max_group=8, limit=lambda call: None), None),
}


def call(group_size=None):
    plan = Plan(group_size=group_size)
    return Call("sort", Hardware("cpu"), "float32", (2, 16, 4), False, False, plan, {})


@pytest.mark.parametrize("case", LIMITS)
def test_objections(case):
    limits, objection = LIMITS[case]
    assert (
        Implementation("sort", "limited", print, **limits).objection(call(group_size=8))
        == objection
    )


def test_unexportable_implementation_can_be_compiled():
    candidate = Implementation("sort", "opaque", print, exported=False)
    assert candidate.objection(call()) is None
    assert candidate.objection(replace(call(), exporting=True)) == "it cannot be exported"


def test_max_group_without_groups_limits_tokens():
    candidate = Implementation("sort", "limited", print, max_group=8)
    assert candidate.objection(call()) == "it supports groups of at most 8 tokens"
    assert candidate.objection(call(group_size=8)) is None
