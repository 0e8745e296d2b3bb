"""Image captioning: a ViT encoder and a GPT-2 decoder, with everything that was published about compiling it."""
