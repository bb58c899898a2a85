"""What models make of texts: vectors by `Embedder`, attention and predictions by `TextAnalyzer`."""
