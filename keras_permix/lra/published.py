"""List accuracies on the Long Range Arena that papers report, in percent."""

CSP_PAPER = "Yuan & Xu, Channel-wise Sample Permutation, 2024, table 4"
SLICE_PAPER = "Yuan & Xu, Sliceformer, 2023, table 2"
TRON_PAPER = "Yorsh et al., SimpleTRON, 2022, table 1"
DM_PAPER = "Sapkota & Bhattarai, Dimension Mixer, 2023, table IV"

TASKS = ("listops", "text", "retrieval", "image", "pathfinder", "pathx")
# Paper -> model -> accuracy per task; `None` if not reported, or reported as failed.
PUBLISHED: dict[str, dict[str, tuple[float | None, ...]]] = {
    CSP_PAPER: {
        "Transformer": (36.37, 64.27, 57.46, 42.44, 71.40, None),
        "Local attention": (15.82, 52.98, 53.39, 41.46, 66.63, None),
        "Linear Transformer": (16.13, 65.90, 53.09, 42.34, 75.30, None),
        "Reformer": (37.27, 56.10, 53.40, 38.07, 68.50, None),
        "Sinkformer": (30.70, 64.03, 55.45, 41.08, 64.65, None),
        "Sparse Transformer": (17.07, 63.58, 59.59, 44.24, 71.71, None),
        "Sinkhorn Transformer": (33.67, 61.20, 53.83, 41.23, 67.45, None),
        "Linformer": (35.70, 53.94, 52.27, 38.56, 76.34, None),
        "Performer": (18.01, 65.40, 53.82, 42.77, 77.05, None),
        "Synthesizer": (36.99, 61.68, 54.67, 41.61, 69.45, None),
        "Longformer": (35.63, 62.85, 56.89, 42.22, 69.71, None),
        "BigBird": (36.05, 64.02, 59.29, 40.83, 74.87, None),
        "CosFormer": (37.90, 63.41, 61.36, 43.17, 70.33, None),
        "Transformer + CSP": (37.65, 64.60, 62.23, 48.02, 82.04, None),
        "CCNN": (43.60, 84.08, None, 88.90, 91.51, None),
        "ETSMLP": (62.55, 88.49, 86.72, 75.34, 91.66, 93.78),
        "S4": (58.35, 76.02, 87.09, 87.26, 86.05, 88.10),
        "S5": (62.15, 89.31, 91.40, 88.00, 95.33, 98.58),
        "SPADE": (59.70, 87.55, 90.13, 89.11, 96.42, 94.22),
        "MEGA": (63.14, 90.43, 91.25, 90.44, 96.01, 97.98),
        "MEGA-chunk": (58.76, 90.19, 90.97, 85.80, 94.41, 93.81),
    },
    SLICE_PAPER: {
        "Sliceformer, ascend": (37.65, 64.60, 62.23, 48.02, 82.04, None),
        "Sliceformer, interleave": (37.30, 64.25, 61.97, 45.88, 81.98, None),
        "Sliceformer, max exchange": (37.00, 62.90, 59.00, 40.48, 75.42, None),
    },
    TRON_PAPER: {
        "GMM-RKS": (18.15, 66.20, 58.74, None, None, None),
        "FastFood-RKS": (18.20, 65.91, 57.47, None, None, None),
        "Generative-RKS": (17.80, 66.37, 59.02, None, None, None),
        "GMM-PRF": (36.95, 62.70, 59.64, None, None, None),
        "FastFood-PRF": (37.25, 64.69, 67.90, None, None, None),
        "Generative-PRF": (37.10, 62.39, 67.18, None, None, None),
        "SimpleTRON, simple": (37.45, 66.75, 73.92, None, None, None),
        "SimpleTRON, simple-res": (37.10, 66.65, 74.83, None, None, None),
        "SimpleTRON, simple-resl": (37.55, 66.71, 73.59, None, None, None),
    },
    DM_PAPER: {
        "standard attention": (37.10, 65.02, 79.35, 38.20, 74.16, None),
        "Flash attention": (37.6, 63.9, 81.4, 43.5, 72.7, 61.4),
        "Reformer": (19.05, 64.88, 78.64, 43.29, 69.36, None),
        "Linformer": (37.25, 55.91, 79.37, 37.84, 67.60, None),
        "Performer": (18.80, 63.81, 78.62, 37.07, 69.87, None),
        "Nyströmformer": (37.15, 65.52, 79.56, 41.58, 70.94, None),
        "Butterfly attention": (37.2, 65.4, 81.51, 43.82, 71.23, 76.72),
    },
}
# Model of `recipes.py` -> paper and its name there.
ROWS = {
    "transformer": (CSP_PAPER, "Transformer"),
    "csp": (CSP_PAPER, "Transformer + CSP"),
    "slice": (SLICE_PAPER, "Sliceformer, ascend"),
    "slice_interleave": (SLICE_PAPER, "Sliceformer, interleave"),
    "slice_max_exchange": (SLICE_PAPER, "Sliceformer, max exchange"),
    "simpletron": (TRON_PAPER, "SimpleTRON, simple"),
    "simpletron_res": (TRON_PAPER, "SimpleTRON, simple-res"),
    "simpletron_resl": (TRON_PAPER, "SimpleTRON, simple-resl"),
    "butterfly": (DM_PAPER, "Butterfly attention"),
    "mega": (CSP_PAPER, "MEGA"),
    "mega_chunk": (CSP_PAPER, "MEGA-chunk"),
    "linear": (CSP_PAPER, "Linear Transformer"),
    "linformer": (CSP_PAPER, "Linformer"),
    "performer": (CSP_PAPER, "Performer"),
    "local": (CSP_PAPER, "Local attention"),
}


def published_rows(task: str) -> list[tuple[str, float, str]]:
    """Return rows of model, accuracy in percent and paper, in ascending order of accuracy."""
    column = TASKS.index(task)
    rows = [
        (model, score, paper)
        for paper, models in PUBLISHED.items()
        for model, scores in models.items()
        if (score := scores[column]) is not None
    ]
    return sorted(rows, key=lambda row: row[1])


def published_score(task: str, model: str) -> tuple[float, str] | None:
    """Return the published accuracy of a model of `permix lra` in percent, and its paper."""
    if model not in ROWS:
        return None
    paper, name = ROWS[model]
    score = PUBLISHED[paper][name][TASKS.index(task)]
    return None if score is None else (score, paper)
