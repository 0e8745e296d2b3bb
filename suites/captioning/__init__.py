"""Image captioning: a ViT encoder and a GPT-2 decoder, with all published practices for compiling it."""
