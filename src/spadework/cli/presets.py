"""`spadework presets`: the configurations that are shipped."""

from __future__ import annotations

EXAMPLES = "Example: spadework presets"


def presets() -> None:
    """List the presets that `train` knows by name."""
    from spadework.cli.output import console, table
    from spadework.presets import load_config, preset_files, preset_summary

    rows = []
    for name, path in preset_files().items():
        config = load_config(name)
        rows.append((name, config.iterations, config.model.path, preset_summary(path)))
    console().print(table(("preset", ">iterations", "model", "what it is"), rows))
