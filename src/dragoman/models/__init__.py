"""Sequence-to-sequence models behind one contract (seq2seq.Seq2Seq)."""
