"""Translation of text: `Translator`, and the selection of its engine."""
