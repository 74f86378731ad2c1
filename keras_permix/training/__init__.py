"""Train models by recipes, and resume interrupted runs."""

from keras_permix.recipes.find import list_recipes as list_recipes
from keras_permix.recipes.load import load_recipe as load_recipe
from keras_permix.recipes.recipe import Recipe as Recipe
from keras_permix.training.fit import fit_recipe as fit_recipe
from keras_permix.training.model import make_model as make_model
from keras_permix.training.optimizers import BlockMuon as BlockMuon
from keras_permix.training.preset import write_preset as write_preset
from keras_permix.training.run import Run as Run
from keras_permix.training.run import plan_run as plan_run
from keras_permix.training.sweep import sweep as sweep
from keras_permix.training.train import train as train
