"""Pictures made by a self-attention GAN, and where they attend."""
