"""The scripted engine and the small tokenizers of the roles' tests serve here too."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "roles"))
