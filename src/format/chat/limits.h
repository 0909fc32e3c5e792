/* Limits for chat templates and conversations. The table in docs/formats.md lists them. */
#ifndef GRAIL_FORMAT_CHAT_LIMITS_H
#define GRAIL_FORMAT_CHAT_LIMITS_H

enum {
    CHAT_LARGEST_FILE = 1 << 26,     /* bytes of a file that has a template */
    CHAT_LARGEST_TEMPLATE = 1 << 20, /* bytes */
    CHAT_DEEPEST = 64,               /* brackets and statements of a template inside each other */
    CHAT_MOST_NESTED = 512,          /* operators and calls that wait for each other's values */
    CHAT_MOST_ARGUMENTS = 8,
    /* These hold for a template, and for one conversation. */
    CHAT_MOST_BYTES = 1 << 28,
    CHAT_MOST_WORK = 1 << 28,
    CHAT_WORK_OF_STEP = 64 /* of each part of a template that is evaluated */
};

#endif
