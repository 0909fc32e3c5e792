/* Checks of fields of the public option structs. What is out of its range is GRAIL_ERROR_ARGUMENT
 * about the field (grail_error_fields); `words` say in the message what it is, such as "the number
 * of samples". */
#ifndef GRAIL_BASE_OPTION_VALUES_H
#define GRAIL_BASE_OPTION_VALUES_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** `least` or more. */
grail_status option_integer(const char *field, const char *words, int64_t value,
                            int64_t least) GRAIL_MUST_CHECK;
/** 0 or 1. */
grail_status option_flag(const char *field, const char *words, int value) GRAIL_MUST_CHECK;
/** A number for which its range `holds`, which `expected` says, such as "0 or more". */
grail_status option_number(const char *field, const char *words, double value, bool holds,
                           const char *expected) GRAIL_MUST_CHECK;
/** Whether the room of a public struct (GRAIL_ROOM), `bytes` of it, is zero; says no field. */
grail_status option_room(const char *struct_name, const uint64_t *room,
                         size_t bytes) GRAIL_MUST_CHECK;
/** The same for a struct that no table describes, about "room". */
#define OPTION_ROOM_OF(struct_name, s)                                                             \
    option_about("room", option_room(#struct_name, (s)->room, sizeof(s)->room))
/** Not NULL. */
grail_status option_given(const char *field, const char *words, const void *value) GRAIL_MUST_CHECK;
/** Says of a failure which field it is about. */
grail_status option_about(const char *field, grail_status status) GRAIL_MUST_CHECK;

#endif
