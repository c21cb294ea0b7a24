"""The methods of the lab, one file each: those of systems without pretraining, and baselines in a backbone."""

import attribune.methods  # noqa: F401 (it loads these, by their entry points)
from attribune_lab.methods.basis import Basis
from attribune_lab.methods.hcsc import Hcsc
from attribune_lab.methods.huapa import Huapa
from attribune_lab.methods.iaa import Iaa
from attribune_lab.methods.one_per_value import OnePerValue
from attribune_lab.methods.upnn import Upnn

__all__ = ["Basis", "Hcsc", "Huapa", "Iaa", "OnePerValue", "Upnn"]
