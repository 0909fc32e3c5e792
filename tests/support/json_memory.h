/* Lets jansson allocate through memory.c, so that the allocation-failure loops reach it too. */
#ifndef GRAIL_TESTS_JSON_MEMORY_H
#define GRAIL_TESTS_JSON_MEMORY_H

/** Group setup: every later JSON value of this program is allocated by memory_new. Returns 0. */
int json_memory_use(void **state);

#endif
