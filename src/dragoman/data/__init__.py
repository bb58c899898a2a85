"""From files of text to batches of subword ids."""
