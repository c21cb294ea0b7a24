"""The methods of the lab: systems without pretraining and their ways to read attributes, one file each."""

import attribune.methods  # noqa: F401 (it loads these, by their entry points)
from attribune_lab.methods.basis import Basis
from attribune_lab.methods.hcsc import Hcsc
from attribune_lab.methods.huapa import Huapa
from attribune_lab.methods.iaa import Iaa
from attribune_lab.methods.upnn import Upnn

__all__ = ["Basis", "Hcsc", "Huapa", "Iaa", "Upnn"]
