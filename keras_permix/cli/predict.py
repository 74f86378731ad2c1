"""`permix predict`: what a preset answers to images, texts or graphs."""

from keras_permix.cli.common import say_error


def add_arguments(parser):
    parser.add_argument("preset", help="name (cspvit/cifar10_small), folder, or handle")
    parser.add_argument(
        "inputs", nargs="+", metavar="INPUT",
        help="image files; texts, or @FILE for what a file holds, all its lines as one text (two "
        "for each pair); SMILES or JSON files of a graph each",
    )  # fmt: skip
    parser.add_argument("--top", type=int, default=5, help="labels to print")
    parser.set_defaults(run=run)


def run(arguments):
    """Print what the model answers to each input. Returns the exit code, 2 if one is none."""
    from keras_permix.cli.common import trained_preset
    from keras_permix.ops.backend import running
    from keras_permix.tasks import task_of
    from keras_permix.utils.checks import check_integer
    from keras_permix.zoo.presets.load import load_preset

    check_integer("--top", arguments.top)
    task = task_of(load_preset(None, trained_preset(arguments.preset)))
    code = 0
    for group in grouped(arguments.inputs, task.arguments_per_input):
        try:
            output = running.outputs_of(task.model, task.read(group))
            lines = task.answer(output[0], arguments.top)
        except ValueError as error:  # The others are answered.
            say_error(error)
            code = 2
            continue
        print(*group)
        for line in lines:
            print(f"  {line}")
    return code


def grouped(words, size):
    """The words of a command line, `size` for each input."""
    if len(words) % size:
        raise ValueError(
            f"`INPUT` must be given {size} times for each answer. Received: {len(words)} inputs"
        )
    return [words[start : start + size] for start in range(0, len(words), size)]
