#ifndef GRAIL_EXPORT_H
#define GRAIL_EXPORT_H

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

#endif
