/* The entry point that every fuzz_<name>.c defines and that libFuzzer or replay.c calls. It returns
 * 0 for any bytes, accepted or refused; a broken promise of the library is a call to abort. */
#ifndef GRAIL_FUZZ_FUZZ_H
#define GRAIL_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
