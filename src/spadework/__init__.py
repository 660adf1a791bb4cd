"""Self-play for language models in environments that the model writes itself."""

__version__ = "0.1.0"
