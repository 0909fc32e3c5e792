/* The families: one line for each architecture_NAME. A name in config.json is compared with theirs;
 * without it the family is chosen whose tensors are there, in this order. Whoever includes this
 * list defines ARCHITECTURE. */
ARCHITECTURE(llama)
ARCHITECTURE(mistral)
ARCHITECTURE(qwen2)
ARCHITECTURE(qwen3)
ARCHITECTURE(gemma)
ARCHITECTURE(phi3)
ARCHITECTURE(gpt2)
ARCHITECTURE(resnet)
ARCHITECTURE(vit)
ARCHITECTURE(clip)
ARCHITECTURE(clip_vision)
