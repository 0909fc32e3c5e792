/* A Llama-shaped model of random weights in bf16, with random calibration ids. */
#ifndef GRAIL_BENCH_SYNTHETIC_H
#define GRAIL_BENCH_SYNTHETIC_H

#include <stdint.h>

typedef struct synthetic_shape {
    int64_t layers, hidden, ffn, heads, vocabulary, samples, context;
} synthetic_shape;

/** From --layers, --hidden, --ffn, --heads, --vocabulary, --samples and --context; two layers of
 * Llama-2-7B's shape with 8 windows of 2048 tokens where they are not given. */
synthetic_shape synthetic_options(int count, char **arguments);

/** A template for synthetic_make. */
#define SYNTHETIC_DIRECTORY "/tmp/grail-bench-XXXXXX"

/** Makes the directory (a template, which becomes its name) with the model and, as ids.npy, the
 * ids. A child process writes them, so that their memory does not count. */
void synthetic_make(char *directory, const synthetic_shape *s);

/** Removes a directory and what is in it. */
void synthetic_remove(const char *path);

#endif
