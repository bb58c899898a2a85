"""Sequence-to-sequence models with one common interface (`seq2seq.Seq2Seq`)."""
