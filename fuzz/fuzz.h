/* The entry point that every fuzz_<name>.c defines and that libFuzzer or replay.c calls. It returns
 * 0 for all bytes, accepted or refused; it ends the program if the library breaks a promise. */
#ifndef GRAIL_FUZZ_FUZZ_H
#define GRAIL_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void fuzz_require(bool promise)
{
    if (!promise) {
        abort();
    }
}

#endif
