"""Models of other libraries: import into model directories, and export from them; safetensors and JSON only."""
