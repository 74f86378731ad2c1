"""Solve ListOps token by token with a stack, as a reference for the generator."""

import statistics

SOLVE = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda numbers: int(statistics.median(numbers)),
    "[SM": lambda numbers: sum(numbers) % 10,
}


def solve(text):
    """Return `(answer, depth, most arguments)` of a complete ListOps expression."""
    stack, depth, most = [[]], 1, 0
    for token in text.replace("(", " ").replace(")", " ").split():
        if token in SOLVE:
            stack.append([token])
        elif token == "]":
            operator, *numbers = stack.pop()
            assert len(numbers) >= 2, text
            stack[-1].append(SOLVE[operator](numbers))
            most = max(most, len(numbers))
        else:
            stack[-1].append(int(token))
        depth = max(depth, len(stack))
    ((answer,),) = stack
    return answer, depth, most
