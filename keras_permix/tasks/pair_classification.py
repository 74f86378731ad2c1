"""Which of several classes a pair of texts is of."""

from keras_permix.tasks.text_classification import TextClassification


class PairClassification(TextClassification):
    """Pairs of texts to logits, such as whether one cites the other.

    Like `TextClassification`, with "tokens" and "mask" `(batch, 2, max_length)`, or with both texts
    in one sequence, as the model encodes them. A row of a data file says "text" and "text2", and a
    command line names two texts for each answer.
    """

    name = "pair_classification"
    fields = ("text", "text2")
    arguments_per_input = 2
