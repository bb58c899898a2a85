"""Reading of corpora: from text files to batches of subword ids."""
