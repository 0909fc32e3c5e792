#ifndef GRAIL_EXPORT_H
#define GRAIL_EXPORT_H

#include <stdint.h>

/** Marks the functions that libgrail exports; everything else has hidden visibility. */
#if defined(GRAIL_BUILDING) && defined(__GNUC__)
#define GRAIL_API __attribute__((visibility("default")))
#else
#define GRAIL_API
#endif

#if defined(__GNUC__)
#define GRAIL_MUST_CHECK __attribute__((warn_unused_result))
#define GRAIL_PRINTF(format_index, first) __attribute__((format(printf, format_index, first)))
#else
#define GRAIL_MUST_CHECK
#define GRAIL_PRINTF(format_index, first)
#endif

/**
 * Room at the end of a struct that may grow, in words of 8 bytes. Fields that are added later take
 * its first words, so the struct keeps its size and the others their offsets, and programs that
 * were compiled before go on working (version.h). Their zero stands for what was usual before: zero
 * a struct that you fill, by its init function or {0}, before you set its fields. The library
 * zeroes the room of those that it fills, and refuses one that it reads with GRAIL_ERROR_ARGUMENT
 * about "room" where the room is not zero: the program sets a field that only a newer library has.
 * Structs without room are single values (options.h), which do not grow.
 */
#define GRAIL_ROOM(words) uint64_t room[words]

#endif
